//! Link types of captures, and the headers of those that are not Ethernet: Linux cooked mode in
//! both versions, and BSD loopback.
//!
//! ```text
//! SLL    packet type(2) ARPHRD(2) address length(2) address(8) protocol(2)
//! SLL2   protocol(2) 0(2) interface(4) ARPHRD(2) packet type(1) address length(1) address(8)
//! BSD    address family(4), in the byte order of the machine that captured (NULL) or of the
//!        network (LOOP)
//! ```
//! A protocol below `0x0600` is no EtherType but one of Linux's own numbers; the only one read
//! here is 4, an LLC header.
//!
//! Source: the link-layer header types of the tcpdump project, LINKTYPE_LINUX_SLL,
//! LINKTYPE_LINUX_SLL2, LINKTYPE_NULL and LINKTYPE_LOOP.

use core::fmt;

use crate::ParseError;
use crate::ethernet::{EtherType, MacAddr};
use crate::view::{get_array, get_u16, get_u32, need, view};

/// Bytes of a Linux cooked header, version 1.
pub const SLL_BYTES: usize = 16;
/// Bytes of a Linux cooked header, version 2.
pub const SLL2_BYTES: usize = 20;
/// Bytes of a BSD loopback header.
pub const LOOPBACK_BYTES: usize = 4;
/// The protocol of a Linux cooked frame that starts with an LLC header.
pub const SLL_PROTOCOL_LLC: u16 = 4;

/// How the frames of a capture start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet, without preamble and frame check sequence.
    Ethernet,
    /// An IPv4 or IPv6 header.
    RawIp,
    /// Linux cooked mode, version 1.
    Sll,
    /// Linux cooked mode, version 2.
    Sll2,
    /// BSD loopback in either byte order.
    Loopback,
    /// A link type of a capture file that is not supported: every frame is refused by name.
    Unsupported(u32),
}

impl LinkType {
    /// All that are read.
    pub const READ: [Self; 5] =
        [Self::Ethernet, Self::RawIp, Self::Sll, Self::Sll2, Self::Loopback];

    /// What to say of frames of another one.
    pub const EXPECTED: &str = "expected Ethernet, raw IP, Linux cooked (v1, v2) or BSD loopback; \
        if the declared link type is wrong, correct it with `editcap -T ether IN OUT` or similar";

    /// What `editcap -T` calls it; none of one that is not read.
    pub const fn editcap_name(self) -> Option<&'static str> {
        match self {
            LinkType::Ethernet => Some("ether"),
            LinkType::RawIp => Some("rawip"),
            LinkType::Sll => Some("linux-sll"),
            LinkType::Sll2 => Some("linux-sll2"),
            LinkType::Loopback => Some("null"),
            LinkType::Unsupported(_) => None,
        }
    }

    /// The link type that a pcap or pcapng file means by this number.
    pub const fn from_capture(number: u32) -> Self {
        match number {
            1 => LinkType::Ethernet,
            // 12 and 14 are DLT_RAW of some systems, found in files of old writers.
            12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
            113 => LinkType::Sll,
            276 => LinkType::Sll2,
            0 | 108 => LinkType::Loopback,
            _ => LinkType::Unsupported(number),
        }
    }
}

/// What frames that start so are called; of those that are not read the number, too.
impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkType::Ethernet => "Ethernet",
            LinkType::RawIp => "raw IP",
            LinkType::Sll => "Linux cooked",
            LinkType::Sll2 => "Linux cooked v2",
            LinkType::Loopback => "BSD loopback",
            LinkType::Unsupported(number) => {
                let name = match number {
                    9 | 50 => " (PPP)",
                    51 => " (PPPoE)",
                    10 => " (FDDI)",
                    100 => " (ATM)",
                    104 => " (Cisco HDLC)",
                    105 => " (802.11)",
                    117 => " (pflog)",
                    127 => " (802.11 radiotap)",
                    189 | 220 | 249 => " (USB)",
                    _ => "",
                };
                return write!(f, "link type {number}{name}");
            }
        })
    }
}

view! {
    /// A view of a frame in Linux cooked mode, version 1.
    Sll
}

