//! Texts that a card reads where they lie: which of them are on which page, and what was found.
//!
//! ```text
//! texts of a batch, by group ─► column: where each lies, which place of which page is its
//!                                  │
//!         card: a kernel reads the texts, by the link, and writes the pages, which never pass it
//!                                  │
//!                  pages of a group ─► search by that group's patterns ─► found, text by text
//! ```
//! A copy of a text costs a core as much memory as it has: read, owned, written. 1460 bytes take
//! some 670 ns where all cores of a host do so, and a card that reads them itself is limited by its
//! link alone. So texts that lie in memory which a card can reach ([`HostMemory`]) are read there,
//! and others are put into the room of a chain first. The column has 16 bytes a text.
//!
//! [`HostMemory`]: crate::HostMemory

use std::cell::RefCell;
use std::ops::Range;

use warpswitch_scan::PatternId;

use super::ScanImage;
use super::page::{
    Cursor, FOUND_WORDS, Findings, PATTERN_ID, Page, UNIT_BYTES, bounds, write_bytes,
};
use crate::image::abi::{NONE, PAGE_WORDS, TEXT_WORDS};

/// Set in places that are in the room of a chain.
const IN_ROOM: u64 = 1 << 63;

/// Where a text lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// So many bytes behind the start of a chain's words.
    fn in_room(byte: usize) -> Self {
        Self(IN_ROOM | byte as u64)
    }

    /// At an address of the card.
    pub(crate) fn at(address: u64) -> Self {
        debug_assert_eq!(address & IN_ROOM, 0, "no address has the highest bit");
        Self(address)
    }
}

/// Texts of a batch, and the column that tells a device of them. The column is
/// [`Texts::column_words`] long.
#[derive(Debug)]
pub struct Texts {
    pages_max: usize,
    texts_max: usize,
    /// Of each page its first text.
    firsts: Vec<u32>,
    /// Of each text its word in the table of its page, and whose it is.
    entries: Vec<u32>,
    owners: Vec<u32>,
    /// Of each group its pages.
    groups: Vec<Range<usize>>,
    cursor: Option<Cursor>,
}

impl Texts {
    /// For up to so many texts on up to so many pages.
    pub fn new(texts_max: usize, pages_max: usize) -> Self {
        Self {
            pages_max,
            texts_max,
            firsts: Vec::new(),
            entries: Vec::new(),
            owners: Vec::new(),
            groups: Vec::new(),
            cursor: None,
        }
    }

    /// Words of a column.
    pub fn column_words(texts_max: usize, pages_max: usize) -> usize {
        firsts_words(pages_max) + TEXT_WORDS * texts_max
    }

    /// Forgets all texts.
    pub fn clear(&mut self) {
        self.firsts.clear();
        self.entries.clear();
        self.owners.clear();
        self.groups.clear();
        self.cursor = None;
    }

    /// Has texts that come from now on be of the next group, the first of which has number 0.
    pub fn begin_group(&mut self) {
        self.cursor = None;
        self.groups.push(self.firsts.len()..self.firsts.len());
    }

    /// Adds a text, which is `owner`'s, to the group that was begun last; `false` if it is empty,
    /// or there is no room for it: then the host searches it.
    ///
    /// # Panics
    /// If no group was begun, or the column is too short: caller bugs.
    pub fn push(&mut self, owner: u32, place: Place, bytes: usize, column: &mut [u32]) -> bool {
        if bytes == 0 || self.entries.len() == self.texts_max {
            return false;
        }
        let mut taken = self.cursor.as_mut().and_then(|cursor| cursor.take(bytes));
        if taken.is_none() && self.firsts.len() < self.pages_max {
            let mut cursor = Cursor::start();
            taken = cursor.take(bytes);
            if taken.is_some() {
                self.firsts.push(self.entries.len() as u32);
                self.groups.last_mut().expect("a group was begun").end += 1;
                self.cursor = Some(cursor);
            }
        }
        let Some(entry) = taken else { return false };
        let at = firsts_words(self.pages_max) + TEXT_WORDS * self.entries.len();
        let words = [place.0 as u32, (place.0 >> 32) as u32, entry, 0];
        column[at..at + TEXT_WORDS].copy_from_slice(&words);
        self.entries.push(entry);
        self.owners.push(owner);
        true
    }

    /// Ends the column; how many words of it are to be sent.
    pub fn end(&mut self, column: &mut [u32]) -> usize {
        column[..self.firsts.len()].copy_from_slice(&self.firsts);
        column[self.firsts.len()] = self.entries.len() as u32;
        self.words()
    }

    /// Words of the column up to its last text.
    pub(crate) fn words(&self) -> usize {
        Self::column_words(self.entries.len(), self.pages_max)
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        let bounds = self.entries.iter().map(|&entry| bounds(entry));
        bounds.map(|(start, end)| (end - start) as u64).sum()
    }

    /// How many pages all groups have together.
    pub fn pages(&self) -> usize {
        self.firsts.len()
    }

    /// The pages of a group; none if it has no texts.
    pub fn pages_of(&self, group: usize) -> Range<usize> {
        self.groups.get(group).cloned().unwrap_or(0..0)
    }

    /// Words in front of the texts of a column.
    pub(crate) fn firsts_words(&self) -> usize {
        firsts_words(self.pages_max)
    }

