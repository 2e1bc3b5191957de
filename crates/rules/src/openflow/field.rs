//! The match fields of OpenFlow 1.3 and the extensions of Open vSwitch: names, numbers, places in
//! a flow key, and what each needs beside it (specification 1.3.5, section 7.2.3).

use super::key::FlowMatch;
use crate::schema::{BitRange, FieldFormat};

/// The class and number of a field in messages, and the length of its value there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Oxm {
    /// `0x8000` for fields of OpenFlow, `0x0000`, `0x0001` and `0x8001` for those of Open vSwitch,
    /// `0xffff` for those of the ONF extensions, whose header is followed by
    /// [`Oxm::ONF_EXPERIMENTER`].
    pub class: u16,
    /// The number inside the class, at most 127.
    pub number: u8,
    /// Bytes of the value, without an experimenter id.
    pub len: u8,
}

impl Oxm {
    /// Class of the fields of OpenFlow.
    pub const BASIC: u16 = 0x8000;
    /// Class of the fields that Open vSwitch numbered before OpenFlow did.
    pub const NXM: u16 = 0x0000;
    /// Class of the fields of Open vSwitch (Nicira's extension).
    pub const NICIRA: u16 = 0x0001;
    /// Class of the 64-bit registers.
    pub const PACKET_REGISTERS: u16 = 0x8001;
    /// Class of experimenters.
    pub const EXPERIMENTER: u16 = 0xffff;
    /// The experimenter id of the Open Networking Foundation.
    pub const ONF_EXPERIMENTER: u32 = 0x4f4e_4600;
}

/// What a match must demand for a field to have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldNeeds {
    /// Nothing.
    Nothing,
    /// A match on `in_port`.
    InPort,
    /// A match that admits only packets with a VLAN tag.
    Vlan,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// IPv4 or IPv6.
    Ip,
    /// ARP or RARP.
    Arp,
    /// MPLS.
    Mpls,
    /// PBB.
    Pbb,
    /// That protocol over IPv4 or IPv6.
    Proto(u8),
    /// ICMP over IPv4.
    Icmpv4,
    /// ICMP over IPv6.
    Icmpv6,
    /// A neighbour solicitation or advertisement.
    Nd,
    /// A neighbour solicitation.
    NdSolicit,
    /// A neighbour advertisement.
    NdAdvert,
}

impl FieldNeeds {
    /// Whether `matching` demands what the field needs.
    pub fn are_met(self, matching: &FlowMatch) -> bool {
        let exact = |field: &MatchField| matching.exact(field);
        let eth_type = || exact(&FIELDS[ETH_TYPE]);
        let proto = || exact(&FIELDS[IP_PROTO]);
        let icmp_type = || exact(&FIELDS[ICMPV6_TYPE]);
        let is_v4 = || eth_type() == Some(0x0800);
        let is_v6 = || eth_type() == Some(0x86dd);
        let is_icmpv6 = || is_v6() && proto() == Some(58);
        match self {
            FieldNeeds::Nothing => true,
            FieldNeeds::InPort => exact(&FIELDS[IN_PORT]).is_some(),
            FieldNeeds::Vlan => {
                let (value, mask) = matching.get(&FIELDS[VLAN_VID]);
                value & mask & 0x1000 != 0
            }
            FieldNeeds::Ipv4 => is_v4(),
            FieldNeeds::Ipv6 => is_v6(),
            FieldNeeds::Ip => is_v4() || is_v6(),
            FieldNeeds::Arp => matches!(eth_type(), Some(0x0806 | 0x8035)),
            FieldNeeds::Mpls => matches!(eth_type(), Some(0x8847 | 0x8848)),
            FieldNeeds::Pbb => eth_type() == Some(0x88e7),
            FieldNeeds::Proto(number) => {
                (is_v4() || is_v6()) && proto() == Some(u128::from(number))
            }
            FieldNeeds::Icmpv4 => is_v4() && proto() == Some(1),
            FieldNeeds::Icmpv6 => is_icmpv6(),
            FieldNeeds::Nd => is_icmpv6() && matches!(icmp_type(), Some(135 | 136)),
            FieldNeeds::NdSolicit => is_icmpv6() && icmp_type() == Some(135),
            FieldNeeds::NdAdvert => is_icmpv6() && icmp_type() == Some(136),
        }
    }

