//! Shortens programs by removing comparisons whose result earlier steps imply.
//!
//! ```text
//! sort      order the comparisons of a chain, so that equal ones become adjacent
//! follow    redirect branches past steps whose result the steps on the path imply
//! combine   merge two comparisons of one word
//! prune     remove unreachable steps
//! ```
//! *Follow* requires the facts that are true whenever a step is reached. The number of paths may be
//! exponential, so at most [`PATHS_MAX`] sets of facts are kept per step, such that every path to
//! the step implies at least one of the sets. If there would be more, they are replaced by one set:
//! the facts common to all.
//!
//! # Invariants
//! - O1: an optimized program has the same result for each packet as the original, with one
//!   exception: *combine* treats a word with some bytes missing as missing, where one of the single
//!   steps may only have tested bytes that are present.
//! - O2: branches only lead forward.

use std::collections::HashMap;

use super::program::{Program, Region, Step, Way};

/// Sets of facts that are kept of a step.
const PATHS_MAX: usize = 4;
/// Programs of more steps are not followed: the cost grows with the square.
const FOLLOWED_STEPS_MAX: usize = 2048;
/// Programs of more steps are not sorted, for the same reason.
const SORTED_STEPS_MAX: usize = 1 << 14;

impl Program {
    /// Optimizes. `order` gives the place of a step in its chain.
    pub(super) fn optimize(&mut self, order: fn(&Step) -> u32) {
        self.sort(order);
        if self.len() <= FOLLOWED_STEPS_MAX {
            Follow::run(&mut self.steps);
        }
        self.combine();
        self.prune();
    }

    /// Puts the steps of chains in order: steps, one behind the other, whose other way is the same.
    /// A step is moved only if it is reached from one step alone, and not from the first.
    pub(super) fn sort(&mut self, order: fn(&Step) -> u32) {
        let key = |step: &Step| (order(step), step.mask, step.value);
        let before = self.only_steps_before();
        let mut at = 0;
        while at < self.len() && self.len() <= SORTED_STEPS_MAX {
            let swap = [0, 1].into_iter().find_map(|k| {
                let Way::Step(next) = self.steps[at].ways[k] else { return None };
                let (one, two) = (&self.steps[at], &self.steps[next as usize]);
                let is_chain = before[next as usize] > 0 && one.ways[1 - k] == two.ways[1 - k];
                (is_chain && key(one) > key(two)).then_some((k, next as usize))
            });
            let Some((k, next)) = swap else {
                at += 1;
                continue;
            };
            let (one, two) = (self.steps[at], self.steps[next]);
            let behind = two.ways[k];
            (self.steps[at], self.steps[next]) = (two, one);
            self.steps[at].ways[k] = Way::Step(next as u32);
            self.steps[next].ways[k] = behind;
            if before[at] > 0 {
                at = before[at];
            }
        }
    }

    /// For each step the one from which it is reached; 0 if there are none or several, or it is
    /// the first.
    fn only_steps_before(&self) -> Vec<usize> {
        let mut before = vec![None; self.len()];
        for (at, step) in self.steps.iter().enumerate() {
            for way in step.ways {
                if let Way::Step(next) = way {
                    let known = &mut before[next as usize];
                    *known = Some(if known.is_some() { 0 } else { at });
                }
            }
        }
        before.into_iter().map(|at| at.unwrap_or(0)).collect()
    }

    /// Makes one comparison of two of the same word, where that is the same.
    fn combine(&mut self) {
        for at in (0..self.len()).rev() {
            while self.combine_once(at) {}
        }
    }

