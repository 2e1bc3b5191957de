//! Shifts of TCP sequence numbers, after payload was lengthened or shortened.
//!
//! A step shifts all sequence numbers of its direction from some number on; long connections have
//! several steps. Acknowledgements of the other direction are shifted back.
//!
//! ```text
//! direction 0   …seq < a   a ≤ seq < b   b ≤ seq…
//! shift              0         -12           -24
//! ```
//! Steps at least a quarter of the sequence space behind are forgotten: their shift holds for all.

/// Steps of one direction that are kept; older ones are taken to hold for all.
const STEPS_MAX: usize = 64;
/// A step is forgotten once sequence numbers are so far beyond it.
const FORGET_AFTER: u32 = 1 << 30;

#[derive(Clone, Debug, Default)]
struct Direction {
    /// The shift before the first step.
    base: i32,
    /// Where each step begins, and the shift from there on; in the order of sequence numbers.
    steps: Vec<(u32, i32)>,
}

/// Whether `a` is `b` or comes after it.
fn is_at_or_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

impl Direction {
    fn is_idle(&self) -> bool {
        self.base == 0 && self.steps.is_empty()
    }

    fn last(&self) -> i32 {
        self.steps.last().map_or(self.base, |&(_, shift)| shift)
    }

    fn forget(&mut self, seq: u32) {
        while let Some(&(from, shift)) = self.steps.first()
            && (is_at_or_after(seq, from.wrapping_add(FORGET_AFTER))
                || self.steps.len() > STEPS_MAX)
        {
            self.base = shift;
            self.steps.remove(0);
        }
    }

    /// The shift of the last step for which `is_past` returns true, or else the base.
    fn shift(&self, is_past: impl Fn(u32, i32) -> bool) -> i32 {
        let steps = self.steps.iter().rev();
        steps.copied().find(|&(from, shift)| is_past(from, shift)).map_or(self.base, |step| step.1)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct SeqShifts {
    directions: [Direction; 2],
}

impl SeqShifts {
    /// Adds `bytes` to the shift of `direction` from sequence number `from` on, unless there is
    /// already a step behind that. Returns whether it did.
    pub(super) fn add(&mut self, direction: usize, from: u32, bytes: i32) -> bool {
        let direction = &mut self.directions[direction];
        match direction.steps.last_mut() {
            Some(&mut (at, _)) if at == from => {
                // A retransmission: the same change, not another one.
                let before = direction.steps.len().checked_sub(2).map(|n| direction.steps[n].1);
                let shift = before.unwrap_or(direction.base).wrapping_add(bytes);
                direction.steps.last_mut().expect("there is one").1 = shift;
            }
            Some(&mut (at, _)) if !is_at_or_after(from, at) => return false,
            _ => {
                let shift = direction.last().wrapping_add(bytes);
                direction.steps.push((from, shift));
            }
        }
        direction.forget(from);
        true
    }

    /// Notes how far `direction` has come.
    pub(super) fn advance(&mut self, direction: usize, seq: u32) {
        self.directions[direction].forget(seq);
    }

    /// Whether sequence numbers of `direction` are shifted at all.
    pub(super) fn applies(&self, direction: usize) -> bool {
        !self.directions[direction].is_idle()
    }

    /// The sequence number `seq` of `direction` as it leaves.
    pub(super) fn seq(&self, direction: usize, seq: u32) -> u32 {
        let shift = self.directions[direction].shift(|from, _| is_at_or_after(seq, from));
        seq.wrapping_add_signed(shift)
    }

    /// The acknowledgement `ack` in `direction` as it leaves: it speaks of the other direction's
    /// shifted numbers.
    pub(super) fn ack(&self, direction: usize, ack: u32) -> u32 {
        let is_past = |from, shift: i32| is_at_or_after(ack.wrapping_sub(shift as u32), from);
        ack.wrapping_sub(self.directions[1 - direction].shift(is_past) as u32)
    }

    /// The shift of the newest numbers of `direction`.
    pub(super) fn newest(&self, direction: usize) -> i32 {
        self.directions[direction].last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shifted_from_each_step_on() {
        let mut shifts = SeqShifts::default();
        assert!(shifts.add(0, 100, -12));
        assert!(shifts.add(0, 200, -12));
        assert!(!shifts.add(0, 150, 5), "steps come in order");
        let forward = [99, 100, 199, 200, 300].map(|seq| shifts.seq(0, seq));
        assert_eq!(forward, [99, 88, 187, 176, 276]);
        let back = [99, 88, 187, 176, 276].map(|ack| shifts.ack(1, ack));
        // 88 is both what 88 and what 100 became: the later one is meant.
        assert_eq!(back, [111, 100, 211, 200, 300]);
        assert_eq!((shifts.seq(1, 7), shifts.applies(1), shifts.newest(0)), (7, false, -24));
        shifts.advance(0, 100 + FORGET_AFTER);
        assert_eq!((shifts.seq(0, 50), shifts.seq(0, 201)), (38, 177));
        for n in 0..1000 {
            assert!(shifts.add(0, 1000 + n, 1));
        }
        assert!(shifts.directions[0].steps.len() <= STEPS_MAX);
        assert_eq!(shifts.seq(0, 5000), 5000 - 24 + 1000);
    }
}
