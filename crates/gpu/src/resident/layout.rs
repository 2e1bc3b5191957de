//! Where frames lie in the memory that host and runner share, and how keys and answers are written
//! there; see `resident.cuh` for the protocol.
//!
//! ```text
//! heads, by warp │ answers, by warp │ rows, by warp
//! head: view of the image, tag seen, whether to leave
//! ```
//! All of it is words of 64 bits: the smallest that x86-64 and a card both read and write whole.
//!
//! # Invariants
//! - L1: a piece's tag is stored last, with release, so whoever reads a piece whole and finds a new
//!   tag has the new key.
//! - L2: a row or an answer is only written by one side at a time: rows and heads by the host while
//!   their chunk is answered, answers by the runner while it is not.

use std::sync::atomic::{AtomicU64, Ordering};

use warpswitch_rules::RuleId;

use crate::driver::HEAD_WORDS;
use crate::image::VIEW_NUMBERS;

/// Rows of a chunk: lanes of a warp.
pub(crate) const LANES: usize = 32;
/// The tag in the last word of a piece; keys of all schemas have zeros there.
pub(crate) const TAG: u32 = 0x00ff_f000;
/// The part of it that counts a chunk's frames.
pub(crate) const TAG_NUMBER: u32 = 0x007f_f000;
/// The part that says that the frame's view has to be read again.
pub(crate) const TAG_RELOAD: u32 = 0x0080_0000;
/// The lowest bit of the number.
const TAG_ONE: u32 = 0x1000;
/// Where an answer has that bit, in both halves of a word.
const ANSWER_BITS: u64 = 0x8000_0000_8000_0000;
/// "No rule" in an answer.
pub(crate) const ANSWER_NONE: u32 = 0x7fff_ffff;

/// In a head: the tag that was answered last.
const SEEN: usize = 8;
/// In a head: whether to leave, and the beats that tell that the host is there.
const CONTROL: usize = 9;
/// What control words tell, of which a change is a beat.
const LEAVE: u64 = 1;

/// Places in the shared memory, as indices of 64-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Words of a key, 32 bits each.
    pub(crate) key_words: usize,
    /// Pieces of a key, 16 bytes each.
    pub(crate) pieces: usize,
    /// Frames.
    pub(crate) frames: usize,
    /// Chunks of each.
    pub(crate) chunks: usize,
}

/// The number after `tag`'s.
pub(crate) fn next_number(number: u32) -> u32 {
    number.wrapping_add(TAG_ONE) & TAG_NUMBER
}

/// The number before it.
pub(crate) fn former_number(number: u32) -> u32 {
    number.wrapping_sub(TAG_ONE) & TAG_NUMBER
}

impl Layout {
    /// For `frames` frames of up to `keys_max` keys of `key_words` words.
    pub(crate) fn new(key_words: usize, keys_max: usize, frames: usize) -> Self {
        let pieces = if key_words == 4 { 1 } else { key_words.div_ceil(3) };
        Self { key_words, pieces, frames, chunks: keys_max.div_ceil(LANES).max(1) }
    }

    /// Warps: chunks of all frames.
    pub(crate) fn warps(&self) -> usize {
        self.frames * self.chunks
    }

    /// The warp that has chunk `chunk` of frame `frame`.
    pub(crate) fn warp(&self, frame: usize, chunk: usize) -> usize {
        frame * self.chunks + chunk
    }

    pub(crate) fn head(&self, warp: usize) -> usize {
        HEAD_WORDS * warp
    }

    pub(crate) fn answers(&self, warp: usize) -> usize {
        self.head(self.warps()) + warp * LANES / 2
    }

    fn row(&self, warp: usize, piece: usize, lane: usize) -> usize {
        self.answers(self.warps()) + ((warp * self.pieces + piece) * LANES + lane) * 2
    }

    pub(crate) fn rows(&self) -> usize {
        self.row(0, 0, 0)
    }

    /// Words in all.
    pub(crate) fn len(&self) -> usize {
        self.row(self.warps(), 0, 0)
    }

    /// The words that tell warps to leave.
    pub(crate) fn controls(&self) -> impl Iterator<Item = usize> + use<> {
        let layout = *self;
        (0..self.warps()).map(move |warp| layout.head(warp) + CONTROL)
    }

    /// Tells the runner to leave.
    pub(crate) fn stop(&self, memory: &[AtomicU64]) {
        for control in self.controls() {
            memory[control].fetch_or(LEAVE, Ordering::Release);
        }
    }

    /// Lets the runner stay, and tells it that the host is there.
    pub(crate) fn beat(&self, memory: &[AtomicU64], beats: u64) {
        for control in self.controls() {
            memory[control].store(beats << 1, Ordering::Release);
        }
    }

