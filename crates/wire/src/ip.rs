//! What both versions of IP share: protocol numbers and fragments.

use core::fmt;

/// An IP protocol number, or the next-header field of IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpProto(pub u8);

impl IpProto {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: IpProto = IpProto(0);
    /// ICMP for IPv4.
    pub const ICMP: IpProto = IpProto(1);
    /// TCP.
    pub const TCP: IpProto = IpProto(6);
    /// UDP.
    pub const UDP: IpProto = IpProto(17);
    /// IPv6 routing header.
    pub const ROUTING: IpProto = IpProto(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: IpProto = IpProto(44);
    /// Encapsulating security payload: nothing behind it can be read.
    pub const ESP: IpProto = IpProto(50);
    /// Authentication header.
    pub const AH: IpProto = IpProto(51);
    /// ICMP for IPv6.
    pub const ICMPV6: IpProto = IpProto(58);
    /// Nothing follows.
    pub const NO_NEXT: IpProto = IpProto(59);
    /// IPv6 destination options.
    pub const DESTINATION: IpProto = IpProto(60);
    /// SCTP.
    pub const SCTP: IpProto = IpProto(132);
    /// IPv6 mobility header.
    pub const MOBILITY: IpProto = IpProto(135);
    /// Host identity protocol.
    pub const HIP: IpProto = IpProto(139);
    /// Shim6.
    pub const SHIM6: IpProto = IpProto(140);

    /// Whether this is an IPv6 extension header that another header can follow.
    #[inline]
    pub const fn is_ipv6_extension(self) -> bool {
        matches!(
            self,
            Self::HOP_BY_HOP
                | Self::ROUTING
                | Self::FRAGMENT
                | Self::AH
                | Self::DESTINATION
                | Self::MOBILITY
                | Self::HIP
                | Self::SHIM6
        )
    }
}

impl fmt::Display for IpProto {
    /// The number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which part of an IP packet this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fragment {
    /// A whole packet.
    #[default]
    No,
    /// The first fragment: it has the transport header.
    First,
    /// A later fragment: it has no transport header.
    Later,
}

impl Fragment {
    /// The kind, by offset (in any unit) and the more-fragments bit.
    #[inline]
    pub const fn new(offset: u16, more: bool) -> Self {
        match (offset, more) {
            (0, false) => Fragment::No,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_told_apart() {
        assert_eq!(Fragment::new(0, false), Fragment::No);
        assert_eq!(Fragment::new(0, true), Fragment::First);
        assert_eq!(Fragment::new(1, true), Fragment::Later);
        assert_eq!(Fragment::new(1, false), Fragment::Later);
    }

    #[test]
    fn extension_headers_are_these_eight() {
        let all: std::vec::Vec<u8> =
            (0..=255).filter(|&n| IpProto(n).is_ipv6_extension()).collect();
        assert_eq!(all, [0, 43, 44, 51, 60, 135, 139, 140]);
    }
}
