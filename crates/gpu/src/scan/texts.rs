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
    groups: Vec<Group>,
    /// Pages, texts and bytes of all groups.
    pages: usize,
    texts: usize,
    bytes: u64,
}

/// The texts of a group, which lie on pages of their own.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Of each page its first text.
    firsts: Vec<u32>,
    /// What the column has for each text: its place, and its word in the table of its page.
    list: Vec<[u32; TEXT_WORDS]>,
    /// Of each text whose it is.
    owners: Vec<u32>,
    cursor: Option<Cursor>,
}

/// Where the word in the table of a page lies in what the column has for a text.
const ENTRY: usize = 2;

impl Texts {
    /// For up to so many texts on up to so many pages, in so many groups.
    pub fn new(texts_max: usize, pages_max: usize, groups: usize) -> Self {
        let groups = vec![Group::default(); groups];
        Self { pages_max, texts_max, groups, pages: 0, texts: 0, bytes: 0 }
    }

    /// Words of a column.
    pub fn column_words(texts_max: usize, pages_max: usize) -> usize {
        firsts_words(pages_max) + TEXT_WORDS * texts_max
    }

    /// Forgets all texts.
    pub fn clear(&mut self) {
        for Group { firsts, list, owners, cursor } in &mut self.groups {
            firsts.clear();
            list.clear();
            owners.clear();
            *cursor = None;
        }
        (self.pages, self.texts, self.bytes) = (0, 0, 0);
    }

    /// Adds a text, which is `owner`'s, to a group; `false` if it is empty, or there is no room for
    /// it: then the host searches it.
    ///
    /// # Panics
    /// If there is no such group.
    #[inline(always)]
    pub fn push(&mut self, group: usize, owner: u32, place: Place, bytes: usize) -> bool {
        let texts = &mut self.groups[group];
        if bytes == 0 || self.texts == self.texts_max {
            return false;
        }
        let taken = texts.cursor.as_mut().and_then(|cursor| cursor.take(bytes));
        let Some(entry) = taken.or_else(|| self.take_on_next_page(group, bytes)) else {
            return false;
        };
        let texts = &mut self.groups[group];
        texts.list.push([place.0 as u32, (place.0 >> 32) as u32, entry, 0]);
        texts.owners.push(owner);
        self.texts += 1;
        self.bytes += bytes as u64;
        true
    }

    /// Takes room for a text on a new page of its group; `None` if there is no page, or the text is
    /// too long for one.
    #[cold]
    fn take_on_next_page(&mut self, group: usize, bytes: usize) -> Option<u32> {
        if self.pages == self.pages_max {
            return None;
        }
        let mut cursor = Cursor::start();
        let entry = cursor.take(bytes)?;
        let group = &mut self.groups[group];
        group.firsts.push(group.list.len() as u32);
        group.cursor = Some(cursor);
        self.pages += 1;
        Some(entry)
    }

    /// Writes the column, group by group; how many words of it are to be sent.
    ///
    /// # Panics
    /// If it is too short: a caller bug.
    pub fn end(&self, column: &mut [u32]) -> usize {
        let (firsts, list) = column.split_at_mut(self.firsts_words());
        let (mut pages, mut texts) = (0, 0);
        for group in &self.groups {
            let own = &mut firsts[pages..pages + group.firsts.len()];
            for (first, of_group) in own.iter_mut().zip(&group.firsts) {
                *first = texts as u32 + of_group;
            }
            let words = group.list.as_flattened();
            list[TEXT_WORDS * texts..][..words.len()].copy_from_slice(words);
            pages += group.firsts.len();
            texts += group.list.len();
        }
        firsts[pages] = texts as u32;
        self.words()
    }