impl<T: AsRef<[u8]>> Sll<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`ParseError::LinkTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), SLL_BYTES, ParseError::LinkTruncated)
    }

    /// Whether the frame was for this host (0), broadcast, multicast, for others, or sent (4).
    pub fn packet_type(&self) -> u16 {
        get_u16(self.raw(), 0)
    }

    /// The sender's address, if it is as long as an Ethernet address.
    pub fn src(&self) -> Option<MacAddr> {
        (get_u16(self.raw(), 4) == 6).then(|| MacAddr(get_array(self.raw(), 6)))
    }

    /// Protocol: an EtherType from `0x0600` on.
    pub fn protocol(&self) -> u16 {
        get_u16(self.raw(), 14)
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[SLL_BYTES..]
    }
}

view! {
    /// A view of a frame in Linux cooked mode, version 2.
    Sll2
}

impl<T: AsRef<[u8]>> Sll2<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`ParseError::LinkTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), SLL2_BYTES, ParseError::LinkTruncated)
    }

    /// Protocol: an EtherType from `0x0600` on.
    pub fn protocol(&self) -> u16 {
        get_u16(self.raw(), 0)
    }

    /// Index of the interface on the machine that captured.
    pub fn interface(&self) -> u32 {
        get_u32(self.raw(), 4)
    }

    /// Whether the frame was for this host (0), broadcast, multicast, for others, or sent (4).
    pub fn packet_type(&self) -> u8 {
        self.raw()[10]
    }

    /// The sender's address, if it is as long as an Ethernet address.
    pub fn src(&self) -> Option<MacAddr> {
        (self.raw()[11] == 6).then(|| MacAddr(get_array(self.raw(), 12)))
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[SLL2_BYTES..]
    }
}

view! {
    /// A view of a frame of a BSD loopback interface.
    Loopback
}

impl<T: AsRef<[u8]>> Loopback<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`ParseError::LinkTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), LOOPBACK_BYTES, ParseError::LinkTruncated)
    }

    /// The address family. It is below 65536, so its byte order shows.
    pub fn family(&self) -> u32 {
        let family = get_u32(self.raw(), 0);
        if family > 0xffff { family.swap_bytes() } else { family }
    }

    /// What the family says the payload is. IPv6 has four numbers: BSD, FreeBSD, Darwin, Linux.
    pub fn ether_type(&self) -> Option<EtherType> {
        match self.family() {
            2 => Some(EtherType::IPV4),
            10 | 24 | 28 | 30 => Some(EtherType::IPV6),
            _ => None,
        }
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[LOOPBACK_BYTES..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cooked_headers_are_read() {
        let mac = MacAddr([1, 2, 3, 4, 5, 6]);
        let sll = [0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x86, 0xdd, 0x60];
        let view = Sll::new_checked(sll).unwrap();
        assert_eq!((view.packet_type(), view.src(), view.protocol()), (4, Some(mac), 0x86dd));
        assert_eq!(view.payload(), [0x60]);
        let sll2 = [8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x45];
        let view = Sll2::new_checked(sll2).unwrap();
        assert_eq!((view.packet_type(), view.src(), view.protocol()), (4, Some(mac), 0x0800));
        assert_eq!((view.interface(), view.payload()), (3, &[0x45][..]));
        assert_eq!(Sll::new_checked(&sll[..15]).unwrap_err(), ParseError::LinkTruncated);
        assert_eq!(Sll2::new_checked(&sll2[..19]).unwrap_err(), ParseError::LinkTruncated);
    }

    #[test]
    fn link_types_have_names() {
        let name = |number| std::format!("{}", LinkType::from_capture(number));
        assert_eq!(name(113), "Linux cooked");
        assert_eq!(name(105), "link type 105 (802.11)");
        assert_eq!(name(4000), "link type 4000");
    }

    #[test]
    fn loopback_families_in_both_orders() {
        let check = |bytes: [u8; 4], ether_type: Option<EtherType>| {
            assert_eq!(Loopback::new_checked(bytes).unwrap().ether_type(), ether_type, "{bytes:?}");
        };
        check([2, 0, 0, 0], Some(EtherType::IPV4));
        check([0, 0, 0, 2], Some(EtherType::IPV4));
        check([30, 0, 0, 0], Some(EtherType::IPV6));
        check([0, 0, 0, 24], Some(EtherType::IPV6));
        check([7, 0, 0, 0], None);
        assert_eq!(Loopback::new_checked([0; 3]).unwrap_err(), ParseError::LinkTruncated);
    }
}
