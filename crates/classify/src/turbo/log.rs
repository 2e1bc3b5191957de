//! Which changes a batch may have seen: what makes every lookup exact while rules change.
//!
//! A rule lies in one place on a key's way, so one change is seen whole or not at all. But a lookup
//! visits several places one after the other: of two changes that both concern its key it could see
//! the second and miss the first, an answer that belongs to no set of rules that ever was. So each
//! change is noted here, before and after it is made. A batch compares the notes: if no change
//! began since it started, or no two of those that began can match one key, all its answers are
//! exact; else the keys that two of them match are looked up again.
//!
//! # Invariants
//! - L1: `started` is stored before the first word of a change is, `finished` after the last. So a
//!   batch that loads `finished` first and `started` last knows every change it can have seen part
//!   of: those in between.
//! - L2: note `n` stays in the ring until `started` reaches `n + RING`; a reader that finds it has
//!   does not trust what it read.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use warpswitch_rules::MatchRef;

/// Notes kept: about a millisecond of changes at the highest rate.
const RING: u64 = 1024;

/// Changes in one batch up to which notes are compared; with more the batch is done again.
const COMPARED_MAX: u64 = 64;

/// Numbers of the changes that a batch may have seen part of: `after + 1 ..= last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    after: u64,
    last: u64,
}

/// What the changes of a window mean for a batch.
#[derive(Debug)]
pub(crate) enum Verdict<const W: usize> {
    /// Every answer is exact.
    Exact,
    /// Keys that two of these match must be looked up again.
    Recheck(Notes<W>),
    /// Too much has changed to tell: all keys must be looked up again.
    Unknown,
}

/// The bits that the rule of a change demands. Its ranges are left out, so that a note may match
/// more keys than the rule, never fewer.
#[derive(Clone, Copy, Debug)]
struct Note<const W: usize> {
    value: [u32; W],
    mask: [u32; W],
}

impl<const W: usize> Note<W> {
    fn matches(&self, key: &[u32; W]) -> bool {
        (0..W).all(|word| key[word] & self.mask[word] == self.value[word])
    }

    fn meets(&self, other: &Self) -> bool {
        (0..W).all(|word| {
            (self.value[word] ^ other.value[word]) & self.mask[word] & other.mask[word] == 0
        })
    }
}

/// The changes of a window that can meet another one. By value: a lookup does not allocate.
#[derive(Debug)]
pub(crate) struct Notes<const W: usize> {
    notes: [Note<W>; COMPARED_MAX as usize],
    len: usize,
}

impl<const W: usize> Notes<W> {
    /// Whether two of the changes may concern `key`.
    pub(crate) fn doubt(&self, key: &[u32; W]) -> bool {
        self.notes[..self.len].iter().filter(|note| note.matches(key)).count() > 1
    }
}

/// The notes. One writer, any number of readers.
#[derive(Debug)]
pub(crate) struct ChangeLog<const W: usize> {
    started: AtomicU64,
    finished: AtomicU64,
    /// `RING` notes of value and mask.
    words: Box<[[AtomicU32; W]]>,
}

impl<const W: usize> ChangeLog<W> {
    pub(crate) fn new() -> Self {
        let words = (0..2 * RING).map(|_| std::array::from_fn(|_| AtomicU32::new(0))).collect();
        Self { started: AtomicU64::new(0), finished: AtomicU64::new(0), words }
    }

    fn note(&self, number: u64) -> &[[AtomicU32; W]] {
        let at = (number % RING) as usize * 2;
        &self.words[at..at + 2]
    }

