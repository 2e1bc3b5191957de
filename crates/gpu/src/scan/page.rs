//! Pages: payloads on their way to a device, and what comes back for each page.
//!
//! ```text
//! page    marks │ payloads, each from a border of 16 bytes on │ free │ table ◄─ from the end
//! found   16 parts of 128 words: how many │ payload of the page, pattern │ …
//! ```
//! A page says itself where its payloads lie, so nothing but pages goes to a device, each is
//! answered by itself, and whoever has a page and what was found in it has all there is to know.

use warpswitch_scan::PatternId;

use crate::image::abi::{NONE, PAGE_MARKS, PAGE_PARTS, PAGE_WORDS, PART_WORDS};

/// Bytes on whose borders payloads begin.
pub(super) const UNIT_BYTES: usize = 16;
/// Units of a page.
pub(super) const UNITS: usize = PAGE_WORDS * 4 / UNIT_BYTES;
/// Bytes of a page's part.
const PART_BYTES: usize = PAGE_WORDS * 4 / PAGE_PARTS;
/// The most bytes of a payload that a page takes.
pub const PAGED_BYTES_MAX: usize = (UNITS - 1) * UNIT_BYTES - PAGE_MARKS * 4;
/// Words of what is found in a page.
pub const FOUND_WORDS: usize = PAGE_PARTS * PART_WORDS;
/// Found: the host has to search the payload itself.
pub(super) const ASK: u32 = 1 << 31;
/// Found: where the payload's number stands, above the pattern's.
pub(super) const PAYLOAD_SHIFT: u32 = 20;
/// Found: the pattern.
pub(super) const PATTERN_ID: u32 = (1 << PAYLOAD_SHIFT) - 1;

/// What is written into a page so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    unit: usize,
    payloads: usize,
}

impl Cursor {
    /// Of an empty page.
    pub(super) fn start() -> Self {
        Self { unit: PAGE_MARKS * 4 / UNIT_BYTES, payloads: 0 }
    }

    /// Begins a page.
    pub(super) fn open(page: &mut [u32]) -> Self {
        page[..PAGE_MARKS].fill(0);
        Self::start()
    }

    /// Takes room for a payload of at least one byte: its word in the page's table, or `None` if
    /// the page has no room for it.
    pub(super) fn take(&mut self, bytes: usize) -> Option<u32> {
        let end = self.unit.checked_add(bytes.div_ceil(UNIT_BYTES))?;
        if end >= UNITS || end * UNIT_BYTES / 4 >= PAGE_WORDS - self.payloads {
            return None;
        }
        let start = self.unit * UNIT_BYTES;
        (self.unit, self.payloads) = (end, self.payloads + 1);
        // A page has fewer bytes than 16 bits count.
        Some((start << 16 | (start + bytes)) as u32)
    }

    /// Writes a payload of at least one byte; `false` if the page has no room for it.
    pub(super) fn push(&mut self, page: &mut [u32], payload: &[u8]) -> bool {
        let number = self.payloads;
        let Some(entry) = self.take(payload.len()) else { return false };
        let start = (entry >> 16) as usize;
        write_bytes(&mut page[start / 4..], payload);
        let unit = start / UNIT_BYTES;
        page[unit / 32] |= 1 << (unit % 32);
        page[PAGE_WORDS - 1 - number] = entry;
        true
    }
}

/// Writes bytes from the start of `words` on; the last word is filled up with zeros.
pub(super) fn write_bytes(words: &mut [u32], bytes: &[u8]) {
    let (fours, rest) = bytes.as_chunks::<4>();
    for (word, four) in words.iter_mut().zip(fours) {
        *word = u32::from_le_bytes(*four);
    }
    // Not through memory: a word that was just written byte by byte is read only once all of its
    // bytes are in the cache.
    let last = match *rest {
        [] => return,
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, ref more @ ..] => [a, b, more[0], 0],
    };
    words[fours.len()] = u32::from_le_bytes(last);
}

/// Where a payload begins and ends, by its word in the table.
pub(super) fn bounds(entry: u32) -> (usize, usize) {
    ((entry >> 16) as usize, (entry & 0xffff) as usize)
}

/// A page that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    words: &'a [u32],
}

impl<'a> Page<'a> {
    /// Over a page's words.
    pub(super) fn new(words: &'a [u32]) -> Self {
        Self { words: &words[..PAGE_WORDS] }
    }

    /// How many payloads it has.
    pub(super) fn payloads(self) -> usize {
        self.words[..PAGE_MARKS].iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether a payload begins with this unit.
    pub(super) fn begins(self, unit: usize) -> bool {
        self.words[unit / 32] >> (unit % 32) & 1 != 0
    }

    /// Where a payload begins and ends.
    pub(super) fn bounds(self, payload: usize) -> (usize, usize) {
        bounds(self.words[PAGE_WORDS - 1 - payload])
    }

    /// Where all of them do, in order.
    fn all_bounds(self) -> impl Iterator<Item = (usize, usize)> + Clone {
        self.words.iter().rev().take(self.payloads()).map(|&entry| bounds(entry))
    }

    /// Four bytes from any place on.
    pub(super) fn four(self, at: usize) -> u32 {
        let low = self.words[at / 4];
        match 8 * (at % 4) {
            0 => low,
            shift => low >> shift | self.words[at / 4 + 1] << (32 - shift),
        }
    }

    /// Adds a payload to `bytes`.
    pub(super) fn read(self, payload: usize, bytes: &mut Vec<u8>) {
        let (start, end) = self.bounds(payload);
        bytes.extend(
            self.words[start / 4..].iter().flat_map(|word| word.to_le_bytes()).take(end - start),
        );
    }
}

/// What was found in a page, by payload.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// Payload and pattern, in order, each once.
    pairs: Vec<u32>,
    /// Payloads that the host has to search, in order.
    asked: Vec<u32>,
}

