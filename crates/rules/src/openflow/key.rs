//! Flow keys with all fields of OpenFlow 1.3, and matches over them.
//!
//! ```text
//! w0 in_port        w1 in_phy_port   w2-3 metadata    w4-5 tun_id
//! w6 tun_src        w7 tun_dst       w8-23 reg0-15    w24 pkt_mark
//! w25-26h eth_dst   w26l-27 eth_src  w28 eth_type(16) vlan_tci(16)
//! w29 mpls_label(20) mpls_tc(3) mpls_bos(1) nw_ttl(8)
//! w30 pbb_isid(24) 0(6) ip_frag(2)
//! w31-34 ipv6_src (nw_src and arp_spa in w34)   w35-38 ipv6_dst (nw_dst and arp_tpa in w38)
//! w39 tp_src(16) tp_dst(16); ICMP type and code in the low byte of each
//! w40 ip_proto(8) ip_tos(8) 0(4) tcp_flags(12)
//! w41 ipv6_label(20) 0(3) ipv6_exthdr(9)        w42 arp_op(16) 0(15) pbb_uca(1)
//! w43-44h arp_sha, nd_sll    w44l-45 arp_tha, nd_tll   w46-49 nd_target
//! ```

use super::field::{FIELDS, MatchField};

/// Words in a [`FlowKey`].
pub const FLOW_WORDS: usize = 50;

/// All header and metadata fields of one packet, in host integers as [`crate::schema`] describes.
///
/// The key of the pipeline; a table looks up only the words that its flows examine.
pub type FlowKey = [u32; FLOW_WORDS];

/// Bits that a [`FlowKey`] must have, and which bits count.
///
/// A bit that is not examined is zero in `value`, so equal sets of packets compare equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowMatch {
    value: FlowKey,
    mask: FlowKey,
}

impl FlowMatch {
    /// A match that every packet passes.
    pub const fn any() -> Self {
        Self { value: [0; FLOW_WORDS], mask: [0; FLOW_WORDS] }
    }

    /// A match of value and mask words; bits of `value` outside the mask are ignored.
    pub fn new(value: &FlowKey, mask: &FlowKey) -> Self {
        let value = std::array::from_fn(|word| value[word] & mask[word]);
        Self { value, mask: *mask }
    }

    /// Demands `value` of `field` where `mask` is 1; the former demand on the field is replaced.
    ///
    /// Bits past the field's width are ignored. What the field needs (an EtherType, a protocol)
    /// is not checked here: [`MatchField::needs`].
    pub fn set(&mut self, field: &MatchField, value: u128, mask: u128) -> &mut Self {
        field.range.write(&mut self.value, value & mask);
        field.range.write(&mut self.mask, mask);
        self
    }

    /// Value and mask of a field; a mask of zero means that it is not examined.
    pub fn get(&self, field: &MatchField) -> (u128, u128) {
        (field.range.read(&self.value), field.range.read(&self.mask))
    }

    /// The value of a field that is matched in all its bits.
    pub fn exact(&self, field: &MatchField) -> Option<u128> {
        let (value, mask) = self.get(field);
        (mask == field.range.value_max()).then_some(value)
    }

    /// The fields that are examined, with value and mask, in the order of [`FIELDS`].
    ///
    /// Fields that share bits (TCP and UDP ports, ICMP types) appear under the name whose needs
    /// this match meets; views that another listed field covers (64-bit registers) do not appear.
    pub fn fields(&self) -> impl Iterator<Item = (&'static MatchField, u128, u128)> + '_ {
        FIELDS.iter().filter(|field| !field.is_view && field.needs.are_met(self)).filter_map(
            |field| {
                let (value, mask) = self.get(field);
                (mask != 0).then_some((field, value, mask))
            },
        )
    }

    /// The value words.
    pub fn value(&self) -> &FlowKey {
        &self.value
    }

    /// The mask words.
    pub fn mask(&self) -> &FlowKey {
        &self.mask
    }

    /// Whether `key` has every demanded bit.
    pub fn matches(&self, key: &FlowKey) -> bool {
        (0..FLOW_WORDS).all(|word| key[word] & self.mask[word] == self.value[word])
    }

    /// Whether some packet matches both.
    pub fn overlaps(&self, other: &FlowMatch) -> bool {
        let differ = |word: usize| self.value[word] ^ other.value[word];
        (0..FLOW_WORDS).all(|word| differ(word) & self.mask[word] & other.mask[word] == 0)
    }

    /// Whether every packet that matches `other` matches this too: the non-strict comparison of
    /// flow modification and deletion.
    pub fn contains(&self, other: &FlowMatch) -> bool {
        (0..FLOW_WORDS).all(|word| {
            self.mask[word] & !other.mask[word] == 0
                && (self.value[word] ^ other.value[word]) & self.mask[word] == 0
        })
    }
}

impl Default for FlowMatch {
    fn default() -> Self {
        Self::any()
    }
}

impl std::fmt::Debug for FlowMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = self.fields().map(|(field, value, mask)| {
            let is_exact = mask == field.range.value_max();
            let mask = if is_exact { String::new() } else { format!("/{mask:#x}") };
            (field.name, format!("{value:#x}{mask}"))
        });
        f.debug_map().entries(fields).finish()
    }
}
