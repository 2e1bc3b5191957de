//! The form of the keys of one table's engine: the bits that all flows demand alike, and the words
//! that differ.

use std::ptr;

use smallvec::SmallVec;
use warpswitch_flow::{PackedKey, Shape};
use warpswitch_rules::Schema;
use warpswitch_rules::openflow::{FLOW_WORDS, FlowMatch};
use warpswitch_rules::schema::{Field, FieldFormat, FieldSpec, IPV4_5TUPLE};

/// The word of the transport ports in a flow key.
const PORTS_WORD: usize = 39;
/// Addresses, ports, and protocol with TCP flags: the words of [`IPV4_5TUPLE`] in its order.
const TUPLE_WORDS: [usize; 4] = [34, 38, PORTS_WORD, 40];
/// The bits of the last of them that the schema has.
const TUPLE_LAST_BITS: u32 = 0xff00_0fff;

/// Projections that a table keeps.
const PROJECTIONS_MAX: usize = 16;

/// A field of one word. Engines read places and widths; what field it is has no meaning here.
const fn word(index: usize) -> FieldSpec {
    let (field, format) = (Field::InPort, FieldFormat::Hex);
    FieldSpec { field, name: "word", bit_offset: 32 * index, bits: 32, format }
}

/// One of both transport ports, in the last word.
const fn port(field: Field, index: usize, bit: usize) -> FieldSpec {
    let (name, format) = ("port", FieldFormat::Decimal);
    FieldSpec { field, name, bit_offset: 32 * index + bit, bits: 16, format }
}

/// Ten words, the last for ports.
static WORDS_10: Schema = Schema {
    name: "flow_words_10",
    words: 10,
    ports_word: 9,
    fields: &[
        word(0),
        word(1),
        word(2),
        word(3),
        word(4),
        word(5),
        word(6),
        word(7),
        word(8),
        port(Field::L4Src, 9, 0),
        port(Field::L4Dst, 9, 16),
    ],
};

/// Sixteen words, the last for ports.
static WORDS_16: Schema = Schema {
    name: "flow_words_16",
    words: 16,
    ports_word: 15,
    fields: &[
        word(0),
        word(1),
        word(2),
        word(3),
        word(4),
        word(5),
        word(6),
        word(7),
        word(8),
        word(9),
        word(10),
        word(11),
        word(12),
        word(13),
        word(14),
        port(Field::L4Src, 15, 0),
        port(Field::L4Dst, 15, 16),
    ],
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) schema: &'static Schema,
    /// Word, bits and value that all flows demand.
    common: Vec<(u8, u32, u32)>,
    /// For each word of the schema, the word of a flow key and the bits that some flow examines.
    words: Vec<(u8, u32)>,
}

impl Default for Form {
    fn default() -> Self {
        Form::of([].iter())
    }
}

impl Form {
    /// The narrowest form for these matches. Those that need more words than a schema has do not
    /// fit; the words that most matches examine come first.
    pub(crate) fn of<'a>(matches: impl Iterator<Item = &'a FlowMatch>) -> Self {
        let mut first: Option<&FlowMatch> = None;
        let (mut shared, mut used) = ([u32::MAX; FLOW_WORDS], [0; FLOW_WORDS]);
        let mut examined = [0usize; FLOW_WORDS];
        let mut matches: Vec<&FlowMatch> = matches.collect();
        for matching in &matches {
            let first = *first.get_or_insert(matching);
            for (word, shared) in shared.iter_mut().enumerate() {
                let differs = matching.value()[word] ^ first.value()[word];
                *shared &= matching.mask()[word] & !differs;
            }
        }
        let is_empty = matches.is_empty();
        for matching in matches.drain(..) {
            for word in 0..FLOW_WORDS {
                let bits = matching.mask()[word] & !shared[word];
                used[word] |= bits;
                examined[word] += usize::from(bits != 0);
            }
        }
        let common = (0..FLOW_WORDS).filter(|&word| !is_empty && shared[word] != 0);
        let value = |word: usize| first.map_or(0, |first| first.value()[word] & shared[word]);
        let common = common.map(|word| (word as u8, shared[word], value(word))).collect();
        let mut words: Vec<usize> = (0..FLOW_WORDS).filter(|&word| used[word] != 0).collect();
        let is_tuple = words.iter().all(|word| TUPLE_WORDS.contains(word))
            && used[TUPLE_WORDS[3]] & !TUPLE_LAST_BITS == 0;
        let (schema, order): (&'static Schema, Vec<usize>) = if is_tuple {
            (&IPV4_5TUPLE, TUPLE_WORDS.to_vec())
        } else {
            words.retain(|&word| word != PORTS_WORD);
            let schema = if words.len() < WORDS_10.words { &WORDS_10 } else { &WORDS_16 };
            words.sort_by_key(|&word| std::cmp::Reverse(examined[word]));
            words.truncate(schema.words - 1);
            words.sort_unstable();
            // Words without bits fill the rest: they are zero in every key.
            words.resize(schema.words - 1, 0);
            words.push(PORTS_WORD);
            (schema, words)
        };
        let mut taken = [false; FLOW_WORDS];
        let bits = |word: usize| {
            let is_first = !std::mem::replace(&mut taken[word], true);
            if is_first { used[word] } else { 0 }
        };
        let mut bits = bits;
        let words = order.into_iter().map(|word| (word as u8, bits(word))).collect();
        Self { schema, common, words }
    }

    /// Whether the form has all that a match demands.
    pub(crate) fn holds(&self, matching: &FlowMatch) -> bool {
        let (value, mask) = (matching.value(), matching.mask());
        let mut left = *mask;
        for &(word, bits, common) in &self.common {
            let word = usize::from(word);
            if mask[word] & bits != bits || value[word] & bits != common {
                return false;
            }
            left[word] &= !bits;
        }
        for &(word, bits) in &self.words {
            left[usize::from(word)] &= !bits;
        }
        left == [0; FLOW_WORDS]
    }

    /// The same; bits of its words that no flow examined so far are added.
    pub(crate) fn admit(&mut self, matching: &FlowMatch) -> bool {
        let widened: Vec<(u8, u32)> = self
            .words
            .iter()
            .map(|&(word, bits)| {
                let new = matching.mask()[usize::from(word)] & !self.common_bits(word);
                // A word without bits fills a gap and has none of its own.
                (word, if bits == 0 { 0 } else { bits | new })
            })
            .collect();
        let is_tuple = self.schema.words == IPV4_5TUPLE.words;
        if is_tuple && widened[3].1 & !TUPLE_LAST_BITS != 0 {
            return false;
        }
        let wider = Form { words: widened, common: self.common.clone(), schema: self.schema };
        let holds = wider.holds(matching);
        if holds {
            *self = wider;
        }
        holds
    }

    fn common_bits(&self, word: u8) -> u32 {
        self.common.iter().find(|common| common.0 == word).map_or(0, |common| common.1)
    }

    /// Where its words lie in packed keys of this shape.
    fn project(&self, shape: Shape) -> Projection {
        let place = |word: u8| shape.words.iter().position(|&other| other == word);
        let words = self.words.iter().map(|&(word, bits)| match place(word) {
            Some(at) => (at as u8, bits),
            None => (0, 0),
        });
        let mut projection = Projection {
            shape_words: shape.words,
            words: words.collect(),
            common: SmallVec::new(),
            is_never_common: false,
        };
        for &(word, bits, value) in &self.common {
            match place(word) {
                Some(at) => projection.common.push((at as u8, bits, value)),
                None => projection.is_never_common |= value != 0,
            }
        }
        projection
    }

    /// Appends the words of a match that it holds.
    pub(crate) fn write_match(
        &self,
        matching: &FlowMatch,
        value: &mut Vec<u32>,
        mask: &mut Vec<u32>,
    ) {
        for &(word, bits) in &self.words {
            let bits = matching.mask()[usize::from(word)] & bits;
            value.push(matching.value()[usize::from(word)] & bits);
            mask.push(bits);
        }
    }
}

