//! Programs that classify packets: steps that compare four bytes under a mask, with one branch for
//! yes and one for no.
//!
//! ```text
//! 0 264/00060000%00ff0000  yes->step 1  no->[X]       is the protocol TCP?
//! 1 512/00000050%0000ffff  yes->[0]  no->[1]          is the destination port 80?
//! ```
//! A step has the position of its word: in the packet data, or at an offset in the Ethernet,
//! network or transport header. Printed programs show both as one number: headers begin at 0 (two
//! bytes before the Ethernet header, so that addresses are aligned to words), 256 and 512.
//!
//! # Invariants
//! - P1: branches only lead forward, so a run ends after at most as many steps as the program has.
//! - P2: a step with missing bytes takes the branch that `short_yes` selects. A step with an empty
//!   mask takes the branch for yes.
//! - P3: a program without steps has [`Program::all`].

use std::fmt::Write;

/// What the place of a word counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Region {
    /// The first byte of the packet.
    Data,
    /// Two bytes in front of the Ethernet header.
    Ethernet,
    /// The network header.
    Network,
    /// The transport header.
    Transport,
}

impl Region {
    /// How many there are.
    pub(super) const COUNT: usize = 4;

    /// What is added to offsets for people.
    fn base(self) -> u32 {
        match self {
            Region::Data | Region::Ethernet => 0,
            Region::Network => 256,
            Region::Transport => 512,
        }
    }
}

/// Where a word lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) region: Region,
    /// In bytes, a multiple of four.
    pub(super) offset: u16,
}

impl Place {
    /// The number that people see.
    pub(super) fn number(self) -> u32 {
        self.region.base() + u32::from(self.offset)
    }
}

/// Where a packet goes from a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// To this step.
    Step(u32),
    /// Through this output.
    Output(u32),
    /// Nowhere.
    Drop,
    /// The expression holds: only while a program is made.
    Success,
    /// The expression does not hold: only while a program is made.
    Failure,
}

impl Way {
    fn shifted(self, steps: u32) -> Self {
        match self {
            Way::Step(step) => Way::Step(step + steps),
            other => other,
        }
    }
}

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) place: Place,
    /// In network order, so that the first byte is the highest.
    pub(super) mask: u32,
    /// Has no bit outside `mask`.
    pub(super) value: u32,
    /// The way for no, and the way for yes.
    pub(super) ways: [Way; 2],
    /// Whether a packet without these bytes goes the way of yes.
    pub(super) short_yes: bool,
}

impl Step {
    /// A step that succeeds if the bits under `mask` equal `value`, and fails otherwise.
    pub(super) fn test(place: Place, value: u32, mask: u32) -> Self {
        let ways = [Way::Failure, Way::Success];
        Self { place, mask, value: value & mask, ways, short_yes: false }
    }

    /// A step that every packet passes.
    pub(super) fn always(place: Place) -> Self {
        Self::test(place, 0, 0)
    }

    /// Bytes that its region must have.
    pub(super) fn required_bytes(&self) -> u32 {
        match self.mask {
            0 => 0,
            mask => u32::from(self.place.offset) + 4 - mask.trailing_zeros() / 8,
        }
    }

    /// Writes it as people read it.
    fn write(&self, out: &mut String, number: usize) {
        let way = |way: Way| match way {
            Way::Step(step) => format!("step {step}"),
            Way::Output(output) => format!("[{output}]"),
            _ => "[X]".to_owned(),
        };
        let (place, [no, yes]) = (self.place.number(), self.ways);
        let (value, mask, no, yes) = (self.value, self.mask, way(no), way(yes));
        let short = if self.short_yes { "  short->yes" } else { "" };
        let _ = writeln!(
            out,
            "{number:2} {place:3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}{short}"
        );
    }
}

/// A program. See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    /// Where all packets go, if there are no steps.
    pub(super) all: Option<Way>,
}

impl Program {
    /// A program that sends every packet one way.
    pub(super) fn all(way: Way) -> Self {
        Self { steps: Vec::new(), all: Some(way) }
    }

    /// Number of steps.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Replaces the way `from` by `to` in the steps from number `first` on, up to `end`.
    pub(super) fn redirect(&mut self, first: usize, end: usize, from: Way, to: Way) {
        for way in self.steps[first..end].iter_mut().flat_map(|step| &mut step.ways) {
            if *way == from {
                *way = to;
            }
        }
    }

    /// Swaps success and failure in the steps from number `first` on.
    pub(super) fn negate(&mut self, first: usize) {
        for way in self.steps[first..].iter_mut().flat_map(|step| &mut step.ways) {
            *way = match *way {
                Way::Success => Way::Failure,
                Way::Failure => Way::Success,
                other => other,
            };
        }
    }

    /// Sends what fails on the way `way`.
    pub(super) fn fail_to(&mut self, way: Way) {
        if self.all == Some(Way::Failure) {
            self.all = Some(way);
        }
        self.redirect(0, self.steps.len(), Way::Failure, way);
    }

    /// Sends what fails here through `next`.
    pub(super) fn or_else(&mut self, next: Program) {
        match self.all {
            Some(Way::Failure) => *self = next,
            Some(_) => {}
            None => {
                let len = self.steps.len() as u32;
                self.fail_to(next.all.unwrap_or(Way::Step(len)));
                let shifted = |mut step: Step| {
                    step.ways = step.ways.map(|way| way.shifted(len));
                    step
                };
                self.steps.extend(next.steps.into_iter().map(shifted));
            }
        }
    }

    /// Bytes that a packet must have so that no step misses one, counted as people see places.
    fn safe_bytes(&self) -> u32 {
        let needed = |step: &Step| match step.required_bytes() {
            0 => 0,
            bytes => step.place.region.base() + bytes,
        };
        self.steps.iter().map(needed).max().unwrap_or(0)
    }

    /// The program as people read it.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            step.write(&mut out, number);
        }
        match self.all {
            Some(Way::Output(output)) => _ = writeln!(out, "all->[{output}]"),
            Some(_) => out.push_str("all->[X]\n"),
            None => {}
        }
        let _ = writeln!(out, "safe length {}", self.safe_bytes());
        out.push_str("alignment offset 0\n");
        out
    }

    /// Warnings about those of `outputs` outputs that no packet leaves through.
    pub(super) fn unused_outputs(&self, outputs: usize) -> Vec<String> {
        let ways = self.steps.iter().flat_map(|step| step.ways).chain(self.all);
        let mut is_used = vec![false; outputs];
        for way in ways {
            if let Way::Output(output) = way
                && let Some(used) = is_used.get_mut(output as usize)
            {
                *used = true;
            }
        }
        let unused = is_used.iter().enumerate().filter(|(_, used)| !**used);
        unused.map(|(output, _)| format!("output {output} matches no packets")).collect()
    }
}
