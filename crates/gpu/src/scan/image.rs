//! Patterns as words: the reference of `scan.cuh`.
//!
//! ```text
//! filter │ tiny, if any │ buckets │ entries │ bytes of the patterns
//! ```
//! | class | bytes of a pattern | window |
//! | --- | --- | --- |
//! | tiny | 1 to 3 | all of it |
//! | short | 4 to 7 | 4 bytes of it |
//! | long | 8 and more | 8 bytes of it |
//!
//! Each byte of a payload is looked at once, by one word of the filter for short and long windows;
//! what passes goes to a bucket by the hash of its window, and the entries there are compared.
//!
//! # Invariants
//! - S1: a pattern has one window, so each occurrence is found at one position, of one part.
//! - S2: what a position costs is bounded: a bucket has at most [`BUCKET_MAX`] entries, at most
//!   [`COMPARED_BYTES`] bytes of a pattern are compared, and a unit of 16 positions stops at
//!   [`UNIT_WORK`]. Where a bound is met the host is asked to search the payload.
//! - S3: a payload about which the host is not asked has all its patterns in what was found, and
//!   nothing else.
//!
//! # Why not the cores' classes
//! Theirs look at each second or fourth byte, with windows at several places, as gathers are what
//! limits a core. A card reads 46 words of shared memory in the time in which its link brings a
//! byte, so it looks at each position, and each pattern has one window.

use std::collections::HashMap;

use warpswitch_scan::parts::Common;
use warpswitch_scan::{Case, Patterns};

use crate::driver::LaunchShape;
use crate::image::VIEW_NUMBERS;
use crate::image::abi::{
    NONE, PAGE_WORDS, PART_WORDS, SCAN_BUCKET_SHIFT, SCAN_BUCKETS, SCAN_BYTES, SCAN_ENTRIES,
    SCAN_FILTER_SHIFT, SCAN_TINY, padded,
};
use crate::kernels::{Kernel, KernelShape};
use crate::work::{Form, Lookup, Work};

use super::page::{ASK, FOUND_WORDS, PATTERN_ID, PAYLOAD_SHIFT, Page, UNIT_BYTES, UNITS};

/// The most entries of a bucket: `scan.cuh`'s lengths have 8 bits, of which the largest is
/// [`CROWDED`]. Ordinary sets of 10,000 have some ten at most.
const BUCKET_MAX: usize = 32;
/// The length of a bucket with more, which has no entries then.
const CROWDED: u32 = 255;
/// Where a bucket has its length.
const BUCKET_LEN_SHIFT: u32 = 24;
/// The entry's pattern is insensitive.
const FOLDED: u32 = 1 << 31;
/// Bytes of a pattern that are compared.
const COMPARED_BYTES: usize = 256;
/// Entries looked at and words compared for the positions of a unit.
const UNIT_WORK: usize = 1024;
/// Bits of the number of a filter's word. The most is 64 KB, which every card has room for beside
/// what else a block needs.
const FILTER_LOG2: std::ops::RangeInclusive<u32> = 10..=14;
/// Words of the table of tiny patterns.
const TINY_WORDS: usize = 256;
/// Threads of a block, and words of shared memory of each of its warps.
const THREADS: usize = 512;
const WARP_WORDS: usize = 1 + 64;

/// Letters A to Z of four bytes in lower case.
fn lower(four: u32) -> u32 {
    u32::from_le_bytes(four.to_le_bytes().map(|byte| byte.to_ascii_lowercase()))
}

/// The hash of a window of `bytes` bytes.
fn window_hash(low: u32, high: u32, bytes: u32) -> u32 {
    let mut hash = (low ^ bytes << 28).wrapping_mul(0x9e37_79b1);
    hash = (hash ^ hash >> 15).wrapping_add(high);
    hash = hash.wrapping_mul(0x85eb_ca77);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae3d);
    hash ^ hash >> 16
}

/// What chooses the word of a window's first four bytes; its upper bits do.
fn word_choice(low: u32) -> u32 {
    low.wrapping_mul(0x9e37_79b1)
}

/// What chooses the bits of a short window.
fn short_choice(low: u32) -> u32 {
    low.wrapping_mul(0x85eb_ca6b)
}

/// What chooses the bits of a long window.
fn long_choice(low: u32, high: u32) -> u32 {
    low.wrapping_mul(0xc2b2_ae35).wrapping_add(high.wrapping_mul(0x27d4_eb2f))
}

/// Both bits.
fn bits(choice: u32) -> u32 {
    1 << (choice >> 27) | 1 << (choice >> 22 & 31)
}

