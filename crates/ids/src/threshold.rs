//! How often a rule is told: `threshold` and `detection_filter`.
//!
//! What a rule counts by (a source, say) has a window of time. The first occurrence opens one that
//! lasts so many seconds, each that comes within it has a number, from 1, and the first behind it
//! opens the next. The number decides what is told, as [`Kind`] says.
//!
//! Windows are in one table of bounded length: where it is full, the one that was used longest ago
//! is forgotten, and what it counted begins anew.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// `threshold` or `detection_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Threshold {
    /// Which occurrences are told.
    pub kind: Kind,
    /// What is counted apart.
    pub track: Track,
    /// How many, at least 1.
    pub count: u32,
    /// Seconds that a window lasts, at least 1.
    pub seconds: u32,
}

/// Which occurrences of a window are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `type limit`: the first `count`.
    Limit,
    /// `type threshold`: each `count`th.
    Threshold,
    /// `type both`: the `count`th alone.
    Both,
    /// `detection_filter`: all behind the first `count`.
    Filter,
}

/// What is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Track {
    /// `by_src`: each source address.
    Src,
    /// `by_dst`: each destination address.
    Dst,
    /// `by_both`: each pair of addresses, either way.
    Both,
    /// `by_rule`: the rule as a whole.
    Rule,
    /// `by_flow`: each flow.
    Flow,
}

impl Threshold {
    /// Whether the occurrence of number `n` in its window is told.
    fn tells(&self, n: u64) -> bool {
        let count = u64::from(self.count);
        match self.kind {
            Kind::Limit => n <= count,
            Kind::Threshold => n.is_multiple_of(count),
            Kind::Both => n == count,
            Kind::Filter => n > count,
        }
    }

    fn window_ns(&self) -> u64 {
        u64::from(self.seconds) * 1_000_000_000
    }
}

/// An occurrence of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occurrence {
    pub rule: u32,
    pub src: u128,
    pub dst: u128,
    /// The family of both.
    pub is_ipv6: bool,
    pub flow_id: u64,
    pub time_ns: u64,
}

impl Occurrence {
    fn key(&self, track: Track) -> Key {
        let (low, high) = match track {
            Track::Src => (self.src, 0),
            Track::Dst => (self.dst, 0),
            Track::Both => (self.src.min(self.dst), self.src.max(self.dst)),
            Track::Rule => (0, 0),
            Track::Flow => (u128::from(self.flow_id), 0),
        };
        let is_ipv6 = self.is_ipv6 && matches!(track, Track::Src | Track::Dst | Track::Both);
        Key { rule: self.rule, is_ipv6, low, high }
    }
}

/// What a window belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    rule: u32,
    /// Of the addresses, if it is about these: an IPv6 address may have the number of one of IPv4.
    is_ipv6: bool,
    low: u128,
    high: u128,
}

/// A window, and its neighbours by last use.
#[derive(Clone, Copy, Debug)]
struct Window {
    key: Key,
    start_ns: u64,
    n: u64,
    newer: u32,
    older: u32,
}

const NONE: u32 = u32::MAX;

/// All windows.
#[derive(Debug)]
pub(crate) struct Windows {
    places: HashMap<Key, u32>,
    windows: Vec<Window>,
    newest: u32,
    oldest: u32,
    windows_max: usize,
    /// Windows that were forgotten for others.
    pub evicted: u64,
}

impl Windows {
    /// Bytes for each window: itself twice over for growth, its place in the hash table, which
    /// grows before it is full, while the old one is there.
    pub(crate) const BYTES_EACH: usize =
        2 * size_of::<Window>() + 4 * (size_of::<(Key, u32)>() + 1);

    /// No windows; at most so many, and at least one.
    pub(crate) fn new(windows_max: usize) -> Self {
        Self {
            places: HashMap::new(),
            windows: Vec::new(),
            newest: NONE,
            oldest: NONE,
            windows_max: windows_max.clamp(1, NONE as usize),
            evicted: 0,
        }
    }

    /// Counts an occurrence; tells whether it is to be told.
    pub(crate) fn tells(&mut self, threshold: &Threshold, occurrence: &Occurrence) -> bool {
        let time_ns = occurrence.time_ns;
        let place = self.place(occurrence.key(threshold.track), time_ns);
        let window = &mut self.windows[place as usize];
        // Times may go back where a capture was merged: what is before a window counts as in it.
        if time_ns.saturating_sub(window.start_ns) >= threshold.window_ns() {
            (window.start_ns, window.n) = (time_ns, 0);
        }
        window.n += 1;
        threshold.tells(window.n)
    }

