//! Columns: values of all packets of a batch, stored beside them until the packets are needed.
//!
//! ```text
//! packets ──► p0     p1     p2     …
//! columns     dst0   dst1   dst2   …    annotations at 0
//!             3      3      3           annotations at 40: one number for all
//!             20     20     24     …    IP headers
//! ```
//! An element that only reads a number of each packet, or writes one, works on a column of four
//! bytes a packet, where a packet's own lines would be 64 each. A batch that materializes its
//! packets writes the columns to them.

use crate::cached::{CACHED_RESULTS, CachedResult};
use crate::packet::Packet;

/// A number of each packet of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column<'b> {
    /// All have this one.
    All(u32),
    /// Each has its own, in the order of the packets.
    Each(&'b [u32]),
}

impl Column<'_> {
    /// The number of the packet at `place`.
    ///
    /// # Panics
    /// If there are fewer packets.
    #[inline]
    pub fn of(self, place: usize) -> u32 {
        match self {
            Self::All(value) => value,
            Self::Each(values) => values[place],
        }
    }

    /// The numbers of `count` packets.
    #[inline]
    pub fn copy_to(self, count: usize, out: &mut Vec<u32>) {
        match self {
            Self::All(value) => out.resize(out.len() + count, value),
            Self::Each(values) => out.extend_from_slice(values),
        }
    }
}

/// Numbers of packets, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Values {
    All(u32),
    Each(Vec<u32>),
}

impl Default for Values {
    fn default() -> Self {
        Self::All(0)
    }
}

impl Values {
    /// A copy, in memory of `spare`.
    fn new(column: Column<'_>, spare: &mut Vec<Vec<u32>>) -> Self {
        match column {
            Column::All(value) => Self::All(value),
            Column::Each(values) => {
                let mut own = spare.pop().unwrap_or_default();
                own.extend_from_slice(values);
                Self::Each(own)
            }
        }
    }

    #[inline]
    fn column(&self) -> Column<'_> {
        match self {
            Self::All(value) => Column::All(*value),
            Self::Each(values) => Column::Each(values),
        }
    }

    /// Leaves its memory to `spare`.
    fn recycle(self, spare: &mut Vec<Vec<u32>>) {
        if let Self::Each(mut values) = self {
            values.clear();
            spare.push(values);
        }
    }

    /// Adds those of `other_count` packets behind those of `count`.
    fn append(
        &mut self,
        count: usize,
        other: &Self,
        other_count: usize,
        spare: &mut Vec<Vec<u32>>,
    ) {
        match (&mut *self, other) {
            (Self::All(own), Self::All(value)) if own == value => {}
            (Self::Each(own), other) => other.column().copy_to(other_count, own),
            (Self::All(own), other) => {
                let mut each = spare.pop().unwrap_or_default();
                each.resize(count, *own);
                other.column().copy_to(other_count, &mut each);
                *self = Self::Each(each);
            }
        }
    }

    /// Takes those of the last `count` packets away, in memory of `spare`.
    fn split_last(&mut self, count: usize, spare: &mut Vec<Vec<u32>>) -> Self {
        match self {
            Self::All(value) => Self::All(*value),
            Self::Each(values) => {
                let mut each = spare.pop().unwrap_or_default();
                move_last(values, count, &mut each);
                Self::Each(each)
            }
        }
    }
}

