//! Expressions over packet words, and their compilation to steps.
//!
//! # Invariants
//! - E1: a comparison with missing bytes is false. Within [`Expr::Other`] it is true, so that `!=`
//!   is false for missing bytes too.

use super::program::{Place, Program, Region, Step, Way};

/// How bits are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Greater,
}

/// Bits of a word, compared with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compare {
    pub(super) place: Place,
    /// Where the lowest bit of `mask` and `value` lies in the word.
    pub(super) shift: u32,
    pub(super) mask: u32,
    /// Has no bit outside `mask`.
    pub(super) value: u32,
    pub(super) relation: Relation,
}

/// An expression over the words of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// Holds.
    Always,
    /// Holds if the comparison does.
    Compare(Compare),
    /// Holds if all do.
    And(Vec<Expr>),
    /// Holds if one does.
    Or(Vec<Expr>),
    /// Condition and consequence in turn, at last what holds if no condition did.
    If(Vec<Expr>),
    /// Holds if the other does not.
    Not(Box<Expr>),
    /// Holds if what is there is something else; see E1.
    Other(Box<Expr>),
}

impl Expr {
    /// Bits under a mask that equal a value.
    pub(super) fn equal(place: Place, shift: u32, mask: u32, value: u32) -> Self {
        let value = value & mask;
        Expr::Compare(Compare { place, shift, mask, value, relation: Relation::Equal })
    }

    /// Whether it tests anything behind the Ethernet header.
    pub(super) fn asks_of_ip(&self) -> bool {
        self.compares(&|compare| compare.place.region != Region::Ethernet)
    }

    /// Whether it tests the length in the IPv4 header.
    pub(super) fn asks_for_ip_length(&self) -> bool {
        const LENGTH_BITS: u32 = 0xffff;
        self.compares(&|Compare { place, shift, mask, .. }| {
            place.region == Region::Network && place.offset == 0 && mask << shift & LENGTH_BITS != 0
        })
    }

    /// Whether `is_so` holds for any of its comparisons.
    fn compares(&self, is_so: &dyn Fn(&Compare) -> bool) -> bool {
        match self {
            Expr::Always => false,
            Expr::Compare(compare) => is_so(compare),
            Expr::And(list) | Expr::Or(list) | Expr::If(list) => {
                list.iter().any(|expr| expr.compares(is_so))
            }
            Expr::Not(inner) | Expr::Other(inner) => inner.compares(is_so),
        }
    }

    /// The opposite.
    pub(super) fn not(self) -> Self {
        match self {
            Expr::Not(inner) => *inner,
            other => Expr::Not(Box::new(other)),
        }
    }

    /// Something else than this.
    pub(super) fn other(self) -> Self {
        Expr::Other(Box::new(self))
    }

    /// All of `list`.
    pub(super) fn all(mut list: Vec<Expr>) -> Self {
        if list.len() == 1 { list.remove(0) } else { Expr::And(list) }
    }

    /// The program that sends packets for which it holds on the way `to`, and fails for others.
    pub(super) fn program(&self, to: Way) -> Program {
        let mut program = Program::default();
        self.add_to(&mut program, false);
        let len = program.len();
        program.redirect(0, len, Way::Success, to);
        program
    }

    /// Adds steps that succeed if it holds. `missing` is what comparisons of missing bytes are.
    fn add_to(&self, program: &mut Program, missing: bool) {
        let first = program.len();
        match self {
            Expr::Compare(compare) => compare.add_to(program, missing),
            Expr::And(list) if !list.is_empty() => {
                add_list(program, list, missing, Way::Success);
            }
            Expr::Or(list) if !list.is_empty() => {
                add_list(program, list, missing, Way::Failure);
            }
            Expr::If(list) => add_if(program, list, missing),
            Expr::Not(inner) => {
                inner.add_to(program, missing);
                program.negate(first);
            }
            Expr::Other(inner) => {
                inner.add_to(program, !missing);
                program.negate(first);
            }
            Expr::Always | Expr::And(_) | Expr::Or(_) => {
                let place = Place { region: super::program::Region::Data, offset: 0 };
                program.steps.push(Step::always(place));
                if matches!(self, Expr::Or(_)) {
                    program.negate(first);
                }
            }
        }
    }
}

