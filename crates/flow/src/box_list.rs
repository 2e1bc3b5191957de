//! The heaviest evolving rules, arranged for lookup: what readers of the cache see.
//!
//! A list is immutable for its readers and has room for its most rules from the start, so that a
//! new version is written in place.

use std::fmt;

use warpswitch_classify::hypercuts::{Dim, Span, dims_of};
use warpswitch_rules::{KeyBatch, Schema};

use crate::Answer;
use crate::arch::boxes::{Bounds, Column, Columns, Matcher};

/// Where a dimension lies in the columns.
#[derive(Clone, Copy, Debug)]
struct Seat {
    column: usize,
    shift: u32,
}

/// Cached rules in the order in which they are tried, the heaviest first.
#[derive(Clone)]
pub struct BoxList {
    /// For boxes of all kinds.
    seated: Columns,
    /// For the present ones.
    columns: Columns,
    /// One for each dimension.
    seats: Vec<Seat>,
    /// Values that fill the lower half of each column, where two numbers share it.
    lower_ones: Vec<u32>,
    bounds: Bounds,
    matcher: Matcher,
}

impl fmt::Debug for BoxList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxList").field("rules", &self.len()).finish_non_exhaustive()
    }
}

/// Groups the dimensions into columns: two that fit into halves of one word share a column.
fn seat(schema: &Schema) -> (Columns, Vec<Seat>) {
    let dims = dims_of(schema);
    let fits_half = |dim: &Dim| dim.shift / 16 == (dim.shift + dim.bits - 1) / 16;
    let (mut wide, mut halves): (Vec<Column>, Vec<(Column, u32)>) = (Vec::new(), Vec::new());
    let mut seats = Vec::new();
    let shares_word = |dim: &Dim| {
        let half = |other: &&Dim| other.word == dim.word && fits_half(other);
        dims.iter().filter(half).any(|other| other.shift / 16 != dim.shift / 16)
    };
    for dim in &dims {
        let (mask, half) = (dim.ones() << dim.shift, 1 << (dim.shift / 16));
        let alone = Column { word: dim.word, mask };
        let free = halves.iter().position(|(c, used)| c.word == dim.word && used & half == 0);
        let is_taken = halves.iter().any(|(c, used)| c.word == dim.word && used & half != 0);
        let column = match free {
            _ if !fits_half(dim) || !shares_word(dim) || is_taken && free.is_none() => {
                wide.push(alone);
                (true, wide.len() - 1)
            }
            Some(at) => {
                halves[at].0.mask |= mask;
                halves[at].1 |= half;
                (false, at)
            }
            None => {
                halves.push((alone, half));
                (false, halves.len() - 1)
            }
        };
        seats.push((column, dim.shift));
    }
    // Those that boxes may leave half open come first: ports lie in an earlier word.
    halves.reverse();
    let (wide_len, len) = (wide.len(), wide.len() + halves.len());
    let place =
        |((is_wide, at), shift)| Seat { column: if is_wide { at } else { len - 1 - at }, shift };
    let list = wide.into_iter().chain(halves.into_iter().map(|(column, _)| column)).collect();
    let columns = Columns { list, wide_len, words: schema.words };
    (columns, seats.into_iter().map(place).collect())
}

impl BoxList {
    /// An empty list with room for `rules_max` rules, matched by this machine's best instructions.
    pub fn new(schema: &Schema, rules_max: usize) -> Self {
        Self::with_matcher(schema, rules_max, Matcher::best())
    }

    fn with_matcher(schema: &Schema, rules_max: usize, matcher: Matcher) -> Self {
        let (seated, seats) = seat(schema);
        let mut lower_ones = vec![0; seated.list.len()];
        for (seat, dim) in seats.iter().zip(dims_of(schema)) {
            lower_ones[seat.column] |= dim.ones() << seat.shift & 0xffff;
        }
        let bounds = Bounds {
            lo_spans: Vec::with_capacity(2 * seated.list.len() * rules_max),
            answers: Vec::with_capacity(rules_max),
        };
        let columns = seated.clone();
        Self { seated, columns, seats, lower_ones, bounds, matcher }
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.bounds.answers.len()
    }

    /// Whether the list is empty: every lookup misses.
    pub fn is_empty(&self) -> bool {
        self.bounds.answers.is_empty()
    }

