//! `maskhash`, `tuple` and `bloom`: one hash table a mask, in order of their bounds.
//!
//! A rule becomes masked entries, one for each pair of prefixes of its ranges. Entries of one mask
//! are a table; of those with one value the best stays. A slot is two words: the hash of its
//! value, and the number of the entry plus one. Entries lie apart, so that free slots cost eight
//! bytes. A filter's places of a value are three bits of one word, so that a kernel reads one.
//!
//! # Invariants
//! - B1: tables are in order of their bounds: no rank in a table, nor in one behind it, is smaller.
//!   A search may stop at the first bound that is not below the best rank so far.
//! - B2: open addressing: at most half of the slots are in use, and between a value's first slot
//!   and the one it lies in none is free. Cuckoo: a value lies in one of its three slots.
//! - B3: filters of a tile lie together, and no tile is larger than [`TILE_WORDS_MAX`].
//! - B4: `bloom` alone has chunks and terms ([`super::terms`]); T1 and T2 hold there.

use std::collections::{BTreeSet, HashMap};

use warpswitch_classify::Detail;
use warpswitch_classify::parts::{SeedStream, TooLarge};
use warpswitch_rules::expand::{entry_count, masked_entries};
use warpswitch_rules::schema::WORDS_MAX;

use super::live::tables::{TableOf, Tables};
use super::terms::{self, Groups, Plan, Value};
use super::{Built, Draft, Image, Rules, abi, live};

/// Words of the filters that lie in shared memory at once: 64 KB, beside the terms of the keys.
const TILE_WORDS_MAX: usize = 64 * 256;
/// Words of the largest filter: 64 KB.
const FILTER_WORDS_MAX: usize = 64 * 256;
/// Of 100 slots of a cuckoo table so many are in use at most.
pub(super) const LOAD_PERCENT: usize = 85;
/// Moves after which an insertion gives up.
pub(super) const MOVES_MAX: usize = 512;
/// Draws of hashes after which a build gives up: each fails by a chance of far below one in a
/// million.
const DRAWS_MAX: u64 = 32;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Open addressing.
    Open,
    /// Three parts.
    Cuckoo,
    /// Three parts behind a filter.
    Filtered,
}

/// Which of the three, over which keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) kind: Kind,
    /// Words of a key.
    pub(super) words: usize,
    /// The word with the ports.
    pub(super) ports_word: usize,
}

/// The values of one mask and the best rank of each, in order of rank.
pub(super) struct Tuple {
    pub(super) mask: Value,
    pub(super) values: Vec<(Value, u32)>,
}

/// Entries that lost to one of the same mask and value: tuple, value, rank.
pub(super) type Losers = BTreeSet<(u32, Value, u32)>;

/// The tuples of `rules`, in order of their bounds, and which entries lost.
pub(super) fn tuples(
    rules: &Rules<'_>,
    bytes_max: usize,
) -> Result<(Vec<Tuple>, Losers), TooLarge> {
    let entry_bytes = (abi::entry_words(rules.words_per_key()) + 2) * 4;
    let mut entries = 0usize;
    for rule in &rules.rules {
        entries = entries.saturating_add(entry_count(&rule.matching));
        // Equal values of one mask share an entry, so this may refuse what would just fit.
        if entries.saturating_mul(entry_bytes) > bytes_max {
            let bytes = entries.saturating_mul(entry_bytes);
            return Err(TooLarge { bytes, rules: vec![rule.id] });
        }
    }
    let mut by_mask: HashMap<[u32; WORDS_MAX], usize> = HashMap::new();
    let mut known = std::collections::HashSet::new();
    let (mut tuples, mut losers): (Vec<Tuple>, Losers) = Default::default();
    for (&rank, rule) in rules.ranks.iter().zip(&rules.rules) {
        for entry in masked_entries(rule.matching) {
            let tuple = *by_mask.entry(entry.mask).or_insert_with(|| {
                tuples.push(Tuple { mask: entry.mask, values: Vec::new() });
                tuples.len() - 1
            });
            if known.insert((tuple, entry.value)) {
                tuples[tuple].values.push((entry.value, rank));
            } else {
                losers.insert((tuple as u32, entry.value, rank));
            }
        }
    }
    // In the order in which their first entries came: by bound (B1).
    Ok((tuples, losers))
}

/// The keyed hash; see `hash.cuh`. As words: a multiplier for each word of a key, what is added and
/// what the sum is multiplied with (low half first), four more multipliers; `bloom`: a multiplier
/// of two words for each unit of a key, four more multipliers.
pub(super) struct HashKeys(pub(super) Vec<u32>);

