//! `maskhash`, `tuple` and `bloom` while rules come and go: slots that fill and empty.
//!
//! A rule's entries go into the tables of their masks. Of entries with one value the best is in the
//! table; the others wait beside the image until it goes. Filters have a counter for each bit here,
//! so that a bit is cleared when the last value that set it is gone.
//!
//! # Invariants
//! - H1: a table's bound is not above any rank in it, nor above the bounds of those behind it: a
//!   search may stop at it (B1), though tables are not put in order again before the next build.
//! - H2: between a value's first slot and the one it lies in none is free (B2): what follows a slot
//!   that empties moves up.
//! - H3: a filter's bit is set while its counter is not 0. A counter that is full stays full.
//!
//! # Source
//! Counting filters: Fan et al., "Summary cache", 2000. Slots that move up: Knuth, volume 3, 6.4.

use std::collections::{BTreeSet, HashMap};

use warpswitch_classify::parts::SeedStream;
use warpswitch_rules::RuleRef;
use warpswitch_rules::expand::masked_entries;

use super::super::abi::{self, DESC_BOUND, PROBE_FILTER, PROBE_SIZE, PROBE_SLOTS};
use super::super::tables::{self, Form, Kind, LOAD_PERCENT, MOVES_MAX, Slot};
use super::super::terms::{Groups, Value};
use super::{Model, NoRoom};
use crate::ranges::Ranges;

/// Words of the filter of a table that comes later.
const NEW_FILTER_WORDS: usize = 32;
/// Slots of such a table, or of a part of it.
const NEW_SLOTS: usize = 4;
/// A filter with fewer bits an entry than this passes too much.
const FILTER_BITS_MIN: usize = 4;

/// One table.
#[derive(Debug)]
pub(in crate::image) struct TableOf {
    pub(in crate::image) entries: usize,
    /// Slots that it has.
    pub(in crate::image) slots: usize,
    /// How many values set each bit of its filter.
    pub(in crate::image) counts: Vec<u8>,
}

/// What changes need beside the model.
#[derive(Debug)]
pub(in crate::image) struct Tables {
    form: Form,
    kind: Kind,
    words: usize,
    hash_keys: Vec<u32>,
    by: [u32; 4],
    tables: Vec<TableOf>,
    tables_max: usize,
    by_mask: HashMap<Value, u32>,
    /// Table, value and rank of entries that wait.
    losers: BTreeSet<(u32, Value, u32)>,
    free_slots: Ranges,
    free_entries: Vec<u32>,
    /// Words of the last tile that no filter has.
    free_filters: (usize, usize),
    /// Chunks and terms to make that are in use, and tables of the last chunk if it came later.
    chunks: (usize, usize),
    chunk_len: Option<u32>,
    groups: Groups,
    draws: SeedStream,
    /// All counters.
    counts_bytes: usize,
}

/// What a build knows of an image of tables.
pub(in crate::image) struct Parts {
    pub(in crate::image) form: Form,
    pub(in crate::image) hash_keys: Vec<u32>,
    pub(in crate::image) tables: Vec<TableOf>,
    pub(in crate::image) tables_max: usize,
    pub(in crate::image) by_mask: HashMap<Value, u32>,
    pub(in crate::image) losers: BTreeSet<(u32, Value, u32)>,
    /// In use, and all.
    pub(in crate::image) slots: (usize, usize),
    pub(in crate::image) entries: (usize, usize),
    /// Of the last tile, from its start.
    pub(in crate::image) filters: (usize, usize),
    /// Chunks, and terms to make.
    pub(in crate::image) chunks: (usize, usize),
    pub(in crate::image) groups: Groups,
}

