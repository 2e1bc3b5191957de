//! Executable form of programs.
//!
//! Steps of a chain that compare the same bits with different values become one test: a few values
//! are compared one by one, many by binary search. Programs are printed from this form too, so that
//! the numbers are those of the executed steps.
//!
//! # Invariants
//! - R1: a test only leads to later tests, so a run ends.
//! - R2: missing bytes are never read: a truncated word counts as missing if any of the tested bits
//!   is.

use warpswitch_graph::drop_for;

use super::program::{Program, Region, Step, Way};

/// Tests of fewer values look at one after the other.
const SEARCHED_VALUES_MIN: u32 = 7;

/// The bytes of a packet that each region begins with.
pub(super) type Regions<'a> = [&'a [u8]; Region::COUNT];

/// Where a packet that goes nowhere goes: it is dropped for the first reason of its class.
pub(super) const DROP: u32 = drop_for(0);

/// Steps that compare the same bits with different values.
#[derive(Clone, Copy, Debug)]
struct Test {
    region: Region,
    offset: u16,
    short_yes: bool,
    mask: u32,
    /// The value, if there is one.
    value: u32,
    /// Where the values lie, and how many there are.
    first_value: u32,
    values: u32,
    /// Below zero: an output, or to be dropped, inverted. Otherwise the next test.
    ways: [i32; 2],
}

/// A program that runs. See the module.
#[derive(Clone, Debug)]
pub(super) struct Tests {
    tests: Vec<Test>,
    values: Vec<u32>,
    /// What a packet needs to be there.
    uses_ethernet: bool,
    /// Where all go, if there are no tests.
    all: u32,
}

impl Tests {
    /// The program, and the same with its steps in the order in which they run.
    pub(super) fn new(program: &Program) -> (Self, Program) {
        let steps = &program.steps;
        let chains = chains(steps);
        let mut first_number = vec![0u32; steps.len()];
        let mut test_of = vec![0i32; steps.len()];
        let mut number = 0;
        for (idx, chain) in chains.iter().enumerate() {
            first_number[chain[0]] = number;
            test_of[chain[0]] = idx as i32;
            number += chain.len() as u32;
        }
        let number_way = |way: Way| match way {
            Way::Step(step) => Way::Step(first_number[step as usize]),
            other => other,
        };
        let test_way = |way: Way| match way {
            Way::Step(step) => test_of[step as usize],
            Way::Output(output) => !(output.min(i32::MAX as u32 - 1) as i32),
            _ => i32::MIN,
        };
        let mut made = Self {
            tests: Vec::with_capacity(chains.len()),
            values: Vec::with_capacity(steps.len()),
            uses_ethernet: steps.iter().any(|step| step.place.region == Region::Ethernet),
            all: match program.all {
                Some(Way::Output(output)) => output,
                _ => DROP,
            },
        };
        let mut shown = Program { steps: Vec::with_capacity(steps.len()), all: program.all };
        for chain in &chains {
            let (first, last) = (&steps[chain[0]], &steps[chain[chain.len() - 1]]);
            let mut values: Vec<u32> = chain.iter().map(|&step| steps[step].value).collect();
            if values.len() as u32 >= SEARCHED_VALUES_MIN {
                values.sort_unstable();
            }
            for (idx, &value) in values.iter().enumerate() {
                let next = Way::Step(shown.steps.len() as u32 + 1);
                let is_last = idx + 1 == values.len();
                let no = if is_last { number_way(last.ways[0]) } else { next };
                let ways = [no, number_way(first.ways[1])];
                shown.steps.push(Step { value, ways, ..*first });
            }
            made.tests.push(Test {
                region: first.place.region,
                offset: first.place.offset,
                short_yes: first.short_yes,
                mask: first.mask,
                value: values[0],
                first_value: made.values.len() as u32,
                values: values.len() as u32,
                ways: [test_way(last.ways[0]), test_way(first.ways[1])],
            });
            made.values.extend(values);
        }
        (made, shown)
    }

    /// Whether it looks at Ethernet addresses.
    pub(super) fn uses_ethernet(&self) -> bool {
        self.uses_ethernet
    }

