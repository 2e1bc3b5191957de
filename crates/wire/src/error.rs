//! Why a header, or a whole frame, cannot be parsed.

use core::fmt;

/// Declares [`ParseError`] with, for each reason, its stable name and its sentence.
macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $text:literal;)*) => {
        /// Why a header, or a whole frame, cannot be parsed: one named reason per cause, so that
        /// callers can count them.
        ///
        /// "Truncated" means that the bytes end before the header (or what its length field
        /// promises) does; the other reasons are headers that contradict themselves or pass a
        /// bound.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ParseError {
            $($(#[$doc])* $variant,)*
        }

        impl ParseError {
            /// Every reason, in order of [`ParseError::as_usize`].
            pub const ALL: [ParseError; [$($name),*].len()] = [$(ParseError::$variant),*];

            /// A stable name in `snake_case`, for counters and machine-readable output.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ParseError::$variant => $name,)*
                }
            }

            /// A sentence for people.
            const fn text(self) -> &'static str {
                match self {
                    $(ParseError::$variant => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// The link type of a capture is none that is known here.
    LinkUnsupported = "link_unsupported", "the link type is not supported";
    /// Fewer bytes than a Linux cooked or BSD loopback header has.
    LinkTruncated = "link_truncated", "the link header is truncated";
    /// Fewer bytes than an Ethernet header has.
    EthernetTruncated = "ethernet_truncated", "the Ethernet header is truncated";
    /// An 802.3 length field that says more than the frame holds.
    LlcLength = "llc_length", "the 802.3 length exceeds the frame";
    /// The frame ends within an LLC or SNAP header.
    LlcTruncated = "llc_truncated", "the LLC header is truncated";
    /// The frame ends within a VLAN tag.
    VlanTruncated = "vlan_truncated", "a VLAN tag is truncated";
    /// More VLAN tags than are followed.
    VlanTooMany = "vlan_too_many", "there are too many VLAN tags";
    /// The frame ends within an MPLS label stack.
    MplsTruncated = "mpls_truncated", "the MPLS label stack is truncated";
    /// More MPLS labels than are followed.
    MplsTooMany = "mpls_too_many", "there are too many MPLS labels";
    /// The frame ends within an ARP packet.
    ArpTruncated = "arp_truncated", "the ARP packet is truncated";
    /// An ARP packet for other addresses than Ethernet and IPv4.
    ArpFormat = "arp_format", "the ARP packet is not for Ethernet and IPv4";
    /// A raw IP frame that is empty or whose version is neither 4 nor 6.
    IpVersion = "ip_version", "the IP version is neither 4 nor 6";
    /// The frame ends within an IPv4 header or its options.
    Ipv4Truncated = "ipv4_truncated", "the IPv4 header is truncated";
    /// An IPv4 header whose version field is not 4.
    Ipv4Version = "ipv4_version", "the version of the IPv4 header is not 4";
    /// An IPv4 header length below 20 bytes.
    Ipv4HeaderLength = "ipv4_header_length", "the IPv4 header length is below 20";
    /// An IPv4 total length below the header length.
    Ipv4TotalLength = "ipv4_total_length", "the IPv4 total length is below the header length";
    /// The frame ends before the IPv4 total length.
    Ipv4PayloadTruncated = "ipv4_payload_truncated", "the frame ends before the IPv4 total length";
    /// The frame ends within an IPv6 header.
    Ipv6Truncated = "ipv6_truncated", "the IPv6 header is truncated";
    /// An IPv6 header whose version field is not 6.
    Ipv6Version = "ipv6_version", "the version of the IPv6 header is not 6";
    /// The frame ends before the IPv6 payload length.
    Ipv6PayloadTruncated = "ipv6_payload_truncated",
        "the frame ends before the IPv6 payload length";
    /// The packet ends within an IPv6 extension header.
    Ipv6ExtensionTruncated = "ipv6_extension_truncated", "an IPv6 extension header is truncated";
    /// An authentication header too short for its fixed fields.
    Ipv6ExtensionLength = "ipv6_extension_length", "an IPv6 extension header length is invalid";
    /// A hop-by-hop options header that is not the first of its chain (RFC 8200, 4.1).
    Ipv6HopByHopOrder = "ipv6_hop_by_hop_order", "an IPv6 hop-by-hop header is not the first";
    /// More IPv6 extension headers than are followed.
    Ipv6ExtensionTooMany = "ipv6_extension_too_many", "there are too many IPv6 extension headers";
    /// The packet ends within a TCP header or its options.
    TcpTruncated = "tcp_truncated", "the TCP header is truncated";
    /// A TCP data offset below 20 bytes.
    TcpHeaderLength = "tcp_header_length", "the TCP header length is below 20";
    /// The packet ends within a UDP header.
    UdpTruncated = "udp_truncated", "the UDP header is truncated";
    /// A UDP length below 8, or beyond the end of the unfragmented IP payload.
    UdpLength = "udp_length", "the UDP length is below 8 or exceeds the packet";
    /// The packet ends within an SCTP common header.
    SctpTruncated = "sctp_truncated", "the SCTP header is truncated";
    /// The packet ends within an ICMP header.
    IcmpTruncated = "icmp_truncated", "the ICMP header is truncated";
    /// The packet ends within an ICMPv6 header.
    Icmpv6Truncated = "icmpv6_truncated", "the ICMPv6 header is truncated";
}

impl ParseError {
    /// The reason's place in [`ParseError::ALL`], to index counters.
    pub const fn as_usize(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for ParseError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn reasons_are_numbered_and_have_names_of_their_own() {
        let mut names = BTreeSet::new();
        for (i, reason) in ParseError::ALL.into_iter().enumerate() {
            assert_eq!(reason.as_usize(), i);
            assert!(names.insert(reason.name()), "{}", reason.name());
            assert!(reason.name().bytes().all(|b| b.is_ascii_lowercase() || b"_46".contains(&b)));
        }
    }
}
