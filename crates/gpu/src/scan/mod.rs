//! Search for many patterns on a device: payloads in, for each the patterns that occur in it out.
//!
//! ```text
//! payloads ─► pages of 32 KB ─► slots ─► kernel or its twin ─► payload, pattern ─► sets
//!                │                                                 │
//!                └─ too long for a page, or no device any more ────┴─ bound met ─► the cores' scan
//! ```
//! The sets are those of [`Scanner::scan_sets`], for all patterns and payloads: what a device does
//! not find in bounded time and room, it says so of the payload, and the host searches that one
//! ([`DeviceScanner::asked`] counts them). Slots, their order, deadlines and what happens when a
//! card fails are those of rules ([`crate::work`]): a page is a key.
//!
//! Patterns do not change: other patterns are another [`DeviceScanner`], and queues of the former
//! one end what they have.

mod image;
mod page;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpswitch_scan::{PatternId, PatternSets, Patterns, ScanOptions, Scanner, Scratch};

use crate::device::{Device, Loaded, TransferChoice};
use crate::error::GpuError;
use crate::ring::Ring;
pub use image::ScanImage;
use page::{Cursor, Findings, PATTERN_ID, Page};
pub use page::{FOUND_WORDS, PAGED_BYTES_MAX, read_pages, write_pages};
pub(crate) use texts::search_pages;
pub use texts::{
    Place, SHORT_BYTES, SHORT_WORDS, TextFindings, Texts, put_short_text, put_text, text_words,
};

/// Words of a page.
pub const PAGE_WORDS: usize = crate::image::abi::PAGE_WORDS;

/// Patterns on a device. Threads: any number, each with a [`ScanQueue`] of its own.
#[derive(Debug)]
pub struct DeviceScanner {
    device: Arc<Device>,
    loaded: Arc<Loaded<ScanImage>>,
    scanner: Scanner,
    asked: AtomicU64,
}

impl DeviceScanner {
    /// Lays patterns out on `device`. A card that cannot take them, or that fails later, is
    /// retired, and the host searches.
    pub fn build(device: &Arc<Device>, patterns: &Patterns, options: &ScanOptions) -> Arc<Self> {
        Arc::new(Self {
            device: device.clone(),
            loaded: device.load_or_retire(Arc::new(ScanImage::new(patterns))),
            scanner: Scanner::build(patterns, options),
            asked: AtomicU64::new(0),
        })
    }

    /// What searches on the host: the same patterns, and the same sets.
    pub fn scanner(&self) -> &Scanner {
        &self.scanner
    }

    /// The image, for those who drive slots themselves.
    pub fn loaded(&self) -> &Arc<Loaded<ScanImage>> {
        &self.loaded
    }

    /// Bytes of the image and of what searches on the host.
    pub fn bytes(&self) -> usize {
        self.loaded.bytes() + self.scanner.bytes()
    }

    /// Payloads that the host searched so far: too long for a page, met a bound on the device, or
    /// came after it was retired.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// A queue of `slots` batches of up to `pages_max` pages. Memory: 40 KB a page, pinned on a
    /// card's host, and as much on the card.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the card's.
    ///
    /// # Panics
    /// If it would have no slot or no page: a caller bug.
    pub fn queue(self: &Arc<Self>, pages_max: usize, slots: usize) -> Result<ScanQueue, GpuError> {
        assert!(pages_max > 0, "a queue without pages");
        let ring = Ring::new(&self.device, ScanImage::FORM, pages_max, slots)?;
        Ok(ScanQueue {
            scanner: self.clone(),
            ring,
            open: Batch::default(),
            cursor: None,
            batches: VecDeque::new(),
            host: HostSearch::default(),
            findings: Findings::default(),
        })
    }
}

/// A batch that is filled, or under way.
#[derive(Debug, Default)]
struct Batch {
    payloads: usize,
    pages: usize,
    /// The sets of payloads that are in no page, and their places in the batch.
    aside: PatternSets,
    aside_at: Vec<usize>,
}