    /// The place of a window, which is the newest one then.
    fn place(&mut self, key: Key, time_ns: u64) -> u32 {
        let is_full = self.windows.len() == self.windows_max;
        let place = match self.places.entry(key) {
            Entry::Occupied(place) => {
                let place = *place.get();
                self.unlink(place);
                self.link(place);
                return place;
            }
            Entry::Vacant(vacant) => {
                let place = if is_full { self.oldest } else { self.windows.len() as u32 };
                *vacant.insert(place)
            }
        };
        let window = Window { key, start_ns: time_ns, n: 0, newer: NONE, older: NONE };
        if is_full {
            self.unlink(place);
            self.evicted += 1;
            let old = std::mem::replace(&mut self.windows[place as usize], window);
            self.places.remove(&old.key);
        } else {
            self.windows.push(window);
        }
        self.link(place);
        place
    }

    fn link(&mut self, place: u32) {
        let older = std::mem::replace(&mut self.newest, place);
        match self.windows.get_mut(older as usize) {
            Some(window) => window.newer = place,
            None => self.oldest = place,
        }
        let window = &mut self.windows[place as usize];
        (window.newer, window.older) = (NONE, older);
    }

    fn unlink(&mut self, place: u32) {
        let Window { newer, older, .. } = self.windows[place as usize];
        match self.windows.get_mut(newer as usize) {
            Some(window) => window.older = older,
            None => self.newest = older,
        }
        match self.windows.get_mut(older as usize) {
            Some(window) => window.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Takes over the windows of rules that have other numbers now, the oldest first.
    pub(crate) fn take(&mut self, old: &Self, numbers: &HashMap<u32, u32>) {
        let mut next = old.oldest;
        while let Some(window) = old.windows.get(next as usize) {
            if let Some(&rule) = numbers.get(&window.key.rule) {
                let place = self.place(Key { rule, ..window.key }, window.start_ns);
                let mine = &mut self.windows[place as usize];
                (mine.start_ns, mine.n) = (window.start_ns, window.n);
            }
            next = window.newer;
        }
        self.evicted += old.evicted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occurrence(rule: u32, src: u128, seconds: u64) -> Occurrence {
        Occurrence {
            rule,
            src,
            dst: 9,
            is_ipv6: false,
            flow_id: 1,
            time_ns: seconds * 1_000_000_000,
        }
    }

    /// Which of the occurrences, in seconds, are told.
    fn told(kind: Kind, count: u32, times: &[u64]) -> Vec<u64> {
        let threshold = Threshold { kind, track: Track::Src, count, seconds: 10 };
        let mut windows = Windows::new(100);
        let mut tells = |time: &u64| windows.tells(&threshold, &occurrence(1, 5, *time));
        times.iter().copied().filter(|time| tells(time)).collect()
    }

    #[test]
    fn windows_say_what_is_told() {
        let times = [0, 1, 2, 3, 9, 10, 11, 12, 30];
        assert_eq!(told(Kind::Limit, 2, &times), [0, 1, 10, 11, 30]);
        assert_eq!(told(Kind::Threshold, 2, &times), [1, 3, 11]);
        assert_eq!(told(Kind::Threshold, 1, &times), times);
        assert_eq!(told(Kind::Both, 3, &times), [2, 12]);
        assert_eq!(told(Kind::Both, 1, &times), [0, 10, 30]);
        assert_eq!(told(Kind::Filter, 3, &times), [3, 9]);
        // What is before its window counts as in it.
        assert_eq!(told(Kind::Filter, 2, &[20, 5, 6]), [6]);
    }

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let threshold = Threshold { kind: Kind::Filter, track: Track::Src, count: 1, seconds: 99 };
        let mut windows = Windows::new(2);
        let mut tells = |src| windows.tells(&threshold, &occurrence(1, src, 0));
        assert_eq!([tells(1), tells(2), tells(1)], [false, false, true]);
        // 2 goes for 3, 1 stays; then 1 goes for 2, and is as if it had never been.
        assert_eq!([tells(3), tells(1), tells(3)], [false, true, true]);
        assert_eq!([tells(2), tells(3), tells(2)], [false, true, true]);
        assert_eq!([tells(1), tells(1)], [false, true]);
        assert_eq!((windows.evicted, windows.windows.len(), windows.places.len()), (3, 2, 2));
    }

    #[test]
    fn windows_go_with_their_rules() {
        let threshold = Threshold { kind: Kind::Filter, track: Track::Src, count: 1, seconds: 99 };
        let mut old = Windows::new(9);
        for (rule, src) in [(0, 1), (1, 1), (1, 2), (1, 3)] {
            old.tells(&threshold, &occurrence(rule, src, 0));
        }
        let mut new = Windows::new(2);
        new.take(&old, &HashMap::from([(1, 7)]));
        let mut tells = |rule, src| new.tells(&threshold, &occurrence(rule, src, 0));
        assert_eq!([tells(7, 3), tells(7, 2), tells(7, 1)], [true, true, false]);
        assert!(!tells(0, 1));
    }
}
