//! Linear search, sixteen rules at once.
//!
//! ```text
//! rules in order of precedence, in blocks of 16; a block is one row of 16 numbers for each
//!   value and mask of every word that some rule of the set examines   (used words)
//!   l4_src lo and hi, l4_dst lo and hi, if some port is matched by a range
//!
//! key word w ─ broadcast ─► & mask row == value row ─► 16 bits ─┐
//! key ports  ─ broadcast ─► lo row <= port <= hi row ─► 16 bits ┴─& ─► lowest set bit wins
//! ```
//! The blocks are scanned in order, so the first block with a bit left holds the winner. A chunk of
//! keys goes through the blocks tile by tile; a key that has its winner leaves.
//!
//! # Invariants
//! - S1: lanes beyond the last rule have range rows `lo > hi`, or a value row that no masked key
//!   equals (`value = 1` under `mask = 0`), and so never match.
//! - S2: rows are in the order of [`Layout`]; all blocks have the same rows. The number of words is
//!   even: one may be there twice.
//!
//! The instructions are chosen when the index is built: AVX-512, AVX2, or portable code that
//! compilers turn into what the target has.

use warpswitch_rules::{KeyBatch, PortRange, RuleId};

use crate::arch::linear::{Layout, ROW_LEN, Row, Scanner};
use crate::classifier::{Detail, Engine};
use crate::index::{Index, TooLarge};
use crate::store::{RuleStore, dearest_rules};

/// Keys that share the tiles they read.
const CHUNK_LEN: usize = 256;

/// Blocks of a tile: 20 KiB with the rows of a 5-tuple.
const TILE_BLOCKS: usize = 32;

/// All rules in blocks of rows.
#[derive(Debug)]
pub(crate) struct LinearSimd {
    scanner: Scanner,
    layout: Layout,
    rows: Vec<Row>,
    ids: Vec<RuleId>,
}

impl LinearSimd {
    fn build_with(scanner: Scanner, store: &RuleStore, bytes_max: usize) -> Result<Self, TooLarge> {
        let places = store.places_by_precedence();
        let layout = layout_of(store, &places);
        let blocks = places.len().div_ceil(ROW_LEN);
        let bytes = blocks * layout.rows_per_block() * size_of::<Row>() + 4 * places.len();
        if bytes > bytes_max {
            let ids = places.iter().map(|&place| (1, store.rule(place).id));
            return Err(TooLarge { bytes, rules: dearest_rules(ids) });
        }
        let mut rows = Vec::with_capacity(blocks * layout.rows_per_block());
        for block in places.chunks(ROW_LEN) {
            push_block(store, &layout, block, &mut rows);
        }
        let ids = places.iter().map(|&place| store.rule(place).id).collect();
        Ok(Self { scanner, layout, rows, ids })
    }
}

impl LinearSimd {
    /// Tile by tile, so that the rows of one stay in the nearest cache for all keys.
    fn search(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        out.fill(RuleId::NONE);
        let mut active: [u16; CHUNK_LEN] = std::array::from_fn(|idx| idx as u16);
        let mut active_len = out.len();
        let rows_per_tile = TILE_BLOCKS * self.layout.rows_per_block();
        let tiles = self.rows.chunks(rows_per_tile).zip(self.ids.chunks(TILE_BLOCKS * ROW_LEN));
        for (rows, ids) in tiles {
            let mut kept = 0;
            for at in 0..active_len {
                let idx = usize::from(active[at]);
                match self.scanner.first_match(&self.layout, rows, keys.key(idx)) {
                    Some(position) => out[idx] = ids[position],
                    None => {
                        active[kept] = active[at];
                        kept += 1;
                    }
                }
            }
            active_len = kept;
        }
    }
}

/// Which words and ports the rules examine.
fn layout_of(store: &RuleStore, places: &[u32]) -> Layout {
    let schema = store.schema();
    let mut used = vec![false; schema.words];
    let mut ranges = false;
    for &place in places {
        let matching = store.rule(place).matching;
        used.iter_mut().zip(matching.mask).for_each(|(used, &mask)| *used |= mask != 0);
        ranges |= !matching.ranges_are_prefixes();
    }
    // S1 needs a row that unused lanes can fail on.
    used[0] |= used.iter().all(|&used| !used);
    let mut words: Vec<usize> = (0..schema.words).filter(|&word| used[word]).collect();
    if words.len() % 2 == 1 {
        words.push(words[0]);
    }
    Layout { words, ports_word: schema.ports_word, ranges }
}