    /// What to add to a flow that lacks it, as flow text.
    pub fn words(self) -> &'static str {
        match self {
            FieldNeeds::Nothing => "",
            FieldNeeds::InPort => "in_port",
            FieldNeeds::Vlan => "vlan_vid=0x1000/0x1000 or dl_vlan",
            FieldNeeds::Ipv4 => "ip (eth_type=0x0800)",
            FieldNeeds::Ipv6 => "ipv6 (eth_type=0x86dd)",
            FieldNeeds::Ip => "ip or ipv6",
            FieldNeeds::Arp => "arp or rarp (eth_type=0x0806)",
            FieldNeeds::Mpls => "mpls or mplsm (eth_type=0x8847)",
            FieldNeeds::Pbb => "eth_type=0x88e7",
            FieldNeeds::Proto(6) => "tcp or tcp6",
            FieldNeeds::Proto(17) => "udp or udp6",
            FieldNeeds::Proto(_) => "sctp or sctp6",
            FieldNeeds::Icmpv4 => "icmp",
            FieldNeeds::Icmpv6 => "icmp6",
            FieldNeeds::Nd => "icmp6,icmpv6_type=135 or icmp6,icmpv6_type=136",
            FieldNeeds::NdSolicit => "icmp6,icmpv6_type=135",
            FieldNeeds::NdAdvert => "icmp6,icmpv6_type=136",
        }
    }
}

/// A field that flows match and actions set.
#[derive(Debug)]
pub struct MatchField {
    /// Its name in flow text, as `ovs-ofctl` writes it in actions.
    pub name: &'static str,
    /// Its number in messages.
    pub oxm: Oxm,
    /// Its bits in a [`super::FlowKey`].
    pub range: BitRange,
    /// How values are written.
    pub format: FieldFormat,
    /// What a flow must match beside it.
    pub needs: FieldNeeds,
    /// Whether part of its bits can be matched.
    pub is_maskable: bool,
    /// Whether actions may change it.
    pub is_settable: bool,
    /// Whether it is another view of fields listed elsewhere.
    pub is_view: bool,
}

impl PartialEq for MatchField {
    fn eq(&self, other: &Self) -> bool {
        self.oxm == other.oxm
    }
}
impl Eq for MatchField {}

/// The field with that name in flow text; the aliases of `ovs-ofctl` are those of
/// [`crate::format::ovs`].
pub fn field(name: &str) -> Option<&'static MatchField> {
    FIELDS.iter().find(|field| field.name == name)
}

/// The field with that number in messages; Open vSwitch's own numbers of fields that OpenFlow has
/// too stand for the same fields.
pub fn field_by_oxm(class: u16, number: u8) -> Option<&'static MatchField> {
    let twin = |&&(from, _): &&((u16, u8), u8)| from == (class, number);
    let (class, number) = match NXM_TWINS.iter().find(twin) {
        Some(&(_, basic)) => (Oxm::BASIC, basic),
        None => (class, number),
    };
    FIELDS.iter().find(|field| field.oxm.class == class && field.oxm.number == number)
}

/// Numbers of Open vSwitch, and the field of OpenFlow with the same meaning and length.
#[rustfmt::skip]
static NXM_TWINS: [((u16, u8), u8); 27] = [
    ((Oxm::NXM, 1), 3),      ((Oxm::NXM, 2), 4),      ((Oxm::NXM, 3), 5),
    ((Oxm::NXM, 6), 10),     ((Oxm::NXM, 7), 11),     ((Oxm::NXM, 8), 12),
    ((Oxm::NXM, 9), 13),     ((Oxm::NXM, 10), 14),    ((Oxm::NXM, 11), 15),
    ((Oxm::NXM, 12), 16),    ((Oxm::NXM, 13), 19),    ((Oxm::NXM, 14), 20),
    ((Oxm::NXM, 15), 21),    ((Oxm::NXM, 16), 22),    ((Oxm::NXM, 17), 23),
    ((Oxm::NICIRA, 16), 38), ((Oxm::NICIRA, 17), 24), ((Oxm::NICIRA, 18), 25),
    ((Oxm::NICIRA, 19), 26), ((Oxm::NICIRA, 20), 27), ((Oxm::NICIRA, 21), 29),
    ((Oxm::NICIRA, 22), 30), ((Oxm::NICIRA, 23), 31), ((Oxm::NICIRA, 24), 32),
    ((Oxm::NICIRA, 25), 33), ((Oxm::NICIRA, 27), 28), ((Oxm::NICIRA, 28), 9),
];

