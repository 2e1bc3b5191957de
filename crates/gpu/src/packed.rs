//! IPv4 5-tuples of 13 bytes, for a link that carries no more than so many bytes a second.
//!
//! ```text
//! 32 keys, 104 words:  src × 32 │ dst × 32 │ ports × 32 │ protocol, a byte each × 32
//! ```
//! A warp reads the 416 bytes of its keys side by side. What is left out is the TCP flags, so rules
//! must not examine them, and bits that no field has. The keys of a batch begin with whole pieces;
//! of its last piece only the first keys count.
//!
//! Packing is the sender's work: [`put`] writes a key where a slot wants it, at the cost of a copy.

use std::fmt;

use warpswitch_classify::parts::RuleStore;
use warpswitch_rules::RuleId;
use warpswitch_rules::schema::IPV4_5TUPLE;

use crate::driver::LaunchShape;
use crate::image::{Algorithm, Image, VIEW_NUMBERS};
use crate::kernels::{self, Kernel, KernelShape, Source};
use crate::split::Divisible;
use crate::work::{Form, Lookup, Work};

/// Keys that lie together.
const PIECE: usize = 32;
/// Words of a key, unpacked.
const KEY_WORDS: usize = 4;
/// Words of a piece.
const PIECE_WORDS: usize = 3 * PIECE + PIECE / 4;
/// What is left of the last word: its highest byte, the protocol.
const LAST_BITS: u32 = 0xff << LAST_SHIFT;
const LAST_SHIFT: u32 = 24;

/// Words of `len` packed keys.
pub(crate) fn words_for(len: usize) -> usize {
    len.div_ceil(PIECE).saturating_mul(PIECE_WORDS)
}

/// Packed keys that so many words have room for.
pub(crate) fn keys_in(words: usize) -> usize {
    words / PIECE_WORDS * PIECE
}

/// Writes a key at place `at` of a batch of packed keys.
///
/// # Panics
/// If the batch has no such place, or the key is no IPv4 5-tuple: caller bugs.
pub fn put(batch: &mut [u32], at: usize, key: &[u32]) {
    assert_eq!(key.len(), KEY_WORDS, "an IPv4 5-tuple");
    let (piece, lane) = (at / PIECE * PIECE_WORDS, at % PIECE);
    let piece = &mut batch[piece..piece + PIECE_WORDS];
    for (word, value) in key[..3].iter().enumerate() {
        piece[word * PIECE + lane] = *value;
    }
    let shift = lane % 4 * 8;
    let last = &mut piece[3 * PIECE + lane / 4];
    *last = *last & !(0xff << shift) | (key[3] >> LAST_SHIFT) << shift;
}

/// The key at place `at`.
fn get(batch: &[u32], at: usize) -> [u32; KEY_WORDS] {
    let (piece, lane) = (at / PIECE * PIECE_WORDS, at % PIECE);
    let piece = &batch[piece..piece + PIECE_WORDS];
    let last = piece[3 * PIECE + lane / 4] >> (lane % 4 * 8) << LAST_SHIFT;
    [piece[lane], piece[PIECE + lane], piece[2 * PIECE + lane], last]
}

/// Whether the rules are of IPv4 5-tuples, and examine nothing that packing leaves out.
pub fn keeps_what_rules_examine(rules: &RuleStore) -> bool {
    let is_small = |place: u32| rules.rule(place).matching.mask[3] & !LAST_BITS == 0;
    rules.schema() == &IPV4_5TUPLE && rules.places_by_precedence().into_iter().all(is_small)
}

/// An image whose batches are packed.
#[derive(Clone)]
pub struct PackedImage(Image);

impl fmt::Debug for PackedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PackedImage").field(&self.0.algorithm()).finish()
    }
}

impl PackedImage {
    /// How wide its keys and answers are.
    pub const FORM: Form = Form { key_words: KEY_WORDS, answer_bytes: 4, packed: true };

    /// The image of `rules` for packed keys; `None` if these have other fields than IPv4 5-tuples,
    /// a rule examines TCP flags, or rows that could be compact are not, as a rule has ports under
    /// a mask: unpacking would take registers that the kernel does not have.
    pub fn new(image: Image, rules: &RuleStore) -> Option<Self> {
        let wants_compact = matches!(image.algorithm(), Algorithm::Linear | Algorithm::Turbo);
        let fits = keeps_what_rules_examine(rules) && (image.shape().compact || !wants_compact);
        fits.then_some(Self(image))
    }
}