/// The class of a pattern and what it is looked for by.
#[derive(Clone, Copy, Debug)]
struct Window {
    low: u32,
    high: u32,
    /// 1 to 4, or 8.
    bytes: u32,
    /// Bytes of the pattern before it.
    back: usize,
}

impl Window {
    /// The one of a folded pattern.
    fn of(folded: &[u8], common: &Common) -> Self {
        let bytes = match folded.len() {
            len @ 1..4 => len,
            4..8 => 4,
            _ => 8,
        };
        let back = if bytes < 4 { 0 } else { common.rarest(folded, bytes, 1) };
        let mut window = [0; 8];
        window[..bytes].copy_from_slice(&folded[back..back + bytes]);
        let (low, high) =
            (window.first_chunk().expect("eight"), window.last_chunk().expect("eight"));
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        Self { low, high, bytes: bytes as u32, back }
    }

    fn hash(&self) -> u32 {
        window_hash(self.low, self.high, self.bytes)
    }
}

/// Patterns, laid out for the kernel.
#[derive(Clone, Debug)]
pub struct ScanImage {
    words: Vec<u32>,
    numbers: [u32; VIEW_NUMBERS],
}

impl ScanImage {
    /// How wide pages are, and what is found in them.
    pub const FORM: Form =
        Form { key_words: PAGE_WORDS, answer_bytes: 4 * FOUND_WORDS, packed: false };

    /// Lays patterns out. Memory: in proportion to their bytes.
    pub fn new(patterns: &Patterns) -> Self {
        let fold = |bytes: &[u8]| bytes.to_ascii_lowercase();
        let folded: Vec<Vec<u8>> = patterns.iter().map(|(_, one)| fold(one.bytes)).collect();
        let common = Common::new(folded.iter().map(Vec::as_slice));
        let windows: Vec<Window> = folded.iter().map(|bytes| Window::of(bytes, &common)).collect();
        let (mut words, shift) = filter(&windows);
        let mut numbers = [0; VIEW_NUMBERS];
        numbers[SCAN_FILTER_SHIFT] = shift;
        let tiny: Vec<&Window> = windows.iter().filter(|window| window.bytes < 4).collect();
        if !tiny.is_empty() {
            numbers[SCAN_TINY] = words.len() as u32;
            words.extend(tiny_table(&tiny));
        }
        let (buckets, chosen) = buckets(&windows);
        numbers[SCAN_BUCKETS] = words.len() as u32;
        numbers[SCAN_BUCKET_SHIFT] = 32 - buckets.len().ilog2();
        words.extend(buckets);
        words.resize(padded(words.len()), 0);
        let mut bytes = Vec::new();
        let mut placed: HashMap<&[u8], u32> = HashMap::new();
        numbers[SCAN_ENTRIES] = words.len() as u32;
        for id in chosen {
            let pattern = patterns.get(warpswitch_scan::PatternId(id));
            let is_folded = pattern.case == Case::Insensitive;
            let own = if is_folded { &folded[id as usize][..] } else { pattern.bytes };
            let at = *placed.entry(own).or_insert_with(|| {
                let at = bytes.len() as u32;
                bytes.extend(own.chunks(4).map(|four| {
                    let mut word = [0; 4];
                    word[..four.len()].copy_from_slice(four);
                    u32::from_le_bytes(word)
                }));
                at
            });
            let window = &windows[id as usize];
            let flag = if is_folded { FOLDED } else { 0 };
            let sizes = (own.len() << 16 | window.back) as u32;
            words.extend([window.hash(), flag | id, at, sizes]);
        }
        numbers[SCAN_BYTES] = words.len() as u32;
        words.extend(bytes);
        // No array is empty, and the last load of a pattern stays inside.
        words.extend([0; 4]);
        Self { words, numbers }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.words.len() * 4
    }

    fn at(&self, number: usize) -> &[u32] {
        &self.words[self.numbers[number] as usize..]
    }