    /// Tells `each` of the texts of `group`, whose they are, and which patterns occur in them, in
    /// ascending order; `None` if the host has to search one itself. `found` are the words of what
    /// was found on the group's pages.
    pub fn read(
        &self,
        group: usize,
        found: &[u32],
        scratch: &mut TextFindings,
        mut each: impl FnMut(u32, Option<&[PatternId]>),
    ) {
        let TextFindings { findings, ids } = scratch;
        for (page, found) in self.pages_of(group).zip(found.chunks_exact(FOUND_WORDS)) {
            let texts = self.texts_of(page);
            let places = self.entries[texts.clone()].iter().map(|&entry| bounds(entry));
            findings.read_bounded(places, found, usize::MAX);
            if findings.are_none() {
                self.owners[texts].iter().for_each(|&owner| each(owner, Some(&[])));
                continue;
            }
            let (mut next, mut asked) = (0, findings.asked().iter().peekable());
            for (number, &owner) in self.owners[texts].iter().enumerate() {
                let pairs = findings.of(number, &mut next);
                if asked.next_if_eq(&&(number as u32)).is_some() {
                    each(owner, None);
                    continue;
                }
                ids.clear();
                ids.extend(pairs.iter().map(|pair| PatternId(pair & PATTERN_ID)));
                each(owner, Some(ids));
            }
        }
    }

    /// The texts of a page.
    fn texts_of(&self, page: usize) -> Range<usize> {
        let end = self.firsts.get(page + 1).map_or(self.entries.len(), |&first| first as usize);
        self.firsts[page] as usize..end
    }
}

/// Memory of [`Texts::read`].
#[derive(Debug, Default)]
pub struct TextFindings {
    findings: Findings,
    ids: Vec<PatternId>,
}

/// Words that a text of so many bytes takes of a chain's room.
pub fn text_words(bytes: usize) -> usize {
    bytes.next_multiple_of(UNIT_BYTES) / 4
}

/// Puts a text into the room of a chain, from word `at` on; its place.
///
/// # Panics
/// If there are fewer than [`text_words`] words: a caller bug.
pub fn put_text(room: &mut [u32], at: usize, text: &[u8]) -> Place {
    write_bytes(&mut room[at..at + text_words(text.len())], text);
    Place::in_room(4 * at)
}

fn firsts_words(pages_max: usize) -> usize {
    (pages_max + 1).next_multiple_of(TEXT_WORDS)
}

thread_local! {
    /// A page, and a text on its way to it, of [`search_pages`]: threads of a pool answer as often
    /// as batches come.
    static PAGE: RefCell<(Vec<u32>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// What the kernels that gather and search do, on the host: what is found on `pages` of the column
/// that begins at word `column_at` of a chain's `room`. Texts elsewhere this cannot read: of their
/// pages it says that the host has to search everything.
pub(crate) fn search_pages(
    image: &ScanImage,
    room: &[u32],
    (column_at, firsts_words): (usize, usize),
    pages: Range<usize>,
    out: &mut [u32],
) {
    let column = &room[column_at..];
    let (texts, _) = column[firsts_words..].as_chunks::<TEXT_WORDS>();
    PAGE.with_borrow_mut(|(words, bytes)| {
        words.resize(PAGE_WORDS, 0);
        for (page, found) in pages.zip(out.chunks_exact_mut(FOUND_WORDS)) {
            let own = column[page] as usize..column[page + 1] as usize;
            match write_page(room, &texts[own], words, bytes) {
                true => image.search(Page::new(words), found),
                false => found.fill(NONE),
            }
        }
    });
}

/// Writes a page anew with texts of a chain's room; `false` if one of them lies elsewhere.
fn write_page(
    room: &[u32],
    texts: &[[u32; TEXT_WORDS]],
    words: &mut [u32],
    bytes: &mut Vec<u8>,
) -> bool {
    let mut cursor = Cursor::open(words);
    texts.iter().all(|&[low, high, entry, _]| {
        let place = u64::from(high) << 32 | u64::from(low);
        let (start, end) = bounds(entry);
        bytes.clear();
        if place & IN_ROOM != 0 {
            let at = (place & !IN_ROOM) as usize;
            let from = room[at / 4..].iter().flat_map(|word| word.to_le_bytes());
            bytes.extend(from.skip(at % 4).take(end - start));
        }
        bytes.len() == end - start && cursor.push(words, bytes)
    })
}

#[cfg(test)]
mod tests {
    use warpswitch_scan::{Case, Patterns};

    use super::*;

    #[test]
    fn a_search_allocates_nothing_once_its_thread_has_made_one() {
        let mut patterns = Patterns::new();
        patterns.push(b"needle", Case::Sensitive).unwrap();
        let image = ScanImage::new(&patterns);
        let column_words = Texts::column_words(2, 1);
        let mut room = vec![0; column_words + 64];
        let mut texts = Texts::new(2, 1);
        texts.begin_group();
        let mut at = column_words;
        for text in [b"a needle in".as_slice(), b"the hay of another one"] {
            let place = put_text(&mut room, at, text);
            assert!(texts.push(0, place, text.len(), &mut room));
            at += text_words(text.len());
        }
        texts.end(&mut room);
        let mut found = vec![0; FOUND_WORDS];
        let mut search = || {
            let column = (0, texts.firsts_words());
            search_pages(&image, &room, column, texts.pages_of(0), &mut found);
        };
        search();
        let counted = allocation_counter::measure(&mut search);
        assert_eq!(counted.count_total, 0, "{counted:?}");
        let mut with = Vec::new();
        texts.read(0, &found, &mut TextFindings::default(), |_, ids| {
            with.push(ids.map(<[PatternId]>::len));
        });
        assert_eq!(with, [Some(1), Some(0)]);
    }
}
