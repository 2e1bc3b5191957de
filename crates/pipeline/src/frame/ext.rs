//! The extension headers of IPv6 as the field `ipv6_exthdr` reports them.

use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv6_ext::EXTENSIONS_MAX;

/// Bits of `ipv6_exthdr` (specification 1.3.5, 7.2.3.8).
mod bit {
    pub(super) const NO_NEXT: u16 = 1 << 0;
    pub(super) const ESP: u16 = 1 << 1;
    pub(super) const AUTH: u16 = 1 << 2;
    pub(super) const DESTINATION: u16 = 1 << 3;
    pub(super) const FRAGMENT: u16 = 1 << 4;
    pub(super) const ROUTER: u16 = 1 << 5;
    pub(super) const HOP: u16 = 1 << 6;
    pub(super) const REPEATED: u16 = 1 << 7;
    pub(super) const SEQUENCE: u16 = 1 << 8;
}

/// What is in a chain of extension headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walk {
    /// What follows the chain.
    pub(super) proto: IpProto,
    /// Bytes of the chain.
    pub(super) bytes: u32,
    /// Where in the chain the byte is that names `proto`, if the chain is not empty.
    pub(super) proto_at: u32,
    /// The bits of the field.
    pub(super) exthdr: u16,
    /// Whether a fragment header makes this a part of a packet.
    pub(super) is_fragment: bool,
    /// Whether this is a fragment other than the first.
    pub(super) is_later: bool,
    /// Whether a routing header is not at its end.
    pub(super) has_segments_left: bool,
    /// Whether the chain ends before its header does.
    pub(super) is_cut: bool,
    /// How far the preferred order was followed.
    rank: u8,
}

impl Walk {
    /// The field `ip_frag`: any fragment, and later fragment.
    pub(super) fn fragment_bits(&self) -> u32 {
        u32::from(self.is_fragment) | u32::from(self.is_later) << 1
    }

    /// Notes a header of the kind `bit`, whose place in the preferred order is `rank`.
    fn note(&mut self, bit: u16, rank: u8) {
        // Destination options may come twice: before the routing header, and last.
        const LAST: u8 = 6;
        let is_options = bit == bit::DESTINATION;
        let is_second = is_options && self.exthdr & bit != 0;
        let rank = if is_options && (is_second || self.rank > rank) { LAST } else { rank };
        let is_repeated = if is_options { self.rank == LAST } else { self.exthdr & bit != 0 };
        if is_repeated {
            self.exthdr |= bit::REPEATED;
        } else if rank < self.rank {
            self.exthdr |= bit::SEQUENCE;
        }
        self.exthdr |= bit;
        self.rank = self.rank.max(rank);
    }
}

/// Walks a chain whose first header is of the kind `first`; at most [`EXTENSIONS_MAX`] headers.
pub(super) fn walk_extensions(first: IpProto, chain: &[u8]) -> Walk {
    let mut walk = Walk { proto: first, ..Walk::default() };
    for _ in 0..EXTENSIONS_MAX {
        match walk.proto {
            IpProto::NO_NEXT => walk.exthdr |= bit::NO_NEXT,
            IpProto::ESP => walk.note(bit::ESP, 5),
            _ => {}
        }
        if !walk.proto.is_ipv6_extension() || walk.is_later {
            return walk;
        }
        let rest = &chain[walk.bytes as usize..];
        let bytes = match (walk.proto, rest.get(1)) {
            (_, None) => usize::MAX,
            (IpProto::FRAGMENT, _) => 8,
            (IpProto::AH, Some(&units)) => usize::from(units) * 4 + 8,
            (_, Some(&units)) => usize::from(units) * 8 + 8,
        };
        if rest.len() < bytes {
            walk.is_cut = true;
            return walk;
        }
        note_header(&mut walk, rest);
        walk.proto = IpProto(rest[0]);
        walk.proto_at = walk.bytes;
        walk.bytes += bytes as u32;
    }
    // A longer chain is not looked at: what follows it stays unknown.
    walk.is_cut = walk.proto.is_ipv6_extension();
    walk
}

/// Notes the extension header at the start of `header`, which is all there.
fn note_header(walk: &mut Walk, header: &[u8]) {
    match walk.proto {
        IpProto::HOP_BY_HOP => walk.note(bit::HOP, 0),
        IpProto::DESTINATION => walk.note(bit::DESTINATION, 1),
        IpProto::ROUTING => {
            walk.note(bit::ROUTER, 2);
            walk.has_segments_left |= header[3] != 0;
        }
        IpProto::FRAGMENT => {
            walk.note(bit::FRAGMENT, 3);
            let place = u16::from_be_bytes([header[2], header[3]]);
            walk.is_later |= place >> 3 != 0;
            walk.is_fragment |= place & !6 != 0;
        }
        IpProto::AH => walk.note(bit::AUTH, 4),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bit::{AUTH, DESTINATION, ESP, FRAGMENT, HOP, NO_NEXT, REPEATED, ROUTER, SEQUENCE};

    /// A chain of these kinds, each of its smallest size, that ends in `last`.
    fn chain(kinds: &[u8], last: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (place, &kind) in kinds.iter().enumerate() {
            let next = *kinds.get(place + 1).unwrap_or(&last);
            let len = if kind == 51 { 12 } else { 8 };
            bytes.extend([next, u8::from(kind == 51)]);
            bytes.resize(bytes.len() + len - 2, 0);
        }
        bytes
    }

    #[track_caller]
    fn check(kinds: &[u8], last: u8, exthdr: u16) {
        let bytes = chain(kinds, last);
        let walk = walk_extensions(IpProto(*kinds.first().unwrap_or(&last)), &bytes);
        assert_eq!(walk.exthdr, exthdr, "{kinds:?} {last}");
        assert_eq!((walk.proto, walk.bytes as usize), (IpProto(last), bytes.len()));
    }

    #[test]
    fn bits_follow_the_preferred_order() {
        check(&[], 6, 0);
        check(&[], 59, NO_NEXT);
        check(&[0, 51], 6, HOP | AUTH);
        check(&[0, 60, 43, 44, 51, 60], 17, HOP | DESTINATION | ROUTER | FRAGMENT | AUTH);
        check(&[0, 60, 43, 44, 51], 50, HOP | DESTINATION | ROUTER | FRAGMENT | AUTH | ESP);
        check(&[43, 60], 6, ROUTER | DESTINATION);
        check(&[60, 60], 6, DESTINATION);
        check(&[60, 0], 6, DESTINATION | HOP | SEQUENCE);
        check(&[44, 43], 6, FRAGMENT | ROUTER | SEQUENCE);
        check(&[43, 43], 6, ROUTER | REPEATED);
        check(&[60, 60, 60], 6, DESTINATION | REPEATED);
        check(&[60, 60, 43], 6, DESTINATION | ROUTER | SEQUENCE);
    }

    #[test]
    fn chains_that_are_cut_or_endless_end() {
        assert!(walk_extensions(IpProto(0), &[6]).is_cut);
        assert!(walk_extensions(IpProto(0), &[6, 1, 0, 0, 0, 0, 0, 0]).is_cut);
        let endless = chain(&[60; EXTENSIONS_MAX + 1], 6);
        assert!(walk_extensions(IpProto(60), &endless).is_cut);
    }
}