impl Tables {
    pub(in crate::image) fn new(parts: Parts) -> Self {
        let Parts { form, hash_keys, tables, tables_max, by_mask, losers, .. } = parts;
        let counts_bytes = tables.iter().map(|table| table.counts.len()).sum();
        let by = *hash_keys.last_chunk().expect("four multipliers at the end");
        Self {
            form,
            kind: form.kind,
            words: form.words,
            hash_keys,
            by,
            tables,
            tables_max,
            by_mask,
            losers,
            free_slots: Ranges::new(parts.slots.0, parts.slots.1),
            free_entries: (parts.entries.0 as u32..parts.entries.1 as u32).rev().collect(),
            free_filters: parts.filters,
            chunks: parts.chunks,
            chunk_len: None,
            groups: parts.groups,
            draws: SeedStream::new(parts.slots.0 as u64, 5),
            counts_bytes,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let entry = size_of::<(Value, u32)>() + 1;
        self.counts_bytes
            + self.by_mask.capacity() * entry
            + self.losers.len() * size_of::<(u32, Value, u32)>() * 3 / 2
            + self.free_entries.capacity() * 4
            + self.tables.len() * size_of::<TableOf>()
    }

    /// Where a table's description has what follows its mask.
    fn desc_at(&self, model: &Model, table: u32) -> usize {
        let first = model.numbers[abi::TABLE_DESCS] as usize;
        first + table as usize * abi::table_desc_words(self.words) + self.words
    }

    fn probe_at(&self, model: &Model, table: u32) -> usize {
        model.numbers[abi::PROBES] as usize + table as usize * abi::PROBE_WORDS
    }

    /// A word of a table's probe.
    fn probe(&self, model: &Model, table: u32, which: usize) -> u32 {
        model.get(self.probe_at(model, table) + which)
    }

    /// The first word of a table's filter in its tile, and the filter's shift.
    fn filter(&self, model: &Model, table: u32) -> (u32, u32) {
        let at = self.probe_at(model, table);
        abi::filter_of(&model.words[at..at + abi::PROBE_WORDS])
    }

    fn hash(&self, value: &Value) -> u32 {
        tables::hash(self.form, &self.hash_keys, &value[..self.words])
    }

    fn entry_at(&self, model: &Model, entry: u32) -> usize {
        model.numbers[abi::ENTRIES] as usize + entry as usize * abi::entry_words(self.words)
    }

    /// The word of slot `slot` of a table.
    fn slot_at(&self, model: &Model, table: u32, slot: usize) -> usize {
        let first = self.probe(model, table, PROBE_SLOTS) as usize;
        model.numbers[abi::SLOTS] as usize + 2 * (first + slot)
    }

    fn slot(&self, model: &Model, table: u32, slot: usize) -> Slot {
        let at = self.slot_at(model, table, slot);
        [model.get(at), model.get(at + 1)]
    }

    fn set_slot(&self, model: &mut Model, table: u32, slot: usize, to: Slot) {
        let at = self.slot_at(model, table, slot);
        model.write(at, &to);
    }

    fn places(&self, hash: u32, part: u32) -> [usize; 3] {
        tables::places(&self.by, hash, part)
    }

    /// The slot and the entry of a value.
    fn find(&self, model: &Model, table: u32, hash: u32, value: &Value) -> Option<(usize, u32)> {
        let is_it = |[tag, entry]: Slot| {
            tag == hash && entry != 0 && {
                let at = self.entry_at(model, entry - 1);
                model.words[at..at + self.words] == value[..self.words]
            }
        };
        let size = self.probe(model, table, PROBE_SIZE);
        if self.kind == Kind::Open {
            let wrap = self.tables[table as usize].slots - 1;
            let mut slot = (hash >> size) as usize;
            loop {
                let found = self.slot(model, table, slot);
                if found[1] == 0 {
                    return None;
                }
                if is_it(found) {
                    return Some((slot, found[1] - 1));
                }
                slot = (slot + 1) & wrap;
            }
        }
        self.places(hash, size).into_iter().find_map(|slot| {
            let found = self.slot(model, table, slot);
            is_it(found).then(|| (slot, found[1] - 1))
        })
    }

    pub(super) fn insert(
        &mut self,
        model: &mut Model,
        rule: &RuleRef<'_>,
        rank: u32,
    ) -> Result<(), NoRoom> {
        for masked in masked_entries(rule.matching) {
            let table = match self.by_mask.get(&masked.mask) {
                Some(&table) => table,
                None => self.add_table(model, &masked.mask)?,
            };
            let hash = self.hash(&masked.value);
            match self.find(model, table, hash, &masked.value) {
                Some((_, entry)) => {
                    let at = self.entry_at(model, entry) + self.words;
                    let former = model.get(at);
                    self.losers.insert((table, masked.value, former.max(rank)));
                    model.set(at, former.min(rank));
                }
                None => self.put(model, table, hash, &masked.value, rank)?,
            }
            self.lower_bounds(model, table, rank);
        }
        Ok(())
    }

    /// Keeps H1 for a rank that came to a table.
    fn lower_bounds(&self, model: &mut Model, table: u32, rank: u32) {
        for table in (0..=table).rev() {
            let at = self.desc_at(model, table) + DESC_BOUND;
            if model.get(at) <= rank {
                return;
            }
            model.set(at, rank);
        }
    }

    pub(super) fn remove(
        &mut self,
        model: &mut Model,
        rule: &RuleRef<'_>,
        rank: u32,
    ) -> Result<(), NoRoom> {
        for masked in masked_entries(rule.matching) {
            let table = *self.by_mask.get(&masked.mask).ok_or(NoRoom)?;
            if self.losers.remove(&(table, masked.value, rank)) {
                continue;
            }
            let hash = self.hash(&masked.value);
            let (slot, entry) = self.find(model, table, hash, &masked.value).ok_or(NoRoom)?;
            let waiting = (table, masked.value, 0)..=(table, masked.value, u32::MAX);
            let next = self.losers.range(waiting).next().copied();
            match next {
                Some(next) => {
                    self.losers.remove(&next);
                    let at = self.entry_at(model, entry) + self.words;
                    model.set(at, next.2);
                }
                None => self.take(model, table, (slot, entry), hash),
            }
        }
        Ok(())
    }

    /// Enters a value that is not there.
    fn put(
        &mut self,
        model: &mut Model,
        table: u32,
        hash: u32,
        value: &Value,
        rank: u32,
    ) -> Result<(), NoRoom> {
        let entry = self.free_entries.pop().ok_or(NoRoom)?;
        let at = self.entry_at(model, entry);
        model.write(at, &value[..self.words]);
        model.set(at + self.words, rank);
        let TableOf { entries, slots, .. } = self.tables[table as usize];
        let is_full = match self.kind {
            Kind::Open => 2 * (entries + 1) > slots,
            _ => 100 * (entries + 1) > slots * LOAD_PERCENT,
        };
        let new = [hash, entry + 1];
        let left = if is_full { Some(new) } else { self.enter(model, table, new) };
        if let Some(left) = left {
            self.grow(model, table, left)?;
        }
        self.tables[table as usize].entries += 1;
        self.count(model, table, hash, true)
    }

    /// Enters a slot's content; gives what was put out and found no place.
    fn enter(&mut self, model: &mut Model, table: u32, mut moving: Slot) -> Option<Slot> {
        let size = self.probe(model, table, PROBE_SIZE);
        if self.kind == Kind::Open {
            let wrap = self.tables[table as usize].slots - 1;
            let mut slot = (moving[0] >> size) as usize;
            while self.slot(model, table, slot)[1] != 0 {
                slot = (slot + 1) & wrap;
            }
            self.set_slot(model, table, slot, moving);
            return None;
        }
        for _ in 0..MOVES_MAX {
            let places = self.places(moving[0], size);
            let free = places.into_iter().find(|&slot| self.slot(model, table, slot)[1] == 0);
            if let Some(free) = free {
                self.set_slot(model, table, free, moving);
                return None;
            }
            let taken = places[(self.draws.next() % 3) as usize];
            let other = self.slot(model, table, taken);
            self.set_slot(model, table, taken, moving);
            moving = other;
        }
        Some(moving)
    }

    /// Gives a table more slots, and enters `more` beside what it has.
    fn grow(&mut self, model: &mut Model, table: u32, more: Slot) -> Result<(), NoRoom> {
        let former = self.tables[table as usize].slots;
        let first = self.probe(model, table, PROBE_SLOTS) as usize;
        let mut items: Vec<Slot> = (0..former).map(|slot| self.slot(model, table, slot)).collect();
        items.retain(|item| item[1] != 0);
        items.push(more);
        let (slots, size) = match self.kind {
            Kind::Open => tables::open_slots(&items, 4 * items.len()),
            _ => tables::cuckoo_slots(&self.by, &items, 2 * items.len()).ok_or(NoRoom)?,
        };
        let at = self.free_slots.take(slots.len()).ok_or(NoRoom)?;
        let probe = self.probe_at(model, table);
        model.set(probe + PROBE_SLOTS, at as u32);
        model.set(probe + PROBE_SIZE, size);
        self.tables[table as usize].slots = slots.len();
        let word = self.slot_at(model, table, 0);
        model.write(word, slots.as_flattened());
        self.free_slots.give(first, former);
        Ok(())
    }

    /// Takes a value out.
    fn take(&mut self, model: &mut Model, table: u32, (slot, entry): (usize, u32), hash: u32) {
        let mut hole = slot;
        if self.kind == Kind::Open {
            let (size, wrap) =
                (self.probe(model, table, PROBE_SIZE), self.tables[table as usize].slots - 1);
            let mut next = (hole + 1) & wrap;
            loop {
                let content = self.slot(model, table, next);
                if content[1] == 0 {
                    break;
                }
                // It may move up if the hole is not before its first slot.
                let first = (content[0] >> size) as usize;
                if next.wrapping_sub(first) & wrap >= next.wrapping_sub(hole) & wrap {
                    self.set_slot(model, table, hole, content);
                    hole = next;
                }
                next = (next + 1) & wrap;
            }
        }
        self.set_slot(model, table, hole, [0, 0]);
        self.free_entries.push(entry);
        self.tables[table as usize].entries -= 1;
        _ = self.count(model, table, hash, false);
    }

    /// Counts a hash in or out of a table's filter.
    fn count(
        &mut self,
        model: &mut Model,
        table: u32,
        hash: u32,
        comes: bool,
    ) -> Result<(), NoRoom> {
        if self.kind != Kind::Filtered {
            return Ok(());
        }
        let (_, shift) = self.filter(model, table);
        let filter = self.filter_at(model, table);
        let TableOf { counts, entries, .. } = &mut self.tables[table as usize];
        if comes && *entries * FILTER_BITS_MIN > counts.len() {
            return Err(NoRoom);
        }
        for place in tables::filter_places(hash, shift) {
            let count = &mut counts[place as usize];
            // A full counter has lost count (H3).
            *count = match (*count, comes) {
                (u8::MAX, _) => u8::MAX,
                (count, true) => count + 1,
                (count, false) => count - 1,
            };
            let (at, bit) = (filter + place as usize / 32, 1 << (place % 32));
            let word = model.get(at);
            model.set(at, if *count == 0 { word & !bit } else { word | bit });
        }
        Ok(())
    }

    /// The first word of a table's filter.
    fn filter_at(&self, model: &Model, table: u32) -> usize {
        let tiles = model.numbers[abi::TILES] as usize;
        let len = model.numbers[abi::TILES_LEN] as usize;
        let tile = (0..len).map(|tile| tiles + 4 * tile).take_while(|&at| model.get(at) <= table);
        let tile = tile.last().expect("every table is in a tile");
        let start = model.get(tile + 2) + self.filter(model, table).0;
        model.numbers[abi::FILTERS] as usize + start as usize
    }

    /// Adds an empty table, behind all others.
    fn add_table(&mut self, model: &mut Model, mask: &Value) -> Result<u32, NoRoom> {
        let table = self.tables.len();
        if table == self.tables_max {
            return Err(NoRoom);
        }
        let slots = if self.kind == Kind::Open { NEW_SLOTS } else { 3 * NEW_SLOTS };
        let at = self.free_slots.take(slots).ok_or(NoRoom)?;
        let first = model.numbers[abi::SLOTS] as usize + 2 * at;
        (first..first + 2 * slots).for_each(|word| model.set(word, 0));
        let mut probe = [0; abi::PROBE_WORDS];
        probe[PROBE_SLOTS] = at as u32;
        probe[PROBE_SIZE] =
            if self.kind == Kind::Open { 32 - NEW_SLOTS.ilog2() } else { NEW_SLOTS as u32 };
        let mut counts = Vec::new();
        if self.kind == Kind::Filtered {
            let (start, end) = self.free_filters;
            if start + NEW_FILTER_WORDS > end {
                return Err(NoRoom);
            }
            self.free_filters.0 += NEW_FILTER_WORDS;
            let shift = 32 - NEW_FILTER_WORDS.ilog2();
            probe[PROBE_FILTER] = abi::probe_filter(start as u32, shift);
            counts = vec![0; NEW_FILTER_WORDS * 32];
            self.counts_bytes += counts.len();
            let tile = model.numbers[abi::TILES] + 4 * (model.numbers[abi::TILES_LEN] - 1);
            let len = model.get(tile as usize + 1);
            model.set(tile as usize + 1, len + 1);
            let terms = self.add_to_chunk(model, table as u32, mask);
            probe[abi::PROBE_TERMS] = u32::from_le_bytes(terms.map(|slot| slot as u8));
        }
        self.tables.push(TableOf { entries: 0, slots, counts });
        self.by_mask.insert(*mask, table as u32);
        let desc: Vec<u32> = abi::desc(self.words, mask, abi::NONE).collect();
        let at = self.desc_at(model, table as u32) - self.words;
        model.write(at, &desc);
        model.write(self.probe_at(model, table as u32), &probe);
        model.set_number(abi::TABLES, table as u32 + 1);
        Ok(table as u32)
    }

    /// Puts a table behind all others into a chunk of such tables, which make all their terms, each
    /// in slots of its own. Gives these. There is room for a chunk and four terms a table.
    fn add_to_chunk(&mut self, model: &mut Model, table: u32, mask: &Value) -> [u32; abi::TERMS] {
        let each = abi::TERMS as u32;
        let len_max = (model.numbers[abi::TERM_SLOTS] / each).min(32);
        let len = match self.chunk_len {
            Some(len) if len < len_max => len,
            _ => {
                self.chunks.0 += 1;
                0
            }
        };
        let terms = std::array::from_fn(|term| len * each + term as u32);
        let desc_words = abi::table_desc_words(self.words);
        let first_load = self.chunks.1 as u32 - len * each;
        for (part, slot) in self.groups.parts(mask).iter().zip(terms) {
            let load: Vec<u32> = abi::desc(self.words, part, slot).collect();
            let at = model.numbers[abi::LOADS] as usize + self.chunks.1 * desc_words;
            model.write(at, &load);
            self.chunks.1 += 1;
        }
        let chunk = [table - len, len + 1, first_load, (len + 1) * each];
        let at = model.numbers[abi::CHUNKS] as usize + (self.chunks.0 - 1) * abi::CHUNK_WORDS;
        model.write(at, &chunk);
        self.chunk_len = Some(len + 1);
        terms
    }
}
