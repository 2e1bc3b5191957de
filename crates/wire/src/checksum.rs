//! The Internet checksum: full (RFC 1071), with pseudo headers, and incremental (RFC 1624).
//!
//! The checksum is the complement of the one's-complement sum of all 16-bit words. That sum does
//! not care about the byte order in which words are read (RFC 1071, 2.B) nor about their width, so
//! [`Sum`] adds 32-bit words in host order into 64-bit lanes and folds once at the end. A lane
//! overflows after 2^32 words, 16 GiB: no slice that is a packet comes near.
//!
//! # The two zeros
//! One's complement has two zeros, `0x0000` and `0xffff`. A sum of words that are not all zero
//! never folds to `0x0000`. Equation 3 of RFC 1624, `HC' = ~(~HC + ~m + m')`, keeps to that, so
//! [`update_u16`] gives the same bits as a full recomputation as long as the new data are not all
//! zero; IP, TCP and UDP data never are.
//! UDP writes a computed `0x0000` as `0xffff`, for zero there means "no checksum".

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::ip::IpProto;

/// A running one's-complement sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Sum = Sum(0);

    /// Adds bytes that start at an even offset of the summed data; an odd last byte is padded
    /// with a zero, so only the last piece may have odd length.
    #[inline]
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        let mut lanes = [0u64; 8];
        let mut blocks = bytes.chunks_exact(32);
        for block in &mut blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        let (words, tail) = blocks.remainder().as_chunks::<4>();
        let mut sum = lanes.iter().fold(self.0, |sum, &lane| add_carry(sum, lane));
        for word in words {
            sum = add_carry(sum, u64::from(u32::from_ne_bytes(*word)));
        }
        if !tail.is_empty() {
            let mut last = [0; 4];
            last[..tail.len()].copy_from_slice(tail);
            sum = add_carry(sum, u64::from(u32::from_ne_bytes(last)));
        }
        Sum(sum)
    }

    /// Adds one 16-bit word.
    #[inline]
    pub fn add_u16(self, word: u16) -> Self {
        Sum(add_carry(self.0, u64::from(word.to_be())))
    }

    /// Adds one 32-bit word.
    #[inline]
    pub fn add_u32(self, word: u32) -> Self {
        Sum(add_carry(self.0, u64::from(word.to_be())))
    }

    /// The sum as one 16-bit word, in host order. Data that carry a right checksum sum to
    /// `0xffff`.
    #[inline]
    pub fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        u16::from_be(sum as u16)
    }

    /// The checksum: the complement of the sum, in host order.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }
}

/// Adds with end-around carry.
#[inline]
fn add_carry(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

/// The checksum of `bytes`.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::ZERO.add_bytes(bytes).checksum()
}

/// Whether `bytes`, which hold their own checksum, are intact.
#[inline]
pub fn is_intact(bytes: &[u8]) -> bool {
    Sum::ZERO.add_bytes(bytes).fold() == 0xffff
}

/// The addresses that a transport checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PseudoHeader {
    /// RFC 9293, 3.1.
    V4 {
        /// Source address.
        src: Ipv4Addr,
        /// Destination address.
        dst: Ipv4Addr,
    },
    /// RFC 8200, 8.1. With a routing header, `dst` is the final destination.
    V6 {
        /// Source address.
        src: Ipv6Addr,
        /// Destination address.
        dst: Ipv6Addr,
    },
}

impl PseudoHeader {
    /// The sum of the pseudo header for a transport packet of `bytes` bytes.
    #[inline]
    pub fn sum(&self, proto: IpProto, bytes: usize) -> Sum {
        let sum = match self {
            PseudoHeader::V4 { src, dst } => {
                Sum::ZERO.add_bytes(&src.octets()).add_bytes(&dst.octets())
            }
            PseudoHeader::V6 { src, dst } => {
                Sum::ZERO.add_bytes(&src.octets()).add_bytes(&dst.octets())
            }
        };
        sum.add_u16(u16::from(proto.0)).add_u32(bytes as u32)
    }
}

/// The checksum after one 16-bit word of the data changed from `old` to `new` (RFC 1624, eqn 3).
#[inline]
pub fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO.add_u16(!checksum).add_u16(!old).add_u16(new).checksum()
}

/// The checksum after one 32-bit word of the data, at an even offset, changed.
#[inline]
pub fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    Sum::ZERO.add_u16(!checksum).add_u32(!old).add_u32(new).checksum()
}

