//! Images that change: what the writer keeps beside one, and the patches that it makes.
//!
//! ```text
//! change ─► model: words ─► patch: units that differ ─► the copy that no batch uses ─► published
//!            └─ dirty units                              (host, and card)
//! ```
//! An image lies on a device in several copies (`crate::copies`). The writer never touches one that
//! a batch may read: it changes the *model*, words of its own, and notes which units of eight words
//! it wrote. A patch is these units as they are now; it brings a copy of any earlier version up to
//! date that is not older than the notes.
//!
//! Why units: eight words are a row, or the sector that a card's memory moves anyway, so an offset
//! for each costs an eighth; and whether a unit is noted already is one bit.
//!
//! # Invariants
//! - V1: the model's words are what [`super::Image`] would be for these rules: lookups in a copy
//!   that was patched equal the reference at the model's version.
//! - V2: a change that found no room may have been made in part. The model is not used any more
//!   then; its owner builds a new image.

mod ranks;
mod space;
pub(super) mod tables;
pub(super) mod turbo;

use warpswitch_classify::parts::RuleStore;
use warpswitch_rules::RuleRef;

use super::abi::UNIT_WORDS;
use super::{VIEW_NUMBERS, abi};
use crate::copies::COPIES;
use ranks::Entered;
pub(super) use ranks::Ranks;

/// That a change needs a new image: there is no room, or the layout cannot hold the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// Words to be written over those of a copy, unit by unit.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    /// Which units, no one twice.
    pub(crate) units: Vec<u32>,
    /// Eight words for each.
    pub(crate) words: Vec<u32>,
    /// The numbers of the view.
    pub(crate) numbers: [u32; VIEW_NUMBERS],
    /// No id is larger that came with changes.
    pub(crate) id_max: u32,
}

impl Patch {
    /// Writes its words over those of a copy.
    pub(crate) fn apply(&self, words: &mut [u32]) {
        for (&unit, new) in self.units.iter().zip(self.words.chunks_exact(UNIT_WORDS)) {
            let at = unit as usize * UNIT_WORDS;
            words[at..at + UNIT_WORDS].copy_from_slice(new);
        }
    }
}

/// The writer's words, and which of them it wrote.
#[derive(Debug)]
pub(crate) struct Model {
    pub(super) words: Vec<u32>,
    pub(super) numbers: [u32; VIEW_NUMBERS],
    /// A bit a unit: noted.
    noted: Vec<u64>,
    units: Vec<u32>,
    /// Units that were new in each of the last patches, the latest first: what brought the copies
    /// from the one that is to be patched next to the one that is published.
    former: [Vec<u32>; COPIES - 1],
    /// Whether numbers changed since the last patch.
    renumbered: bool,
}

impl Model {
    pub(crate) fn new(numbers: [u32; VIEW_NUMBERS]) -> Self {
        Self {
            words: Vec::new(),
            numbers,
            noted: Vec::new(),
            units: Vec::new(),
            former: Default::default(),
            renumbered: false,
        }
    }

    /// Takes over the words that changes start from; nothing is noted.
    pub(crate) fn start(&mut self, words: Vec<u32>) {
        self.noted.resize((words.len() / UNIT_WORDS).div_ceil(64), 0);
        self.words = words;
        self.forget();
    }

    /// Forgets what was noted: copies are made anew.
    pub(crate) fn forget(&mut self) {
        self.noted.fill(0);
        self.units.clear();
        self.former.iter_mut().for_each(Vec::clear);
        self.renumbered = false;
    }

    /// Makes it `len` words long, whole units, the new ones zero.
    pub(crate) fn grow(&mut self, len: usize) {
        assert!(len >= self.words.len() && len.is_multiple_of(UNIT_WORDS), "{len} words");
        self.words.resize(len, 0);
        self.noted.resize((len / UNIT_WORDS).div_ceil(64), 0);
    }

    /// The words as they are now.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    /// Whether anything changed since the last patch.
    pub(crate) fn is_changed(&self) -> bool {
        !self.units.is_empty() || self.renumbered
    }

    /// What brings the oldest copy up to date.
    pub(crate) fn patch(&mut self, patch: &mut Patch) {
        let new = self.units.len();
        for which in 0..self.former.len() {
            let former = std::mem::take(&mut self.former[which]);
            former.iter().for_each(|&unit| self.note(unit as usize));
            self.former[which] = former;
        }
        patch.units.clear();
        patch.units.extend_from_slice(&self.units);
        self.units.truncate(new);
        patch.words.clear();
        for &unit in &patch.units {
            let at = unit as usize * UNIT_WORDS;
            patch.words.extend_from_slice(&self.words[at..at + UNIT_WORDS]);
        }
        patch.numbers = self.numbers;
        for &unit in &patch.units {
            self.noted[unit as usize / 64] &= !(1 << (unit % 64));
        }
        self.former.rotate_right(1);
        std::mem::swap(&mut self.former[0], &mut self.units);
        self.units.clear();
        self.renumbered = false;
    }

    pub(super) fn get(&self, at: usize) -> u32 {
        self.words[at]
    }

    pub(crate) fn set(&mut self, at: usize, word: u32) {
        if self.words[at] != word {
            self.words[at] = word;
            self.note(at / UNIT_WORDS);
        }
    }

    pub(crate) fn set_number(&mut self, which: usize, number: u32) {
        self.renumbered |= self.numbers[which] != number;
        self.numbers[which] = number;
    }

