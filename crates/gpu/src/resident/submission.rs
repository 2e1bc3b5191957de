//! How a small batch is submitted: by a launch, or to the resident kernel, whichever costs less.
//!
//! ```text
//! batches of a length   launch × TRIAL, resident × TRIAL, cheaper × EXAMINE_EVERY, other × TRIAL …
//! ```
//! A resident kernel that has left must be started for the first batch of a trial. So a trial has
//! several batches in a row, and only the later half of them counts.

use std::time::Duration;

/// Batches of a trial.
const TRIAL: u32 = 32;
/// Batches of a length between two trials of the other method.
const EXAMINE_EVERY: u32 = 4096;
/// The other method must be cheaper by so many hundredths.
const MARGIN_PERCENT: u64 = 10;
/// A moving average takes over one part in so many of each batch.
const AVERAGE_OVER: u64 = 16;
/// Classes of lengths: powers of two, up to 64K and beyond.
const CLASSES: usize = 18;

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// A kernel launch.
    Launch,
    /// Rows that the resident kernel polls.
    Resident,
}

impl Submission {
    fn other(self) -> Self {
        match self {
            Self::Launch => Self::Resident,
            Self::Resident => Self::Launch,
        }
    }
}

/// When the resident kernel is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResidentChoice {
    /// Where measured costs are lower than those of launches.
    #[default]
    Auto,
    /// For all batches that are small enough.
    Always,
    /// Never.
    Never,
}

/// Measured costs of one class of lengths.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Nanoseconds a batch by method; `None` if unknown.
    cost_ns: [Option<u64>; 2],
    /// The method in use; `None` before the first batch.
    method: Option<Submission>,
    /// Batches left in the trial.
    trial: u32,
    /// Batches since the last trial.
    batches: u32,
}

impl Class {
    fn begin_trial(&mut self, method: Submission) {
        (self.method, self.trial, self.batches) = (Some(method), TRIAL, 0);
        // A cost that was measured long ago is no reference.
        self.cost_ns[method as usize] = None;
    }

    /// The cheaper method at the end of a trial of `tried`; the other one if it is unknown.
    fn settle(&mut self, tried: Submission) {
        let other = tried.other();
        let (Some(cost), Some(other_cost)) =
            (self.cost_ns[tried as usize], self.cost_ns[other as usize])
        else {
            return self.begin_trial(other);
        };
        let is_cheaper = cost < other_cost / 100 * (100 - MARGIN_PERCENT);
        self.method = Some(if is_cheaper { tried } else { other });
    }
}

/// See the module. One thread uses it.
#[derive(Clone, Debug)]
pub struct SubmissionPolicy {
    choice: ResidentChoice,
    classes: [Class; CLASSES],
}

impl SubmissionPolicy {
    /// A policy without measurements.
    pub fn new(choice: ResidentChoice) -> Self {
        Self { choice, classes: [Class::default(); CLASSES] }
    }

    /// The method for a batch of `len` keys.
    pub fn choose(&mut self, len: usize) -> Submission {
        match self.choice {
            ResidentChoice::Always => return Submission::Resident,
            ResidentChoice::Never => return Submission::Launch,
            ResidentChoice::Auto => {}
        }
        let class = &mut self.classes[class_of(len)];
        match class.method {
            None => class.begin_trial(Submission::Launch),
            Some(method) if class.trial > 0 => {
                class.trial -= 1;
                if class.trial == 0 {
                    class.settle(method);
                }
            }
            Some(method) => {
                class.batches += 1;
                if class.batches >= EXAMINE_EVERY {
                    class.begin_trial(method.other());
                }
            }
        }
        class.method.unwrap_or(Submission::Launch)
    }

    /// Notes the time of a batch of `len` keys, from submission to its results.
    pub fn note(&mut self, len: usize, method: Submission, took: Duration) {
        let class = &mut self.classes[class_of(len)];
        if class.method == Some(method) && class.trial > TRIAL / 2 {
            return;
        }
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / AVERAGE_OVER);
        let cost = &mut class.cost_ns[method as usize];
        let former = cost.unwrap_or(ns);
        *cost = Some((former * (AVERAGE_OVER - 1) + ns) / AVERAGE_OVER);
    }

    /// The resident kernel cannot be used.
    pub fn give_up_resident(&mut self) {
        self.choice = ResidentChoice::Never;
    }
}

fn class_of(len: usize) -> usize {
    ((usize::BITS - len.leading_zeros()) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// Passes `count` batches of `len` keys; returns how many were resident.
    fn pass(
        policy: &mut SubmissionPolicy,
        (len, count): (usize, u32),
        cost: impl Fn(Submission, u32) -> Duration,
    ) -> u32 {
        (0..count).fold(0, |resident, number| {
            let method = policy.choose(len);
            policy.note(len, method, cost(method, number));
            resident + u32::from(method == Submission::Resident)
        })
    }

    #[test]
    fn the_cheaper_method_is_used_for_each_length() {
        let mut policy = SubmissionPolicy::new(ResidentChoice::Auto);
        let short = |method, _| if method == Submission::Resident { US(4) } else { US(11) };
        let long = |method, _| if method == Submission::Resident { US(30) } else { US(15) };
        let settled = 2 * TRIAL + 2;
        pass(&mut policy, (256, settled), short);
        pass(&mut policy, (2000, settled), long);
        assert_eq!(pass(&mut policy, (256, 1000), short), 1000);
        assert_eq!(pass(&mut policy, (2000, 1000), long), 0);
    }

    #[test]
    fn the_start_of_the_kernel_does_not_count() {
        let mut policy = SubmissionPolicy::new(ResidentChoice::Auto);
        // The first batches of a trial wait for the kernel.
        let cost = |method, number| match method {
            Submission::Resident if number < TRIAL + 4 => US(5000),
            Submission::Resident => US(4),
            Submission::Launch => US(11),
        };
        pass(&mut policy, (256, 2 * TRIAL + 2), cost);
        assert_eq!(pass(&mut policy, (256, 100), |method, _| cost(method, 1000)), 100);
    }

    #[test]
    fn later_trials_find_changed_costs() {
        let mut policy = SubmissionPolicy::new(ResidentChoice::Auto);
        let equal = |_, _| US(10);
        pass(&mut policy, (64, 2 * TRIAL + 2), equal);
        assert_eq!(pass(&mut policy, (64, 100), equal), 0, "a launch is simpler");
        let busy = |method, _| if method == Submission::Resident { US(10) } else { US(50) };
        pass(&mut policy, (64, EXAMINE_EVERY + TRIAL), busy);
        assert_eq!(pass(&mut policy, (64, 100), busy), 100);
    }

    #[test]
    fn a_choice_holds_for_all_batches() {
        let cost = |_, _| US(1);
        for (choice, resident) in [(ResidentChoice::Always, 50), (ResidentChoice::Never, 0)] {
            assert_eq!(pass(&mut SubmissionPolicy::new(choice), (64, 50), cost), resident);
        }
        let mut policy = SubmissionPolicy::new(ResidentChoice::Always);
        policy.give_up_resident();
        assert_eq!(pass(&mut policy, (64, 50), cost), 0);
    }
}