    /// The beats, unless the runner shall leave.
    pub(crate) fn beats(&self, memory: &[AtomicU64]) -> Option<u64> {
        let control = memory[self.head(0) + CONTROL].load(Ordering::Acquire);
        (control & LEAVE == 0).then_some(control >> 1)
    }

    /// Says which tag of a warp is answered.
    pub(crate) fn put_seen(&self, memory: &[AtomicU64], warp: usize, number: u32) {
        memory[self.head(warp) + SEEN].store(u64::from(number), Ordering::Relaxed);
    }

    /// Which tag of a warp was answered when the runner was started.
    pub(crate) fn seen(&self, memory: &[AtomicU64], warp: usize) -> u32 {
        memory[self.head(warp) + SEEN].load(Ordering::Relaxed) as u32
    }

    /// Writes the view of a warp's next frame: where its image lies, and the image's numbers.
    pub(crate) fn put_view(
        &self,
        memory: &[AtomicU64],
        warp: usize,
        address: u64,
        numbers: &[u32; VIEW_NUMBERS],
    ) {
        let head = &memory[self.head(warp)..][..1 + VIEW_NUMBERS / 2];
        head[0].store(address, Ordering::Relaxed);
        for (to, pair) in head[1..].iter().zip(numbers.chunks_exact(2)) {
            to.store(u64::from(pair[0]) | u64::from(pair[1]) << 32, Ordering::Relaxed);
        }
    }

    /// Writes the rows of one chunk: `keys` one after the other, at most [`LANES`] and at least
    /// one; the last is repeated for the lanes that are left.
    pub(crate) fn put_chunk(&self, memory: &[AtomicU64], warp: usize, keys: &[u32], tag: u32) {
        let last = &keys[keys.len() - self.key_words..];
        let all = keys.chunks_exact(self.key_words).chain(std::iter::repeat(last));
        if self.pieces == 1 {
            let rows = memory[self.row(warp, 0, 0)..][..2 * LANES].chunks_exact(2);
            for (row, key) in rows.zip(all) {
                put_piece(row, [key[0], key[1], key[2], key[3] | tag]);
            }
            return;
        }
        for (lane, key) in all.take(LANES).enumerate() {
            for (piece, three) in key.chunks(3).enumerate() {
                let word = |at: usize| three.get(at).copied().unwrap_or(0);
                let at = self.row(warp, piece, lane);
                put_piece(&memory[at..][..2], [word(0), word(1), word(2), tag]);
            }
        }
    }

    /// Reads the rows of one chunk into `keys`, room for [`LANES`] keys; gives their tag, or `None`
    /// if they do not all have one tag, in which case the keys are of no use.
    pub(crate) fn chunk(&self, memory: &[AtomicU64], warp: usize, keys: &mut [u32]) -> Option<u32> {
        let mut tag = None;
        for (lane, key) in keys.chunks_exact_mut(self.key_words).take(LANES).enumerate() {
            let words_per_piece = key.len().div_ceil(self.pieces);
            for (piece, words) in key.chunks_mut(words_per_piece).enumerate() {
                let at = self.row(warp, piece, lane);
                let four = piece_at(&memory[at..][..2]);
                if *tag.get_or_insert(four[3] & TAG) != four[3] & TAG {
                    return None;
                }
                let four = [four[0], four[1], four[2], four[3] & !TAG];
                words.copy_from_slice(&four[..words.len()]);
            }
        }
        tag
    }

    /// The tag of the first row of a chunk.
    pub(crate) fn first_tag(&self, memory: &[AtomicU64], warp: usize) -> u32 {
        let at = self.row(warp, 0, 0);
        piece_at(&memory[at..][..2])[3] & TAG
    }

    /// Writes the answers of one chunk to the frame of number `number`.
    pub(crate) fn put_answers(
        &self,
        memory: &[AtomicU64],
        warp: usize,
        answers: &[RuleId],
        number: u32,
    ) {
        let bit = u64::from(number & TAG_ONE != 0);
        let bits = ANSWER_BITS * bit;
        let to = &memory[self.answers(warp)..][..LANES / 2];
        for (to, pair) in to.iter().zip(answers.chunks_exact(2)) {
            let low = u64::from(pair[0].0 & ANSWER_NONE);
            let high = u64::from(pair[1].0 & ANSWER_NONE);
            to.store(bits | low | high << 32, Ordering::Release);
        }
    }

