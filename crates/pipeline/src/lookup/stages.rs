//! Fewer examined bits: stages of a tuple, and prefixes of a table.
//!
//! ```text
//! tuple: in_port, registers ─► Ethernet ─► network ─► transport      a stage at a time
//!                                           │ prefix?    │ prefix?   addresses, ports
//! ```
//! A recorded lookup notes the bits that it examined; the fewer, the more packets a cached
//! traversal serves. A tuple is probed in stages: if no flow of it has the bits of the first ones,
//! the later ones were not examined. Addresses and ports are looked up in tries of their prefixes
//! first.
//!
//! Bits may be noted that decide nothing (sets hold hashes, which may collide); a bit that decides
//! is always noted.
//!
//! # Source
//! Pfaff et al., "The Design and Implementation of Open vSwitch", NSDI 2015, sections 5.3 to 5.5.

use hashbrown::HashTable;
use warpswitch_flow::flow_hash::{FlowHash, MaskedWords, masked_words};
use warpswitch_rules::openflow::{FLOW_WORDS, FlowKey};

use super::trie::{Found, Trie, Way};

/// Stages.
const STAGES: usize = 4;

/// The stage of a word.
fn stage_of(word: usize) -> usize {
    match word {
        0..=24 => 0,
        25..=28 => 1,
        39 | 46..=49 => 3,
        _ => 2,
    }
}

/// A field that is matched by prefixes: bits of one or two words.
#[derive(Clone, Copy, Debug)]
struct PrefixField {
    stage: usize,
    /// Words and the bits of each, the first ones first.
    words: &'static [(usize, u32)],
    /// Words that a mask must leave out: those of the other family.
    without: &'static [usize],
}

/// IPv4 addresses, the first words of IPv6 addresses, and ports: a trie of more bits would take
/// more memory than the flows.
static PREFIX_FIELDS: [PrefixField; 6] = [
    PrefixField { stage: 2, words: &[(34, u32::MAX)], without: &[31, 32, 33] },
    PrefixField { stage: 2, words: &[(38, u32::MAX)], without: &[35, 36, 37] },
    PrefixField { stage: 2, words: &[(31, u32::MAX)], without: &[] },
    PrefixField { stage: 2, words: &[(35, u32::MAX)], without: &[] },
    PrefixField { stage: 3, words: &[(39, 0xffff_0000)], without: &[] },
    PrefixField { stage: 3, words: &[(39, 0x0000_ffff)], without: &[] },
];

impl PrefixField {
    /// The bits of the field, left-aligned.
    fn read(&self, words: &FlowKey) -> u64 {
        let (mut value, mut bits) = (0, 0);
        for &(word, mask) in self.words {
            let part = (words[word] & mask) >> mask.trailing_zeros();
            value = value << mask.count_ones() | u64::from(part);
            bits += mask.count_ones();
        }
        value << (64 - bits)
    }

    /// The length of the prefix that a mask is in this field; none if it is no prefix, or empty.
    fn prefix_len(&self, mask: &FlowKey) -> Option<u32> {
        let bits = self.read(mask);
        let is_other = self.without.iter().any(|&word| mask[word] != 0);
        let len = bits.leading_ones();
        (bits != 0 && !is_other && len == bits.count_ones()).then_some(len)
    }

    /// Adds the first `len` bits of the field to `examined`.
    fn examine(&self, len: u32, examined: &mut FlowKey) {
        let mut left = len;
        for &(word, mask) in self.words {
            let bits = mask.count_ones().min(left);
            let ones = !(u32::MAX.checked_shr(bits).unwrap_or(0));
            examined[word] |= ones >> mask.leading_zeros() & mask;
            left -= bits;
        }
    }
}

/// The prefixes of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefixes {
    tries: [Trie; PREFIX_FIELDS.len()],
}

impl Prefixes {
    pub(crate) fn insert(&mut self, stages: &Stages, key: &FlowKey) {
        for &(field, len) in &stages.prefixes {
            let value = PREFIX_FIELDS[field].read(key);
            self.tries[field].insert(value, len);
        }
    }

    pub(crate) fn remove(&mut self, stages: &Stages, key: &FlowKey) {
        for &(field, len) in &stages.prefixes {
            let value = PREFIX_FIELDS[field].read(key);
            self.tries[field].remove(value, len);
        }
    }
}

