//! The terms that `bloom`'s tables share: which units go together, and when a kernel makes which.
//!
//! A hash is a sum of terms, each of which depends on the mask of some of a key's units, which are
//! words and ports; see `terms.cuh`. Units are parted into [`abi::TERMS`] groups such that masks of
//! groups, over all tables, are as few as possible. A kernel has [`SLOTS_MAX`] terms of a key at a
//! time. Tables are taken in order, and each chunk of them says which terms it has to make in which
//! slots.
//!
//! # Invariants
//! - T1: when a chunk's tables are searched, each slot that one of them names holds its term.
//! - T2: chunks have all tables in turn, and none has tables of two tiles.

use std::collections::HashMap;

use warpswitch_rules::schema::WORDS_MAX;

use super::abi;

/// A masked key or a mask; words beyond the key's are 0.
pub(super) type Value = [u32; WORDS_MAX];

/// Terms of a key that are there at a time: 128 KB of shared memory for a block's 1024 keys.
const SLOTS_MAX: usize = 32;
/// Tables of a chunk: bits of a word.
const CHUNK_LEN_MAX: usize = 32;
/// Sets of units that are parted into groups: there are 2^8 sets of these to look at.
const ATOMS_MAX: usize = 8;
/// Masks that are looked at to part units.
const SAMPLES_MAX: usize = 128;

/// The upper half of the word with ports, which is a unit in that word's place; the lower half is
/// the one behind all words.
const UPPER: u32 = 0xffff_0000;

/// Units of keys of `words` words.
pub(super) const fn units(words: usize) -> usize {
    words + 1
}

/// What unit `unit` has of a key or a mask, with the word that it is of.
pub(super) fn unit(value: &[u32], words: usize, ports_word: usize, unit: usize) -> (usize, u32) {
    match unit {
        _ if unit == words => (ports_word, value[ports_word] & !UPPER),
        _ if unit == ports_word => (unit, value[unit] & UPPER),
        _ => (unit, value[unit]),
    }
}

/// Which units go together: a bit a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    sets: [u32; abi::TERMS],
    words: usize,
    ports_word: usize,
}

impl Groups {
    /// Those for which `masks` have the fewest different parts, as far as a sample tells.
    fn of(masks: &[Value], words: usize, ports_word: usize) -> Self {
        let step = masks.len().div_ceil(SAMPLES_MAX).max(1);
        let samples: Vec<&Value> = masks.iter().step_by(step).collect();
        let column = |at: usize| {
            Column::of(samples.iter().map(|&mask| (unit(mask, words, ports_word, at).1, 0)))
        };
        let mut atoms: Vec<(u32, Column)> =
            (0..units(words)).map(|at| (1 << at, column(at))).collect();
        // Fields of several words, and units with one mask, cost nothing where they go together.
        while atoms.len() > ATOMS_MAX {
            let joined = |at: usize| atoms[at].1.with(&atoms[at + 1].1);
            let cost = |&(at, ref both): &(usize, Column)| {
                both.len as isize - (atoms[at].1.len + atoms[at + 1].1.len) as isize
            };
            let pairs = (0..atoms.len() - 1).map(|at| (at, joined(at)));
            let (at, both) = pairs.min_by_key(cost).expect("there are two atoms");
            atoms[at] = (atoms[at].0 | atoms[at + 1].0, both);
            atoms.remove(at + 1);
        }
        Self { sets: Self::best(&atoms), words, ports_word }
    }

    /// The best of all ways to part `atoms`.
    fn best(atoms: &[(u32, Column)]) -> [u32; abi::TERMS] {
        let all = (1usize << atoms.len()) - 1;
        let mut columns: Vec<Column> = vec![Column::default()];
        for set in 1..=all {
            let (_, lowest) = &atoms[set.trailing_zeros() as usize];
            let rest = &columns[set & (set - 1)];
            let column = if rest.len == 0 { lowest.clone() } else { rest.with(lowest) };
            columns.push(column);
        }
        // What the sets cost with so many groups, and the last of these.
        let mut costs = vec![usize::MAX; all + 1];
        costs[0] = 0;
        let mut choices = Vec::new();
        for _ in 0..abi::TERMS {
            let mut next = vec![usize::MAX; all + 1];
            let mut choice = vec![0; all + 1];
            next[0] = 0;
            for set in 1..=all {
                let lowest = set & set.wrapping_neg();
                // Every part of the set that has its lowest atom.
                let mut part = set;
                while part != 0 {
                    let cost = costs[set ^ part].saturating_add(columns[part].len);
                    if part & lowest != 0 && cost < next[set] {
                        (next[set], choice[set]) = (cost, part);
                    }
                    part = (part - 1) & set;
                }
            }
            costs = next;
            choices.push(choice);
        }
        let mut groups = [0; abi::TERMS];
        let mut left = all;
        for (group, choice) in groups.iter_mut().zip(choices.iter().rev()) {
            let part = choice[left];
            let of_part = |&(at, _): &(usize, _)| part >> at & 1 == 1;
            *group = atoms.iter().enumerate().filter(of_part).map(|(_, atom)| atom.0).sum();
            left ^= part;
        }
        groups
    }

