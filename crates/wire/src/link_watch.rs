//! Whether the packets of a capture start as it says.

use core::fmt;

use crate::link::LinkType;
use crate::parse::{Network, parse};

/// Packets after which it is told that none of them is IP by the link that was said.
const WATCHED_PACKETS: u64 = 1000;

/// Looks at the first packets until one is IP by the link that was said: if none is, most may be
/// by another one.
#[derive(Clone, Debug, Default)]
pub struct LinkWatch {
    is_over: bool,
    packets: u64,
    /// Packets that are IP by each of [`LinkType::READ`].
    by_link: [u64; LinkType::READ.len()],
}

/// So many of the first packets are IP, if they start as `link` says; by what was said none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OddLink {
    /// The first packets.
    pub packets: u64,
    /// Those that are IP otherwise.
    pub otherwise: u64,
    /// How these start.
    pub link: LinkType,
}

impl fmt::Display for OddLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of the first {} packets {} are ", self.packets, self.otherwise)?;
        match self.link {
            LinkType::RawIp => f.write_str("IP packets without a frame"),
            link => write!(f, "{link} frames with IP"),
        }
    }
}

impl LinkWatch {
    /// Whether it is known, or told, how packets start.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Looks at a packet that should start as `link` says, of `wire_bytes` before it was cut off.
    /// Gives what is to be told, once.
    pub fn look(&mut self, link: LinkType, bytes: &[u8], wire_bytes: usize) -> Option<OddLink> {
        if self.is_over {
            return None;
        }
        self.packets += 1;
        for (other, count) in LinkType::READ.into_iter().zip(&mut self.by_link) {
            let is_ip = is_ip(other, bytes, wire_bytes);
            *count += u64::from(is_ip);
            self.is_over |= is_ip && other == link;
        }
        if self.packets < WATCHED_PACKETS { None } else { self.end() }
    }

    /// There are no more packets. Gives what is to be told, once.
    pub fn end(&mut self) -> Option<OddLink> {
        if core::mem::replace(&mut self.is_over, true) {
            return None;
        }
        let most = LinkType::READ.into_iter().zip(self.by_link).max_by_key(|(_, count)| *count);
        let (link, otherwise) = most.filter(|(_, count)| count * 2 > self.packets)?;
        Some(OddLink { packets: self.packets, otherwise, link })
    }
}

/// Whether a packet that starts as `link` says holds IP.
pub fn is_ip(link: LinkType, bytes: &[u8], wire_bytes: usize) -> bool {
    let parsed = parse(link, bytes, wire_bytes);
    parsed.is_ok_and(|parsed| matches!(parsed.network, Network::Ipv4 | Network::Ipv6))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

    #[test]
    fn packets_that_start_otherwise_are_told_of_once() {
        let mut watch = LinkWatch::default();
        for _ in 0..14 {
            assert_eq!(watch.look(LinkType::Ethernet, &IP, IP.len()), None);
        }
        let odd = OddLink { packets: 14, otherwise: 14, link: LinkType::RawIp };
        assert_eq!((watch.end(), watch.end()), (Some(odd), None));
        let mut watch = LinkWatch::default();
        let told = (0..2000).filter_map(|_| watch.look(LinkType::Ethernet, &IP, IP.len()));
        assert_eq!(told.map(|odd| odd.packets).collect::<std::vec::Vec<_>>(), [1000]);
        assert_eq!(watch.end(), None);
    }

    #[test]
    fn nothing_is_told_where_one_packet_is_right_or_most_are_no_ip() {
        let mut watch = LinkWatch::default();
        watch.look(LinkType::RawIp, &[0; 30], 30);
        assert!(watch.look(LinkType::RawIp, &IP, IP.len()).is_none() && watch.is_over());
        let mut watch = LinkWatch::default();
        for bytes in [&IP[..], &[0; 30], &[0; 30]] {
            watch.look(LinkType::Ethernet, bytes, bytes.len());
        }
        assert_eq!(watch.end(), None);
        assert_eq!(LinkWatch::default().end(), None);
    }
}