    /// Writes `words` from `at` on.
    pub(crate) fn write(&mut self, at: usize, words: &[u32]) {
        let (mut at, mut words) = (at, words);
        while !words.is_empty() {
            let len = (UNIT_WORDS - at % UNIT_WORDS).min(words.len());
            let (new, rest) = words.split_at(len);
            let old = &mut self.words[at..at + len];
            if old != new {
                old.copy_from_slice(new);
                self.note(at / UNIT_WORDS);
            }
            (at, words) = (at + len, rest);
        }
    }

    fn note(&mut self, unit: usize) {
        let (word, bit) = (unit / 64, 1 << (unit % 64));
        if self.noted[word] & bit == 0 {
            self.noted[word] |= bit;
            self.units.push(unit as u32);
        }
    }
}

/// What is changed where, by algorithm.
#[derive(Debug)]
pub(super) enum Layout {
    Turbo(turbo::Turbo),
    Tables(tables::Tables),
}

impl Layout {
    fn bytes(&self) -> usize {
        match self {
            Layout::Turbo(turbo) => turbo.bytes(),
            Layout::Tables(tables) => tables.bytes(),
        }
    }
}

/// An image that changes.
#[derive(Debug)]
pub(crate) struct Live {
    model: Model,
    ranks: Ranks,
    layout: Layout,
    /// Words of the image.
    len: usize,
    /// The largest id that came with changes.
    id_max: u32,
}

impl Live {
    pub(super) fn new(
        numbers: [u32; VIEW_NUMBERS],
        len: usize,
        ranks: Ranks,
        layout: Layout,
    ) -> Self {
        Self { model: Model::new(numbers), ranks, layout, len, id_max: 0 }
    }

    /// Bytes that the writer's side takes once there was a change.
    pub(crate) fn bytes(&self) -> usize {
        self.len * 4 + self.len / UNIT_WORDS / 8 + self.lists_bytes()
    }

    /// Bytes of the lists that grow with changes.
    pub(crate) fn lists_bytes(&self) -> usize {
        self.ranks.bytes() + self.layout.bytes()
    }

    /// Whether it still wants the words that changes start from.
    pub(crate) fn is_idle(&self) -> bool {
        self.model.words.is_empty()
    }

    /// Takes them over.
    pub(crate) fn start(&mut self, words: &[u32]) {
        assert_eq!(words.len(), self.len);
        self.model.start(words.to_vec());
    }

    /// Enters `rule`, which is new in `store`.
    ///
    /// # Errors
    /// If a new image is needed (V2).
    pub(crate) fn insert(&mut self, store: &RuleStore, rule: RuleRef<'_>) -> Result<(), NoRoom> {
        let rank = loop {
            match self.ranks.enter(&rule)? {
                Entered::Rank(rank) => break rank,
                // The rule in the way moves up, as far as its own neighbours let it.
                Entered::Moved { id, from, to } => {
                    let other = store.get(id).ok_or(NoRoom)?;
                    self.take(&other, from)?;
                    self.put(&other, to)?;
                }
            }
        };
        self.put(&rule, rank)
    }

    /// Takes `rule` out, which was there.
    ///
    /// # Errors
    /// If a new image is needed (V2).
    pub(crate) fn remove(&mut self, rule: RuleRef<'_>) -> Result<(), NoRoom> {
        let rank = self.ranks.leave(&rule)?;
        self.take(&rule, rank)
    }

    fn put(&mut self, rule: &RuleRef<'_>, rank: u32) -> Result<(), NoRoom> {
        self.id_max = self.id_max.max(rule.id.0);
        let ids = self.model.numbers[abi::IDS];
        if ids != abi::NONE {
            self.model.set(ids as usize + rank as usize, rule.id.0);
        }
        match &mut self.layout {
            Layout::Turbo(turbo) => turbo.insert(&mut self.model, rule, rank),
            Layout::Tables(tables) => tables.insert(&mut self.model, rule, rank),
        }
    }

    fn take(&mut self, rule: &RuleRef<'_>, rank: u32) -> Result<(), NoRoom> {
        match &mut self.layout {
            Layout::Turbo(turbo) => turbo.remove(&mut self.model, rule, rank),
            Layout::Tables(tables) => tables.remove(&mut self.model, rule, rank),
        }
    }

    /// Whether anything changed since the last patch.
    pub(crate) fn is_changed(&self) -> bool {
        self.model.is_changed()
    }

    /// What brings the oldest copy up to date.
    pub(crate) fn patch(&mut self, patch: &mut Patch) {
        self.model.patch(patch);
        patch.id_max = self.id_max;
    }

    /// Words, numbers and the largest id that came, as they are now.
    pub(super) fn whole(&self) -> (&[u32], [u32; VIEW_NUMBERS], u32) {
        (&self.model.words, self.model.numbers, self.id_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_classify::parts::SeedStream;

    /// Copies that get patches in turn, each as many versions behind as there are others.
    #[test]
    fn a_patch_brings_the_oldest_copy_up_to_date() {
        let mut seeds = SeedStream::new(3, 3);
        let mut model = Model::new([0; VIEW_NUMBERS]);
        let first = vec![0; 40 * UNIT_WORDS];
        model.start(first.clone());
        let mut copies = vec![first; COPIES];
        let mut patch = Patch::default();
        for version in 0..300 {
            for _ in 0..seeds.next() % 6 {
                let at = seeds.next() as usize % (40 * UNIT_WORDS - 20);
                let words: Vec<u32> = (0..seeds.next() % 20).map(|_| seeds.next() as u32).collect();
                model.write(at, &words);
            }
            model.patch(&mut patch);
            let mut units = patch.units.clone();
            units.sort_unstable();
            units.dedup();
            assert_eq!(units.len(), patch.units.len(), "a unit comes twice");
            let copy = &mut copies[version % COPIES];
            patch.apply(copy);
            assert_eq!(copy, model.words(), "version {version}");
        }
    }
}