    /// What each group has of a mask.
    pub(super) fn parts(&self, mask: &Value) -> [Value; abi::TERMS] {
        self.sets.map(|set| {
            let mut part = [0; WORDS_MAX];
            for at in (0..units(self.words)).filter(|at| set >> at & 1 == 1) {
                let (word, bits) = unit(mask, self.words, self.ports_word, at);
                part[word] |= bits;
            }
            part
        })
    }
}

/// A number for each sample, the same for equal masks.
#[derive(Clone, Debug, Default)]
struct Column {
    numbers: Vec<u32>,
    /// How many numbers there are.
    len: usize,
}

impl Column {
    fn of(values: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut known = HashMap::new();
        let numbers = values.map(|value| {
            let next = known.len() as u32;
            *known.entry(value).or_insert(next)
        });
        let numbers = numbers.collect();
        Self { numbers, len: known.len() }
    }

    fn with(&self, other: &Self) -> Self {
        Self::of(self.numbers.iter().copied().zip(other.numbers.iter().copied()))
    }
}

/// How a kernel goes through the tables.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) groups: Groups,
    /// Descriptions of chunks.
    pub(super) chunks: Vec<[u32; abi::CHUNK_WORDS]>,
    /// Terms to make: masks, and slots.
    pub(super) loads: Vec<(Value, u32)>,
    /// The slots of each table's terms.
    pub(super) slots: Vec<[u8; abi::TERMS]>,
    /// Slots in use.
    pub(super) slots_len: usize,
}

impl Plan {
    /// A plan for tables of `masks`, of which those in `starts` are the first ones of tiles.
    pub(super) fn new(
        masks: &[Value],
        starts: &[usize],
        (words, ports_word): (usize, usize),
    ) -> Self {
        let groups = Groups::of(masks, words, ports_word);
        let mut plan = Self { groups, ..Self::default() };
        let mut cache = Cache::default();
        for (table, mask) in masks.iter().enumerate() {
            let parts = plan.groups.parts(mask);
            let has_room = match plan.chunks.last() {
                Some(chunk) => (chunk[abi::CHUNK_LEN] as usize) < CHUNK_LEN_MAX,
                None => false,
            };
            if !has_room || starts.contains(&table) || !cache.has_room(&parts) {
                plan.chunks.push([table as u32, 0, plan.loads.len() as u32, 0]);
                cache.chunk += 1;
            }
            let slots = parts.map(|part| cache.place(&part, &mut plan.loads) as u8);
            plan.slots.push(slots);
            let chunk = plan.chunks.last_mut().expect("the table's");
            chunk[abi::CHUNK_LEN] += 1;
            chunk[abi::CHUNK_LOADS] = plan.loads.len() as u32 - chunk[abi::CHUNK_LOAD];
        }
        plan.slots_len = cache.slots.len();
        plan
    }
}

/// The terms that a kernel has.
#[derive(Default)]
struct Cache {
    /// What is in each slot, and the last chunk that used it.
    slots: Vec<(Value, usize)>,
    by_part: HashMap<Value, usize>,
    chunk: usize,
}

impl Cache {
    /// Whether the chunk at hand can have the terms of `parts` beside those that it has.
    fn has_room(&self, parts: &[Value; abi::TERMS]) -> bool {
        let is_there = |part: &&Value| self.by_part.contains_key(*part);
        let known: Vec<usize> =
            parts.iter().filter(is_there).map(|part| self.by_part[part]).collect();
        let held = |&slot: &usize| self.slots[slot].1 == self.chunk || known.contains(&slot);
        let taken = (0..self.slots.len()).filter(held).count();
        taken + parts.len() - known.len() <= SLOTS_MAX
    }