impl HashKeys {
    pub(super) fn draw(form: Form, seed: u64, draw: u64) -> Self {
        let words = form.words;
        let mut seeds = SeedStream::new(seed, 0x6770_7500 + draw);
        let mut list: Vec<u32> = Vec::new();
        let longs: Vec<u64> = if form.kind == Kind::Filtered {
            (0..terms::units(words)).map(|_| seeds.next()).collect()
        } else {
            list.extend((0..words).map(|_| seeds.next() as u32 | 1));
            vec![seeds.next(), seeds.next() | 1]
        };
        list.extend(longs.iter().flat_map(|&long| [long as u32, (long >> 32) as u32]));
        list.extend((0..4).map(|_| seeds.next() as u32 | 1));
        Self(list)
    }

    fn by(&self) -> [u32; 4] {
        *self.0.last_chunk().expect("four multipliers at the end")
    }
}

/// The hash of a masked key by the words of [`HashKeys`].
pub(super) fn hash(form: Form, keys: &[u32], masked: &[u32]) -> u32 {
    let long = |words: &[u32]| u64::from(words[1]) << 32 | u64::from(words[0]);
    let Form { kind, words, ports_word } = form;
    if kind == Kind::Filtered {
        let term = |at: usize| {
            let (_, unit) = terms::unit(masked, words, ports_word, at);
            (long(&keys[2 * at..]).wrapping_mul(u64::from(unit)) >> 32) as u32
        };
        return (0..terms::units(words)).map(term).fold(0, u32::wrapping_add);
    }
    let (multipliers, rest) = keys.split_at(masked.len());
    let products = multipliers.iter().zip(masked).map(|(&a, &w)| u64::from(a) * u64::from(w));
    let sum = products.fold(long(rest), u64::wrapping_add);
    (sum.wrapping_mul(long(&rest[2..])) >> 32) as u32
}