fn push_block(store: &RuleStore, layout: &Layout, places: &[u32], rows: &mut Vec<Row>) {
    let row = |pad: u32, of: &dyn Fn(u32) -> u32| {
        let mut row = [pad; ROW_LEN];
        row.iter_mut().zip(places).for_each(|(lane, &place)| *lane = of(place));
        row
    };
    for &word in &layout.words {
        rows.push(row(1, &|place| store.rule(place).matching.value[word]));
        rows.push(row(0, &|place| store.rule(place).matching.mask[word]));
    }
    if layout.ranges {
        for side in 0..2 {
            let range = |place: u32| -> PortRange { store.rule(place).matching.ranges[side] };
            rows.push(row(1, &|place| range(place).lo.into()));
            rows.push(row(0, &|place| range(place).hi.into()));
        }
    }
}

impl Index for LinearSimd {
    const ENGINE: Engine = Engine::LinearSimd;

    type Device = ();

    fn build((): &(), store: &RuleStore, bytes_max: usize, _: u64) -> Result<Self, TooLarge> {
        Self::build_with(Scanner::best(), store, bytes_max)
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        for (start, out) in (0..).step_by(CHUNK_LEN).zip(out.chunks_mut(CHUNK_LEN)) {
            self.search(keys.slice(start, start + out.len()), out);
        }
    }

    fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.ids.capacity() * size_of::<RuleId>()
    }

    fn details(&self) -> Vec<Detail> {
        vec![
            Detail { name: "rules", value: self.ids.len() as f64 },
            Detail { name: "used_words", value: self.layout.words.len() as f64 },
            Detail { name: "simd_bits", value: f64::from(self.scanner.bits()) },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::schema::SCHEMAS;
    use warpswitch_rules::{Action, Field, KeyBuf, Match, Rule, Ruleset, RulesetBuilder, linear};

    /// Rules that meet every row kind, with full, partial and single last blocks.
    fn ruleset(schema: &'static warpswitch_rules::Schema, rules: u32, ranges: bool) -> Ruleset {
        let mut builder = RulesetBuilder::new(schema);
        for n in 0..rules {
            let mut matching = Match::any(schema);
            let spec = &schema.fields[n as usize % 2];
            matching.set_prefix(spec.field, u128::from(n / 2) << (spec.bits - 8), 8);
            matching.set_exact(Field::IpProto, u128::from(n % 5));
            if ranges {
                matching.set_range(Field::L4Dst, n as u16, (n + 3) as u16);
            }
            builder.push(Rule { priority: n % 3, ..Rule::new(matching, Action::Pass) });
        }
        builder.build()
    }

    #[test]
    fn every_instruction_set_finds_what_the_reference_finds() {
        for schema in SCHEMAS {
            for (rules, ranges) in
                [(0, false), (1, false), (1, true), (16, true), (50, false), (1500, true)]
            {
                let ruleset = ruleset(schema, rules, ranges);
                let store = RuleStore::new(&ruleset);
                let mut keys = KeyBuf::new(schema);
                for n in 0..400u32 {
                    let mut key = vec![0; schema.words];
                    for spec in &schema.fields[..2] {
                        spec.write(&mut key, u128::from(n % 29) << (spec.bits - 8));
                    }
                    schema.field(Field::IpProto).unwrap().write(&mut key, u128::from(n % 6));
                    schema.field(Field::L4Dst).unwrap().write(&mut key, u128::from(n % 60));
                    keys.push(&key);
                }
                let mut expected = vec![RuleId::NONE; keys.len()];
                linear::classify(&ruleset, keys.as_batch(), &mut expected);
                for scanner in Scanner::available() {
                    let index = LinearSimd::build_with(scanner, &store, usize::MAX).unwrap();
                    let mut out = vec![RuleId(77); keys.len()];
                    index.classify(keys.as_batch(), &mut out);
                    assert_eq!(out, expected, "{scanner:?} {} {rules} rules", schema.name);
                }
            }
        }
    }
}