impl Findings {
    /// Reads what was found in `page`. Of a payload with more than `set_max` patterns the host is
    /// asked: which of them occur first their numbers do not tell.
    pub(super) fn read(&mut self, page: Page<'_>, found: &[u32], set_max: usize) {
        self.read_bounded(page.all_bounds(), found, set_max);
    }

    /// The same of a page of which only is known where its payloads lie.
    pub(super) fn read_bounded(
        &mut self,
        bounds: impl Iterator<Item = (usize, usize)> + Clone,
        found: &[u32],
        set_max: usize,
    ) {
        self.pairs.clear();
        self.asked.clear();
        for (part, words) in found.chunks_exact(PART_WORDS).enumerate() {
            let len = words[0];
            if len == NONE {
                self.ask_all(bounds.clone(), part);
            } else {
                self.pairs.extend_from_slice(&words[1..=len as usize]);
            }
        }
        if self.are_none() {
            return;
        }
        self.pairs.sort_unstable();
        self.pairs.dedup();
        let first = self.pairs.partition_point(|pair| pair & ASK == 0);
        self.asked.extend(self.pairs.drain(first..).map(|pair| (pair & !ASK) >> PAYLOAD_SHIFT));
        let sets = self.pairs.chunk_by(|a, b| a >> PAYLOAD_SHIFT == b >> PAYLOAD_SHIFT);
        let large = sets.filter(|set| set.len() > set_max);
        self.asked.extend(large.map(|set| set[0] >> PAYLOAD_SHIFT));
        self.asked.sort_unstable();
        self.asked.dedup();
    }

    /// Every payload with a byte in a part was not searched there to the end.
    fn ask_all(&mut self, bounds: impl Iterator<Item = (usize, usize)>, part: usize) {
        let touches = |(start, end)| start < (part + 1) * PART_BYTES && end > part * PART_BYTES;
        let numbered = (0..).zip(bounds).filter(|&(_, bounds)| touches(bounds));
        self.asked.extend(numbered.map(|(payload, _)| payload));
    }

    /// Whether nothing was found and nothing is left to the host: most pages.
    pub(super) fn are_none(&self) -> bool {
        self.pairs.is_empty() && self.asked.is_empty()
    }

    /// The payloads that the host has to search, ascending.
    pub(super) fn asked(&self) -> &[u32] {
        &self.asked
    }

    /// The pairs from `next` on that are a payload's; `next` is behind them then.
    pub(super) fn of(&self, payload: usize, next: &mut usize) -> &[u32] {
        let rest = &self.pairs[*next..];
        let len =
            rest.iter().take_while(|pair| (*pair >> PAYLOAD_SHIFT) as usize == payload).count();
        *next += len;
        &rest[..len]
    }
}

/// Writes payloads of 1 to [`PAGED_BYTES_MAX`] bytes into as many pages as they need: their words.
///
/// # Panics
/// If a payload is shorter or longer: a caller bug.
pub fn write_pages<'a>(payloads: impl IntoIterator<Item = &'a [u8]>) -> Vec<u32> {
    let mut words: Vec<u32> = Vec::new();
    let mut cursor = None::<Cursor>;
    for payload in payloads {
        assert!((1..=PAGED_BYTES_MAX).contains(&payload.len()), "no page takes the payload");
        let is_in = cursor.as_mut().is_some_and(|cursor| {
            let last = words.len() - PAGE_WORDS;
            cursor.push(&mut words[last..], payload)
        });
        if !is_in {
            let last = words.len();
            words.resize(last + PAGE_WORDS, 0);
            let mut opened = Cursor::open(&mut words[last..]);
            opened.push(&mut words[last..], payload);
            cursor = Some(opened);
        }
    }
    words
}

/// What was found in pages, payload by payload: the patterns by number, or `None` if the host has
/// to search it.
pub fn read_pages(pages: &[u32], found: &[u32]) -> Vec<Option<Vec<PatternId>>> {
    let (mut findings, mut out) = (Findings::default(), Vec::new());
    for (page, found) in pages.chunks_exact(PAGE_WORDS).zip(found.chunks_exact(FOUND_WORDS)) {
        let (page, mut next) = (Page::new(page), 0);
        findings.read(page, found, usize::MAX);
        for payload in 0..page.payloads() {
            let pairs = findings.of(payload, &mut next);
            let ids = pairs.iter().map(|pair| PatternId(pair & PATTERN_ID)).collect();
            let is_asked = findings.asked().binary_search(&(payload as u32)).is_ok();
            out.push((!is_asked).then_some(ids));
        }
    }
    out
}