/// The upper half of a product.
fn high(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// A slot: hash and entry number plus one.
pub(super) type Slot = [u32; 2];

/// The three slots that a hash may lie in, in a cuckoo table of parts of `part` slots.
pub(super) fn places(by: &[u32; 4], hash: u32, part: u32) -> [usize; 3] {
    std::array::from_fn(|of| of * part as usize + high(hash.wrapping_mul(by[of]), part) as usize)
}

/// The bits of a filter that a hash sets, all in one word of it; they may be equal.
pub(super) fn filter_places(hash: u32, shift: u32) -> [u32; 3] {
    let word = hash >> shift;
    [hash, hash >> 5, hash >> 10].map(|bit| 32 * word + (bit & 31))
}

/// Open addressing: at least `slots_min` slots, and 32 less the bits of a slot number.
pub(super) fn open_slots(items: &[Slot], slots_min: usize) -> (Vec<Slot>, u32) {
    let slots = slots_min.next_power_of_two().max(2);
    let shift = 32 - slots.trailing_zeros();
    let mut table = vec![[0, 0]; slots];
    for &item in items {
        let mut slot = (item[0] >> shift) as usize;
        while table[slot][1] != 0 {
            slot = (slot + 1) & (slots - 1);
        }
        table[slot] = item;
    }
    (table, shift)
}

/// What became of a cuckoo table.
pub(super) struct Cuckoo {
    /// Slots of three parts, and the slots of a part; none if a value found no place however large
    /// the table was made.
    pub(super) table: Option<(Vec<Slot>, u32)>,
    /// Values that were put out of their slots, in tables that were too small, too.
    pub(super) moves: usize,
}

/// A cuckoo table with room for `entries`.
pub(super) fn cuckoo(by: &[u32; 4], items: &[Slot], entries: usize) -> Cuckoo {
    let mut part = (entries * 100).div_ceil(3 * LOAD_PERCENT).max(1);
    let mut moves = 0;
    for _ in 0..16 {
        if let Some(table) = try_cuckoo(by, items, part, &mut moves) {
            return Cuckoo { table: Some((table, part as u32)), moves };
        }
        part += part / 8 + 1;
    }
    Cuckoo { table: None, moves }
}

/// The same, as a table alone: slots of three parts, and the slots of a part.
pub(super) fn cuckoo_slots(
    by: &[u32; 4],
    items: &[Slot],
    entries: usize,
) -> Option<(Vec<Slot>, u32)> {
    cuckoo(by, items, entries).table
}

fn try_cuckoo(by: &[u32; 4], items: &[Slot], part: usize, moves: &mut usize) -> Option<Vec<Slot>> {
    let mut table = vec![[0, 0]; 3 * part];
    // Which part an entry is put out of is drawn: a fixed order runs in circles.
    let mut draws = SeedStream::new(part as u64, items.len() as u64);
    for &item in items {
        let mut moving = item;
        let before = *moves;
        loop {
            let places = places(by, moving[0], part as u32);
            if let Some(&free) = places.iter().find(|&&place| table[place][1] == 0) {
                table[free] = moving;
                break;
            }
            let taken = places[(draws.next() % 3) as usize];
            std::mem::swap(&mut moving, &mut table[taken]);
            *moves += 1;
            if *moves - before > MOVES_MAX {
                return None;
            }
        }
    }
    Some(table)
}

/// A filter: its words, and 32 less the bits of a word's number in it.
pub(super) fn filter(hashes: &[u32]) -> (Vec<u32>, u32) {
    let bits = (16 * hashes.len()).next_power_of_two().clamp(128, FILTER_WORDS_MAX * 32);
    let shift = 32 - (bits / 32).trailing_zeros();
    let mut words = vec![0u32; bits / 32];
    for &hash in hashes {
        for place in filter_places(hash, shift) {
            words[place as usize / 32] |= 1 << (place % 32);
        }
    }
    (words, shift)
}

/// Everything but the hash.
#[derive(Default)]
struct Parts {
    descs: Vec<u32>,
    probes: Vec<u32>,
    chunks: Vec<u32>,
    loads: Vec<u32>,
    groups: Groups,
    term_slots: usize,
    slots: Vec<u32>,
    entries: Vec<u32>,
    filters: Vec<u32>,
    tiles: Vec<u32>,
    /// Where the tile at hand starts, in tables and in words of filters.
    tile_start: (usize, usize),
    tile_words_max: usize,
}

impl Parts {
    /// Adds a table. `None` if its values find no places.
    fn add(&mut self, tuple: &Tuple, form: Form, keys: &HashKeys) -> Option<()> {
        let Form { kind, words, .. } = form;
        let hashes: Vec<u32> =
            tuple.values.iter().map(|(value, _)| hash(form, &keys.0, &value[..words])).collect();
        let entry_words = abi::entry_words(words);
        let first_entry = (self.entries.len() / entry_words) as u32;
        for (value, rank) in &tuple.values {
            let end = self.entries.len() + entry_words;
            self.entries.extend_from_slice(&value[..words]);
            self.entries.push(*rank);
            self.entries.resize(end, 0);
        }
        let items: Vec<Slot> =
            hashes.iter().zip(first_entry + 1..).map(|(&hash, entry)| [hash, entry]).collect();
        let (slots, size) = match kind {
            Kind::Open => open_slots(&items, 2 * items.len()),
            Kind::Cuckoo | Kind::Filtered => cuckoo_slots(&keys.by(), &items, items.len())?,
        };
        let mut probe = [0; abi::PROBE_WORDS];
        probe[abi::PROBE_SLOTS] = (self.slots.len() / 2) as u32;
        probe[abi::PROBE_SIZE] = size;
        self.slots.extend(slots.as_flattened());
        if kind == Kind::Filtered {
            let (filter, shift) = filter(&hashes);
            if self.filters.len() - self.tile_start.1 + filter.len() > TILE_WORDS_MAX {
                self.end_tile(words, self.descs.len() / abi::table_desc_words(words), false);
            }
            let first = (self.filters.len() - self.tile_start.1) as u32;
            probe[abi::PROBE_FILTER] = abi::probe_filter(first, shift);
            self.filters.extend(filter);
        }
        self.probes.extend(probe);
        let bound = tuple.values[0].1;
        self.descs.extend(abi::desc(words, &tuple.mask, bound));
        Some(())
    }

    /// Plans how a kernel goes through the tables, all of which are there.
    fn make_plan(&mut self, tuples: &[Tuple], form: Form) {
        let words = form.words;
        let masks: Vec<Value> = tuples.iter().map(|tuple| tuple.mask).collect();
        let ended = self.tiles.chunks_exact(4).map(|tile| tile[0] as usize);
        let starts: Vec<usize> = ended.chain([self.tile_start.0]).collect();
        let plan = Plan::new(&masks, &starts, (words, form.ports_word));
        for (probe, slots) in self.probes.chunks_exact_mut(abi::PROBE_WORDS).zip(&plan.slots) {
            probe[abi::PROBE_TERMS] = u32::from_le_bytes(*slots);
        }
        self.chunks = plan.chunks.into_flattened();
        let loads = plan.loads.iter();
        self.loads = loads.flat_map(|(part, slot)| abi::desc(words, part, *slot)).collect();
        (self.groups, self.term_slots) = (plan.groups, plan.slots_len);
    }

    /// Ends the tile at hand, if any of the `tables` is in it, or if there has to be one.
    fn end_tile(&mut self, words: usize, tables: usize, always: bool) {
        debug_assert!(self.descs.len() >= tables * abi::table_desc_words(words));
        let (first, start) = self.tile_start;
        if tables > first || always && self.tiles.is_empty() {
            let len = self.filters.len() - start;
            let tile = [first as u32, (tables - first) as u32, start as u32, len as u32];
            self.tiles.extend(tile);
            self.tile_words_max = self.tile_words_max.max(len);
            self.tile_start = (tables, self.filters.len());
        }
    }

    /// Adds room for rules to come, and gives what enters them.
    fn make_room(
        &mut self,
        tuples: &[Tuple],
        losers: Losers,
        form: Form,
        keys: &HashKeys,
    ) -> Tables {
        let Form { kind, words, .. } = form;
        let desc_words = abi::table_desc_words(words);
        let table = |(tuple, probe): (&Tuple, &[u32])| {
            let size = probe[abi::PROBE_SIZE];
            let mut counts = Vec::new();
            if kind == Kind::Filtered {
                let (_, shift) = abi::filter_of(probe);
                counts = vec![0u8; 32 << (32 - shift)];
                for (value, _) in &tuple.values {
                    for place in filter_places(hash(form, &keys.0, &value[..words]), shift) {
                        let count = &mut counts[place as usize];
                        *count = count.saturating_add(1);
                    }
                }
            }
            let slots = if kind == Kind::Open { 1 << (32 - size) } else { 3 * size as usize };
            TableOf { entries: tuple.values.len(), slots, counts }
        };
        let tables: Vec<TableOf> =
            tuples.iter().zip(self.probes.chunks_exact(abi::PROBE_WORDS)).map(table).collect();
        let by_mask = tuples.iter().zip(0..).map(|(tuple, table)| (tuple.mask, table)).collect();
        let tables_max = tuples.len() + tuples.len() / 4 + 16;
        self.descs.resize(tables_max * desc_words, 0);
        self.probes.resize(tables_max * abi::PROBE_WORDS, 0);
        let chunks = (self.chunks.len() / abi::CHUNK_WORDS, self.loads.len() / desc_words);
        if kind == Kind::Filtered {
            // Each table that comes later may be a chunk of its own, and makes its terms.
            let more = tables_max - tuples.len();
            self.chunks.resize((chunks.0 + more) * abi::CHUNK_WORDS, 0);
            self.loads.resize((chunks.1 + more * abi::TERMS) * desc_words, 0);
            self.term_slots = self.term_slots.max(2 * abi::TERMS);
        }
        let slots = self.slots.len() / 2;
        let slots = (slots, 2 * slots.max(1024));
        self.slots.resize(2 * slots.1, 0);
        let entry_words = abi::entry_words(words);
        let entries = self.entries.len() / entry_words;
        let entries = (entries, entries + entries / 2 + 256);
        self.entries.resize(entries.1 * entry_words, 0);
        let used = self.filters.len() - self.tile_start.1;
        let left = TILE_WORDS_MAX.saturating_sub(used) / 4 * 4;
        let filters = (used, used + (used / 4).next_multiple_of(4).max(1024).min(left));
        if kind == Kind::Filtered {
            self.filters.resize(self.tile_start.1 + filters.1, 0);
        }
        let hash_keys = keys.0.clone();
        Tables::new(live::tables::Parts {
            form,
            hash_keys,
            tables,
            tables_max,
            by_mask,
            losers,
            slots,
            entries,
            filters,
            chunks,
            groups: self.groups,
        })
    }
}

/// Lays out `rules`; with `room` there is some for rules to come.
pub(super) fn build(
    rules: &Rules<'_>,
    kind: Kind,
    bytes_max: usize,
    hash_seed: u64,
    room: bool,
) -> Result<Built, TooLarge> {
    let words = rules.words_per_key();
    let form = Form { kind, words, ports_word: rules.store.schema().ports_word };
    let (tuples, losers) = tuples(rules, bytes_max)?;
    let drawn = (0..DRAWS_MAX).find_map(|draw| {
        let keys = HashKeys::draw(form, hash_seed, draw);
        let mut parts = Parts::default();
        tuples.iter().try_for_each(|tuple| parts.add(tuple, form, &keys))?;
        Some((keys, parts))
    });
    let Some((keys, mut parts)) = drawn else { return Err(rules.too_large(usize::MAX)) };
    let entries = parts.entries.len() / abi::entry_words(words);
    let slots = parts.slots.len() / 2;
    if kind == Kind::Filtered {
        parts.make_plan(&tuples, form);
    }
    let loads = parts.loads.len() / abi::table_desc_words(words);
    let live = room.then(|| live::Layout::Tables(parts.make_room(&tuples, losers, form, &keys)));
    if kind == Kind::Filtered {
        parts.end_tile(words, tuples.len(), room);
    }
    let mut draft = Draft::default();
    draft.part(abi::HASH, &keys.0);
    draft.part(abi::TABLE_DESCS, &parts.descs);
    draft.part(abi::PROBES, &parts.probes);
    draft.part(abi::CHUNKS, &parts.chunks);
    draft.part(abi::LOADS, &parts.loads);
    draft.part(abi::TILES, &parts.tiles);
    draft.part(abi::FILTERS, &parts.filters);
    draft.part(abi::SLOTS, &parts.slots);
    draft.part(abi::ENTRIES, &parts.entries);
    draft.numbers[abi::TABLES] = tuples.len() as u32;
    draft.numbers[abi::TILES_LEN] = (parts.tiles.len() / 4) as u32;
    draft.numbers[abi::TERM_SLOTS] = parts.term_slots as u32;
    let largest = tuples.iter().map(|tuple| tuple.values.len()).max().unwrap_or(0);
    let mut details = vec![
        Detail { name: "tuples", value: tuples.len() as f64 },
        Detail { name: "entries", value: entries as f64 },
        Detail { name: "entries_per_rule", value: ratio(entries, rules.rules.len()) },
        Detail { name: "tuple_entries_max", value: largest as f64 },
        Detail { name: "load", value: ratio(entries, slots) },
    ];
    if kind == Kind::Filtered {
        details.push(Detail { name: "filter_bytes", value: (parts.filters.len() * 4) as f64 });
        details.push(Detail { name: "filter_tiles", value: (parts.tiles.len() / 4) as f64 });
        details.push(Detail { name: "terms", value: loads as f64 });
    }
    Ok(Built { draft, details, shared_words: parts.tile_words_max, live })
}

fn ratio(a: usize, b: usize) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// The kernel's search, in Rust.
pub(super) fn lookup(image: &Image, kind: Kind, key: &[u32]) -> u32 {
    Search::new(image, kind).best(0..image.numbers[abi::TABLES] as usize, key)
}

/// What a search reads of an image whatever the table.
pub(super) struct Search<'a> {
    image: &'a Image,
    form: Form,
    hash_keys: &'a [u32],
    by: [u32; 4],
    descs: &'a [u32],
    probes: &'a [u32],
}

