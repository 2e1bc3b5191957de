//! What the fitted statistics of one style of rule set look like; the figures are in the modules
//! below this one, a module a style.
//!
//! Everything is a frequency table. A rule is drawn from the top down: first protocol and port
//! classes together, then the classes of its two prefix lengths given those, then the lengths, the
//! ports and the addresses. Ports are drawn by protocol and side, addresses by walking a binary
//! trie whose shape is fitted per level (see [`super::address`]).
//!
//! # Source
//! The method is that of Taylor, Turner, "ClassBench: a packet classification benchmark",
//! IEEE/ACM ToN 15(3), 2007. The tables were counted over sets of 1K, 10K and 100K rules made by
//! ClassBench from its published seeds, each seed with equal weight: acl1 to acl5, fw1, fw3 and
//! fw5, ipc1 and ipc2. (The other two firewall seeds demand ports of protocols without ports.)
//! The branching of the tries was then scaled, a factor per size and side, until sets made here
//! hold as many distinct prefixes as those.

pub(super) mod acl;
pub(super) mod fw;
pub(super) mod ipc;

/// The class of a rule's demand on one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortClass {
    /// Any port (ClassBench: WC).
    Any,
    /// 1024 to 65535 (HI).
    High,
    /// One port (EM).
    Exact,
    /// Some other range (AR).
    Range,
}

/// Stands for "any protocol" in [`Header::protocol`].
pub(super) const ANY_PROTOCOL: u8 = 255;

/// Limits of the classes of prefix lengths, in bits of IPv4: 0, 1-8, 9-16, 17-23, 24-31, 32.
#[cfg(test)]
pub(super) const LENGTH_CLASS_ENDS: [u8; 6] = [0, 8, 16, 23, 31, 32];

/// How often a protocol and a pair of port classes occur together.
#[derive(Debug)]
pub(super) struct Header {
    /// IP protocol, or [`ANY_PROTOCOL`].
    pub protocol: u8,
    /// Class of the source and of the destination port.
    pub ports: [PortClass; 2],
    /// Frequency.
    pub weight: u32,
    /// Class of the source and of the destination prefix length, and frequency.
    pub pairs: &'static [(u8, u8, u32)],
}

/// Which ports rules for one protocol name. Frequencies are of 1000; what is missing of that are
/// ports that occur too rarely to list.
#[derive(Debug)]
pub(super) struct Ports {
    /// Port and frequency, source side.
    pub src_exact: &'static [(u16, u32)],
    /// First port, last port and frequency, source side.
    pub src_ranges: &'static [(u16, u16, u32)],
    /// As `src_exact`, destination side.
    pub dst_exact: &'static [(u16, u32)],
    /// As `src_ranges`, destination side.
    pub dst_ranges: &'static [(u16, u16, u32)],
}

/// The shape of the trie of one field's prefixes, by level; fractions of 256.
#[derive(Debug)]
pub(super) struct TrieShape {
    /// How often a node that rules pass through has two children.
    pub branching: [u8; 32],
    /// The share of such a node's rules that go to the child with fewer of them.
    pub lighter: [u8; 32],
}

/// Everything that is known of one style.
#[derive(Debug)]
pub(super) struct StyleTable {
    /// Protocols and port classes.
    pub headers: &'static [Header],
    /// Source prefix lengths in each class, and frequencies.
    pub src_lengths: [&'static [(u8, u32)]; 6],
    /// Destination prefix lengths in each class, and frequencies.
    pub dst_lengths: [&'static [(u8, u32)]; 6],
    /// Ports of TCP rules.
    pub tcp: Ports,
    /// Ports of UDP rules.
    pub udp: Ports,
    /// Value, mask and frequency of the flags column of TCP rules.
    pub tcp_flags: &'static [(u16, u16, u32)],
    /// Value, mask and frequency of the flags column of ICMP rules.
    pub icmp_flags: &'static [(u16, u16, u32)],
    /// Source tries of sets of 1K, 10K and 100K rules.
    pub src_trie: [TrieShape; 3],
    /// Destination tries of sets of 1K, 10K and 100K rules.
    pub dst_trie: [TrieShape; 3],
    /// How many leading bits the two addresses of a rule share, if they share any, and how often
    /// (of 1000) they do.
    pub shared: (u32, u32),
    /// How many lengths of each class one set has: real sets have fewer masks than all together.
    pub lengths_max: usize,
    /// How often (of 1000) a rule has the address pair of an earlier one, in sets of 1K, 10K and
    /// 100K rules.
    pub repeated: [u32; 3],
    /// How many ports a set names although they are too rare to list.
    pub rare_ports: u64,
    /// Frequencies (of 1000) of pass and drop; the rest is mark.
    pub actions: [u32; 2],
}
