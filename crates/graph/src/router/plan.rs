//! Which worker runs which element.
//!
//! ```text
//! unit   elements that one worker must run: who asks whom for packets, who works with whom
//! seed   a unit that has a source, or somebody who asks for packets: where work begins
//!
//! seeds, in the order of the text ─► the worker with the fewest so far, or the one they are given
//! others ─► run where packets get to them: by one worker if only one gets there; else each worker
//!           has a copy if they can be copied; else the worker downstream of them, who gets the
//!           packets of others handed over
//! ```
//! So with two ports and two workers each worker has a port's receiving and its sending side, what
//! lies between them is there twice, and packets that change sides are handed over once, where the
//! queue of their port and what belongs to it begins.
//!
//! # Invariants
//! - Y1: an element is run by one worker, or is a copy that no other has: nothing is locked while
//!   packets are worked on.
//! - Y2: packets that take the same way stay in order: a source is one worker's, and what is handed
//!   over arrives in the order in which it was sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Shared;
use crate::element::Sharing;
use crate::language::Processing;

/// Most workers of a router.
pub(crate) const WORKERS_MAX: usize = 64;

/// Who runs an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// This worker.
    Worker(usize),
    /// Each worker runs a copy.
    Each,
    /// Worker 0, while all others rest.
    Alone,
}

/// Elements in sets that grow together (union-find, with paths halved).
struct Units {
    parent: Vec<usize>,
}

impl Units {
    fn new(elements: usize) -> Self {
        Self { parent: (0..elements).collect() }
    }

    /// The element that stands for the unit of `element`: its first one.
    fn of(&mut self, mut element: usize) -> usize {
        while self.parent[element] != element {
            self.parent[element] = self.parent[self.parent[element]];
            element = self.parent[element];
        }
        element
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.parent[a.max(b)] = a.min(b);
    }
}

/// Who runs each element of `shared` with `workers` workers; `friends` are those that work with
/// each other.
///
/// Cost: the number of connections times that of workers, at most.
pub(crate) fn homes(shared: &Shared, workers: usize, friends: &[(usize, usize)]) -> Vec<Home> {
    let elements = shared.elements.len();
    let sharing: Vec<Sharing> =
        shared.elements.iter().map(|element| element.borrow().sharing()).collect();
    let (unit, asks) = units(shared, friends);
    let mut members = vec![0usize; elements];
    let mut is_alone = vec![false; elements];
    for element in 0..elements {
        members[unit[element]] += 1;
        is_alone[unit[element]] |= matches!(sharing[element], Sharing::Alone);
    }

    let mut home_of_unit = seeds(shared, workers, &unit, &asks);
    let reached = reached_by(shared, &unit, &home_of_unit);
    let mut next = 0;
    for element in 0..elements {
        let of_unit = unit[element];
        let is_copied = members[of_unit] == 1 && matches!(sharing[element], Sharing::Copies(_));
        if home_of_unit[of_unit].is_some() || is_copied || is_alone[of_unit] {
            continue;
        }
        let in_unit = (0..elements).filter(|&member| unit[member] == of_unit);
        let by: u64 = in_unit.map(|member| reached[member]).fold(0, |all, by| all | by);
        home_of_unit[of_unit] = Some(match by.count_ones() {
            0 => 0,
            1 => by.trailing_zeros() as usize,
            _ => downstream(shared, element, &unit, &home_of_unit).unwrap_or_else(|| {
                next += 1;
                nth_set(by, next - 1)
            }),
        });
    }
    let home = |element: usize| match home_of_unit[unit[element]] {
        _ if is_alone[unit[element]] => Home::Alone,
        Some(worker) => Home::Worker(worker),
        None => Home::Each,
    };
    (0..elements).map(home).collect()
}

/// The unit of each element, and whether it asks others for packets.
fn units(shared: &Shared, friends: &[(usize, usize)]) -> (Vec<usize>, Vec<bool>) {
    let elements = shared.elements.len();
    let mut units = Units::new(elements);
    for &(a, b) in friends {
        units.join(a, b);
    }
    let mut asks = vec![false; elements];
    for connection in &shared.graph.connections {
        let (from, to) = (connection.from, connection.to);
        if shared.ports[to.element].inputs[to.port] == Processing::Pull {
            units.join(from.element, to.element);
            asks[to.element] = true;
        }
    }
    ((0..elements).map(|element| units.of(element)).collect(), asks)
}

