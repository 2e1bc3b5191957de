//! Annotations that elements of a chain write, and predicates over them.

use warpswitch_graph::Context;
use warpswitch_graph::language::args::Args;
use warpswitch_packet::{Batch, Column, Packet, annotation};

use super::annotated;
use super::branches::BranchPackets;

/// Bytes of all annotations.
const ANNOTATION_BYTES: u32 = 48;
/// Bytes of an annotation that holds a number.
pub(super) const NUMBER_BYTES: usize = 4;
/// Default offset of the annotation with an output number.
pub(super) const NUMBER_ANNO: usize = 40;
/// Default offset of the annotation that flags a detection.
pub(super) const FOUND_ANNO: usize = 44;
/// The number of no output.
pub(super) const NO_OUTPUT: u32 = u32::MAX;

/// Reads the offset of a 4-byte annotation.
pub(super) fn read_place(args: &mut Args<'_>, keyword: &str, place: &mut usize) {
    let mut number = *place as u32;
    args.read(keyword, &mut number);
    if number > ANNOTATION_BYTES - 4 {
        args.error_at(keyword, &format!("expected an offset from 0 to {}", ANNOTATION_BYTES - 4));
    } else {
        *place = number as usize;
    }
}

/// Reads `ANNO`, the place of the annotation of four bytes that an element writes its answers to.
pub fn read_anno(args: &mut Args<'_>, place: &mut usize) {
    read_place(args, "ANNO", place);
    if place.abs_diff(annotation::EXTRA_LEN) < 4 {
        let own = annotation::EXTRA_LEN;
        args.warn_at("ANNO", &format!("overlaps the extra-length annotation at {own}, see Cut"));
    }
}

/// The annotation that an element writes, and the packets that it writes it for.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Offset of the annotation.
    pub place: usize,
    /// Selects the packets; `None` for all.
    pub predicate: Option<Predicate>,
}

impl Written {
    /// Whether `self` may overwrite what `other` wrote to the same packet.
    pub(super) fn hides(self, other: Self) -> bool {
        let is_apart = match (self.predicate, other.predicate) {
            (Some(own), Some(other)) => own.place == other.place && own.number != other.number,
            _ => false,
        };
        self.place.abs_diff(other.place) < 4 && !is_apart
    }
}

/// Which packets an element is for: those whose annotation is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicate {
    pub(super) place: usize,
    pub(super) number: u32,
}

impl Predicate {
    /// Reads `CHK_ANNO PLACE=NUMBER`, if it is there.
    pub fn read(args: &mut Args<'_>) -> Option<Self> {
        let mut text = None::<String>;
        args.read("CHK_ANNO", &mut text);
        let text = text?;
        let parts = text.split_once('=');
        let numbers = parts.map(|(place, number)| (place.trim().parse(), number.trim().parse()));
        match numbers {
            Some((Ok(place), Ok(number))) if place <= ANNOTATION_BYTES as usize - 4 => {
                Some(Self { place, number })
            }
            _ => {
                args.error_at("CHK_ANNO", "expected PLACE=NUMBER, such as 40=1");
                None
            }
        }
    }

    /// Whether it holds for a packet.
    pub fn meets(self, packet: &Packet) -> bool {
        packet.anno_u32(self.place) == self.number
    }

    /// What is strange about it, if no element in front of the one that has it writes its place.
    pub fn unwritten(self, cx: &Context<'_>) -> Option<String> {
        let Self { place, number } = self;
        let so = match number {
            0 => "so it is 0 and all packets match",
            _ => "so it is 0 and no packet matches",
        };
        annotated::unwritten(cx, format!("CHK_ANNO {place}={number}"), place, so)
    }
}

/// Numbers as a column: most often all are the same, and nobody handles them one by one then.
fn column_of(numbers: &[u32]) -> Column<'_> {
    match numbers {
        // Seldom are these alike where others differ.
        [first, .., last] if first == last && numbers[numbers.len() / 2] == *first => {
            // To the end: a search that ends early is slower where all are alike.
            let differs = numbers.iter().fold(0, |differs, number| differs | (number ^ first));
            if differs == 0 { Column::All(*first) } else { Column::Each(numbers) }
        }
        _ => Column::Each(numbers),
    }
}

/// The packets of a batch that match a predicate.
#[derive(Debug, Default)]
pub(super) struct Meant {
    /// Whether all match; `packets` is empty then.
    is_all: bool,
    packets: Vec<bool>,
    numbers: Vec<u32>,
}

impl Meant {
    /// Evaluates `predicate` for the packets of a batch; packets off the `branch` of the element
    /// do not match.
    pub(super) fn read(
        &mut self,
        predicate: Option<Predicate>,
        branch: &BranchPackets,
        batch: &Batch,
    ) {
        let branch = branch.packets();
        self.packets.clear();
        self.is_all = predicate.is_none() && branch.is_none();
        if let Some(predicate) = predicate {
            self.numbers.clear();
            batch.read_annos(predicate.place, &mut self.numbers);
            self.packets.extend(self.numbers.iter().map(|&number| number == predicate.number));
        }
        match branch {
            Some(branch) if predicate.is_none() => self.packets.extend_from_slice(branch),
            Some(branch) => {
                self.packets.iter_mut().zip(branch).for_each(|(own, &other)| *own &= other);
            }
            None => {}
        }
    }

    /// Whether packet number `place` matches.
    #[inline]
    pub(super) fn has(&self, place: usize) -> bool {
        self.is_all || self.packets[place]
    }

    /// The matches by packet; `None` if all match.
    pub(super) fn packets(&self) -> Option<&[bool]> {
        (!self.is_all).then_some(&self.packets[..])
    }

    /// Writes `numbers` to the annotations at `place` of the matching packets; sets `numbers` of
    /// the others to their current annotations.
    pub(super) fn write(&mut self, batch: &mut Batch, place: usize, numbers: &mut [u32]) {
        if !self.is_all {
            self.numbers.clear();
            batch.read_annos(place, &mut self.numbers);
            let own = self.packets.iter().zip(&self.numbers);
            // Not by branches, which are mispredicted where every other packet matches.
            for (number, (&matches, &own)) in numbers.iter_mut().zip(own) {
                *number = if matches { *number } else { own };
            }
        }
        batch.set_annos(place, column_of(numbers));
    }
}
