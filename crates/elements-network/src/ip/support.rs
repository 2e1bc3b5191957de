//! Helpers of the IPv4 elements: header access, field access, counters of invalid packets.

use std::net::Ipv4Addr;

use warpswitch_graph::{Context, Fate, HandlerSpec};
use warpswitch_packet::Packet;
use warpswitch_packet::packet::Header;
use warpswitch_wire::checksum;
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4};

/// Whether `bytes` begin with a whole IPv4 header. The version is not looked at.
#[inline]
fn is_whole(bytes: &[u8]) -> bool {
    let header_bytes = bytes.first().map_or(0, |first| usize::from(first & 0x0f) * 4);
    header_bytes >= HEADER_BYTES && header_bytes <= bytes.len()
}

/// The packet from its IPv4 header on; none if the header is missing or incomplete.
#[inline]
pub(crate) fn ipv4(packet: &Packet) -> Option<Ipv4<&[u8]>> {
    let bytes = packet.from_header(Header::Network);
    is_whole(bytes).then(|| Ipv4::new_unchecked(bytes))
}

/// The same, to change.
#[inline]
pub(super) fn ipv4_mut(packet: &mut Packet) -> Option<Ipv4<&mut [u8]>> {
    let bytes = packet.from_header_mut(Header::Network);
    is_whole(bytes).then(|| Ipv4::new_unchecked(bytes))
}

/// The bytes after the IPv4 header, cut to its total length; empty if there is no header.
#[inline]
pub(crate) fn transport(packet: &Packet) -> &[u8] {
    let Some(view) = ipv4(packet) else { return &[] };
    let (start, total) = (view.header_bytes(), view.total_bytes());
    let bytes = view.into_inner();
    &bytes[start..total.clamp(start, bytes.len())]
}

/// The same, to change.
#[inline]
pub(super) fn transport_mut(packet: &mut Packet) -> &mut [u8] {
    let Some(view) = ipv4_mut(packet) else { return &mut [] };
    let (start, total) = (view.header_bytes(), view.total_bytes());
    let bytes = view.into_inner();
    let end = total.clamp(start, bytes.len());
    &mut bytes[start..end]
}

/// Whether the packet is a fragment.
pub(super) fn is_fragment<T: AsRef<[u8]>>(view: &Ipv4<T>) -> bool {
    view.more_fragments() || view.fragment_offset() != 0
}

/// A number in network order as one.
#[inline]
pub(super) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A number in network order as one.
#[inline]
pub(super) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from(get_u16(bytes, at)) << 16 | u32::from(get_u16(bytes, at + 2))
}

/// Sets the 16-bit word at `at` of an IPv4 header, which is even, and keeps its checksum right.
#[inline]
pub(super) fn set_word(header: &mut [u8], at: usize, word: u16) {
    let checksum = checksum::update_u16(get_u16(header, 10), get_u16(header, at), word);
    header[at..at + 2].copy_from_slice(&word.to_be_bytes());
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// The addresses as numbers.
pub(super) fn numbers(addresses: &[Ipv4Addr]) -> Vec<u32> {
    addresses.iter().map(|&address| address.into()).collect()
}

/// Packets that an element found wrong, counted by reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    counts: [u64; 6],
    /// Whether each is reported, not just the first.
    pub(super) verbose: bool,
    /// Whether the counts by reason can be read.
    pub(super) details: bool,
}

impl Failures {
    /// The same without failures: for a copy of the element.
    pub(super) fn fresh(&self) -> Self {
        Self { counts: Default::default(), ..self.clone() }
    }

    /// Adds those of a copy.
    pub(super) fn absorb(&mut self, copy: &Self) {
        for (own, more) in self.counts.iter_mut().zip(copy.counts) {
            *own += more;
        }
    }

    /// Counts a failure for `reason`, and reports it if it is the first or `verbose` is set. The
    /// packet goes to output 1, if there is one.
    #[cold]
    pub(super) fn fail(
        &mut self,
        cx: &mut Context<'_>,
        reason: usize,
        text: impl FnOnce(&Context<'_>) -> String,
    ) -> Fate {
        if self.verbose || self.total() == 0 {
            let text = text(cx);
            cx.say(&text);
        }
        self.counts[reason] += 1;
        Fate::EmitOrDrop(1, reason)
    }

    /// All of them.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The handlers that report them.
    pub(super) fn handlers(&self) -> &'static [HandlerSpec] {
        const ALL: &[HandlerSpec] =
            &[HandlerSpec::read("drops"), HandlerSpec::read("drop_details")];
        if self.details { ALL } else { &ALL[..1] }
    }

    /// Answers one of them.
    pub(super) fn read(&self, name: &str, reasons: &[&str]) -> String {
        if name == "drops" {
            return self.total().to_string();
        }
        let lines = self.counts.iter().zip(reasons);
        lines.map(|(count, reason)| format!("{count}\t{reason}\n")).collect()
    }

    /// Goes on counting where `old` stopped.
    pub(super) fn take(&mut self, old: &Failures) {
        self.counts = old.counts;
    }
}