    /// Whether all answers of a chunk are those to its frame of number `number`.
    pub(crate) fn is_answered(&self, memory: &[AtomicU64], warp: usize, number: u32) -> bool {
        let bits = if number & TAG_ONE != 0 { ANSWER_BITS } else { 0 };
        let answers = &memory[self.answers(warp)..][..LANES / 2];
        // The last is looked at first: it is most often the last to come.
        let wrong = answers.iter().rev().map(|word| word.load(Ordering::Acquire) ^ bits);
        wrong.into_iter().all(|wrong| wrong & ANSWER_BITS == 0)
    }

    /// Copies answers from chunk `warp` on to `out`; they may go over several chunks of a frame.
    pub(crate) fn copy_answers(&self, memory: &[AtomicU64], warp: usize, out: &mut [RuleId]) {
        let words = &memory[self.answers(warp)..];
        for (pair, word) in out.chunks_mut(2).zip(words) {
            let word = word.load(Ordering::Relaxed);
            pair[0] = id(word as u32);
            if let Some(second) = pair.get_mut(1) {
                *second = id((word >> 32) as u32);
            }
        }
    }
}

fn id(answer: u32) -> RuleId {
    match answer & ANSWER_NONE {
        ANSWER_NONE => RuleId::NONE,
        id => RuleId(id),
    }
}

fn put_piece(to: &[AtomicU64], four: [u32; 4]) {
    to[0].store(u64::from(four[0]) | u64::from(four[1]) << 32, Ordering::Relaxed);
    // L1. Pairs with the runner's read of the whole piece, or its load of this half first.
    to[1].store(u64::from(four[2]) | u64::from(four[3]) << 32, Ordering::Release);
}

fn piece_at(from: &[AtomicU64]) -> [u32; 4] {
    // Pairs with the release in `put_piece`.
    let high = from[1].load(Ordering::Acquire);
    let low = from[0].load(Ordering::Relaxed);
    [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::schema::SCHEMAS;
    use warpswitch_testkit::dense;

    #[test]
    fn no_field_lies_where_tags_do() {
        for schema in SCHEMAS {
            let word = schema.words - 1;
            for bit in (0..32).filter(|bit| TAG >> (31 - bit) & 1 == 1) {
                let at = word * 32 + bit;
                let owner = schema
                    .fields
                    .iter()
                    .find(|spec| (spec.bit_offset..spec.bit_offset + spec.bits).contains(&at));
                assert!(owner.is_none(), "{}: {owner:?}", schema.name);
            }
        }
    }

    #[test]
    fn keys_and_answers_come_back_as_they_were_put() {
        for schema in SCHEMAS {
            let layout = Layout::new(schema.words, 70, 2);
            assert_eq!((layout.chunks, layout.warps()), (3, 6));
            let memory: Vec<AtomicU64> = (0..layout.len()).map(|_| AtomicU64::new(0)).collect();
            let keys = dense::keys(schema, LANES, 3);
            let mut back = vec![7; LANES * schema.words];
            for (len, number) in [(LANES, 0x1000), (1, 0x7f_f000), (31, 0)] {
                let words = &keys.as_batch().words()[..len * schema.words];
                layout.put_chunk(&memory, 4, words, number | TAG_RELOAD);
                let tag = layout.chunk(&memory, 4, &mut back);
                assert_eq!(tag, Some(number | TAG_RELOAD), "{}", schema.name);
                assert_eq!(&back[..words.len()], words);
                let last = &words[words.len() - schema.words..];
                assert!(back[words.len()..].chunks_exact(schema.words).all(|key| key == last));

                let mut ids: Vec<RuleId> = (0..LANES as u32).map(|n| RuleId(n * 9)).collect();
                ids[5] = RuleId::NONE;
                layout.put_answers(&memory, 4, &ids, number);
                assert!(layout.is_answered(&memory, 4, number));
                assert!(!layout.is_answered(&memory, 4, next_number(number)));
                let mut out = vec![RuleId(1); 31];
                layout.copy_answers(&memory, 4, &mut out);
                assert_eq!(out, ids[..31]);
            }
            // One lane is behind.
            layout.put_chunk(&memory, 4, &keys.as_batch().words()[..schema.words], 0x3000);
            let at = layout.row(4, layout.pieces - 1, 9);
            let older = memory[at + 1].load(Ordering::Relaxed) & !(u64::from(TAG) << 32);
            memory[at + 1].store(older | 0x2000 << 32, Ordering::Relaxed);
            assert_eq!(layout.chunk(&memory, 4, &mut back), None);
        }
    }

    #[test]
    fn numbers_go_round() {
        assert_eq!(next_number(TAG_NUMBER), 0);
        assert_eq!(former_number(0), TAG_NUMBER);
        assert_eq!(former_number(next_number(0x5000)), 0x5000);
    }
}
