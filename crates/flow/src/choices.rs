//! The design choices that the paper compares, for measurements: where readers find the list, and
//! how samples reach the updater.
//!
//! Two copies and one slot are the defaults and what everything but `bench storm` uses. With one
//! copy, readers and updater wait for each other; with a queue, samples are old under load.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use warpswitch_packet::sync::{LeftRight, ReadGuard, SampleSlot};

use crate::box_list::BoxList;
use crate::readers::thread_number;

/// Samples that wait in a queue; further ones are lost.
const QUEUE_LEN_MAX: usize = 1024;

/// Copies of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// One, locked.
    One,
    /// Two, swapped.
    #[default]
    Two,
}

/// How samples wait for the updater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// The last one only.
    #[default]
    Slot,
    /// In order.
    Queue,
}

/// Groups of threads that have two copies of their own: entering a copy writes to its lock word,
/// and cores that share one wait for its cache line. A list is small.
const GROUPS: usize = 8;

/// The list, shared by readers and the updater.
#[derive(Debug)]
pub(crate) enum SharedList {
    One(RwLock<BoxList>),
    /// By [`thread_number`].
    Two(Box<[LeftRight<BoxList>]>),
}

/// A reader's hold on the list.
pub(crate) enum ListGuard<'a> {
    One(RwLockReadGuard<'a, BoxList>),
    Two(ReadGuard<'a, BoxList>),
}

impl Deref for ListGuard<'_> {
    type Target = BoxList;

    fn deref(&self) -> &BoxList {
        match self {
            Self::One(list) => list,
            Self::Two(list) => list,
        }
    }
}

impl SharedList {
    pub fn new(copies: Copies, list: BoxList) -> Self {
        match copies {
            Copies::One => Self::One(RwLock::new(list)),
            Copies::Two => {
                let pair = |_| LeftRight::new(list.clone(), list.clone());
                Self::Two((0..GROUPS).map(pair).collect())
            }
        }
    }

    pub fn read(&self) -> ListGuard<'_> {
        match self {
            Self::One(list) => ListGuard::One(list.read().unwrap_or_else(PoisonError::into_inner)),
            Self::Two(groups) => ListGuard::Two(groups[thread_number() % GROUPS].read()),
        }
    }

    /// Replaces the list where that needs no wait for readers; one copy always waits. Returns
    /// whether it did so for all readers.
    pub fn try_replace(&self, list: &BoxList) -> bool {
        match self {
            Self::One(_) => {
                self.replace(list);
                true
            }
            Self::Two(groups) => {
                let replaced =
                    |group: &&LeftRight<BoxList>| group.try_replace(|copy| copy.set(list));
                groups.iter().filter(replaced).count() == groups.len()
            }
        }
    }

    /// Replaces the list for all readers, and waits until none sees a version before.
    pub fn replace(&self, list: &BoxList) {
        match self {
            Self::One(copy) => copy.write().unwrap_or_else(PoisonError::into_inner).set(list),
            Self::Two(groups) => {
                groups
                    .iter()
                    .for_each(|group| group.change_always(|copy: &mut BoxList| copy.set(list)));
            }
        }
    }

    /// Waits until no reader sees a version before the newest one.
    pub fn wait_for_old_readers(&self) {
        if let Self::Two(groups) = self {
            groups.iter().for_each(LeftRight::wait_for_old_readers);
        }
    }
}

/// Samples on their way to the updater.
#[derive(Debug)]
pub(crate) enum Samples {
    Slot(SampleSlot),
    Queue(Mutex<VecDeque<Vec<u32>>>),
}

impl Samples {
    pub fn new(sampling: Sampling, words: usize) -> Self {
        match sampling {
            Sampling::Slot => Self::Slot(SampleSlot::new(words)),
            Sampling::Queue => Self::Queue(Mutex::default()),
        }
    }

    pub fn offer(&self, key: &[u32]) {
        match self {
            Self::Slot(slot) => _ = slot.offer(key),
            Self::Queue(queue) => {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                if queue.len() < QUEUE_LEN_MAX {
                    queue.push_back(key.to_vec());
                }
            }
        }
    }

    pub fn take(&self, key: &mut [u32]) -> bool {
        match self {
            Self::Slot(slot) => slot.take(key),
            Self::Queue(queue) => {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(oldest) = queue.pop_front() else { return false };
                key.copy_from_slice(&oldest);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_keeps_the_first_samples_and_a_slot_the_last_one() {
        let mut key = [0; 2];
        for (sampling, expected) in [(Sampling::Slot, 2999), (Sampling::Queue, 0)] {
            let samples = Samples::new(sampling, 2);
            assert!(!samples.take(&mut key));
            (0..3000).for_each(|n| samples.offer(&[n, n]));
            assert!(samples.take(&mut key));
            assert_eq!(key, [expected; 2]);
            let rest = std::iter::from_fn(|| samples.take(&mut key).then_some(())).count();
            assert_eq!(rest, if sampling == Sampling::Slot { 0 } else { QUEUE_LEN_MAX - 1 });
        }
    }
}