/// What the host needs to search a payload itself.
#[derive(Debug, Default)]
struct HostSearch {
    scratch: Scratch,
    sets: PatternSets,
    bytes: Vec<u8>,
    /// Where each payload ends in `bytes`.
    ends: Vec<usize>,
    ids: Vec<PatternId>,
}

impl HostSearch {
    /// Adds the set of `payload` to `out`.
    fn search(&mut self, scanner: &DeviceScanner, payload: &[u8], out: &mut PatternSets) {
        scanner.asked.fetch_add(1, Ordering::Relaxed);
        scanner.scanner.scan_sets(&[payload], &mut self.scratch, &mut self.sets);
        out.add(self.sets.of(0), self.sets.is_cut(0));
    }

    /// Finds the sets of some payloads of a page, all at once: one by one short payloads would take
    /// the search longer to begin than to do.
    fn search_page(&mut self, scanner: &DeviceScanner, page: Page<'_>, asked: &[u32]) {
        scanner.asked.fetch_add(asked.len() as u64, Ordering::Relaxed);
        self.bytes.clear();
        self.ends.clear();
        for &payload in asked {
            page.read(payload as usize, &mut self.bytes);
            self.ends.push(self.bytes.len());
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let places = starts.zip(&self.ends);
        let payloads: Vec<&[u8]> = places.map(|(start, &end)| &self.bytes[start..end]).collect();
        scanner.scanner.scan_sets(&payloads, &mut self.scratch, &mut self.sets);
    }
}

/// Batches of payloads, one after the other: pushed, submitted, taken in the order of submission.
/// Used by one thread at a time.
#[derive(Debug)]
pub struct ScanQueue {
    scanner: Arc<DeviceScanner>,
    ring: Ring<ScanImage>,
    open: Batch,
    /// Of the last page of the open batch.
    cursor: Option<Cursor>,
    batches: VecDeque<Batch>,
    host: HostSearch,
    findings: Findings,
}

impl ScanQueue {
    /// Sets how pages pass; see [`TransferChoice`].
    pub fn set_transfer(&mut self, transfer: TransferChoice) {
        self.ring.set_transfer(transfer);
    }

    /// Batches under way.
    pub fn under_way(&self) -> usize {
        self.batches.len()
    }

    /// Payloads of the batch that is being filled.
    pub fn open_len(&self) -> usize {
        self.open.payloads
    }

    /// Puts a payload into the batch that is being filled; `false` if it has no room for it, or if
    /// every slot is in use: submit it, or take the oldest one, and try again. Copies the bytes.
    pub fn push(&mut self, payload: &[u8]) -> bool {
        let is_aside = payload.is_empty()
            || payload.len() > PAGED_BYTES_MAX
            || self.scanner.device.retired().is_some();
        if self.batches.len() == self.ring.slots() {
            return false;
        }
        if is_aside {
            let Batch { payloads, aside, aside_at, .. } = &mut self.open;
            aside_at.push(*payloads);
            match payload {
                [] => aside.add(&[], false),
                _ => self.host.search(&self.scanner, payload, aside),
            }
        } else {
            let Some(room) = self.ring.keys_mut() else { return false };
            let is_in = self.cursor.as_mut().is_some_and(|cursor| {
                cursor.push(&mut room[(self.open.pages - 1) * PAGE_WORDS..], payload)
            });
            if !is_in {
                let Some(page) = room.get_mut(self.open.pages * PAGE_WORDS..) else { return false };
                if page.is_empty() {
                    return false;
                }
                let mut cursor = Cursor::open(page);
                assert!(cursor.push(page, payload), "an empty page has room");
                self.cursor = Some(cursor);
                self.open.pages += 1;
            }
        }
        self.open.payloads += 1;
        true
    }

    /// Sends the batch off, if it has a payload.
    pub fn submit(&mut self) {
        if self.open.payloads == 0 {
            return;
        }
        let batch = std::mem::take(&mut self.open);
        self.cursor = None;
        if batch.pages > 0 {
            self.ring.submit(&self.scanner.loaded, batch.pages);
        }
        self.batches.push_back(batch);
    }