/// Properties of a field in the table below.
const MASK: u8 = 1;
const SET: u8 = 2;
const VIEW: u8 = 4;

const fn basic(
    number: u8,
    name: &'static str,
    (word, bit, bits): (usize, usize, usize),
    format: FieldFormat,
    needs: FieldNeeds,
    properties: u8,
) -> MatchField {
    new((Oxm::BASIC, number), name, (word, bit, bits), format, needs, properties)
}

const fn nicira(
    number: u8,
    name: &'static str,
    (word, bit, bits): (usize, usize, usize),
    format: FieldFormat,
    needs: FieldNeeds,
    properties: u8,
) -> MatchField {
    new((Oxm::NICIRA, number), name, (word, bit, bits), format, needs, properties)
}

const fn new(
    (class, number): (u16, u8),
    name: &'static str,
    (word, bit, bits): (usize, usize, usize),
    format: FieldFormat,
    needs: FieldNeeds,
    properties: u8,
) -> MatchField {
    MatchField {
        name,
        oxm: Oxm { class, number, len: bits.div_ceil(8) as u8 },
        range: BitRange { offset: word * 32 + bit, bits },
        format,
        needs,
        is_maskable: properties & MASK != 0,
        is_settable: properties & SET != 0,
        is_view: properties & VIEW != 0,
    }
}

const fn register(number: u8, name: &'static str) -> MatchField {
    nicira(number, name, (8 + number as usize, 0, 32), Hex, FieldNeeds::Nothing, MASK | SET)
}

/// A register of `words` words: a view of so many 32-bit registers.
const fn wide_register(
    oxm: (u16, u8),
    name: &'static str,
    word: usize,
    words: usize,
) -> MatchField {
    new(oxm, name, (word, 0, 32 * words), Hex, FieldNeeds::Nothing, MASK | SET | VIEW)
}

use FieldFormat::{Decimal, Hex, Ipv4, Ipv6, Mac};
use FieldNeeds as N;

const IN_PORT: usize = 0;
const ETH_TYPE: usize = 5;
const VLAN_VID: usize = 6;
const IP_PROTO: usize = 10;
const ICMPV6_TYPE: usize = 29;

