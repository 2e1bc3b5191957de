//! Flow keys without the words that are zero in all frames of a shape.
//!
//! ```text
//! frame ─► shape (which words) ─┬─ 12 words: IPv4, ARP           exact index: one line an entry
//!                               ├─ 19 words: IPv6                             two lines
//!                               └─ up to 32: neighbour discovery, tunnels     two, or none
//! ```
//! A [`FlowKey`] has 50 words, most of them zero. What is looked up first needs the others only, so
//! a burst keeps these, and a whole key is written where a lookup by examined bits needs it.

use warpswitch_rules::openflow::{FLOW_WORDS, FlowKey};

use crate::traversal::Shape;

/// The most words that a shape has.
pub const PACKED_WORDS_MAX: usize = 32;

/// The words of a flow key that frames of its shape may have, in the order of [`Shape::words`];
/// zero behind them.
///
/// # Example
/// ```
/// use warpswitch_flow::{PackedKey, Shape};
/// use warpswitch_rules::openflow::FLOW_WORDS;
///
/// let mut key = [0; FLOW_WORDS];
/// (key[0], key[34]) = (1, 0x0a00_0001);
/// let packed = PackedKey::new(&key, Shape { number: 5, words: &[0, 34] });
/// assert_eq!(packed.words()[..2], [1, 0x0a00_0001]);
/// assert_eq!(packed.to_key(), key);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedKey {
    shape: Shape,
    words: [u32; PACKED_WORDS_MAX],
}

impl PackedKey {
    /// A key without words.
    pub const EMPTY: PackedKey =
        PackedKey { shape: Shape { number: Shape::NONE, words: &[] }, words: [0; _] };

    /// The key of a frame of this shape.
    pub fn new(key: &FlowKey, shape: Shape) -> Self {
        let mut packed = Self::EMPTY;
        packed.pack(key, shape);
        packed
    }

    /// Becomes the key of a frame of this shape.
    #[inline]
    pub fn pack(&mut self, key: &FlowKey, shape: Shape) {
        let words = self.start(shape);
        for (to, &from) in words.iter_mut().zip(shape.words) {
            *to = key[usize::from(from)];
        }
    }

    /// Becomes a key of zeros of this shape; returns its words, to be filled.
    #[inline]
    pub fn start(&mut self, shape: Shape) -> &mut [u32; PACKED_WORDS_MAX] {
        // Stores, where a new value would be copied from a constant in memory.
        self.shape = shape;
        self.words.fill(0);
        &mut self.words
    }

    /// The shape.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its words.
    #[inline]
    pub fn words(&self) -> &[u32; PACKED_WORDS_MAX] {
        &self.words
    }

    /// The word at this place among those of the shape.
    #[inline]
    pub fn word(&self, at: u8) -> u32 {
        // Without a check of bounds: a place is less than the number of words.
        self.words[usize::from(at) % PACKED_WORDS_MAX]
    }

    /// The whole key.
    pub fn to_key(&self) -> FlowKey {
        let mut key = [0; FLOW_WORDS];
        self.write(&mut key);
        key
    }

    /// Writes the whole key.
    #[inline]
    pub fn write(&self, key: &mut FlowKey) {
        key.fill(0);
        for (&to, &from) in self.shape.words.iter().zip(&self.words) {
            key[usize::from(to)] = from;
        }
    }
}
