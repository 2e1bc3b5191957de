//! Pattern searches of a chain: the union of the patterns of its matchers.
//!
//! ```text
//! patterns of matcher 0 ─┐
//! patterns of matcher 1 ─┴─► union, by group ─► image on the device, shared by all chains
//!                                                 │
//!           matcher 1 ◄─ own pattern ids ◄─ patterns of the union that occur in a payload
//! ```
//! Groups with the same patterns, as rules for all protocols make them, are searched as one: each
//! launch of a kernel costs the worker microseconds.
//!
//! The predicates of matchers are evaluated only after the `GPUCompletionQueue`, so each payload is
//! searched for the patterns of all matchers. The union makes that one pass over the bytes.
//! Matchers with the same rules add no cost; others add patterns.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::scan::ScanImage;
use warpswitch_ids::GROUPS;
use warpswitch_scan::{Pattern, PatternId, Patterns, ScanError};

use super::place::Offload;

/// Marks patterns of other elements.
const ELSEWHERE: u32 = u32::MAX;

/// The searches of a chain, by rule group.
#[derive(Debug, Default)]
pub(crate) struct Searches {
    /// Of each group the first one with the same patterns: both are searched together.
    leads: [usize; GROUPS],
    /// By leading group.
    images: [Option<Arc<Loaded<ScanImage>>>; GROUPS],
    members: Vec<Member>,
}

/// An element whose patterns are searched.
#[derive(Debug)]
struct Member {
    element: usize,
    groups: [Own; GROUPS],
}

/// The patterns of a union that an element has.
#[derive(Debug, Default, PartialEq)]
struct Own {
    /// By pattern of the union, its id in the element's list, or [`ELSEWHERE`].
    numbers: Vec<u32>,
    len: usize,
    /// Whether both lists are the same.
    is_all: bool,
}

/// The patterns of a chain while elements join.
#[derive(Debug, Default)]
pub(super) struct Union {
    patterns: [Patterns; GROUPS],
    members: Vec<Member>,
}

impl Union {
    /// Adds the patterns of an element. If the union would be too large, the worker searches for
    /// this element instead.
    pub(super) fn add(&mut self, element: usize, wanted: &[Patterns; GROUPS]) {
        let mut patterns = self.patterns.clone();
        let mut groups = [const { Own { numbers: Vec::new(), len: 0, is_all: false } }; GROUPS];
        for ((union, wanted), own) in patterns.iter_mut().zip(wanted).zip(&mut groups) {
            match unite(union, wanted) {
                Ok(numbers) => (own.numbers, own.len) = (numbers, wanted.len()),
                Err(_) => return,
            }
        }
        self.patterns = patterns;
        self.members.push(Member { element, groups });
    }

    /// Loads the patterns to the device.
    pub(super) fn load(self, offload: &Offload) -> Searches {
        let Self { patterns, mut members } = self;
        for member in &mut members {
            for (own, union) in member.groups.iter_mut().zip(&patterns) {
                own.numbers.resize(union.len(), ELSEWHERE);
                own.is_all = own.numbers.iter().zip(0..).all(|(&number, id)| number == id);
            }
        }
        let leads = leads(&patterns, &members);
        let images = std::array::from_fn(|group| {
            let is_searched = leads[group] == group && !patterns[group].is_empty();
            is_searched.then(|| offload.search_image(patterns[group].clone()))
        });
        Searches { leads, images, members }
    }
}

/// Of each group the first one whose patterns are the same for each element.
fn leads(patterns: &[Patterns; GROUPS], members: &[Member]) -> [usize; GROUPS] {
    let is_same = |group: usize, lead: usize| {
        let are_own = |member: &Member| member.groups[group] == member.groups[lead];
        patterns[group] == patterns[lead] && members.iter().all(are_own)
    };
    std::array::from_fn(|group| (0..group).find(|&lead| is_same(group, lead)).unwrap_or(group))
}

/// Adds the patterns of `wanted` that `union` lacks. Duplicates occur as often as in the list that
/// has more of them. Returns, by pattern of the union, its id in `wanted`.
fn unite(union: &mut Patterns, wanted: &Patterns) -> Result<Vec<u32>, ScanError> {
    let mut known: HashMap<Pattern<'_>, VecDeque<PatternId>> = HashMap::new();
    let before = union.clone();
    for (id, pattern) in before.iter() {
        known.entry(pattern).or_default().push_back(id);
    }
    let mut numbers = vec![ELSEWHERE; before.len()];
    for (own, pattern) in wanted.iter() {
        match known.get_mut(&pattern).and_then(VecDeque::pop_front) {
            Some(id) => numbers[id.0 as usize] = own.0,
            None => {
                union.push(pattern.bytes, pattern.case)?;
                numbers.push(own.0);
            }
        }
    }
    Ok(numbers)
}