impl<'a> Search<'a> {
    pub(super) fn new(image: &'a Image, kind: Kind) -> Self {
        let words = image.shape.words;
        let hash_keys = image.part(abi::HASH);
        let by_at = if kind == Kind::Filtered { 2 * terms::units(words) } else { words + 4 };
        Self {
            image,
            form: Form { kind, words, ports_word: image.shape.ports_word },
            hash_keys,
            by: std::array::from_fn(|at| hash_keys[by_at + at]),
            descs: image.part(abi::TABLE_DESCS),
            probes: image.part(abi::PROBES),
        }
    }

    /// The best rank that some tables, in order, have for a key.
    pub(super) fn best(&self, tables: impl Iterator<Item = usize>, key: &[u32]) -> u32 {
        let words = self.form.words;
        let desc_words = abi::table_desc_words(words);
        let mut best = abi::NONE;
        for table in tables {
            let (mask, desc) = self.descs[table * desc_words..][..desc_words].split_at(words);
            if desc[abi::DESC_BOUND] >= best {
                break;
            }
            best = best.min(self.rank(table, mask, key));
        }
        best
    }

    /// The rank that a table has for a key.
    fn rank(&self, table: usize, mask: &[u32], key: &[u32]) -> u32 {
        let Form { kind, words, .. } = self.form;
        let masked: [u32; WORDS_MAX] =
            std::array::from_fn(|at| if at < words { key[at] & mask[at] } else { 0 });
        let masked = &masked[..words];
        let hash = hash(self.form, self.hash_keys, masked);
        let probe = &self.probes[table * abi::PROBE_WORDS..][..abi::PROBE_WORDS];
        if kind == Kind::Filtered {
            let (first, shift) = abi::filter_of(probe);
            let start = self.tile_start(table) + first as usize;
            let filter = &self.image.part(abi::FILTERS)[start..];
            let is_set = |place: u32| filter[place as usize / 32] >> (place % 32) & 1 == 1;
            if !filter_places(hash, shift).into_iter().all(is_set) {
                return abi::NONE;
            }
        }
        look(self.image, kind, probe, &self.by, hash, masked)
    }

