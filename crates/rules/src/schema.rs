//! Field schemas: which header fields a flow key holds, and where.
//!
//! A key is `words` 32-bit words. Fields lie in network order: the bit that is first on the wire is
//! the most significant bit of its field, and a field's first part lies in the lower word index. A
//! word is a host integer, so prefixes and ranges compare as numbers.
//!
//! ```text
//! ipv4_5tuple      w0 ipv4_src  w1 ipv4_dst  w2 l4_src|l4_dst  w3 ip_proto(8) 0(12) tcp_flags(12)
//! ipv6_5tuple      w0-3 ipv6_src  w4-7 ipv6_dst  w8 l4_src|l4_dst  w9 as w3 above
//! openflow12       w0 in_port  w1-2h eth_src  w2l-3 eth_dst  w4 eth_type|vlan_tci
//!                  w5 ipv4_src  w6 ipv4_dst  w7 l4_src|l4_dst  w8 ip_proto(8) ip_tos(8) 0(4)
//!                  tcp_flags(12)  w9 zero
//! openflow12_ipv6  w0-4 as openflow12  w5-8 ip_src  w9-12 ip_dst (IPv4 in the last word, the
//!                  rest zero)  w13 l4_src|l4_dst  w14 as w8 above  w15 zero
//! ```
//!
//! # Invariants
//! - S1: both transport ports share one word, `l4_src` in the upper half. They are the only fields
//!   that accept ranges.
//! - S2: a bit that belongs to no field is zero in every key and in every mask.

/// The most words that a key of any schema has.
pub const WORDS_MAX: usize = 16;

/// A header field that a rule can match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Field {
    /// Switch port the frame came in on.
    InPort,
    /// Ethernet source address.
    EthSrc,
    /// Ethernet destination address.
    EthDst,
    /// EtherType behind any VLAN tags; frames with an 802.3 length have `0x05ff`, as in OpenFlow.
    EthType,
    /// Outermost VLAN tag control information: PCP (3 bits), tag present (1 bit), VID (12 bits);
    /// zero for an untagged frame.
    VlanTci,
    /// IPv4 source address, or the sender address of an ARP packet in the OpenFlow schemas.
    Ipv4Src,
    /// IPv4 destination address, or the target address of an ARP packet in the OpenFlow schemas.
    Ipv4Dst,
    /// IPv6 source address.
    Ipv6Src,
    /// IPv6 destination address.
    Ipv6Dst,
    /// IP protocol, the last header of an IPv6 chain, or the ARP operation's low byte (OpenFlow).
    IpProto,
    /// DSCP and ECN: the former type-of-service byte.
    IpTos,
    /// TCP, UDP or SCTP source port; the ICMP type in the OpenFlow schemas.
    L4Src,
    /// TCP, UDP or SCTP destination port; the ICMP code in the OpenFlow schemas.
    L4Dst,
    /// The twelve flag bits of a TCP header (reserved bits, then NS … FIN).
    TcpFlags,
}

/// How a field's value is written for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldFormat {
    /// Decimal number.
    Decimal,
    /// Hexadecimal number with `0x`.
    Hex,
    /// `aa:bb:cc:dd:ee:ff`.
    Mac,
    /// Dotted quad.
    Ipv4,
    /// RFC 5952 text.
    Ipv6,
}

/// Where a field lies in the keys of one schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// The field.
    pub field: Field,
    /// Its name in the canonical text form.
    pub name: &'static str,
    /// Offset of its first (most significant) bit from the start of the key.
    pub bit_offset: usize,
    /// Width in bits, at most 128.
    pub bits: usize,
    /// How values are written.
    pub format: FieldFormat,
}