    /// Returns whether something was combined with step `at`, so that more may be combined with it.
    fn combine_once(&mut self, at: usize) -> bool {
        if let Way::Step(no) = self.steps[at].ways[0] {
            let no = self.steps[no as usize];
            let step = &mut self.steps[at];
            if step.is_compatible(&no) && step.is_one_bit() {
                step.flip();
            } else if let Some(bit) = step.bit_between(&no) {
                step.mask &= !bit;
                step.value &= !bit;
                step.ways[0] = no.ways[0];
                return true;
            }
        }
        let Way::Step(yes) = self.steps[at].ways[1] else { return false };
        let step = self.steps[at];
        let yes = &mut self.steps[yes as usize];
        if step.ways[0] == yes.ways[1] && yes.is_one_bit() {
            yes.flip();
        }
        let yes = *yes;
        let shorts_agree =
            yes.short_yes == step.short_yes || yes.required_bytes() >= step.required_bytes();
        if step.ways[0] != yes.ways[0] || !yes.is_compatible(&step) || !shorts_agree {
            return false;
        }
        let step = &mut self.steps[at];
        step.ways[1] = yes.ways[1];
        if step.mask == 0 {
            (step.place, step.short_yes) = (yes.place, yes.short_yes);
        } else if yes.mask != 0 {
            step.short_yes &= yes.short_yes;
        }
        step.value |= yes.value;
        step.mask |= yes.mask;
        true
    }

    /// Removes steps whose result has no effect, and unreachable steps.
    pub(super) fn prune(&mut self) {
        if self.steps.is_empty() {
            return;
        }
        let mut leads_to: Vec<Way> = vec![Way::Drop; self.len()];
        for at in (0..self.len()).rev() {
            let step = &mut self.steps[at];
            for way in &mut step.ways {
                if let Way::Step(next) = *way {
                    *way = leads_to[next as usize];
                }
            }
            let tells = step.ways[0] != step.ways[1] && step.mask != 0;
            leads_to[at] = if tells { Way::Step(at as u32) } else { step.ways[1] };
        }
        let Way::Step(first) = leads_to[0] else {
            *self = Program::all(leads_to[0]);
            return;
        };
        self.steps[0] = self.steps[first as usize];
        let mut moved_to = vec![None; self.len()];
        moved_to[0] = Some(0u32);
        let mut kept = 0;
        for at in 0..self.len() {
            if moved_to[at].is_none() {
                continue;
            }
            moved_to[at] = Some(kept);
            kept += 1;
            for way in self.steps[at].ways {
                if let Way::Step(next) = way {
                    moved_to[next as usize] = Some(0);
                }
            }
        }
        let mut at = 0;
        self.steps.retain_mut(|step| {
            for way in &mut step.ways {
                if let Way::Step(next) = *way {
                    *way = Way::Step(moved_to[next as usize].unwrap_or(0));
                }
            }
            at += 1;
            moved_to[at - 1].is_some()
        });
    }
}

impl Step {
    /// Whether it tests one bit.
    fn is_one_bit(&self) -> bool {
        self.mask.is_power_of_two()
    }

    /// Tests for the opposite value of its one bit, and swaps the ways: an equivalent step.
    fn flip(&mut self) {
        self.value ^= self.mask;
        self.ways.swap(0, 1);
        self.short_yes = !self.short_yes;
    }

    /// Whether some word passes both.
    fn is_compatible(&self, other: &Step) -> bool {
        let common = self.mask & other.mask;
        self.mask == 0
            || other.mask == 0
            || self.place == other.place && self.value & common == other.value & common
    }

    /// The one bit in which this and `no`, the next one on the way of no, differ, so that this one
    /// without it is both.
    fn bit_between(&self, no: &Step) -> Option<u32> {
        let bit = self.value ^ no.value;
        let is_pair = self.place.number() != 0
            && self.place == no.place
            && self.mask != 0
            && self.mask == no.mask
            && self.ways[1] == no.ways[1]
            && (self.short_yes || !no.short_yes)
            && bit & bit.wrapping_sub(1) == 0;
        let without = Step { mask: self.mask & !bit, ..*self };
        (is_pair && without.required_bytes() == self.required_bytes()).then_some(bit)
    }

    /// Whether the answer `is_yes` implies that all bytes are present or, if some are missing, that
    /// `other` lacks bytes too and answers `other_yes`.
    fn tells_despite_short(&self, is_yes: bool, other: &Step, other_yes: bool, known: u32) -> bool {
        let needed = self.required_bytes();
        self.short_yes != is_yes
            || needed <= known
            || needed <= other.required_bytes() && other.short_yes == other_yes
    }