    /// The slot of a term, which is made if it is not there: in a new slot, or in the one that was
    /// not used for longest.
    fn place(&mut self, part: &Value, loads: &mut Vec<(Value, u32)>) -> u32 {
        if let Some(&slot) = self.by_part.get(part) {
            self.slots[slot].1 = self.chunk;
            return slot as u32;
        }
        let mut slot = self.slots.len();
        if slot < SLOTS_MAX {
            self.slots.push((*part, self.chunk));
        } else {
            let oldest = (0..slot).min_by_key(|&slot| self.slots[slot].1);
            slot = oldest.expect("there are slots");
            assert!(self.slots[slot].1 < self.chunk, "a chunk has room for its terms (T1)");
            self.by_part.remove(&self.slots[slot].0);
            self.slots[slot] = (*part, self.chunk);
        }
        self.by_part.insert(*part, slot);
        loads.push((*part, slot as u32));
        slot as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes through a plan as a kernel does, and holds it against T1 and T2.
    fn check(masks: &[Value], starts: &[usize], words: usize, ports_word: usize) -> Plan {
        let plan = Plan::new(masks, starts, (words, ports_word));
        let mut union = 0;
        for set in plan.groups.sets {
            assert_eq!(union & set, 0, "groups share a unit");
            union |= set;
        }
        assert_eq!(union, (1 << units(words)) - 1, "a unit is in no group");
        let mut slots: Vec<Option<Value>> = vec![None; plan.slots_len];
        let (mut table, mut load) = (0, 0);
        for chunk in &plan.chunks {
            assert_eq!(chunk[abi::CHUNK_FIRST] as usize, table);
            assert_eq!(chunk[abi::CHUNK_LOAD] as usize, load);
            for _ in 0..chunk[abi::CHUNK_LOADS] {
                let (part, slot) = plan.loads[load];
                slots[slot as usize] = Some(part);
                load += 1;
            }
            let len = chunk[abi::CHUNK_LEN] as usize;
            assert!((1..=CHUNK_LEN_MAX).contains(&len));
            for (at, mask) in masks.iter().enumerate().skip(table).take(len) {
                assert!(at == table || !starts.contains(&at), "a chunk in two tiles");
                let terms = plan.slots[at].map(|slot| slots[slot as usize].unwrap());
                assert_eq!(terms, plan.groups.parts(mask), "table {at}");
            }
            table += len;
        }
        assert_eq!((table, load), (masks.len(), plan.loads.len()));
        assert!(plan.slots_len <= SLOTS_MAX);
        plan
    }

    #[test]
    fn every_table_finds_its_terms() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % below) as usize
        };
        for (words, ports_word) in [(4, 2), (10, 7), (16, 13)] {
            for (tables, kinds) in [(0, 1), (1, 1), (40, 2), (300, 3), (300, 33), (700, 200)] {
                let masks: Vec<Value> = (0..tables)
                    .map(|_| {
                        std::array::from_fn(
                            |word| if word < words { draw(kinds) as u32 } else { 0 },
                        )
                    })
                    .collect();
                let starts: Vec<usize> = (0..tables).step_by(1 + draw(90)).collect();
                check(&masks, &starts, words, ports_word);
            }
        }
    }

    /// Each of twelve fields open or not, as GSwitch's sets have them: eight parts a group, of
    /// which groups share the empty one.
    #[test]
    fn masks_of_twelve_fields_fit_the_slots() {
        let fields: [&[(usize, u32)]; 12] = [
            &[(0, !0)],
            &[(1, !0), (2, !0 << 16)],
            &[(2, 0xffff), (3, !0)],
            &[(4, !0 << 16)],
            &[(4, 0x1fff)],
            &[(4, 0xe000)],
            &[(5, !0)],
            &[(6, !0)],
            &[(7, !0 << 16)],
            &[(7, 0xffff)],
            &[(8, !0 << 24)],
            &[(8, 0xff << 16)],
        ];
        let masks: Vec<Value> = (0..512u32)
            .map(|n| {
                let mut mask = [0; WORDS_MAX];
                let chosen = (n.wrapping_mul(0x9e37_79b1) >> 20) ^ n;
                for (field, parts) in fields.iter().enumerate() {
                    for &(word, bits) in parts.iter().filter(|_| chosen >> field & 1 == 1) {
                        mask[word] |= bits;
                    }
                }
                mask
            })
            .collect();
        let plan = check(&masks, &[0, 128, 256, 384], 10, 7);
        assert_eq!(plan.loads.len(), 29, "{:?}", plan.groups);
        assert_eq!(plan.chunks.len(), 16);
    }
}