/// The checksum after a run of data at an even offset changed, for example an IPv6 address.
///
/// # Panics
/// If the two differ in length or the length is odd: a caller bug, not an input.
pub fn update_bytes(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    assert!(old.len() == new.len() && old.len().is_multiple_of(2), "runs of equal, even length");
    let removed = !Sum::ZERO.add_bytes(old).fold();
    Sum::ZERO.add_u16(!checksum).add_u16(removed).add_bytes(new).checksum()
}

/// [`update_u32`] for a UDP checksum: zero ("none") stays, and no other becomes zero.
#[inline]
pub fn update_udp_u32(checksum: u16, old: u32, new: u32) -> u16 {
    if checksum == 0 {
        return 0;
    }
    match update_u32(checksum, old, new) {
        0 => 0xffff,
        updated => updated,
    }
}

/// [`update_u16`] for a UDP checksum: zero ("none") stays, and no other becomes zero.
#[inline]
pub fn update_udp_u16(checksum: u16, old: u16, new: u16) -> u16 {
    if checksum == 0 {
        return 0;
    }
    match update_u16(checksum, old, new) {
        0 => 0xffff,
        updated => updated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// RFC 1071 word by word: the definition.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    #[test]
    fn known_sums() {
        // RFC 1071, 3: the sum of these is ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[]), 0xffff);
        assert_eq!(checksum(&[0; 40]), 0xffff);
        assert_eq!(checksum(&[0xff; 40]), 0);
        assert_eq!(checksum(&[0xff; 65535]), plain(&[0xff; 65535]));
    }

    #[test]
    fn rfc_1624_corner() {
        // RFC 1624, 4: equation 2 of RFC 1141 gives ffff here, the right answer is 0000.
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(update_u16(0x0000, 0x3285, 0x5555), 0xdd2f);
        // Only data that become all zero tell the two zeros apart.
        assert_eq!(update_u16(checksum(&[0x12, 0x34]), 0x1234, 0), 0);
        assert_eq!(checksum(&[0, 0]), 0xffff);
    }

    #[test]
    fn every_word_against_every_checksum_corner() {
        // Data = a constant nonzero word and one that changes over all values.
        for other in [1u16, 0x8000, 0xfffe, 0xffff] {
            let full = |word: u16| Sum::ZERO.add_u16(other).add_u16(word).checksum();
            for old in [0u16, 1, !other, 0x7fff, 0xffff] {
                for new in 0..=u16::MAX {
                    assert_eq!(update_u16(full(old), old, new), full(new), "{other} {old} {new}");
                }
            }
        }
    }

    #[test]
    fn udp_zero_means_none() {
        assert_eq!(update_udp_u16(0, 1, 2), 0);
        assert_eq!(update_udp_u32(0, 1, 2), 0);
        assert_eq!(update_udp_u16(0xdd2f, 0x5555, 0x3285), 0xffff);
        assert_eq!(update_udp_u32(0xdd2f, 0x5555, 0x3285), 0xffff);
    }

    proptest! {
        #[test]
        fn fast_sum_equals_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(checksum(&bytes), plain(&bytes));
            let cut = (bytes.len() / 2) & !1;
            let split = Sum::ZERO.add_bytes(&bytes[..cut]).add_bytes(&bytes[cut..]);
            prop_assert_eq!(split.checksum(), plain(&bytes));
        }

        #[test]
        fn updates_equal_recomputation(
            words in prop::collection::vec(prop_oneof![Just(0u16), Just(0xffff), any::<u16>()], 9),
            at in 0usize..7,
            new in prop_oneof![Just(0u16), Just(0xffff), any::<u16>()],
            new_low in prop_oneof![Just(0u16), Just(0xffff), any::<u16>()],
        ) {
            let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
            bytes[17] |= 1; // Not all zero: see the module documentation.
            let before = checksum(&bytes);
            let old = bytes[at * 2..at * 2 + 4].to_vec();
            bytes[at * 2..at * 2 + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update_u16(before, words[at], new), checksum(&bytes));
            bytes[at * 2 + 2..at * 2 + 4].copy_from_slice(&new_low.to_be_bytes());
            let new_bytes = bytes[at * 2..at * 2 + 4].to_vec();
            let (old_word, new_word) = (crate::view::get_u32(&old, 0),
                crate::view::get_u32(&new_bytes, 0));
            prop_assert_eq!(update_u32(before, old_word, new_word), checksum(&bytes));
            prop_assert_eq!(update_bytes(before, &old, &new_bytes), checksum(&bytes));
        }
    }
}
