//! When frames are worth a kernel that stays: whether to start it, and whether to stop it.
//!
//! A launch costs microseconds that a resident kernel saves, but such a kernel keeps
//! multiprocessors busy and polls over the link. So it starts when several full frames came in a
//! row and stops when many small ones did; between the two lies a band in which nothing changes.
//!
//! # Source
//! The counters and their thresholds are those of the `gpu_classify` plugin for VPP. That silence
//! stops it as well is ours: without frames nobody would count.

use std::time::Duration;

/// The thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    /// A frame of so many keys is a busy one.
    pub busy_len: usize,
    /// Busy frames in a row that start the kernel.
    pub start_after: u32,
    /// Others in a row that stop it.
    pub stop_after: u32,
    /// Time without any frame that stops it.
    pub silence: Duration,
}

impl Default for Hysteresis {
    fn default() -> Self {
        Self { busy_len: 128, start_after: 4, stop_after: 16, silence: Duration::from_millis(10) }
    }
}

impl Hysteresis {
    /// The kernel runs from the first frame on, and stops by silence only.
    pub fn always() -> Self {
        Self { busy_len: 0, start_after: 1, stop_after: u32::MAX, ..Self::default() }
    }

    /// It never runs.
    pub fn never() -> Self {
        Self { busy_len: usize::MAX, ..Self::default() }
    }
}

/// The counters, and what they say. Time is the caller's: any clock that does not go back.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    thresholds: Hysteresis,
    busy: u32,
    idle: u32,
    is_on: bool,
    last: Duration,
}

impl Switch {
    /// Off.
    pub fn new(thresholds: Hysteresis) -> Self {
        Self { thresholds, busy: 0, idle: 0, is_on: false, last: Duration::ZERO }
    }

    /// Whether the kernel should run.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Takes a frame of `len` keys into account.
    pub fn frame(&mut self, len: usize, now: Duration) {
        self.tick(now);
        self.last = now;
        if len >= self.thresholds.busy_len {
            self.busy = self.busy.saturating_add(1);
            self.idle = 0;
        } else {
            self.idle = self.idle.saturating_add(1);
            self.busy = 0;
        }
        if !self.is_on && self.busy >= self.thresholds.start_after {
            self.is_on = true;
        } else if self.is_on && self.idle >= self.thresholds.stop_after {
            self.turn_off();
        }
    }

    /// Takes the time into account.
    pub fn tick(&mut self, now: Duration) {
        if self.is_on && now.saturating_sub(self.last) >= self.thresholds.silence {
            self.turn_off();
        }
    }

    fn turn_off(&mut self) {
        self.is_on = false;
        self.busy = 0;
        self.idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Frames of the given lengths, 5 us apart; whether it is on after each, as `#` and `.`.
    fn check(lens: &[usize], want: &str) {
        let mut switch = Switch::new(Hysteresis::default());
        let is_on = |(n, &len): (usize, &usize)| {
            switch.frame(len, 5 * US * n as u32);
            if switch.is_on() { '#' } else { '.' }
        };
        let got: String = lens.iter().enumerate().map(is_on).collect();
        assert_eq!(got, want, "{lens:?}");
    }

    #[test]
    fn four_busy_frames_start_it_and_sixteen_others_stop_it() {
        check(&[256, 256, 256, 256, 1], "...##");
        check(&[128, 128, 128, 127, 128, 128, 128, 128], ".......#");
        let mut lens = vec![256; 4];
        lens.extend([0; 16]);
        check(&lens, "...################.");
        // A busy one in between begins the count anew.
        let mut lens = vec![256; 4];
        lens.extend([1; 15]);
        lens.push(200);
        lens.extend([1; 16]);
        check(&lens, &format!("...{}.", "#".repeat(32)));
        // And counters begin at zero after a stop.
        let mut lens = vec![256; 4];
        lens.extend([1; 16]);
        lens.extend([256, 256, 256, 256]);
        check(&lens, &format!("...{}....#", "#".repeat(16)));
    }

    #[test]
    fn silence_stops_it() {
        let mut switch = Switch::new(Hysteresis::default());
        (0..4).for_each(|n| switch.frame(256, US * n));
        assert!(switch.is_on());
        switch.tick(9_999 * US);
        assert!(switch.is_on());
        switch.tick(10_003 * US);
        assert!(!switch.is_on());
        // One frame after silence is one frame, even if nobody looked meanwhile.
        (0..4).for_each(|n| switch.frame(256, 20_000 * US + US * n));
        assert!(switch.is_on());
        switch.frame(256, 40_000 * US);
        assert!(!switch.is_on());
    }

    #[test]
    fn thresholds_are_free() {
        let mut switch = Switch::new(Hysteresis::always());
        switch.frame(1, US);
        assert!(switch.is_on());
        (0..1000).for_each(|n| switch.frame(1, US * n));
        assert!(switch.is_on());
        let mut switch = Switch::new(Hysteresis::never());
        (0..1000).for_each(|n| switch.frame(1024, US * n));
        assert!(!switch.is_on());
    }
}