    /// Whether the oldest batch has its sets. `None` if there is none.
    pub fn poll(&mut self) -> Option<bool> {
        let oldest = self.batches.front()?;
        if oldest.pages == 0 { Some(true) } else { self.ring.poll() }
    }

    /// Waits for the oldest batch and frees its slot. `out` has a set for each of its payloads, by
    /// number, as of [`Scanner::scan_sets`]. Gives the number of payloads.
    ///
    /// # Panics
    /// If no batch is under way: a caller bug.
    pub fn take(&mut self, out: &mut PatternSets) -> usize {
        out.clear();
        self.take_more(out)
    }

    /// The same, with the sets behind those that are in `out`.
    fn take_more(&mut self, out: &mut PatternSets) -> usize {
        let batch = self.batches.pop_front().expect("no batch is under way");
        let mut reading = Reading {
            scanner: &self.scanner,
            host: &mut self.host,
            findings: &mut self.findings,
            batch: &batch,
            payload: 0,
            aside: 0,
        };
        if batch.pages > 0 {
            self.ring.finish_with(|keys, found| {
                let pages = keys.chunks_exact(PAGE_WORDS).zip(found.chunks_exact(FOUND_WORDS));
                for (page, found) in pages {
                    reading.page(Page::new(page), found, out);
                }
            });
        }
        reading.asides(out);
        debug_assert_eq!(reading.payload, batch.payloads);
        batch.payloads
    }

    /// Finds which patterns occur in each payload: all of them through the device, as many batches
    /// as it takes. `out` has a set for each.
    ///
    /// # Panics
    /// If the queue has batches under way, or payloads that were not submitted: a caller bug.
    pub fn scan_sets(&mut self, payloads: &[&[u8]], out: &mut PatternSets) {
        assert!(self.batches.is_empty() && self.open.payloads == 0, "the queue is in use");
        out.clear();
        for payload in payloads {
            while !self.push(payload) {
                if self.batches.len() == self.ring.slots() {
                    self.take_more(out);
                } else {
                    self.submit();
                }
            }
        }
        self.submit();
        while !self.batches.is_empty() {
            self.take_more(out);
        }
    }
}

/// What is read of a batch so far.
struct Reading<'a> {
    scanner: &'a DeviceScanner,
    host: &'a mut HostSearch,
    findings: &'a mut Findings,
    batch: &'a Batch,
    payload: usize,
    aside: usize,
}

impl Reading<'_> {
    /// Adds the sets of payloads that are in no page and come next.
    fn asides(&mut self, out: &mut PatternSets) {
        while self.batch.aside_at.get(self.aside) == Some(&self.payload) {
            let aside = &self.batch.aside;
            out.add(aside.of(self.aside), aside.is_cut(self.aside));
            self.aside += 1;
            self.payload += 1;
        }
    }

    /// Adds the sets of a page's payloads.
    fn page(&mut self, page: Page<'_>, found: &[u32], out: &mut PatternSets) {
        self.findings.read(page, found, self.scanner.scanner.matches_max());
        let asked = self.findings.asked();
        if !asked.is_empty() {
            self.host.search_page(self.scanner, page, asked);
        }
        let (mut next, mut next_asked) = (0, 0);
        for payload in 0..page.payloads() {
            self.asides(out);
            self.payload += 1;
            let pairs = self.findings.of(payload, &mut next);
            if self.findings.asked().get(next_asked) == Some(&(payload as u32)) {
                let sets = &self.host.sets;
                out.add(sets.of(next_asked), sets.is_cut(next_asked));
                next_asked += 1;
                continue;
            }
            let ids = &mut self.host.ids;
            ids.clear();
            ids.extend(pairs.iter().map(|pair| PatternId(pair & PATTERN_ID)));
            out.add(ids, false);
        }
    }
}