    /// Searches the positions of a unit.
    fn search_unit(&self, page: Page<'_>, unit: usize, payload: usize, part: &mut Part<'_>) {
        let start = unit * UNIT_BYTES;
        let mut search = Search { image: self, page, payload, work: 0 };
        let four = |at: usize| lower(page.four(at));
        let shift = self.numbers[SCAN_FILTER_SHIFT];
        let passes = |at: usize, choice: u32| {
            let word = self.words[(word_choice(four(at)) >> shift) as usize];
            bits(choice) & !word == 0
        };
        let shorts = (start..start + UNIT_BYTES).filter(|&at| passes(at, short_choice(four(at))));
        let longs = (start..start + UNIT_BYTES)
            .filter(|&at| passes(at, long_choice(four(at), four(at + 4))));
        for (at, bytes) in shorts.map(|at| (at, 4)).chain(longs.map(|at| (at, 8))) {
            let high = if bytes == 8 { four(at + 4) } else { 0 };
            if !search.bucket(at, (four(at), high, bytes), part) {
                return;
            }
        }
        if self.numbers[SCAN_TINY] == 0 {
            return;
        }
        let tiny = self.at(SCAN_TINY);
        for at in start..start + UNIT_BYTES {
            let [a, b, c, _] = four(at).to_le_bytes().map(|byte| tiny[usize::from(byte)]);
            if a & b >> 8 & c >> 16 & 0xff == 0 {
                continue;
            }
            for bytes in 1..=3 {
                let low = four(at) & (u32::MAX >> (32 - 8 * bytes));
                if !search.bucket(at, (low, 0, bytes), part) {
                    return;
                }
            }
        }
    }

    /// Searches a page on this thread.
    pub(super) fn search(&self, page: Page<'_>, found: &mut [u32]) {
        let mut begun = 0;
        for (number, words) in found.chunks_exact_mut(PART_WORDS).enumerate() {
            let per_part = UNITS * PART_WORDS / FOUND_WORDS;
            let mut part = Part { words, len: 0 };
            for unit in number * per_part..(number + 1) * per_part {
                begun += usize::from(page.begins(unit));
                if begun > 0 && unit + 1 < UNITS {
                    self.search_unit(page, unit, begun - 1, &mut part);
                }
            }
            part.words[0] = if part.len < PART_WORDS { part.len as u32 } else { NONE };
        }
    }
}

/// What was found in a part, each once.
struct Part<'a> {
    words: &'a mut [u32],
    len: usize,
}

impl Part<'_> {
    fn has(&self, what: u32) -> bool {
        let kept = self.len.min(PART_WORDS - 1);
        self.words[1..=kept].contains(&what)
    }

    fn take(&mut self, what: u32) {
        if self.has(what) {
            return;
        }
        self.len += 1;
        if let Some(word) = self.words.get_mut(self.len) {
            *word = what;
        }
    }
}

/// The search of a unit.
struct Search<'a> {
    image: &'a ScanImage,
    page: Page<'a>,
    payload: usize,
    work: usize,
}

impl Search<'_> {
    /// Gives `part` the patterns with this window, which stands at `at`: its eight bytes, and how
    /// many of these it has. `false` if that was too much for the unit.
    fn bucket(
        &mut self,
        at: usize,
        (low, high, window): (u32, u32, u32),
        part: &mut Part<'_>,
    ) -> bool {
        let payload = (self.payload as u32) << PAYLOAD_SHIFT;
        let (start, end) = self.page.bounds(self.payload);
        // Of a payload that the host searches anyway nothing more is worth finding.
        if part.len >= PART_WORDS || part.has(ASK | payload) {
            return false;
        }
        if at + window as usize > end {
            return true;
        }
        let hash = window_hash(low, high, window);
        let number = hash >> self.image.numbers[SCAN_BUCKET_SHIFT];
        let bucket = self.image.at(SCAN_BUCKETS)[number as usize];
        let len = bucket >> BUCKET_LEN_SHIFT;
        if len == CROWDED {
            part.take(ASK | payload);
            return true;
        }
        let first = bucket & ((1 << BUCKET_LEN_SHIFT) - 1);
        let entries = &self.image.at(SCAN_ENTRIES)[4 * first as usize..];
        for entry in entries.chunks_exact(4).take(len as usize) {
            self.work += 1;
            let (back, bytes) = ((entry[3] & 0xffff) as usize, (entry[3] >> 16) as usize);
            if entry[0] != hash || at < start + back || at - back + bytes > end {
                continue;
            }
            let is_whole = bytes <= COMPARED_BYTES;
            let found = payload | if is_whole { entry[1] & PATTERN_ID } else { ASK };
            let pattern = &self.image.at(SCAN_BYTES)[entry[2] as usize..];
            // Where bytes repeat, patterns do: what was told is not compared again.
            if !part.has(found) && self.is_same(at - back, pattern, bytes, entry[1] & FOLDED != 0) {
                part.take(found);
            }
        }
        if self.work > UNIT_WORK {
            part.take(ASK | payload);
            return false;
        }
        true
    }

    fn is_same(&mut self, at: usize, pattern: &[u32], bytes: usize, is_folded: bool) -> bool {
        let bytes = bytes.min(COMPARED_BYTES);
        for (number, &word) in pattern[..bytes.div_ceil(4)].iter().enumerate() {
            let four = self.page.four(at + 4 * number);
            let differ = (if is_folded { lower(four) } else { four }) ^ word;
            self.work += 1;
            let unused = 32 - 8 * (bytes - 4 * number).min(4) as u32;
            if differ << unused != 0 {
                return false;
            }
        }
        true
    }
}