/// Moves the last `count` of `from`, which may be empty, behind those of `to`.
fn move_last<T: Copy>(from: &mut Vec<T>, count: usize, to: &mut Vec<T>) {
    if let Some(start) = from.len().checked_sub(count) {
        to.extend_from_slice(&from[start..]);
        from.truncate(start);
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// Whether anything is set. Most batches have no columns and look at nothing else here.
    is_used: bool,
    /// Annotations of four bytes, by place. No two overlap.
    annotations: Vec<(usize, Values)>,
    /// Where IP headers begin in the data, if they were found.
    header_at: Option<u32>,
    /// Of each packet its [`header_word`]; of no meaning unless headers were found.
    headers: Values,
    results: Vec<[CachedResult; CACHED_RESULTS]>,
    /// Bytes of each packet, of packets that have their data.
    lens: Vec<u32>,
    /// Memory to use again.
    spare: Vec<Vec<u32>>,
}

/// Bits of a header's bytes in a [`header_word`].
const HEADER_BITS: u32 = 8;

/// The number that [`Batch::set_ip_headers`](crate::Batch::set_ip_headers) takes for a packet: the
/// bytes of its IP header, and from bit 8 on those behind its end.
#[inline(always)]
pub fn header_word(header_bytes: u8, behind: u32) -> u32 {
    behind << HEADER_BITS | u32::from(header_bytes)
}

/// Bytes behind the end of a packet.
#[inline(always)]
fn behind_of(word: u32) -> u32 {
    word >> HEADER_BITS
}

/// The most columns of annotations.
const ANNOTATIONS_MAX: usize = 4;

/// Whether annotations of four bytes at these places overlap, but are not the same.
fn overlap(one: usize, other: usize) -> bool {
    one != other && one.abs_diff(other) < 4
}

impl Columns {
    /// Whether there is any, but for lengths.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_used
            || self.annotations.is_empty() && self.header_at.is_none() && self.results.is_empty()
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.is_used {
            self.clear_used();
        }
    }

    fn clear_used(&mut self) {
        let Self { is_used, annotations, spare, headers, results, lens, header_at } = self;
        *is_used = false;
        annotations.drain(..).for_each(|(_, values)| values.recycle(spare));
        std::mem::take(headers).recycle(spare);
        results.clear();
        lens.clear();
        *header_at = None;
    }

    /// The annotations at `at`: none if it is not known from columns.
    pub(crate) fn annotation(&self, at: usize) -> Option<Option<Column<'_>>> {
        if self.annotations.iter().any(|(own, _)| overlap(*own, at)) {
            return None;
        }
        let found = self.annotations.iter().find(|(own, _)| *own == at);
        Some(found.map(|(_, values)| values.column()))
    }

    /// Sets the annotations at `at`; false if there is no room for such a column.
    pub(crate) fn set_annotation(&mut self, at: usize, column: Column<'_>) -> bool {
        if self.annotations.iter().any(|(own, _)| overlap(*own, at)) {
            return false;
        }
        self.is_used = true;
        let place = self.annotations.iter().position(|(own, _)| *own == at);
        if place.is_none() && self.annotations.len() == ANNOTATIONS_MAX {
            return false;
        }
        if let Some(place) = place {
            self.annotations.swap_remove(place).1.recycle(&mut self.spare);
        }
        self.annotations.push((at, Values::new(column, &mut self.spare)));
        true
    }

    /// Whether headers were found.
    pub(crate) fn has_headers(&self) -> bool {
        self.header_at.is_some()
    }

    /// Sets where IP headers begin, and the [`header_word`] of each packet.
    pub(crate) fn set_headers(&mut self, at: u32, headers: Column<'_>) {
        (self.is_used, self.header_at) = (true, Some(at));
        std::mem::take(&mut self.headers).recycle(&mut self.spare);
        self.headers = Values::new(headers, &mut self.spare);
    }

    /// Whether no packet has bytes behind its end, as far as is seen from all at once.
    pub(crate) fn has_none_behind(&self) -> bool {
        matches!(self.headers, Values::All(word) if behind_of(word) == 0)
    }

    pub(crate) fn set_results(&mut self, results: &[[CachedResult; CACHED_RESULTS]]) {
        self.is_used = true;
        self.results.clear();
        self.results.extend_from_slice(results);
    }

    pub(crate) fn set_lens(&mut self, lens: impl Iterator<Item = u32>) {
        self.is_used = true;
        self.lens.clear();
        self.lens.extend(lens);
    }

    /// Bytes of all packets, if packets have their data.
    pub(crate) fn bytes(&self) -> u64 {
        self.lens.iter().map(|&len| u64::from(len)).sum::<u64>()
            - self.bytes_behind(self.lens.len())
    }

    /// Bytes that are behind the ends of `count` packets.
    pub(crate) fn bytes_behind(&self, count: usize) -> u64 {
        match &self.headers {
            Values::All(word) => u64::from(behind_of(*word)) * count as u64,
            Values::Each(words) => words.iter().map(|&word| u64::from(behind_of(word))).sum(),
        }
    }

    /// Bytes behind the end of the packet at `place`.
    #[inline]
    pub(crate) fn bytes_behind_of(&self, place: usize) -> usize {
        behind_of(self.headers.column().of(place)) as usize
    }

    /// Gives packets what columns have for them.
    #[inline]
    pub(crate) fn write_to(&self, packets: &mut [Packet]) {
        if self.is_used {
            self.write_used(packets);
        }
    }

    fn write_used(&self, packets: &mut [Packet]) {
        if let Some(at) = self.header_at {
            let headers = self.headers.column();
            for (place, packet) in packets.iter_mut().enumerate() {
                let word = headers.of(place);
                packet.take(behind_of(word) as usize);
                let header_bytes = word as usize & ((1 << HEADER_BITS) - 1);
                packet.set_ip_header(at as usize, header_bytes);
            }
        }
        for (at, values) in &self.annotations {
            match values {
                Values::All(value) => {
                    packets.iter_mut().for_each(|packet| packet.set_anno_u32(*at, *value));
                }
                Values::Each(values) => {
                    for (packet, &value) in packets.iter_mut().zip(values) {
                        packet.set_anno_u32(*at, value);
                    }
                }
            }
        }
        for (packet, results) in packets.iter_mut().zip(&self.results) {
            packet.set_cached(*results);
        }
    }

    /// Whether the columns of other packets can follow these.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let has = |(at, _): &(usize, Values)| other.annotations.iter().any(|(own, _)| own == at);
        self.header_at == other.header_at
            && self.annotations.len() == other.annotations.len()
            && self.annotations.iter().all(has)
            && self.results.is_empty() == other.results.is_empty()
    }

    /// Adds those of `other_count` packets behind those of `count`, which are
    /// [alike](Columns::is_like).
    pub(crate) fn append(&mut self, count: usize, other: &Self, other_count: usize) {
        self.is_used |= other.is_used;
        let Self { annotations, spare, headers, results, lens, .. } = self;
        for (at, values) in annotations {
            let (_, behind) = other.annotations.iter().find(|(own, _)| own == at).expect("alike");
            values.append(count, behind, other_count, spare);
        }
        headers.append(count, &other.headers, other_count, spare);
        results.extend_from_slice(&other.results);
        lens.extend_from_slice(&other.lens);
    }

    /// Moves those of the last `count` of all packets to `to`, which has none.
    pub(crate) fn split_last(&mut self, count: usize, to: &mut Self) {
        to.is_used = self.is_used;
        for (at, values) in &mut self.annotations {
            to.annotations.push((*at, values.split_last(count, &mut to.spare)));
        }
        to.header_at = self.header_at;
        to.headers = self.headers.split_last(count, &mut to.spare);
        move_last(&mut self.results, count, &mut to.results);
        move_last(&mut self.lens, count, &mut to.lens);
    }

    /// Copies those of the packets whose output is `output` to `to`, which has none. `pick` appends
    /// the numbers of such packets to a list.
    pub(crate) fn pick(
        &self,
        outputs: &[u32],
        is_picked: impl Fn(u32) -> bool,
        only: Option<u32>,
        pick: impl Fn(&[u32], &mut Vec<u32>),
        to: &mut Self,
    ) {
        to.is_used = self.is_used;
        let pick_values = |values: &[u32], spare: &mut Vec<Vec<u32>>| {
            let mut each = spare.pop().unwrap_or_default();
            pick(values, &mut each);
            Values::Each(each)
        };
        for (at, values) in &self.annotations {
            let picked = match (values, only) {
                (Values::All(value), _) => Values::All(*value),
                // Packets that go where their annotation says: it is the same for each output.
                (Values::Each(values), Some(output)) if values[..] == *outputs => {
                    Values::All(output)
                }
                (Values::Each(values), _) => pick_values(values, &mut to.spare),
            };
            to.annotations.push((*at, picked));
        }
        to.header_at = self.header_at;
        to.headers = match &self.headers {
            Values::All(word) => Values::All(*word),
            Values::Each(words) => pick_values(words, &mut to.spare),
        };
        if !self.lens.is_empty() {
            pick(&self.lens, &mut to.lens);
        }
        let results = self.results.iter().zip(outputs).filter(|(_, output)| is_picked(**output));
        to.results.extend(results.map(|(results, _)| *results));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Frames, Header, Lender, PacketType, Pool};

    /// Draws numbers below a bound.
    struct Draw(u32);

    impl Draw {
        fn below(&mut self, bound: u32) -> u32 {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.0 >> 8) % bound
        }
    }

    fn lender() -> Lender {
        let mut frames = Frames::default();
        for number in 0..200u8 {
            assert!(frames.push(&[number; 40], i64::from(number), PacketType::Host));
        }
        Lender::new(frames)
    }

    /// All that a packet has.
    fn contents(batch: &Batch) -> Vec<String> {
        let of = |packet: &Packet| {
            let header = packet.header_offset(Header::Network);
            let (results, annotations) =
                ([packet.cached(0), packet.cached(1)], packet.annotations());
            format!("{:?} {header:?} {annotations:?} {results:?}", packet.data())
        };
        batch.iter().map(of).collect()
    }

    /// Sets what elements set, the same whether the batch is deferred or not.
    fn set(batch: &mut Batch, draw: &mut Draw) {
        let count = batch.len();
        if batch.lent_frames().is_some() && draw.below(2) == 0 {
            let word = |draw: &mut Draw| header_word(20 + 4 * draw.below(3) as u8, draw.below(5));
            let headers: Vec<u32> = (0..count).map(|_| word(draw)).collect();
            let all = [Column::Each(&headers), Column::All(headers[0])];
            batch.set_ip_headers(10, all[draw.below(2) as usize]);
        }
        for at in [0, 40, 44, 42, 24] {
            match draw.below(3) {
                0 => batch.set_annos(at, Column::All(draw.below(9))),
                1 => {
                    let values: Vec<u32> = (0..count).map(|_| draw.below(5)).collect();
                    batch.set_annos(at, Column::Each(&values));
                }
                _ => {}
            }
        }
        if draw.below(3) == 0 {
            let result = CachedResult { version: 1, key: draw.below(9), answer: 3, owner: 4 };
            batch.set_results(&vec![[result, CachedResult::NONE]; count]);
        }
    }

    /// The same random steps give the same packets on batches that stay deferred and on batches
    /// that materialize their packets after each step.
    #[test]
    fn columns_give_what_packets_would_have() {
        for round in 0..1000u32 {
            let mut ends: Vec<Vec<Vec<String>>> = Vec::new();
            for is_eager in [false, true] {
                // What happened before decides whether frames are lent or copied.
                let (mut lender, mut pool) = (lender(), Pool::new());
                let mut draw = Draw(round * 7919 + 1);
                let mut make = |draw: &mut Draw| {
                    let (first, count) = (draw.below(100) as usize, 1 + draw.below(60) as usize);
                    let mut batch = pool.borrow(&mut lender, first..first + count);
                    match draw.below(3) {
                        0 => batch.as_mut_slice()[0].data_mut()[1] = 7,
                        1 => {
                            batch.as_mut_slice();
                            let lens: Vec<u32> = batch.iter().map(|p| p.len() as u32).collect();
                            batch.defer(lens.into_iter());
                        }
                        _ => {}
                    }
                    // Only a batch that nobody has looked at has a column of headers.
                    set(&mut batch, draw);
                    if is_eager {
                        batch.as_mut_slice();
                    }
                    batch
                };
                let (mut batch, mut other) = (make(&mut draw), make(&mut draw));
                if draw.below(2) == 0 {
                    batch.append(&mut other);
                }
                let mut last = pool.batch();
                let split = draw.below(batch.len() as u32) as usize;
                batch.split_last(split, &mut last);
                let outputs = 1 + draw.below(4);
                let mut annos = Vec::new();
                batch.read_annos(40, &mut annos);
                let by_annotation = draw.below(2) == 0;
                let to: Vec<u32> = match by_annotation {
                    true => annos,
                    false => (0..batch.len()).map(|_| draw.below(outputs + 1)).collect(),
                };
                let mut dealt: Vec<Batch> = (0..outputs).map(|_| pool.batch()).collect();
                batch.deal(&to, &mut dealt);
                dealt.extend([batch, other, last]);
                for batch in &dealt {
                    let bytes = batch.bytes();
                    let lens = batch.iter().map(|packet| packet.len() as u64);
                    assert_eq!(bytes, lens.sum::<u64>(), "round {round}");
                }
                ends.push(dealt.iter().map(contents).collect());
                dealt.into_iter().for_each(|batch| pool.recycle_batch(batch));
                assert_eq!(pool.live(), 0);
            }
            for (lazy, eager) in ends[0].iter().zip(&ends[1]) {
                assert_eq!(lazy.len(), eager.len(), "round {round}");
                let differs = lazy.iter().zip(eager).find(|(lazy, eager)| lazy != eager);
                assert_eq!(differs, None, "round {round}");
            }
        }
    }
}