/// Where the words of a form lie in the packed keys of shapes with the same words.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    /// The words of the shape; most shapes have one of a few lists.
    shape_words: &'static [u8],
    /// For each word of the schema, a word of the packed key and the bits that some flow examines.
    words: SmallVec<[(u8, u32); 16]>,
    /// Word, bits and value that all flows demand.
    common: SmallVec<[(u8, u32, u32); 4]>,
    /// Whether all flows demand a word that the shape does not have.
    is_never_common: bool,
}

impl Projection {
    /// Writes the words of the keys of `group` up to the first one of another shape, and whether
    /// each has the bits that all flows demand. Returns how many keys it wrote.
    #[inline]
    pub(crate) fn write(
        &self,
        keys: &[PackedKey],
        group: &[u32],
        words: &mut [u32],
        are_common: &mut [bool],
    ) -> usize {
        match self.words[..] {
            // Bits and places stay in registers.
            [a, b, c, d] => self.write_each(keys, group, words, are_common, |key, to| {
                let [a, b, c, d] = [a, b, c, d].map(|(at, bits)| key.word(at) & bits);
                to.copy_from_slice(&[a, b, c, d]);
            }),
            _ => self.write_each(keys, group, words, are_common, |key, to| {
                for (to, &(at, bits)) in to.iter_mut().zip(&self.words) {
                    *to = key.word(at) & bits;
                }
            }),
        }
    }

    #[inline]
    fn write_each(
        &self,
        keys: &[PackedKey],
        group: &[u32],
        words: &mut [u32],
        are_common: &mut [bool],
        write: impl Fn(&PackedKey, &mut [u32]),
    ) -> usize {
        let has = |key: &PackedKey, (at, bits, value): (u8, u32, u32)| key.word(at) & bits == value;
        // Most forms have one, the EtherType.
        let (first, others) = match self.common.split_first() {
            Some((first, others)) => (*first, others),
            None => ((0, 0, 0), &[][..]),
        };
        let to = words.chunks_exact_mut(self.words.len()).zip(are_common);
        for (number, (&idx, (words, is_common))) in group.iter().zip(to).enumerate() {
            let key = &keys[idx as usize];
            if !ptr::eq(key.shape().words, self.shape_words) {
                return number;
            }
            write(key, words);
            let has_first = has(key, first) & !self.is_never_common;
            *is_common = has_first && others.iter().all(|&other| has(key, other));
        }
        group.len()
    }
}

/// The projections of a form that were needed so far.
#[derive(Debug, Default)]
pub(crate) struct Projections(Vec<Projection>);

impl Projections {
    /// Forgets all, for another form.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The projection for this shape.
    #[inline]
    pub(crate) fn of(&mut self, form: &Form, shape: Shape) -> &Projection {
        let known = self.0.iter().position(|known| ptr::eq(known.shape_words, shape.words));
        let at = known.unwrap_or_else(|| self.add(form, shape));
        &self.0[at]
    }

    #[cold]
    fn add(&mut self, form: &Form, shape: Shape) -> usize {
        // The usual shapes are few; the others take turns.
        if self.0.len() == PROJECTIONS_MAX {
            self.0.clear();
        }
        self.0.push(form.project(shape));
        self.0.len() - 1
    }
}