/// A key layout: a name, a length in words, and the fields in it.
///
/// Schemas are compared by name; all of them are the `static`s of this module.
#[derive(Debug)]
pub struct Schema {
    /// The name that commands and files use.
    pub name: &'static str,
    /// Words in a key.
    pub words: usize,
    /// Index of the word that holds `l4_src` and `l4_dst` (invariant S1).
    pub ports_word: usize,
    /// Fields in canonical order.
    pub fields: &'static [FieldSpec],
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Schema {}

const fn at(
    field: Field,
    name: &'static str,
    word: usize,
    bit: usize,
    bits: usize,
    format: FieldFormat,
) -> FieldSpec {
    FieldSpec { field, name, bit_offset: word * 32 + bit, bits, format }
}

use FieldFormat::{Decimal, Hex, Ipv4, Ipv6, Mac};

/// IPv4 addresses, protocol, ports and TCP flags: 16 bytes.
pub static IPV4_5TUPLE: Schema = Schema {
    name: "ipv4_5tuple",
    words: 4,
    ports_word: 2,
    fields: &[
        at(Field::Ipv4Src, "ipv4_src", 0, 0, 32, Ipv4),
        at(Field::Ipv4Dst, "ipv4_dst", 1, 0, 32, Ipv4),
        at(Field::L4Src, "l4_src", 2, 0, 16, Decimal),
        at(Field::L4Dst, "l4_dst", 2, 16, 16, Decimal),
        at(Field::IpProto, "ip_proto", 3, 0, 8, Decimal),
        at(Field::TcpFlags, "tcp_flags", 3, 20, 12, Hex),
    ],
};

/// IPv6 addresses, protocol, ports and TCP flags: 40 bytes.
pub static IPV6_5TUPLE: Schema = Schema {
    name: "ipv6_5tuple",
    words: 10,
    ports_word: 8,
    fields: &[
        at(Field::Ipv6Src, "ipv6_src", 0, 0, 128, Ipv6),
        at(Field::Ipv6Dst, "ipv6_dst", 4, 0, 128, Ipv6),
        at(Field::L4Src, "l4_src", 8, 0, 16, Decimal),
        at(Field::L4Dst, "l4_dst", 8, 16, 16, Decimal),
        at(Field::IpProto, "ip_proto", 9, 0, 8, Decimal),
        at(Field::TcpFlags, "tcp_flags", 9, 20, 12, Hex),
    ],
};

/// The twelve fields of OpenFlow 1.0 and TCP flags: 288 bits, padded to 40 bytes.
pub static OPENFLOW12: Schema = Schema {
    name: "openflow12",
    words: 10,
    ports_word: 7,
    fields: &[
        at(Field::InPort, "in_port", 0, 0, 32, Decimal),
        at(Field::EthSrc, "eth_src", 1, 0, 48, Mac),
        at(Field::EthDst, "eth_dst", 2, 16, 48, Mac),
        at(Field::EthType, "eth_type", 4, 0, 16, Hex),
        at(Field::VlanTci, "vlan_tci", 4, 16, 16, Hex),
        at(Field::Ipv4Src, "ipv4_src", 5, 0, 32, Ipv4),
        at(Field::Ipv4Dst, "ipv4_dst", 6, 0, 32, Ipv4),
        at(Field::L4Src, "l4_src", 7, 0, 16, Decimal),
        at(Field::L4Dst, "l4_dst", 7, 16, 16, Decimal),
        at(Field::IpProto, "ip_proto", 8, 0, 8, Decimal),
        at(Field::IpTos, "ip_tos", 8, 8, 8, Hex),
        at(Field::TcpFlags, "tcp_flags", 8, 20, 12, Hex),
    ],
};

/// [`OPENFLOW12`] with room for IPv6 addresses, so that one rule set can hold both families.
///
/// An IPv4 address lies in the last word of its 128 bits: `ipv4_src` is a view of the low 32 bits
/// of `ipv6_src`. The EtherType tells the families apart.
pub static OPENFLOW12_IPV6: Schema = Schema {
    name: "openflow12_ipv6",
    words: 16,
    ports_word: 13,
    fields: &[
        at(Field::InPort, "in_port", 0, 0, 32, Decimal),
        at(Field::EthSrc, "eth_src", 1, 0, 48, Mac),
        at(Field::EthDst, "eth_dst", 2, 16, 48, Mac),
        at(Field::EthType, "eth_type", 4, 0, 16, Hex),
        at(Field::VlanTci, "vlan_tci", 4, 16, 16, Hex),
        at(Field::Ipv6Src, "ipv6_src", 5, 0, 128, Ipv6),
        at(Field::Ipv6Dst, "ipv6_dst", 9, 0, 128, Ipv6),
        at(Field::Ipv4Src, "ipv4_src", 8, 0, 32, Ipv4),
        at(Field::Ipv4Dst, "ipv4_dst", 12, 0, 32, Ipv4),
        at(Field::L4Src, "l4_src", 13, 0, 16, Decimal),
        at(Field::L4Dst, "l4_dst", 13, 16, 16, Decimal),
        at(Field::IpProto, "ip_proto", 14, 0, 8, Decimal),
        at(Field::IpTos, "ip_tos", 14, 8, 8, Hex),
        at(Field::TcpFlags, "tcp_flags", 14, 20, 12, Hex),
    ],
};

/// Every schema, in the order in which commands list them.
pub static SCHEMAS: [&Schema; 4] = [&IPV4_5TUPLE, &IPV6_5TUPLE, &OPENFLOW12, &OPENFLOW12_IPV6];

impl Schema {
    /// The schema of that name.
    pub fn by_name(name: &str) -> Option<&'static Schema> {
        SCHEMAS.iter().copied().find(|s| s.name == name)
    }