/// Every match field. Those of OpenFlow come first, at the index that is their number.
#[rustfmt::skip]
pub static FIELDS: [MatchField; 77] = [
    basic(0,  "in_port",     (0, 0, 32),   Decimal, N::Nothing,     SET),
    basic(1,  "in_phy_port", (1, 0, 32),   Decimal, N::InPort,      0),
    basic(2,  "metadata",    (2, 0, 64),   Hex,     N::Nothing,     MASK | SET),
    basic(3,  "eth_dst",     (25, 0, 48),  Mac,     N::Nothing,     MASK | SET),
    basic(4,  "eth_src",     (26, 16, 48), Mac,     N::Nothing,     MASK | SET),
    basic(5,  "eth_type",    (28, 0, 16),  Hex,     N::Nothing,     SET),
    basic(6,  "vlan_vid",    (28, 19, 13), Decimal, N::Nothing,     MASK | SET),
    basic(7,  "vlan_pcp",    (28, 16, 3),  Decimal, N::Vlan,        SET),
    basic(8,  "ip_dscp",     (40, 8, 6),   Decimal, N::Ip,          SET),
    basic(9,  "nw_ecn",      (40, 14, 2),  Decimal, N::Ip,          SET),
    basic(10, "nw_proto",    (40, 0, 8),   Decimal, N::Ip,          SET),
    basic(11, "ip_src",      (34, 0, 32),  Ipv4,    N::Ipv4,        MASK | SET),
    basic(12, "ip_dst",      (38, 0, 32),  Ipv4,    N::Ipv4,        MASK | SET),
    basic(13, "tcp_src",     (39, 0, 16),  Decimal, N::Proto(6),    MASK | SET),
    basic(14, "tcp_dst",     (39, 16, 16), Decimal, N::Proto(6),    MASK | SET),
    basic(15, "udp_src",     (39, 0, 16),  Decimal, N::Proto(17),   MASK | SET),
    basic(16, "udp_dst",     (39, 16, 16), Decimal, N::Proto(17),   MASK | SET),
    basic(17, "sctp_src",    (39, 0, 16),  Decimal, N::Proto(132),  MASK | SET),
    basic(18, "sctp_dst",    (39, 16, 16), Decimal, N::Proto(132),  MASK | SET),
    basic(19, "icmp_type",   (39, 8, 8),   Decimal, N::Icmpv4,      SET),
    basic(20, "icmp_code",   (39, 24, 8),  Decimal, N::Icmpv4,      SET),
    basic(21, "arp_op",      (42, 0, 16),  Decimal, N::Arp,         SET),
    basic(22, "arp_spa",     (34, 0, 32),  Ipv4,    N::Arp,         MASK | SET),
    basic(23, "arp_tpa",     (38, 0, 32),  Ipv4,    N::Arp,         MASK | SET),
    basic(24, "arp_sha",     (43, 0, 48),  Mac,     N::Arp,         MASK | SET),
    basic(25, "arp_tha",     (44, 16, 48), Mac,     N::Arp,         MASK | SET),
    basic(26, "ipv6_src",    (31, 0, 128), Ipv6,    N::Ipv6,        MASK | SET),
    basic(27, "ipv6_dst",    (35, 0, 128), Ipv6,    N::Ipv6,        MASK | SET),
    basic(28, "ipv6_label",  (41, 0, 20),  Hex,     N::Ipv6,        MASK | SET),
    basic(29, "icmpv6_type", (39, 8, 8),   Decimal, N::Icmpv6,      SET),
    basic(30, "icmpv6_code", (39, 24, 8),  Decimal, N::Icmpv6,      SET),
    basic(31, "nd_target",   (46, 0, 128), Ipv6,    N::Nd,          MASK | SET),
    basic(32, "nd_sll",      (43, 0, 48),  Mac,     N::NdSolicit,   MASK | SET),
    basic(33, "nd_tll",      (44, 16, 48), Mac,     N::NdAdvert,    MASK | SET),
    basic(34, "mpls_label",  (29, 0, 20),  Decimal, N::Mpls,        SET),
    basic(35, "mpls_tc",     (29, 20, 3),  Decimal, N::Mpls,        SET),
    basic(36, "mpls_bos",    (29, 23, 1),  Decimal, N::Mpls,        SET),
    basic(37, "pbb_isid",    (30, 0, 24),  Hex,     N::Pbb,         MASK | SET),
    basic(38, "tun_id",      (4, 0, 64),   Hex,     N::Nothing,     MASK | SET),
    basic(39, "ipv6_exthdr", (41, 23, 9),  Hex,     N::Ipv6,        MASK),
    basic(41, "pbb_uca",     (42, 31, 1),  Decimal, N::Pbb,         SET),
    register(0, "reg0"),   register(1, "reg1"),   register(2, "reg2"),   register(3, "reg3"),
    register(4, "reg4"),   register(5, "reg5"),   register(6, "reg6"),   register(7, "reg7"),
    register(8, "reg8"),   register(9, "reg9"),   register(10, "reg10"), register(11, "reg11"),
    register(12, "reg12"), register(13, "reg13"), register(14, "reg14"), register(15, "reg15"),
    nicira(26, "ip_frag",    (30, 30, 2),  Decimal, N::Ip,          MASK),
    nicira(29, "nw_ttl",     (29, 24, 8),  Decimal, N::Ip,          SET),
    nicira(31, "tun_src",    (6, 0, 32),   Ipv4,    N::Nothing,     MASK | SET),
    nicira(32, "tun_dst",    (7, 0, 32),   Ipv4,    N::Nothing,     MASK | SET),
    nicira(33, "pkt_mark",   (24, 0, 32),  Hex,     N::Nothing,     MASK | SET),
    // The ONF extension to 1.3; twelve bits in two bytes.
    new((Oxm::EXPERIMENTER, 42), "tcp_flags", (40, 20, 12), Hex, N::Proto(6), MASK),
    wide_register((Oxm::PACKET_REGISTERS, 0), "xreg0", 8, 2),
    wide_register((Oxm::PACKET_REGISTERS, 1), "xreg1", 10, 2),
    wide_register((Oxm::PACKET_REGISTERS, 2), "xreg2", 12, 2),
    wide_register((Oxm::PACKET_REGISTERS, 3), "xreg3", 14, 2),
    wide_register((Oxm::PACKET_REGISTERS, 4), "xreg4", 16, 2),
    wide_register((Oxm::PACKET_REGISTERS, 5), "xreg5", 18, 2),
    wide_register((Oxm::PACKET_REGISTERS, 6), "xreg6", 20, 2),
    wide_register((Oxm::PACKET_REGISTERS, 7), "xreg7", 22, 2),
    wide_register((Oxm::NICIRA, 111), "xxreg0", 8, 4),
    wide_register((Oxm::NICIRA, 112), "xxreg1", 12, 4),
    wide_register((Oxm::NICIRA, 113), "xxreg2", 16, 4),
    wide_register((Oxm::NICIRA, 114), "xxreg3", 20, 4),
    new((Oxm::NXM, 4), "vlan_tci", (28, 16, 16), Hex, N::Nothing, MASK | SET | VIEW),
    new((Oxm::NXM, 5), "nw_tos", (40, 8, 8), Decimal, N::Ip, SET | VIEW),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::FLOW_WORDS;

    #[test]
    fn numbers_of_openflow_are_indices() {
        for (index, field) in FIELDS.iter().take(40).enumerate() {
            assert_eq!((field.oxm.class, field.oxm.number), (Oxm::BASIC, index as u8));
        }
        let names = ["in_port", "eth_type", "vlan_vid", "nw_proto", "icmpv6_type"];
        let indices = [IN_PORT, ETH_TYPE, VLAN_VID, IP_PROTO, ICMPV6_TYPE];
        assert_eq!(indices.map(|index| FIELDS[index].name), names);
    }

    #[test]
    fn names_and_numbers_are_unique_and_bits_are_inside_the_key() {
        for (index, field) in FIELDS.iter().enumerate() {
            assert!(field.range.offset + field.range.bits <= 32 * FLOW_WORDS, "{}", field.name);
            for other in &FIELDS[..index] {
                assert!(field.name != other.name && field.oxm != other.oxm, "{}", field.name);
            }
        }
    }

    #[test]
    fn fields_that_share_bits_need_different_packets_or_are_views() {
        let bits = |field: &MatchField| {
            let mut words = [0; FLOW_WORDS];
            field.range.write(&mut words, u128::MAX);
            words
        };
        for (index, field) in FIELDS.iter().enumerate() {
            for other in &FIELDS[..index] {
                let (mine, theirs) = (bits(field), bits(other));
                let is_shared = mine.iter().zip(&theirs).any(|(a, b)| a & b != 0);
                let is_told_apart = field.needs != other.needs || field.is_view || other.is_view;
                assert!(!is_shared || is_told_apart, "{} {}", field.name, other.name);
            }
        }
    }

    #[test]
    fn twins_have_the_length_of_their_field() {
        assert_eq!(field_by_oxm(Oxm::NXM, 7), field("ip_src"));
        assert_eq!(field_by_oxm(Oxm::NICIRA, 16), field("tun_id"));
        assert_eq!(field_by_oxm(Oxm::NICIRA, 15), field("reg15"));
        assert_eq!(field_by_oxm(Oxm::BASIC, 40), None);
        for ((class, number), _) in NXM_TWINS {
            assert!(!FIELDS.iter().any(|f| f.oxm.class == class && f.oxm.number == number));
        }
    }
}