    /// The first word of the filters of a table's tile.
    fn tile_start(&self, table: usize) -> usize {
        let tiles = self.image.part(abi::TILES).chunks_exact(4);
        let tiles = tiles.take(self.image.numbers[abi::TILES_LEN] as usize);
        let tile = tiles.take_while(|tile| tile[0] as usize <= table).last();
        tile.expect("every table is in a tile")[2] as usize
    }
}

/// The rank that a table has for a masked key.
fn look(image: &Image, kind: Kind, probe: &[u32], by: &[u32; 4], hash: u32, masked: &[u32]) -> u32 {
    let slots = &image.part(abi::SLOTS)[2 * probe[abi::PROBE_SLOTS] as usize..];
    let size = probe[abi::PROBE_SIZE];
    let rank_at = |slot: usize| {
        let (tag, entry) = (slots[2 * slot], slots[2 * slot + 1]);
        if entry == 0 || tag != hash {
            return (entry != 0).then_some(abi::NONE);
        }
        let at = (entry as usize - 1) * abi::entry_words(masked.len());
        let entry = &image.part(abi::ENTRIES)[at..];
        let is_value = entry[..masked.len()] == *masked;
        Some(if is_value { entry[masked.len()] } else { abi::NONE })
    };
    if kind == Kind::Open {
        let wrap = u32::MAX >> size;
        let first = hash >> size;
        let run = (0..=wrap).map(|step| rank_at(((first + step) & wrap) as usize));
        let mut run = run.map_while(|rank| rank);
        return run.find(|&rank| rank != abi::NONE).unwrap_or(abi::NONE);
    }
    let place = |part: u32| part * size + high(hash.wrapping_mul(by[part as usize]), size);
    let ranks = (0..3).filter_map(|part| rank_at(place(part) as usize));
    ranks.min().unwrap_or(abi::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuckoo_tables_hold_every_value_once() {
        for len in [0, 1, 2, 3, 7, 100, 5000] {
            let mut seeds = SeedStream::new(len as u64, 1);
            let hashes: Vec<u32> = (0..len).map(|_| seeds.next() as u32).collect();
            let by = [3, 0x9e37_79b9, 0x85eb_ca6b, 5];
            let items: Vec<Slot> =
                hashes.iter().zip(11..).map(|(&hash, entry)| [hash, entry]).collect();
            let (table, part) = cuckoo_slots(&by, &items, len).unwrap();
            let used: Vec<&Slot> = table.iter().filter(|slot| slot[1] != 0).collect();
            assert_eq!(used.len(), len);
            for item in items {
                let found = places(&by, item[0], part).into_iter().any(|at| table[at] == item);
                assert!(found, "{item:?} of {len}");
            }
        }
    }

    #[test]
    fn values_that_cannot_be_told_apart_are_refused_by_a_draw() {
        let items = [[9, 1], [9, 2], [9, 3], [9, 4]];
        assert!(cuckoo_slots(&[1, 3, 5, 7], &items[..3], 3).is_some());
        assert!(cuckoo_slots(&[1, 3, 5, 7], &items, 4).is_none());
    }

    #[test]
    fn filters_pass_what_was_put_into_them() {
        let mut seeds = SeedStream::new(3, 1);
        let hashes: Vec<u32> = (0..1000).map(|_| seeds.next() as u32).collect();
        let (words, shift) = filter(&hashes);
        let passes = |hash: u32| {
            let is_set = |place: u32| words[place as usize / 32] >> (place % 32) & 1 == 1;
            filter_places(hash, shift).into_iter().all(is_set)
        };
        assert!(hashes.iter().all(|&hash| passes(hash)));
        let passed = (0..10_000).filter(|_| passes(seeds.next() as u32)).count();
        assert!(passed < 300, "{passed} of 10,000 others pass");
    }
}