impl Lookup for PackedImage {
    fn answer(&self, keys: &[u32], out: &mut [u32]) {
        for (at, out) in out.iter_mut().enumerate() {
            self.0.answer(&get(keys, at), std::slice::from_mut(out));
        }
    }
}

impl Work for PackedImage {
    type Answer = RuleId;

    fn form(&self) -> Form {
        Self::FORM
    }

    fn kernel(&self) -> Kernel {
        self.0.kernel()
    }

    fn shape(&self) -> KernelShape {
        KernelShape { packed: true, ..*self.0.shape() }
    }

    fn launch_shape(&self, shared_bytes_max: usize) -> LaunchShape {
        kernels::launch_shape(&self.0, shared_bytes_max)
    }

    fn divisible(&self) -> Option<(Divisible, Source)> {
        self.0.divisible()
    }

    fn words(&self) -> &[u32] {
        self.0.words()
    }

    fn numbers(&self) -> [u32; VIEW_NUMBERS] {
        self.0.numbers()
    }

    fn unpack(words: &[u32], out: &mut [RuleId]) {
        Image::unpack(words, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use warpswitch_rules::schema::SCHEMAS;
    use warpswitch_rules::{Action, Field, Match, Rule, Ruleset, RulesetBuilder, linear};
    use warpswitch_testkit::dense;

    use crate::host::HostPool;
    use crate::ring::Ring;
    use crate::{Device, GpuError};

    fn packed(ruleset: &Ruleset) -> Option<PackedImage> {
        let store = RuleStore::build(ruleset, usize::MAX).unwrap();
        PackedImage::new(Image::build(Algorithm::Turbo, &store, usize::MAX, 1).unwrap(), &store)
    }

    /// Rules of addresses, ports and protocols near each other.
    fn rules(flags: bool) -> Ruleset {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        for id in 0..200u128 {
            let mut matching = Match::any(&IPV4_5TUPLE);
            matching.set_prefix(Field::Ipv4Src, (id * 7 % 16) << 28, 2 + id as usize % 3);
            matching.set_exact(Field::IpProto, id % 5);
            if flags && id == 150 {
                matching.set_exact(Field::TcpFlags, 2);
            }
            builder.push(Rule::new(matching, Action::Drop));
        }
        builder.build()
    }

    #[test]
    fn keys_come_back_and_touch_no_others() {
        let mut batch = vec![0; words_for(100)];
        assert_eq!((batch.len(), keys_in(batch.len())), (4 * 104, 128));
        let key = |at: u32| [at, at ^ !0, at * 3 + 1, (at * 5) << LAST_SHIFT];
        for round in 0..2 {
            for at in 0..100 {
                let [a, b, c, d] = key(at + round);
                // Flags are left out.
                put(&mut batch, at as usize, &[a, b, c, d | 0xabc]);
            }
        }
        (0..100).for_each(|at| assert_eq!(get(&batch, at), key(at as u32 + 1)));
        assert_eq!((words_for(0), words_for(1), words_for(32), words_for(33)), (0, 104, 104, 208));
    }

    #[test]
    fn answers_are_the_reference_s() -> Result<(), GpuError> {
        let start = &mut |worker| _ = std::thread::spawn(worker);
        let device = Device::from_pool(HostPool::new(2, start));
        let ruleset = rules(false);
        let loaded = device.load(Arc::new(packed(&ruleset).unwrap()))?;
        let mut ring: Ring<PackedImage> = Ring::new(&device, PackedImage::FORM, 300, 2)?;
        let keys = dense::keys_near(&ruleset, 300, 2);
        let mut want = vec![RuleId::NONE; keys.len()];
        linear::classify(&ruleset, keys.as_batch(), &mut want);
        for len in [1, 31, 32, 33, 100, 300] {
            let room = ring.keys_mut().unwrap();
            keys.as_batch().iter().take(len).enumerate().for_each(|(at, key)| put(room, at, key));
            ring.submit(&loaded, len);
            let mut out = vec![RuleId(7); len];
            ring.take(&mut out);
            assert_eq!(out, want[..len], "{len}");
        }
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(packed(&rules(true)).is_none());
        for schema in SCHEMAS.into_iter().filter(|schema| *schema != &IPV4_5TUPLE) {
            assert!(packed(&Ruleset::empty(schema)).is_none(), "{}", schema.name);
        }
    }
}