    /// Replaces the rules.
    pub fn fill<'a>(&mut self, rules: impl IntoIterator<Item = (&'a [Span], Answer)>) {
        let columns_len = self.columns.list.len();
        self.bounds.lo_spans.clear();
        self.bounds.answers.clear();
        for (region, answer) in rules {
            let first = self.bounds.lo_spans.len();
            self.bounds.lo_spans.resize(first + 2 * columns_len, 0);
            let (lo, span) = self.bounds.lo_spans[first..].split_at_mut(columns_len);
            for (seat, part) in self.seats.iter().zip(region) {
                lo[seat.column] |= part.lo << seat.shift;
                span[seat.column] |= (part.hi - part.lo) << seat.shift;
            }
            self.bounds.answers.push(answer);
        }
        self.widen();
    }

    /// Takes the rules of another list of the same schema, without allocating.
    pub fn set(&mut self, other: &Self) {
        self.columns.list.clone_from(&other.columns.list);
        self.columns.wide_len = other.columns.wide_len;
        self.bounds.lo_spans.clone_from(&other.bounds.lo_spans);
        self.bounds.answers.clone_from(&other.bounds.answers);
    }

    /// Compares the first column of halves as a wide one if its lower half decides nothing, which
    /// is the usual case of protocol and TCP flags.
    fn widen(&mut self) {
        self.columns.clone_from(&self.seated);
        let (first, len) = (self.columns.wide_len, self.columns.list.len());
        let boxes = self.bounds.lo_spans.chunks_exact(2 * len);
        let is_open = |lo_spans: &[u32]| {
            let (lo, span) = (lo_spans[first] & 0xffff, lo_spans[len + first] & 0xffff);
            (lo, span) == (0, self.lower_ones[first])
        };
        if len - first == 2 && boxes.into_iter().all(is_open) {
            self.columns.list[first].mask &= 0xffff_0000;
            self.columns.wide_len += 1;
        }
    }

    /// Writes the answer of the first rule that contains each key, or [`Answer::MISS`].
    ///
    /// # Panics
    /// If the keys are of another schema or `out` is shorter than the batch: a caller bug.
    pub fn lookup(&self, keys: KeyBatch<'_>, out: &mut [Answer]) {
        assert_eq!(keys.words_per_key(), self.columns.words, "keys of another schema");
        self.matcher.run(&self.columns, &self.bounds, keys.words(), out);
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_rules::KeyBuf;
    use warpswitch_rules::generate::Prng;
    use warpswitch_rules::schema::SCHEMAS;

    use super::*;

    #[test]
    fn every_schema_has_a_vector_form() {
        for schema in SCHEMAS {
            let (columns, seats) = seat(schema);
            let shape = (columns.words, columns.wide_len, columns.list.len());
            let known = [(4, 2, 4), (10, 8, 10), (10, 6, 10), (16, 12, 16)];
            assert!(known.contains(&shape), "{}: {shape:?}", schema.name);
            if shape.2 - shape.1 == 2 {
                let ports = columns.list[shape.2 - 1];
                assert_eq!(ports.word, schema.ports_word, "{}: ports come last", schema.name);
            }
            let masks = columns.list.iter().fold(vec![0u32; schema.words], |mut words, column| {
                assert_eq!(words[column.word] & column.mask, 0);
                words[column.word] |= column.mask;
                words
            });
            assert_eq!(masks, schema.used_bits()[..schema.words], "{}", schema.name);
            assert_eq!(seats.len(), dims_of(schema).len());
        }
    }

    /// Boxes around one point, some empty but for it, some wide, and keys near their bounds. With
    /// `open`, TCP flags and the like are wide in all of them.
    fn random_boxes(
        dims: &[Dim],
        rules: usize,
        open: bool,
        prng: &mut Prng,
    ) -> Vec<(Vec<Span>, Answer)> {
        let is_open = |dim: &Dim| open && dim.shift == 0 && dim.bits < 16;
        let span = |dim: &Dim, prng: &mut Prng| {
            let ends = [0, 1, dim.ones() / 2, dim.ones() - 1, dim.ones(), prng.next_u64() as u32];
            let mut end = || ends[prng.index(ends.len())] & dim.ones();
            let (a, b) = (end(), end());
            let wide = Span { lo: 0, hi: dim.ones() };
            if is_open(dim) || prng.chance(700) {
                wide
            } else {
                Span { lo: a.min(b), hi: a.max(b) }
            }
        };
        let answer = |n: usize| Answer(n as u32 * 7);
        let rules = 0..rules;
        rules.map(|n| (dims.iter().map(|dim| span(dim, prng)).collect(), answer(n))).collect()
    }

    fn reference(rules: &[(Vec<Span>, Answer)], dims: &[Dim], key: &[u32]) -> Answer {
        let contains = |region: &[Span]| {
            dims.iter().zip(region).all(|(dim, span)| (span.lo..=span.hi).contains(&dim.part(key)))
        };
        rules
            .iter()
            .find(|(region, _)| contains(region))
            .map_or(Answer::MISS, |(_, answer)| *answer)
    }

    #[test]
    fn every_instruction_set_finds_the_first_box() {
        let mut prng = Prng::new(5);
        let (mut hits, mut widened) = (0, 0);
        for (schema, open) in SCHEMAS.iter().flat_map(|&schema| [(schema, false), (schema, true)]) {
            let dims = dims_of(schema);
            for (rules, keys_len) in [(0, 40), (1, 16), (20, 300), (20, 1), (30, 77), (7, 0)] {
                let boxes = random_boxes(&dims, rules, open, &mut prng);
                let mut keys = KeyBuf::new(schema);
                for _ in 0..keys_len {
                    let near = boxes.get(prng.index(rules.max(1)));
                    let mut key = vec![0; schema.words];
                    for (at, dim) in dims.iter().enumerate() {
                        let random = prng.next_u64() as u32;
                        let part = near.map_or(random, |(region, _)| match random % 16 {
                            0 => region[at].hi.wrapping_add(1),
                            1 => region[at].lo.wrapping_sub(1),
                            n if n.is_multiple_of(2) => region[at].lo,
                            _ => region[at].hi,
                        });
                        key[dim.word] |= (part & dim.ones()) << dim.shift;
                    }
                    keys.push(&key);
                }
                let expected: Vec<Answer> =
                    keys.as_batch().iter().map(|key| reference(&boxes, &dims, key)).collect();
                hits += expected.iter().filter(|answer| **answer != Answer::MISS).count();
                for matcher in Matcher::available() {
                    let mut list = BoxList::with_matcher(schema, rules, matcher);
                    list.fill(boxes.iter().map(|(region, answer)| (&region[..], *answer)));
                    widened += usize::from(list.columns != list.seated && rules > 5);
                    let mut out = vec![Answer(1); keys_len];
                    list.lookup(keys.as_batch(), &mut out);
                    assert_eq!(out, expected, "{matcher:?} {} {rules} rules", schema.name);
                }
            }
        }
        assert!(hits > 200, "most keys lie in boxes: {hits}");
        assert!(widened > 0, "some columns of halves become wide");
    }
}