/// Adds expressions, each of which goes on to the next on the way `on`.
fn add_list(program: &mut Program, list: &[Expr], missing: bool, on: Way) {
    for (idx, expr) in list.iter().enumerate() {
        let first = program.len();
        expr.add_to(program, missing);
        if idx + 1 < list.len() {
            let next = program.len();
            program.redirect(first, next, on, Way::Step(next as u32));
        }
    }
}

fn add_if(program: &mut Program, list: &[Expr], missing: bool) {
    for pair in list.chunks(2) {
        let [condition, consequence] = pair else {
            pair[0].add_to(program, missing);
            continue;
        };
        let first = program.len();
        condition.add_to(program, missing);
        let middle = program.len();
        consequence.add_to(program, missing);
        let next = program.len();
        program.redirect(first, middle, Way::Success, Way::Step(middle as u32));
        program.redirect(first, middle, Way::Failure, Way::Step(next as u32));
    }
}

impl Compare {
    fn step(&self, value: u32, mask: u32, missing: bool) -> Step {
        let step = Step::test(self.place, value << self.shift, mask << self.shift);
        Step { short_yes: missing, ..step }
    }

    fn add_to(&self, program: &mut Program, missing: bool) {
        match self.relation {
            Relation::Equal => program.steps.push(self.step(self.value, self.mask, missing)),
            Relation::Greater => self.add_greater(program, missing),
        }
    }

    /// Tests the highest bits first, until they decide the comparison.
    ///
    /// While the number's highest bits are zeros: a packet's that are not all zeros are greater.
    /// While they are ones, up to the last that must not be: a packet's that are not all ones are
    /// not greater.
    fn add_greater(&self, program: &mut Program, missing: bool) {
        let (mut mask, mut value) = (self.mask, self.value);
        if value >= mask {
            return Expr::Always.not().add_to(program, missing);
        }
        while value < mask {
            let are_ones = value > mask >> 1;
            // The highest bit that may differ from those above it.
            let low = if are_ones { !value.wrapping_add(1) & mask } else { value };
            let low_bits = u32::BITS - low.leading_zeros();
            let upper = mask & !1u32.checked_shl(low_bits).map_or(u32::MAX, |bit| bit - 1);
            let first = program.len();
            // Where any one bit decides, the step tests for zeros, negated like `missing`.
            let (sought, short) = if are_ones { (upper, missing) } else { (0, !missing) };
            program.steps.push(self.step(sought, upper, short));
            if !are_ones {
                program.negate(first);
            }
            mask &= !upper;
            value &= mask;
            if value < mask {
                let on = if are_ones { Way::Success } else { Way::Failure };
                let next = program.len();
                program.redirect(first, next, on, Way::Step(next as u32));
            }
        }
    }
}

/// What expressions mean, by the book: what programs are tested against.
#[cfg(test)]
impl Expr {
    /// Whether it holds for a packet.
    pub(super) fn holds(&self, regions: &super::run::Regions<'_>, missing: bool) -> bool {
        match self {
            Expr::Always => true,
            Expr::Compare(compare) => compare.holds(regions).unwrap_or(missing),
            Expr::And(list) => list.iter().all(|expr| expr.holds(regions, missing)),
            Expr::Or(list) => list.iter().any(|expr| expr.holds(regions, missing)),
            Expr::If(list) => {
                let mut pairs = list.chunks(2);
                pairs
                    .find_map(|pair| match pair {
                        [condition, then] => {
                            condition.holds(regions, missing).then(|| then.holds(regions, missing))
                        }
                        _ => Some(pair[0].holds(regions, missing)),
                    })
                    .unwrap_or(false)
            }
            Expr::Not(inner) => !inner.holds(regions, missing),
            Expr::Other(inner) => !inner.holds(regions, !missing),
        }
    }
}

#[cfg(test)]
impl Compare {
    fn holds(&self, regions: &super::run::Regions<'_>) -> Option<bool> {
        if self.mask == 0 {
            return Some(true);
        }
        let mask = self.mask << self.shift;
        let word = super::run::word(regions[self.place.region as usize], self.place.offset, mask)?;
        let found = word >> self.shift;
        Some(match self.relation {
            Relation::Equal => found == self.value,
            Relation::Greater => found > self.value,
        })
    }
}