    /// What `other` answers after this one answered `is_yes`, if that is certain. `known` bytes of
    /// the region were there before.
    fn foretells(&self, is_yes: bool, other: &Step, known: u32) -> Option<bool> {
        if other.mask == 0 {
            return Some(true);
        }
        if self.place != other.place {
            return None;
        }
        let common = self.mask & other.mask;
        let agree = self.value & common == other.value & common;
        let answer = if is_yes {
            (common == other.mask).then_some(agree)?
        } else if self.is_one_bit() && self.mask == other.mask && !agree {
            true
        } else if common == self.mask && agree {
            false
        } else {
            return None;
        };
        self.tells_despite_short(is_yes, other, answer, known).then_some(answer)
    }
}

/// Bytes of each region that are certain to be present.
type Known = [u32; Region::COUNT];

/// What a step answered on the way.
#[derive(Clone, Copy, Debug)]
struct Fact {
    /// The first step with the same test.
    step: u32,
    is_yes: bool,
    known: Known,
}

impl Fact {
    fn is_about(&self, other: &Fact) -> bool {
        self.step == other.step
    }

    fn equals(&self, other: &Fact) -> bool {
        self.step == other.step && self.is_yes == other.is_yes
    }
}

/// *Follow*, while it runs.
struct Follow<'a> {
    steps: &'a mut Vec<Step>,
    /// For each step the first with the same test.
    same_as: Vec<u32>,
    /// What is there when a step is reached.
    known: Vec<Known>,
    /// The steps, and which of their ways, from which a step is reached.
    reached_from: Vec<Vec<(usize, usize)>>,
    /// For each step the sets of facts; none if it cannot be reached.
    paths: Vec<Vec<Vec<Fact>>>,
}

impl Follow<'_> {
    fn run(steps: &mut Vec<Step>) {
        let mut first_like = HashMap::new();
        let same_as = steps.iter().enumerate().map(|(at, step)| {
            let Step { place, mask, value, short_yes, .. } = *step;
            *first_like.entry((place, mask, value, short_yes)).or_insert(at as u32)
        });
        let same_as = same_as.collect();
        let mut reached_from = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            for (k, way) in step.ways.into_iter().enumerate() {
                if let Way::Step(next) = way {
                    reached_from[next as usize].push((at, k));
                }
            }
        }
        let known = known_bytes(steps);
        let paths = Vec::with_capacity(steps.len());
        let mut follow = Follow { steps, same_as, known, reached_from, paths };
        for at in 0..follow.steps.len() {
            follow.collect(at);
            follow.shift(at, 1);
            follow.shift(at, 0);
        }
    }

    fn fact(&self, at: usize, is_yes: bool) -> Fact {
        Fact { step: self.same_as[at], is_yes, known: self.known[at] }
    }

    fn set_way(&mut self, at: usize, k: usize, way: Way) {
        if let Way::Step(old) = self.steps[at].ways[k] {
            self.reached_from[old as usize].retain(|&from| from != (at, k));
        }
        if let Way::Step(new) = way {
            let list = &mut self.reached_from[new as usize];
            let place = list.partition_point(|&from| from < (at, k));
            list.insert(place, (at, k));
        }
        self.steps[at].ways[k] = way;
    }

    /// Finds what holds wherever step `at` is reached.
    fn collect(&mut self, at: usize) {
        if at == 0 {
            self.paths.push(vec![Vec::new()]);
            return;
        }
        let mut paths = self.incoming(at);
        if paths.len() > PATHS_MAX {
            paths = vec![common_facts(&paths)];
        } else if let Some(is_yes) = self.known_answer(at, &paths) {
            // Every path implies the answer: branches to this step go where that leads.
            let way = self.steps[at].ways[usize::from(is_yes)];
            for (from, k) in self.reached_from[at].clone() {
                self.set_way(from, k, way);
            }
            paths.clear();
        }
        if paths.is_empty() {
            self.set_way(at, 0, Way::Drop);
            self.set_way(at, 1, Way::Drop);
        }
        self.paths.push(paths);
    }

    /// The facts of every path to step `at`, without those that cannot be.
    fn incoming(&self, at: usize) -> Vec<Vec<Fact>> {
        let mut paths = Vec::new();
        for &(from, k) in &self.reached_from[at] {
            let comes_either_way = self.steps[from].ways == [Way::Step(at as u32); 2];
            if comes_either_way {
                if k == 0 {
                    paths.extend(self.paths[from].iter().cloned());
                }
                continue;
            }
            let fact = self.fact(from, k == 1);
            for path in &self.paths[from] {
                if path.iter().any(|f| f.is_about(&fact) && f.is_yes != fact.is_yes) {
                    continue;
                }
                let others = path.iter().filter(|f| !f.is_about(&fact));
                paths.push(others.copied().chain([fact]).collect());
            }
        }
        paths
    }

    /// The answer of step `at`, if every path has it already.
    fn known_answer(&self, at: usize, paths: &[Vec<Fact>]) -> Option<bool> {
        let about = |path: &Vec<Fact>| {
            let fact = path.iter().find(|fact| fact.step == self.same_as[at]);
            fact.map(|fact| fact.is_yes)
        };
        let answer = about(paths.first()?)?;
        paths.iter().all(|path| about(path) == Some(answer)).then_some(answer)
    }

    /// Moves way `k` of step `at` past all steps whose answer is certain.
    fn shift(&mut self, at: usize, k: usize) {
        let way = self.steps[at].ways[k];
        if self.paths[at].is_empty() || !matches!(way, Way::Step(_)) {
            return;
        }
        let trails = self.paths[at].iter().map(|path| self.trail(at, k, path));
        let trails: Vec<Vec<Way>> = trails.collect();
        let (first, others) = trails.split_first().expect("there is a path");
        let is_common = |way: &&Way| others.iter().all(|trail| trail.contains(way));
        let target = *first.iter().rev().find(is_common).expect("all begin alike");
        if target != way {
            self.set_way(at, k, target);
        }
    }

    /// Where way `k` of step `at` leads on this path: each way on, as far as it is certain.
    fn trail(&self, at: usize, k: usize, path: &[Fact]) -> Vec<Way> {
        let last = self.fact(at, k == 1);
        let mut trail = vec![self.steps[at].ways[k]];
        while let Some(&Way::Step(next)) = trail.last() {
            let step = self.steps[next as usize];
            let region = step.place.region as usize;
            let foretold = [last].iter().chain(path.iter().rev()).find_map(|fact| {
                let asked = &self.steps[fact.step as usize];
                asked.foretells(fact.is_yes, &step, fact.known[region])
            });
            match foretold {
                Some(answer) => trail.push(step.ways[usize::from(answer)]),
                None => break,
            }
        }
        trail
    }
}

