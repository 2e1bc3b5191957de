//! What a device works on: keys in, answers out, by an image of words.
//!
//! Slots, rings, deadlines and patches know nothing of rules, routes or patterns. To them a piece
//! of work is an image, the words of keys that go in and the words of answers that come out, the
//! kernel that reads the one and writes the other, and the same function on the host.
//!
//! | work | keys | answers | kernels |
//! | --- | --- | --- | --- |
//! | [`Image`](crate::Image) | 4, 10 or 16 words | the winner's id, a word | one an algorithm |
//! | [`PackedImage`](crate::packed::PackedImage) | 13 bytes | the same | the same |
//! | [`RouteImage`](crate::routes::RouteImage) | an address, 1 or 4 words | a hop, half a word | one a family |
//! | [`HeaderImage`](crate::routes::HeaderImage) | a slice of a packet, 16 words | the same | one |
//! | [`ScanImage`](crate::scan::ScanImage) | a page of payloads | what was found in it | one |
//! | [`HashImage`](crate::image::hashes::HashImage) | as rules' | a fold of hashes, a word | one a function |
//!
//! Other crates add work of their own: an image with a [`Kernel::Custom`]. It computes the same
//! answers on a GPU, on a thread pool and, when a GPU is lost, on the calling thread.

use std::fmt::Debug;

use warpswitch_rules::Schema;

use crate::driver::LaunchShape;
use crate::image::{Patch, VIEW_NUMBERS};
use crate::kernels::{Kernel, KernelShape, Source};
use crate::packed;
use crate::split::Divisible;

/// How wide keys and answers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Words of a key.
    pub key_words: usize,
    /// Bytes of an answer, 2 or whole words. Answers lie side by side; of two in a word the first
    /// one has its lower half.
    pub answer_bytes: usize,
    /// Whether keys of four words lie in 13 bytes each, 32 together: see [`crate::packed`].
    pub packed: bool,
}

impl Form {
    /// Words of `len` keys.
    pub fn keys_len(self, len: usize) -> usize {
        if self.packed { packed::words_for(len) } else { len.saturating_mul(self.key_words) }
    }

    /// How many keys so many words have room for.
    pub fn keys_in(self, words: usize) -> usize {
        if self.packed { packed::keys_in(words) } else { words / self.key_words }
    }

    /// Words that `len` answers take.
    pub fn answers_len(self, len: usize) -> usize {
        self.answers_bytes(len).div_ceil(4)
    }

    /// Bytes of `len` answers.
    pub fn answers_bytes(self, len: usize) -> usize {
        len.saturating_mul(self.answer_bytes)
    }
}

impl From<&Schema> for Form {
    /// Keys of a schema, and ids of rules.
    fn from(schema: &Schema) -> Self {
        Self { key_words: schema.words, answer_bytes: 4, packed: false }
    }
}

/// A kernel's function, on the host: its reference, and what answers when a card is lost.
pub trait Lookup: Debug + Send + Sync + 'static {
    /// Answers keys: `keys` are the words of whole keys, `out` has [`Form::answers_len`] words for
    /// them. No allocation.
    fn answer(&self, keys: &[u32], out: &mut [u32]);
}

/// An image and the kernel that reads it.
pub trait Work: Lookup + Sized {
    /// One answer.
    type Answer: Copy + Send;

    /// What goes in and what comes out.
    fn form(&self) -> Form;

    /// The kernel.
    fn kernel(&self) -> Kernel;

    /// What the kernel is compiled for.
    fn shape(&self) -> KernelShape {
        KernelShape::of_words(self.form().key_words)
    }

    /// How the kernel is laid over a card whose blocks have at most `shared_bytes_max` of shared
    /// memory. The default is one key a thread, 256 threads a block.
    fn launch_shape(&self, _shared_bytes_max: usize) -> LaunchShape {
        LaunchShape { threads: 256, keys_per_block: 256, shared_bytes: 0, persistent: false }
    }

    /// What a kernel that divides rules divides, and its source; there is none by default.
    fn divisible(&self) -> Option<(Divisible, Source)> {
        None
    }

    /// The image's words.
    fn words(&self) -> &[u32];

    /// The numbers of its view; zeros by default.
    fn numbers(&self) -> [u32; VIEW_NUMBERS] {
        [0; VIEW_NUMBERS]
    }

    /// Reads as many answers as `out` is long.
    fn unpack(words: &[u32], out: &mut [Self::Answer]);
}

/// Work whose image changes in place while batches read other copies.
pub trait PatchWork: Work {
    /// Writes a patch over the image.
    fn patch(&mut self, patch: &Patch);
}