/// The filter's words, and 32 less the bits of a word's number.
fn filter(windows: &[Window]) -> (Vec<u32>, u32) {
    let wanted = windows.len().max(1).next_power_of_two().ilog2();
    let log2 = wanted.clamp(*FILTER_LOG2.start(), *FILTER_LOG2.end());
    let (mut words, shift) = (vec![0; 1 << log2], 32 - log2);
    for window in windows.iter().filter(|window| window.bytes >= 4) {
        let choice = match window.bytes {
            4 => short_choice(window.low),
            _ => long_choice(window.low, window.high),
        };
        words[(word_choice(window.low) >> shift) as usize] |= bits(choice);
    }
    (words, shift)
}

/// By a byte, the groups of tiny patterns that have it in the first place, eight bits, in the
/// second and in the third, or need nothing there.
fn tiny_table(tiny: &[&Window]) -> Vec<u32> {
    let mut table = vec![0u32; TINY_WORDS];
    let mut windows: Vec<(u32, u32)> = tiny.iter().map(|one| (one.bytes, one.low)).collect();
    windows.sort_unstable();
    windows.dedup();
    for (idx, (bytes, low)) in windows.iter().enumerate() {
        let group = 1 << (idx * 8 / windows.len());
        for place in 0..3 {
            if place < *bytes {
                table[(low >> (8 * place) & 0xff) as usize] |= group << (8 * place);
            } else {
                table.iter_mut().for_each(|word| *word |= group << (8 * place));
            }
        }
    }
    table
}

/// The buckets, and the patterns in the order of their entries.
fn buckets(windows: &[Window]) -> (Vec<u32>, Vec<u32>) {
    let log2 = (2 * windows.len()).max(2).next_power_of_two().ilog2();
    let mut numbered: Vec<(u32, u32)> = windows
        .iter()
        .enumerate()
        .map(|(id, one)| (one.hash() >> (32 - log2), id as u32))
        .collect();
    numbered.sort_unstable();
    let (mut words, mut chosen) = (vec![0; 1 << log2], Vec::new());
    for same in numbered.chunk_by(|a, b| a.0 == b.0) {
        let first = chosen.len() as u32;
        let is_crowded = same.len() > BUCKET_MAX;
        let len = if is_crowded { CROWDED } else { same.len() as u32 };
        words[same[0].0 as usize] = len << BUCKET_LEN_SHIFT | first;
        if !is_crowded {
            chosen.extend(same.iter().map(|(_, id)| *id));
        }
    }
    (words, chosen)
}

impl Lookup for ScanImage {
    fn answer(&self, keys: &[u32], out: &mut [u32]) {
        for (page, found) in keys.chunks_exact(PAGE_WORDS).zip(out.chunks_exact_mut(FOUND_WORDS)) {
            self.search(Page::new(page), found);
        }
    }
}

impl Work for ScanImage {
    /// What is found in a page.
    type Answer = [u32; FOUND_WORDS];

    fn form(&self) -> Form {
        Self::FORM
    }

    fn kernel(&self) -> Kernel {
        Kernel::Scan
    }

    fn shape(&self) -> KernelShape {
        KernelShape::of_words(4)
    }

    fn launch_shape(&self, _: usize) -> LaunchShape {
        let filter = 1usize << (32 - self.numbers[SCAN_FILTER_SHIFT]);
        let tiny = if self.numbers[SCAN_TINY] == 0 { 0 } else { TINY_WORDS };
        let warps = THREADS / 32 * WARP_WORDS;
        LaunchShape {
            threads: THREADS,
            keys_per_block: 1,
            shared_bytes: (filter + tiny + warps) * 4,
            persistent: true,
        }
    }

    fn words(&self) -> &[u32] {
        &self.words
    }

    fn numbers(&self) -> [u32; VIEW_NUMBERS] {
        self.numbers
    }

    fn unpack(words: &[u32], out: &mut [Self::Answer]) {
        for (page, out) in words.chunks_exact(FOUND_WORDS).zip(out) {
            for (part, out) in page.chunks_exact(PART_WORDS).zip(out.chunks_exact_mut(PART_WORDS)) {
                let used = if part[0] == NONE { 1 } else { 1 + part[0] as usize };
                out[..used].copy_from_slice(&part[..used]);
            }
        }
    }
}