    /// Notes a change that is about to begin.
    pub(crate) fn start(&self, matching: &MatchRef<'_>) {
        let number = self.started.load(Ordering::Relaxed) + 1;
        let note = self.note(number);
        for (slot, word) in note[0].iter().zip(matching.value) {
            slot.store(*word, Ordering::Relaxed);
        }
        for (slot, word) in note[1].iter().zip(matching.mask) {
            slot.store(*word, Ordering::Relaxed);
        }
        // Partner: `verdict`. The release orders the note before; the fence, all that follows
        // after.
        self.started.store(number, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Notes that the change is made.
    pub(crate) fn finish(&self) {
        // Partner: `before`.
        self.finished.store(self.started.load(Ordering::Relaxed), Ordering::Release);
    }

    /// To be called before a batch loads anything.
    pub(crate) fn before(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// To be called after a batch has loaded everything, with what `before` gave.
    pub(crate) fn after(&self, before: u64) -> Window {
        fence(Ordering::Acquire);
        Window { after: before, last: self.started.load(Ordering::Acquire) }
    }

    /// What happened in `window`.
    ///
    /// Cost: nothing for up to one change; else one comparison for each pair of changes.
    pub(crate) fn verdict(&self, window: Window) -> Verdict<W> {
        let changes = window.last - window.after;
        if changes <= 1 {
            return Verdict::Exact;
        }
        if changes > COMPARED_MAX {
            return Verdict::Unknown;
        }
        let none = Note { value: [0; W], mask: [0; W] };
        let mut of_window = [none; COMPARED_MAX as usize];
        let of_window = &mut of_window[..changes as usize];
        for (note, number) in of_window.iter_mut().zip(window.after + 1..) {
            let [value, mask] = self.note(number) else { unreachable!("a note is two rows") };
            note.value = value.each_ref().map(|word| word.load(Ordering::Relaxed));
            note.mask = mask.each_ref().map(|word| word.load(Ordering::Relaxed));
        }
        fence(Ordering::Acquire);
        if self.started.load(Ordering::Relaxed) >= window.after + RING {
            return Verdict::Unknown;
        }
        let mut meeting = Notes { notes: [none; COMPARED_MAX as usize], len: 0 };
        for (idx, note) in of_window.iter().enumerate() {
            let mut others = of_window.iter().enumerate().filter(|(other, _)| *other != idx);
            if others.any(|(_, other)| note.meets(other)) {
                meeting.notes[meeting.len] = *note;
                meeting.len += 1;
            }
        }
        if meeting.len == 0 { Verdict::Exact } else { Verdict::Recheck(meeting) }
    }

    /// Whether two changes of `window` may concern `key`, or too many are forgotten to tell.
    ///
    /// Cost: one comparison for each change.
    pub(crate) fn doubts(&self, window: Window, key: &[u32; W]) -> bool {
        let changes = window.last - window.after;
        if changes <= 1 {
            return false;
        }
        if changes >= RING {
            return true;
        }
        let matching = (window.after + 1..=window.last).filter(|&number| {
            let [value, mask] = self.note(number) else { unreachable!("a note is two rows") };
            (0..W).all(|word| {
                let mask = mask[word].load(Ordering::Relaxed);
                key[word] & mask == value[word].load(Ordering::Relaxed)
            })
        });
        let doubt = matching.count() > 1;
        fence(Ordering::Acquire);
        doubt || self.started.load(Ordering::Relaxed) >= window.after + RING
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * W * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::PortRange;

    fn change(log: &ChangeLog<4>, value: u32, mask: u32) {
        let (value, mask) = ([value, 0, 0, 0], [mask, 0, 0, 0]);
        log.start(&MatchRef {
            value: &value,
            mask: &mask,
            ranges: [PortRange::ANY; 2],
            ports_word: 2,
        });
        log.finish();
    }

    #[test]
    fn only_changes_that_can_meet_cast_doubt() {
        let log = ChangeLog::<4>::new();
        let before = log.before();
        change(&log, 1, 0xff);
        assert!(matches!(log.verdict(log.after(before)), Verdict::Exact), "one change");
        change(&log, 2, 0xff);
        assert!(matches!(log.verdict(log.after(before)), Verdict::Exact), "apart");
        change(&log, 0x101, 0xfff);
        let Verdict::Recheck(notes) = log.verdict(log.after(before)) else { panic!("they meet") };
        assert_eq!(notes.len, 2);
        assert!(notes.doubt(&[0x101, 9, 9, 9]));
        assert!(!notes.doubt(&[1, 9, 9, 9]), "one of them matches");
        assert!(!notes.doubt(&[2, 9, 9, 9]), "none does");
        for n in 0..COMPARED_MAX as u32 {
            change(&log, n, 0xff);
        }
        assert!(matches!(log.verdict(log.after(before)), Verdict::Unknown), "too many");
        assert!(log.doubts(log.after(before), &[0x101, 0, 0, 0]));
        assert!(!log.doubts(log.after(before), &[0xff, 0, 0, 0]));
        assert!(matches!(log.verdict(log.after(log.before())), Verdict::Exact), "none");
    }
}
