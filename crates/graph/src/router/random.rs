//! Random choices: every element draws from a sequence of its own.
//!
//! So what one element does changes nothing of what others choose: chains that never meet do the
//! same whether they run side by side or alone. A sequence goes with its element to another worker;
//! only copies that workers have of an element have one each.
//!
//! A sequence comes from the seed of the run and the name of the element. Its number would do as
//! well, but for elements that somebody adds elsewhere in the configuration.

/// The sequence of an element (SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom
/// Number Generators", OOPSLA 2014).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    /// What the name of the element makes different.
    of_name: u64,
    state: u64,
}

impl Random {
    /// That of the element `name`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a.
        let of_name = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut random = Self { of_name, state: 0 };
        random.start(seed);
        random
    }

    /// Starts it anew.
    pub fn start(&mut self, seed: u64) {
        // All sequences are parts of one circle: they start far apart.
        self.state = mixed(mixed(seed) ^ self.of_name);
    }

    /// The next number.
    pub fn draw(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = mixed(self.state);
        (word >> 32) as u32 ^ (word >> 1) as u32
    }
}

/// Mixes the bits of a word.
fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_depend_on_seed_and_name_alone() {
        let draw = |seed, name| {
            let mut random = Random::new(seed, name);
            [(); 8].map(|()| random.draw())
        };
        let mut all = Vec::new();
        for seed in 0..40 {
            for name in ["a", "b", "a/b", "RandomSample@3"] {
                assert_eq!(draw(seed, name), draw(seed, name));
                all.extend(draw(seed, name));
            }
        }
        let numbers = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), numbers, "no two sequences have a number in common");
        let ones: u32 = all.iter().map(|number| number.count_ones()).sum();
        assert!(ones.abs_diff(16 * numbers as u32) < 300, "{ones} of {numbers} words");
    }
}