impl Searches {
    /// The image of each leading group that has patterns.
    pub(crate) fn images(&self) -> &[Option<Arc<Loaded<ScanImage>>>; GROUPS] {
        &self.images
    }

    /// By group, the group that leads its search; `None` if no element has patterns in it.
    pub(super) fn leads(&self) -> [Option<usize>; GROUPS] {
        self.leads.map(|lead| self.images[lead].is_some().then_some(lead))
    }

    /// The part of element number `element`; `None` if its patterns are not searched.
    pub(crate) fn of(&self, element: usize) -> Option<Part<'_>> {
        self.members.iter().find(|member| member.element == element).map(|member| Part { member })
    }
}

/// The part of one element in the searches of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'s> {
    member: &'s Member,
}

impl Part<'_> {
    /// Whether it has patterns in a group.
    pub(crate) fn has(&self, group: usize) -> bool {
        self.member.groups[group].len > 0
    }

    /// Whether the matches of a group need no translation for the element.
    pub(crate) fn is_all(&self, group: usize) -> bool {
        self.member.groups[group].is_all
    }

    /// Appends the element's matches in `found` to `out`, by its own ids.
    pub(crate) fn pick(&self, group: usize, found: &[PatternId], out: &mut Vec<PatternId>) {
        let numbers = &self.member.groups[group].numbers;
        let own = found.iter().map(|id| PatternId(numbers[id.0 as usize]));
        out.extend(own.filter(|id| id.0 != ELSEWHERE));
    }
}

/// Pattern matches in the payloads of a batch.
///
/// Most payloads have none: a packet takes a word, and nothing is written for it after the search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    ids: Vec<PatternId>,
    /// Ranges of `ids`: the matches of a payload each.
    lists: Vec<Range<u32>>,
    of: Vec<Outcome>,
}

/// The outcome of the search of a payload: from bit 4 on the number of its list from 1, or 0
/// without a match; in bit 3 whether all of it was captured; below its group from 1. 0 if it was
/// not searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcome(u32);

const LIST_SHIFT: u32 = 4;
const WHOLE: u32 = 1 << 3;
const _: () = assert!(GROUPS < WHOLE as usize, "groups have three bits");

impl Outcome {
    /// The group of a payload that was searched.
    #[inline]
    fn group(self) -> Option<usize> {
        ((self.0 & (WHOLE - 1)) as usize).checked_sub(1)
    }

    /// The number of its list.
    #[inline]
    fn list(self) -> Option<usize> {
        ((self.0 >> LIST_SHIFT) as usize).checked_sub(1)
    }

    /// The same without a match.
    fn without_list(self) -> Self {
        Self(self.0 & ((1 << LIST_SHIFT) - 1))
    }
}

impl Found {
    /// The matches of packet number `place`; `None` if its payload was not searched.
    #[inline]
    pub(crate) fn of(&self, place: usize) -> Option<&[PatternId]> {
        let outcome = self.of.get(place).filter(|outcome| outcome.group().is_some())?;
        Some(outcome.list().map_or(&[], |list| self.list(list)))
    }

    fn list(&self, number: usize) -> &[PatternId] {
        let Range { start, end } = self.lists[number];
        &self.ids[start as usize..end as usize]
    }

    /// How many packets in sequence, from the first of `places` on, have a payload of one of
    /// `groups` that was searched and captured whole, and has no match.
    #[inline]
    pub(crate) fn searched_in_vain(&self, places: Range<usize>, groups: &[bool; GROUPS]) -> usize {
        let outcomes = self.of.get(places).unwrap_or_default();
        // By outcome without a list: one bit each.
        let in_vain = (0..GROUPS).filter(|&group| groups[group]);
        let in_vain = in_vain.fold(0u32, |bits, group| bits | 1 << (WHOLE | (group as u32 + 1)));
        let other =
            |outcome: &Outcome| outcome.0 >> LIST_SHIFT != 0 || in_vain >> outcome.0 & 1 == 0;
        outcomes.iter().position(other).unwrap_or(outcomes.len())
    }