/// The facts that all of `paths` have.
fn common_facts(paths: &[Vec<Fact>]) -> Vec<Fact> {
    let (first, others) = paths.split_first().expect("there are several");
    let mut common = first.clone();
    common.retain_mut(|fact| {
        others.iter().all(|path| match path.iter().find(|other| other.equals(fact)) {
            Some(other) => {
                fact.known = least(fact.known, other.known);
                true
            }
            None => false,
        })
    });
    common
}

fn least(a: Known, b: Known) -> Known {
    std::array::from_fn(|region| a[region].min(b[region]))
}

/// Bytes that are certain to be present when each step is reached.
fn known_bytes(steps: &[Step]) -> Vec<Known> {
    /// A network header has as many where there is a transport header.
    const NETWORK_BYTES_MIN: u32 = 20;
    let mut known = vec![[u32::MAX; Region::COUNT]; steps.len()];
    if let Some(first) = known.first_mut() {
        *first = [0; Region::COUNT];
    }
    for (at, step) in steps.iter().enumerate() {
        let mut tested = known[at];
        let region = step.place.region as usize;
        tested[region] = tested[region].max(step.required_bytes());
        if tested[Region::Transport as usize] > 0 {
            let network = &mut tested[Region::Network as usize];
            *network = (*network).max(NETWORK_BYTES_MIN);
        }
        for (k, way) in step.ways.into_iter().enumerate() {
            if let Way::Step(next) = way {
                let is_short = step.short_yes == (k == 1);
                let there = if is_short { known[at] } else { tested };
                known[next as usize] = least(known[next as usize], there);
            }
        }
    }
    known
}
