//! Room for blocks of units that come and go by the thousand: lists of free blocks by size.
//!
//! Sizes are rounded up to four steps an octave, so a block that was given back serves the next of
//! nearly its size. Blocks are never joined: what leaves grow to is what leaves grow to again, and
//! when the room is used up a new image starts afresh.

use std::collections::BTreeMap;

/// The units of an image from some place on.
#[derive(Debug)]
pub(super) struct Space {
    /// Units from here to `end` were never used.
    top: usize,
    end: usize,
    free: BTreeMap<usize, Vec<u32>>,
    free_blocks: usize,
}

/// The step between sizes around `units`.
fn step(units: usize) -> usize {
    if units < 8 { 1 } else { 1 << (units.ilog2() - 2) }
}

impl Space {
    pub(super) fn new(top: usize, end: usize) -> Self {
        Self { top, end, free: BTreeMap::new(), free_blocks: 0 }
    }

    /// A block of at least `units` units: its first one, and its size. `None` if there is none.
    pub(super) fn take(&mut self, units: usize) -> Option<(u32, usize)> {
        let size = units.next_multiple_of(step(units));
        // What is up to half as large again will do.
        let near = self.free.range_mut(size..=size + size / 2).find(|(_, list)| !list.is_empty());
        if let Some((&size, list)) = near {
            self.free_blocks -= 1;
            return list.pop().map(|unit| (unit, size));
        }
        if self.top + size > self.end {
            return None;
        }
        self.top += size;
        Some(((self.top - size) as u32, size))
    }

    /// Takes a block back.
    pub(super) fn give(&mut self, unit: u32, size: usize) {
        let size = size / step(size) * step(size);
        self.free.entry(size).or_default().push(unit);
        self.free_blocks += 1;
    }

    pub(super) fn bytes(&self) -> usize {
        self.free_blocks * 8 + self.free.len() * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_classify::parts::SeedStream;

    #[test]
    fn blocks_do_not_overlap() {
        let mut seeds = SeedStream::new(8, 8);
        let mut space = Space::new(5, 900);
        let mut used = vec![false; 900];
        let (mut held, mut refused) = (Vec::new(), 0);
        for _ in 0..4000 {
            if seeds.next().is_multiple_of(2) {
                let units = 1 + seeds.next() as usize % 60;
                let Some((unit, size)) = space.take(units) else {
                    refused += 1;
                    continue;
                };
                let (unit, end) = (unit as usize, unit as usize + size);
                assert!(size >= units && unit >= 5, "{units} in {size} at {unit}");
                assert!(used[unit..end].iter().all(|used| !used));
                used[unit..end].fill(true);
                held.push((unit, size));
            } else if !held.is_empty() {
                let (unit, size) = held.swap_remove(seeds.next() as usize % held.len());
                used[unit..unit + size].fill(false);
                space.give(unit as u32, size);
            }
        }
        assert!(refused > 0 && refused < 1500, "{refused}");
    }
}
