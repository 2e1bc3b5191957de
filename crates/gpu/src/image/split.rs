//! The search of rule-parallel kernels, in Rust; see `split.cuh`.
//!
//! ```text
//! units 0 … n   group 0: 0 … n/2       part 0: 0, 2, 4 …   best rank ┐
//!                                      part 1: 1, 3, 5 …   best rank ┼─► the smallest
//!               group 1: n/2 … n       …                             ┘
//! ```
//! Units are rows or tables. Where the shared memory of a card holds only a part of them makes no
//! difference to what is found.

use super::tables::{Kind, Search};
use super::{Algorithm, Image, abi, linear};
use crate::split::RuleSplit;

/// The rank of the winner for `key`.
///
/// # Panics
/// If the algorithm has no rule-parallel kernel: a caller bug.
pub(super) fn lookup(image: &Image, split: &RuleSplit, key: &[u32]) -> u32 {
    let part: &dyn Fn(&mut dyn Iterator<Item = usize>) -> u32 = match image.algorithm {
        Algorithm::Linear => &|ranks| linear::first_match(image, ranks, key),
        Algorithm::Tuple => &|tables| Search::new(image, Kind::Cuckoo).best(tables, key),
        Algorithm::Bloom => &|tables| Search::new(image, Kind::Filtered).best(tables, key),
        other => panic!("{other} has no rule-parallel kernel"),
    };
    let units_at = if image.algorithm == Algorithm::Linear { abi::RULES } else { abi::TABLES };
    let units = image.numbers[units_at] as usize;
    let start = |group: usize| units * group / split.groups;
    let groups = (0..split.groups).map(|group| start(group)..start(group + 1));
    let ranks = groups.flat_map(|group| {
        let first = move |at: usize| group.start + at..group.end;
        (0..split.parts).map(first).map(|units| part(&mut units.step_by(split.parts)))
    });
    ranks.min().unwrap_or(abi::NONE)
}