    /// The output that a packet leaves through, or [`DROP`].
    #[inline]
    pub(super) fn run(&self, regions: &Regions<'_>) -> u32 {
        let mut at = 0;
        let Some(mut test) = self.tests.first() else { return self.all };
        loop {
            let is_yes = match word(regions[test.region as usize], test.offset, test.mask) {
                None => test.short_yes,
                Some(word) if test.values == 1 => word == test.value,
                Some(word) => self.has_value(test, word),
            };
            let next = test.ways[usize::from(is_yes)];
            debug_assert!(next < 0 || next > at, "R1");
            if next < 0 {
                return if next == i32::MIN { DROP } else { !next as u32 };
            }
            at = next;
            test = &self.tests[next as usize];
        }
    }

    fn has_value(&self, test: &Test, word: u32) -> bool {
        let values = &self.values[test.first_value as usize..][..test.values as usize];
        if test.values < SEARCHED_VALUES_MIN {
            values.contains(&word)
        } else {
            values.binary_search(&word).is_ok()
        }
    }
}

/// The word at `offset` under `mask`; none if a byte with bits of the mask is missing.
#[inline]
pub(super) fn word(bytes: &[u8], offset: u16, mask: u32) -> Option<u32> {
    let offset = usize::from(offset);
    match bytes.get(offset..offset + 4) {
        Some(word) => Some(u32::from_be_bytes(word.try_into().expect("four bytes")) & mask),
        None => cut_word(bytes.get(offset..).unwrap_or_default(), mask),
    }
}

/// [`word`] of the last bytes, fewer than four.
#[cold]
fn cut_word(bytes: &[u8], mask: u32) -> Option<u32> {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    let missing = u32::MAX.checked_shr(8 * bytes.len() as u32).unwrap_or(0);
    (mask & missing == 0).then_some(u32::from_be_bytes(word) & mask)
}

/// The steps in chains: each compares the same bits with another value than the one before, and is
/// reached only from that one, when it answers no. Unreachable steps are in no chain.
fn chains(steps: &[Step]) -> Vec<Vec<usize>> {
    let mut reached = vec![0u32; steps.len()];
    if let Some(first) = reached.first_mut() {
        *first = 1;
    }
    for at in 0..steps.len() {
        for way in steps[at].ways {
            if let Way::Step(next) = way
                && reached[at] > 0
            {
                reached[next as usize] += 1;
            }
        }
    }
    let mut chains = Vec::new();
    for at in 0..steps.len() {
        if reached[at] == 0 {
            continue;
        }
        let (mut chain, mut last) = (vec![at], at);
        while let Way::Step(next) = steps[last].ways[0] {
            let next = next as usize;
            let (one, two) = (&steps[at], &steps[next]);
            let asks_alike = (one.place, one.mask, one.short_yes, one.ways[1])
                == (two.place, two.mask, two.short_yes, two.ways[1]);
            if reached[next] != 1 || !asks_alike {
                break;
            }
            reached[next] = 0;
            chain.push(next);
            last = next;
        }
        chains.push(chain);
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::super::program::Place;
    use super::*;

    #[test]
    fn a_word_is_missing_as_soon_as_a_byte_asked_for_is() {
        let bytes = [1, 2, 3, 4, 5, 6];
        assert_eq!(word(&bytes, 0, 0xffff_ffff), Some(0x0102_0304));
        assert_eq!(word(&bytes, 4, 0xffff_0000), Some(0x0506_0000));
        assert_eq!(word(&bytes, 4, 0x00ff_0000), Some(0x0006_0000));
        assert_eq!(word(&bytes, 4, 0x0000_0100), None);
        assert_eq!((word(&bytes, 8, 0), word(&bytes, 8, 1 << 31)), (Some(0), None));
        assert_eq!((word(&bytes, 65532, 0), word(&[], 0, 255)), (Some(0), None));
    }

    #[test]
    fn many_values_of_the_same_bits_are_one_test() {
        let place = Place { region: Region::Data, offset: 4 };
        let mut program = Program::default();
        for (at, value) in [9u32, 3, 7, 1, 8, 2, 6, 4].into_iter().enumerate() {
            let mut step = Step::test(place, value, 0xff);
            let no = if at == 7 { Way::Drop } else { Way::Step(at as u32 + 1) };
            step.ways = [no, Way::Output(1)];
            program.steps.push(step);
        }
        let (tests, shown) = Tests::new(&program);
        assert_eq!((tests.tests.len(), shown.len()), (1, 8));
        for value in 0..=255u8 {
            let data = [0, 0, 0, 0, 9, 9, 9, value];
            let expected = if [9, 3, 7, 1, 8, 2, 6, 4].contains(&value) { 1 } else { DROP };
            assert_eq!(tests.run(&[&data, &[], &[], &[]]), expected);
        }
    }
}
