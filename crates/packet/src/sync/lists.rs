//! Lists of numbers that one thread leaves behind and others look up for a while: what is too long
//! to travel with a packet.
//!
//! ```text
//! words    … │ bytes that were overwritten │ len, head, item, item │ len, head │ … │ ─► begun
//!              ◄────────────────── as many words as there are ──────────────────►
//! ```
//! Words are a ring. A place counts words from the start of time, so none ever means two lists: who
//! has a place finds its list there, or learns that it was overwritten.
//!
//! # Invariants
//! - L1: `begun` passes a word before it is written anew; so who finds, after reading, that `begun`
//!   is no more than the ring past a list's place has read nothing of a later one.
//! - L2: places are handed over by something that orders memory, as a packet that goes to another
//!   thread is; so who has one sees its list or a later one there.

use std::sync::Arc;

use super::primitives::{AtomicU32, AtomicU64, Ordering, fence};

/// Words before a list's items: how many these are, and a word that says what they are of.
const HEAD_WORDS: usize = 2;

/// Who reads. Threads: any number of them.
#[derive(Debug)]
pub struct Lists {
    words: Box<[AtomicU32]>,
    /// All words that were ever begun to be written.
    begun: AtomicU64,
}

/// Who writes: one thread at a time.
#[derive(Debug)]
pub struct ListWriter {
    lists: Arc<Lists>,
    /// The same as `begun`.
    next: u64,
}

impl ListWriter {
    /// Room for lists of so many words together, two more for each list than it has items. Memory:
    /// 4 bytes a word, of a power of two.
    pub fn new(words: usize) -> Self {
        let words = (0..words.next_power_of_two()).map(|_| AtomicU32::new(0)).collect();
        Self { lists: Arc::new(Lists { words, begun: AtomicU64::new(0) }), next: 0 }
    }

    /// Who reads what this one writes.
    pub fn lists(&self) -> &Arc<Lists> {
        &self.lists
    }

    /// Writes a list, over the oldest ones. Gives its place; none if it takes more than an eighth
    /// of the room, as it would put too many others out.
    pub fn push(&mut self, head: u32, items: impl ExactSizeIterator<Item = u32>) -> Option<u64> {
        let Lists { words, begun } = &*self.lists;
        let len = items.len();
        if HEAD_WORDS + len > words.len() / 8 {
            return None;
        }
        let place = self.next;
        self.next += (HEAD_WORDS + len) as u64;
        // L1: whoever sees one of the words below sees this, too.
        begun.store(self.next, Ordering::Relaxed);
        fence(Ordering::Release);
        let list = [len as u32, head].into_iter().chain(items);
        for (word, value) in (place..self.next).zip(list) {
            words[word as usize & (words.len() - 1)].store(value, Ordering::Relaxed);
        }
        Some(place)
    }
}

impl Lists {
    /// Adds the items at `place` to `items`, and gives their head; none, and nothing is added, if
    /// they were overwritten.
    pub fn read(&self, place: u64, items: &mut Vec<u32>) -> Option<u32> {
        let word =
            |at: u64| self.words[at as usize & (self.words.len() - 1)].load(Ordering::Relaxed);
        let is_there = || {
            let begun = self.begun.load(Ordering::Relaxed);
            begun.checked_sub(place).is_some_and(|behind| behind <= self.words.len() as u64)
        };
        let (len, head) = (word(place), word(place.wrapping_add(1)));
        // What was overwritten may say any length.
        if !is_there() || len as usize > self.words.len() / 8 {
            return None;
        }
        let before = items.len();
        let first = place.wrapping_add(HEAD_WORDS as u64);
        items.extend((first..first.wrapping_add(u64::from(len))).map(word));
        fence(Ordering::Acquire);
        if !is_there() {
            items.truncate(before);
            return None;
        }
        Some(head)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A place gives what was left there, or nothing once so much came after it.
        #[test]
        fn a_place_gives_its_list_or_nothing(
            lens in prop::collection::vec(0usize..9, ..60), words in 1usize..100,
        ) {
            let mut writer = ListWriter::new(words);
            let ring = words.next_power_of_two();
            let mut pushed = Vec::new();
            for (number, len) in lens.into_iter().enumerate() {
                let items = vec![number as u32; len];
                let place = writer.push(number as u32 + 7, items.iter().copied());
                prop_assert_eq!(place.is_some(), len + HEAD_WORDS <= ring / 8);
                pushed.extend(place.map(|place| (place, number as u32 + 7, items)));
            }
            let mut found = vec![1];
            for (place, head, items) in pushed {
                found.truncate(1);
                let is_there = writer.next - place <= ring as u64;
                let expected = is_there.then_some(head);
                prop_assert_eq!(writer.lists().read(place, &mut found), expected);
                prop_assert_eq!(&found[1..], if is_there { &items[..] } else { &[] });
            }
        }
    }

    #[test]
    fn what_was_never_written_is_not_found() {
        let writer = ListWriter::new(64);
        assert_eq!(writer.lists().read(1, &mut Vec::new()), None);
        assert_eq!(writer.lists().read(u64::MAX, &mut Vec::new()), None);
    }

    #[test]
    fn readers_never_see_half_of_a_list() {
        let mut writer = ListWriter::new(256);
        let (places, mut readers) = (Arc::new(std::sync::Mutex::new(None)), Vec::new());
        let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        for _ in 0..2 {
            let (lists, places) = (writer.lists().clone(), places.clone());
            let is_over = is_over.clone();
            readers.push(std::thread::spawn(move || {
                let mut items = Vec::new();
                loop {
                    let is_last = is_over.load(Ordering::Acquire);
                    let Some((place, number)) = *places.lock().expect("nobody panicked") else {
                        continue;
                    };
                    items.clear();
                    let head = lists.read(place, &mut items);
                    if let Some(head) = head {
                        assert_eq!(head, number);
                        assert_eq!(items, vec![number; number as usize % 20]);
                    }
                    if is_last {
                        assert_eq!(head, Some(number), "nothing came after it");
                        return;
                    }
                }
            }));
        }
        for number in 0..=200_016u32 {
            let items = (0..number % 20).map(|_| number);
            let items = items.collect::<Vec<_>>();
            let place = writer.push(number, items.iter().copied()).expect("a short list");
            if number.is_multiple_of(16) {
                *places.lock().expect("nobody panicked") = Some((place, number));
            }
        }
        is_over.store(true, Ordering::Release);
        readers.into_iter().for_each(|reader| reader.join().expect("no torn list"));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// One reader of a list while others are written over it, in every order.
    #[test]
    fn a_list_is_whole_or_gone() {
        loom::model(|| {
            // Room for four lists of two items, of which the first is read.
            let mut writer = ListWriter::new(32);
            let place = writer.push(1, [1, 1].into_iter()).expect("it fits");
            for number in 2..=7 {
                writer.push(number, [number; 2].into_iter()).expect("it fits");
            }
            let lists = writer.lists().clone();
            let reader = loom::thread::spawn(move || {
                let mut items = Vec::new();
                match lists.read(place, &mut items) {
                    Some(head) => assert_eq!((head, &items[..]), (1, &[1, 1][..])),
                    None => assert!(items.is_empty()),
                }
            });
            for number in 8..=9 {
                writer.push(number, [number; 2].into_iter()).expect("it fits");
            }
            reader.join().expect("no torn list");
        });
    }
}