/// Where elements are given to a worker against what was said before, in the order of the text:
/// who says so, and what to tell. What is said last counts, as in Click.
pub(crate) fn contradictions(shared: &Shared, friends: &[(usize, usize)]) -> Vec<(usize, String)> {
    let (unit, _) = units(shared, friends);
    let elements = &shared.graph.elements;
    let tell = |named: usize, worker, (first, other, whose): Given, by: usize| {
        let name = &elements[named].name;
        let which = match first == named {
            true => String::new(),
            false => format!("'{}', which the same worker runs, ", elements[first].name),
        };
        let giver = match whose == by {
            true => "here too".to_owned(),
            false => format!("by '{}'", elements[whose].declaration()),
        };
        let who = format!("'{name}' gets worker {worker} here, but {which}worker {other} {giver}");
        (by, format!("{who}: the last one counts"))
    };
    let (mut told, mut given) = (Vec::new(), BTreeMap::<usize, Given>::new());
    for (by, element) in shared.elements.iter().enumerate() {
        for &(named, worker) in element.borrow().assigns() {
            let before = given.insert(unit[named], (named, worker, by));
            let before = before.filter(|&(_, other, _)| other != worker);
            told.extend(before.map(|before| tell(named, worker, before, by)));
        }
    }
    // Of compound elements one part is told of. A list names each part once.
    let (mut parts, mut pairs) = (BTreeMap::<usize, Given>::new(), BTreeSet::new());
    for (by, element) in shared.elements.iter().enumerate() {
        for &(named, worker) in element.borrow().assigns_parts() {
            let before = parts.insert(unit[named], (named, worker, by));
            let differs = |&(_, other, _): &Given| other != worker;
            let before = before.filter(|_| !given.contains_key(&unit[named])).filter(differs);
            let before = before.filter(|&(_, other, whose)| pairs.insert((by, whose, other)));
            told.extend(before.map(|before| tell(named, worker, before, by)));
        }
    }
    told
}

/// An element, the worker that it was given, and who gave it.
type Given = (usize, usize, usize);

/// The workers of the units where work begins.
fn seeds(shared: &Shared, workers: usize, unit: &[usize], asks: &[bool]) -> Vec<Option<usize>> {
    let elements = unit.len();
    let mut home_of_unit = vec![None; elements];
    let mut units_of = vec![0usize; workers];
    let mut assign = |element: usize, worker: usize| {
        // As many units as before, should several of its elements be assigned.
        let home = &mut home_of_unit[unit[element]];
        units_of[worker % workers] += usize::from(home.is_none());
        *home = Some(worker % workers);
    };
    // What is said last counts.
    for element in &shared.elements {
        element.borrow().assigns_parts().iter().for_each(|&(part, worker)| assign(part, worker));
    }
    for element in &shared.elements {
        element.borrow().assigns().iter().for_each(|&(element, worker)| assign(element, worker));
    }
    let ports = &shared.ports;
    let is_source = |e: usize| ports[e].inputs.is_empty() && !ports[e].outputs.is_empty();
    let is_asker = |e: usize| asks[e];
    for is_seed in [&is_source as &dyn Fn(usize) -> bool, &is_asker] {
        for element in (0..elements).filter(|&element| is_seed(element)) {
            let home = &mut home_of_unit[unit[element]];
            if home.is_none() {
                let least = (0..workers).min_by_key(|&worker| units_of[worker]);
                let least = least.expect("there is a worker");
                units_of[least] += 1;
                *home = Some(least);
            }
        }
    }
    home_of_unit
}

/// The workers whose packets may get to each element, as bits, were nothing handed over.
fn reached_by(shared: &Shared, unit: &[usize], home_of_unit: &[Option<usize>]) -> Vec<u64> {
    let mut reached = vec![0u64; unit.len()];
    let mut todo: Vec<usize> = Vec::new();
    for element in 0..unit.len() {
        if let Some(worker) = home_of_unit[unit[element]] {
            reached[element] = 1 << worker;
            todo.push(element);
        }
    }
    while let Some(element) = todo.pop() {
        for to in shared.targets[element].iter().flatten() {
            let is_fixed = home_of_unit[unit[to.element]].is_some();
            let is_pushed = shared.ports[to.element].inputs[to.port] == Processing::Push;
            let all = reached[to.element] | reached[element];
            if is_pushed && !is_fixed && all != reached[to.element] {
                reached[to.element] = all;
                todo.push(to.element);
            }
        }
    }
    reached
}

/// The worker of the units that packets get to from `element` on, if it is one.
fn downstream(
    shared: &Shared,
    element: usize,
    unit: &[usize],
    home_of_unit: &[Option<usize>],
) -> Option<usize> {
    let (mut seen, mut todo) = (vec![false; unit.len()], vec![element]);
    let mut found = None;
    while let Some(element) = todo.pop() {
        for to in shared.targets[element].iter().flatten() {
            if std::mem::replace(&mut seen[to.element], true) {
                continue;
            }
            match home_of_unit[unit[to.element]] {
                Some(worker) if found.is_some_and(|found| found != worker) => return None,
                Some(worker) => found = Some(worker),
                None => todo.push(to.element),
            }
        }
    }
    found
}

/// Bit number `n`, counted around, of those that are set in `bits`.
fn nth_set(mut bits: u64, n: usize) -> usize {
    for _ in 0..n % bits.count_ones() as usize {
        bits &= bits - 1;
    }
    bits.trailing_zeros() as usize
}