/// The ways of one key through the tries, each followed when a tuple first needs it.
#[derive(Debug, Default)]
pub(crate) struct Ways([Option<Way>; PREFIX_FIELDS.len()]);

impl Ways {
    #[inline]
    fn of(&mut self, field: usize, prefixes: &Prefixes, key: &FlowKey) -> Way {
        *self.0[field]
            .get_or_insert_with(|| prefixes.tries[field].follow(PREFIX_FIELDS[field].read(key)))
    }
}

/// Keyed hashes, and how often each was added.
#[derive(Clone, Debug, Default)]
struct HashCounts(HashTable<(u64, u32)>);

impl HashCounts {
    fn add(&mut self, hash: u64) {
        match self.0.find_mut(hash, |&(other, _)| other == hash) {
            Some((_, count)) => *count += 1,
            None => _ = self.0.insert_unique(hash, (hash, 1), |&(other, _)| other),
        }
    }

    fn remove(&mut self, hash: u64) {
        if let Ok(mut entry) = self.0.find_entry(hash, |&(other, _)| other == hash) {
            entry.get_mut().1 -= 1;
            if entry.get().1 == 0 {
                entry.remove();
            }
        }
    }

    #[inline]
    fn has(&self, hash: u64) -> bool {
        self.0.find(hash, |&(other, _)| other == hash).is_some()
    }
}

/// The stages of a tuple.
#[derive(Clone, Debug)]
pub(crate) struct Stages {
    /// The words up to the end of each stage but the last, and hashes of the flows' bits in them
    /// with the number of matches that have each; none for a stage that adds no word.
    sets: [Option<(MaskedWords, HashCounts)>; STAGES - 1],
    /// Fields and lengths of prefixes.
    prefixes: Vec<(usize, u32)>,
    /// Masks up to the end of each stage.
    masks: Box<[FlowKey; STAGES]>,
}

impl Stages {
    pub(crate) fn new(mask: &FlowKey) -> Self {
        let mut masks = Box::new([[0; FLOW_WORDS]; STAGES]);
        for (stage, up_to) in masks.iter_mut().enumerate() {
            for word in (0..FLOW_WORDS).filter(|&word| stage_of(word) <= stage) {
                up_to[word] = mask[word];
            }
        }
        let set = |stage: usize| {
            let before = if stage == 0 { [0; FLOW_WORDS] } else { masks[stage - 1] };
            let is_useful = masks[stage] != before && masks[stage] != masks[STAGES - 1];
            is_useful.then(|| (masked_words(&masks[stage]), HashCounts::default()))
        };
        let sets = [set(0), set(1), set(2)];
        let fields = PREFIX_FIELDS.iter().enumerate();
        let prefixes =
            fields.filter_map(|(number, field)| Some((number, field.prefix_len(mask)?))).collect();
        Self { sets, prefixes, masks }
    }

    /// A match comes into the tuple.
    pub(crate) fn insert(&mut self, hash: &FlowHash, key: &FlowKey) {
        for (words, set) in self.sets.iter_mut().flatten() {
            set.add(hash.hash(words, key, 0));
        }
    }

    /// A match leaves it.
    pub(crate) fn remove(&mut self, hash: &FlowHash, key: &FlowKey) {
        for (words, set) in self.sets.iter_mut().flatten() {
            set.remove(hash.hash(words, key, 0));
        }
    }

    /// Whether some flow of the tuple may match the key, whose ways are `ways`; the bits that
    /// decided are added to `examined`, all of the tuple's if one may.
    pub(crate) fn may_match(
        &self,
        hash: &FlowHash,
        prefixes: &Prefixes,
        ways: &mut Ways,
        key: &FlowKey,
        examined: &mut FlowKey,
    ) -> bool {
        for stage in 0..STAGES {
            let of_stage = |&&(field, _): &&(usize, u32)| PREFIX_FIELDS[field].stage == stage;
            for &(field, len) in self.prefixes.iter().filter(of_stage) {
                if let Found::None(bits) = ways.of(field, prefixes, key).find(len) {
                    PREFIX_FIELDS[field].examine(bits, examined);
                    return false;
                }
            }
            if let Some(Some((words, set))) = self.sets.get(stage)
                && !set.has(hash.hash(words, key, 0))
            {
                super::add_bits(Some(examined), &self.masks[stage]);
                return false;
            }
        }
        super::add_bits(Some(examined), &self.masks[STAGES - 1]);
        true
    }
}