    /// Where `field` lies, if this schema has it.
    pub fn field(&self, field: Field) -> Option<&'static FieldSpec> {
        self.fields.iter().find(|s| s.field == field)
    }

    /// The key bits that belong to some field; all others are zero in keys and masks (S2).
    pub fn used_bits(&self) -> [u32; WORDS_MAX] {
        let mut used = [0; WORDS_MAX];
        for spec in self.fields {
            let all = if spec.bits == 128 { u128::MAX } else { (1 << spec.bits) - 1 };
            spec.write(&mut used, all);
        }
        used
    }
}

impl FieldSpec {
    /// The largest value of the field: `bits` ones.
    pub const fn value_max(&self) -> u128 {
        self.range().value_max()
    }

    /// The bits of the key that the field takes.
    pub const fn range(&self) -> BitRange {
        BitRange { offset: self.bit_offset, bits: self.bits }
    }

    /// Reads the field out of a key (or a mask).
    ///
    /// # Panics
    /// If `words` is shorter than the schema's keys: a caller bug, not an input.
    pub fn read(&self, words: &[u32]) -> u128 {
        self.range().read(words)
    }

    /// Sets the bits of the field in `words` to `value`, whose bits past the field are ignored.
    ///
    /// # Panics
    /// If `words` is shorter than the schema's keys: a caller bug, not an input.
    pub fn write(&self, words: &mut [u32], value: u128) {
        self.range().write(words, value);
    }
}

/// Consecutive bits of a key, at most 128 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BitRange {
    /// Offset of the first (most significant) bit from the start of the key.
    pub offset: usize,
    /// How many.
    pub bits: usize,
}

impl BitRange {
    /// The largest value of these bits: all ones.
    pub const fn value_max(self) -> u128 {
        if self.bits == 128 { u128::MAX } else { (1 << self.bits) - 1 }
    }

    /// Reads the bits out of a key (or a mask).
    ///
    /// # Panics
    /// If `words` ends before the bits do: a caller bug, not an input.
    pub fn read(self, words: &[u32]) -> u128 {
        let mut value = 0u128;
        self.for_each_part(|word, shift, bits| {
            let part = (words[word] >> shift) & ones(bits);
            value = (value << (bits % 128)) | u128::from(part);
        });
        value
    }

    /// Sets the bits to `value`, whose bits past the range are ignored.
    ///
    /// # Panics
    /// If `words` ends before the bits do: a caller bug, not an input.
    pub fn write(self, words: &mut [u32], value: u128) {
        let mut left = self.bits;
        self.for_each_part(|word, shift, bits| {
            left -= bits;
            let part = (value >> left) as u32 & ones(bits);
            words[word] = words[word] & !(ones(bits) << shift) | part << shift;
        });
    }

    /// Calls `part(word index, shift, bits)` for each word that has some of the bits, first part
    /// first.
    fn for_each_part(self, mut part: impl FnMut(usize, usize, usize)) {
        let mut offset = self.offset;
        let end = self.offset + self.bits;
        while offset < end {
            let word = offset / 32;
            let bits = (end - offset).min(32 - offset % 32);
            part(word, 32 - offset % 32 - bits, bits);
            offset += bits;
        }
    }
}

/// `bits` ones, for 1 to 32 bits.
const fn ones(bits: usize) -> u32 {
    u32::MAX >> (32 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_read_back_what_was_written_and_touch_nothing_else() {
        for schema in SCHEMAS {
            for spec in schema.fields {
                let value = 0x0123_4567_89ab_cdef_0fed_cba9_8765_4321u128 & spec.value_max();
                let mut words = [u32::MAX; WORDS_MAX];
                spec.write(&mut words, value);
                assert_eq!(spec.read(&words), value, "{} {}", schema.name, spec.name);
                spec.write(&mut words, spec.value_max());
                assert_eq!(words, [u32::MAX; WORDS_MAX], "{} {}", schema.name, spec.name);
            }
        }
    }

    #[test]
    fn fields_fit_their_schema_and_ports_share_a_word() {
        for schema in SCHEMAS {
            assert!(schema.words <= WORDS_MAX);
            for spec in schema.fields {
                assert!(spec.bit_offset + spec.bits <= schema.words * 32, "{}", spec.name);
            }
            let l4_src = schema.field(Field::L4Src).unwrap();
            let l4_dst = schema.field(Field::L4Dst).unwrap();
            assert_eq!(l4_src.bit_offset, schema.ports_word * 32);
            assert_eq!(l4_dst.bit_offset, schema.ports_word * 32 + 16);
        }
    }
}