    /// Clears the matches.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.lists.clear();
        self.of.clear();
    }

    /// Adds a packet behind, whose payload is not searched.
    #[inline]
    pub(super) fn push_unsearched(&mut self) {
        self.of.push(Outcome::default());
    }

    /// Adds a packet behind, whose payload of `group` is searched; it has no match so far.
    #[inline]
    pub(super) fn push_searched(&mut self, group: usize, is_whole: bool) {
        self.of.push(Outcome((group as u32 + 1) | if is_whole { WHOLE } else { 0 }));
    }

    /// The payload of packet number `place` was not searched after all.
    pub(super) fn leave_out(&mut self, place: usize) {
        self.of[place] = Outcome::default();
    }

    /// Sets the matches `ids` of packet number `place`, whose payload was searched.
    pub(super) fn set(&mut self, place: usize, ids: impl FnOnce(&mut Vec<PatternId>)) {
        let start = self.ids.len();
        ids(&mut self.ids);
        let outcome = &mut self.of[place];
        *outcome = outcome.without_list();
        if self.ids.len() > start {
            self.lists.push(start as u32..self.ids.len() as u32);
            outcome.0 |= (self.lists.len() as u32) << LIST_SHIFT;
        }
    }

    /// Copies the matches of an element from `found`, for packets selected by `is_for`.
    pub(crate) fn pick(&mut self, part: Part<'_>, found: &Self, is_for: impl Fn(usize) -> bool) {
        self.clear();
        for (place, &outcome) in found.of.iter().enumerate() {
            let outcome = if is_for(place) { outcome } else { Outcome::default() };
            self.of.push(outcome.without_list());
            if let (Some(group), Some(list)) = (outcome.group(), outcome.list()) {
                self.set(place, |ids| part.pick(group, found.list(list), ids));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use warpswitch_scan::Case;

    use super::*;

    fn list(patterns: &[(Vec<u8>, bool)]) -> Patterns {
        let mut list = Patterns::new();
        for (bytes, is_sensitive) in patterns {
            let case = if *is_sensitive { Case::Sensitive } else { Case::Insensitive };
            list.push(bytes, case).expect("a short pattern");
        }
        list
    }

    /// Groups are searched together if all elements have the same patterns in them.
    #[test]
    fn equal_groups_have_one_lead() {
        let word = |text: &str| list(&[(text.as_bytes().to_vec(), true)]);
        let [first, second] = ["first", "second"].map(word);
        let mut wanted = [first.clone(), second.clone(), first.clone(), Patterns::new()];
        let mut union = Union::default();
        union.add(0, &wanted);
        assert_eq!(leads(&union.patterns, &union.members), [0, 1, 0, 3]);
        // The union of the last two groups is the same, but not what the elements have.
        wanted[3] = std::mem::take(&mut wanted[2]);
        union.add(1, &wanted);
        assert_eq!(union.patterns[2], union.patterns[3]);
        assert_eq!(leads(&union.patterns, &union.members), [0, 1, 2, 3]);
    }

    /// A packet ends a run if its payload has a match, was not searched, was captured in part, or
    /// is of another group.
    #[test]
    fn runs_of_payloads_without_a_match_end_at_others() {
        let mut found = Found::default();
        (0..3).for_each(|_| found.push_searched(0, true));
        found.push_searched(1, true);
        found.push_searched(0, false);
        found.push_unsearched();
        found.push_searched(0, true);
        found.push_searched(0, true);
        found.set(7, |ids| ids.push(PatternId(3)));
        let both = [true, true, false, false];
        let runs: Vec<usize> = (0..8).map(|at| found.searched_in_vain(at..8, &both)).collect();
        assert_eq!(runs, [4, 3, 2, 1, 0, 0, 1, 0]);
        assert_eq!(found.searched_in_vain(0..2, &both), 2, "not beyond the range");
        assert_eq!(found.searched_in_vain(0..8, &[true, false, false, false]), 3);
        assert_eq!(Found::default().searched_in_vain(0..8, &both), 0);
    }

    proptest! {
        /// Each element gets the ids of all its own patterns back, duplicates included.
        #[test]
        fn union_has_each_pattern_of_each_element(
            lists in prop::collection::vec(
                prop::collection::vec((prop::collection::vec(97u8..100, 1..3), any::<bool>()), ..9),
                1..4,
            ),
        ) {
            let lists: Vec<Patterns> = lists.iter().map(|patterns| list(patterns)).collect();
            let mut union = Union::default();
            for (element, patterns) in lists.iter().enumerate() {
                let mut wanted: [Patterns; GROUPS] = Default::default();
                wanted[0] = patterns.clone();
                union.add(element, &wanted);
            }
            let all = union.patterns[0].clone();
            let total: usize = lists.iter().map(Patterns::len).sum();
            let longest = lists.iter().map(Patterns::len).max().unwrap_or(0);
            prop_assert!((longest..=total).contains(&all.len()));
            for (member, patterns) in union.members.iter().zip(&lists) {
                let numbers = &member.groups[0].numbers;
                let mut own: Vec<u32> = Vec::new();
                for (id, pattern) in all.iter() {
                    let number = numbers.get(id.0 as usize).copied().unwrap_or(ELSEWHERE);
                    if number != ELSEWHERE {
                        prop_assert_eq!(patterns.get(PatternId(number)), pattern);
                        own.push(number);
                    }
                }
                own.sort_unstable();
                prop_assert_eq!(own, (0..patterns.len() as u32).collect::<Vec<_>>());
            }
            if lists.iter().all(|patterns| patterns == &lists[0]) {
                prop_assert_eq!(all.len(), lists[0].len(), "equal lists are searched for once");
            }
        }
    }
}