    /// Words of the column up to its last text.
    pub(crate) fn words(&self) -> usize {
        Self::column_words(self.texts, self.pages_max)
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.texts
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.texts == 0
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many pages all groups have together.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The pages of a group; none if it has no texts.
    pub fn pages_of(&self, group: usize) -> Range<usize> {
        let pages = |group: &Group| group.firsts.len();
        let start = self.groups[..group].iter().map(pages).sum();
        start..start + pages(&self.groups[group])
    }

    /// Words in front of the texts of a column.
    pub(crate) fn firsts_words(&self) -> usize {
        firsts_words(self.pages_max)
    }

    /// Whose the texts of a group are.
    pub fn owners(&self, group: usize) -> &[u32] {
        &self.groups[group].owners
    }

    /// Calls `each` for the texts of `group` in which patterns occur, with the owner and the
    /// patterns in ascending order, and with `None` for texts that the host has to search itself.
    /// `found` has the result words of the group's pages.
    pub fn read(
        &self,
        group: usize,
        found: &[u32],
        scratch: &mut TextFindings,
        mut each: impl FnMut(u32, Option<&[PatternId]>),
    ) {
        let TextFindings { findings, ids } = scratch;
        let Group { firsts, list, owners, .. } = &self.groups[group];
        let ends = firsts.iter().skip(1).copied().chain([list.len() as u32]);
        let pages = firsts.iter().zip(ends).map(|(&first, end)| first as usize..end as usize);
        for (texts, found) in pages.zip(found.chunks_exact(FOUND_WORDS)) {
            let places = list[texts.clone()].iter().map(|text| bounds(text[ENTRY]));
            findings.read_bounded(places, found, usize::MAX);
            if findings.are_none() {
                continue;
            }
            let (mut next, mut asked) = (0, findings.asked().iter().peekable());
            for (number, &owner) in owners[texts].iter().enumerate() {
                let pairs = findings.of(number, &mut next);
                if asked.next_if_eq(&&(number as u32)).is_some() {
                    each(owner, None);
                    continue;
                }
                if !pairs.is_empty() {
                    ids.clear();
                    ids.extend(pairs.iter().map(|pair| PatternId(pair & PATTERN_ID)));
                    each(owner, Some(ids));
                }
            }
        }
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

/// Bytes up to the end of a text that [`put_short_text`] copies.
pub const SHORT_BYTES: usize = 32;
/// Words that they take.
pub const SHORT_WORDS: usize = SHORT_BYTES / 4;

/// The same for a text of up to [`SHORT_BYTES`] bytes, which end where `bytes_before` ends; `None`
/// if there are fewer than [`SHORT_WORDS`] words.
///
/// Short texts differ in length, which is mispredicted: all are copied alike, with what is before
/// them. A kernel reads texts from any byte on.
#[inline(always)]
pub fn put_short_text(
    room: &mut [u32],
    at: usize,
    bytes_before: &[u8; SHORT_BYTES],
    bytes: usize,
) -> Option<Place> {
    let words: &mut [u32; SHORT_WORDS] = room.get_mut(at..)?.first_chunk_mut()?;
    let (fours, _) = bytes_before.as_chunks::<4>();
    // All are read before one is written, so that registers of SIMD hold them.
    *words = std::array::from_fn(|at| u32::from_le_bytes(fours[at]));
    Some(Place::in_room(4 * at + SHORT_BYTES - bytes))
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
        let mut texts = Texts::new(2, 1, 1);
        let mut at = column_words;
        for (owner, text) in [b"the hay of one".as_slice(), b"a needle in"].iter().enumerate() {
            let place = put_text(&mut room, at, text);
            assert!(texts.push(0, owner as u32, place, text.len()));
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
        texts.read(0, &found, &mut TextFindings::default(), |owner, ids| {
            with.push((owner, ids.map(<[PatternId]>::len)));
        });
        assert_eq!((with, texts.owners(0), texts.bytes()), (vec![(1, Some(1))], &[0, 1][..], 25));
    }

    #[test]
    fn a_short_text_is_where_its_place_says() {
        let bytes: [u8; SHORT_BYTES] = std::array::from_fn(|at| at as u8 + 1);
        for len in 1..=SHORT_BYTES {
            let mut room = [7; SHORT_WORDS + 2];
            let place = put_short_text(&mut room, 1, &bytes, len).expect("room");
            let mut texts = Texts::new(1, 1, 1);
            assert!(texts.push(0, 0, place, len));
            let mut page = vec![0; PAGE_WORDS];
            assert!(write_page(&room, &texts.groups[0].list, &mut page, &mut Vec::new()));
            let (start, end) = bounds(page[PAGE_WORDS - 1]);
            let written: Vec<u8> = page.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(written[start..end], bytes[SHORT_BYTES - len..]);
            assert_eq!((room[0], room[SHORT_WORDS + 1]), (7, 7), "other words");
            assert_eq!(put_short_text(&mut room, 3, &bytes, len), None, "a word is missing");
        }
    }
}
