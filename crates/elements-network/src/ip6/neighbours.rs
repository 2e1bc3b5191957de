//! Neighbour table of a link: the state of each neighbour, and the packets held for it.
//!
//! ```text
//!            packet                     advertisement
//!  unknown ─────────► resolving ────────────────────────► known ── TIMEOUT ──► unknown
//!                       │ queried ASKS_MAX times           │ ▲
//!                       ▼                        in use after POLL_TIMEOUT: queried again
//!                    unreachable
//! ```
//! # Invariants
//! - N1: at most `addresses_max` addresses are known or being resolved, at most `packets_max`
//!   packets are held in all, and at most `address_packets_max` for one address.
//! - N2: of the packets for one address, the most recent ones are held, in order.
//! # Source
//! RFC 4861, 7.2.2, 7.2.5 and 7.3, reduced to the link-layer address and its age.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv6Addr;
use std::time::Duration;

use warpswitch_graph::Time;
use warpswitch_packet::Packet;

/// Maximum number of queries for an address.
const ASKS_MAX: u8 = 3;
/// Time between two questions for one address.
pub(super) const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) addresses_max: usize,
    pub(super) packets_max: usize,
    pub(super) address_packets_max: usize,
    /// How long an address is known after it was last confirmed; nothing for ever.
    pub(super) timeout: Duration,
    /// How old a known address may be before it is queried again; nothing for ever.
    pub(super) poll_timeout: Duration,
}

/// What is known of an address.
#[derive(Debug)]
enum Entry {
    Asking { asks: u8, next: Time, waiting: VecDeque<Packet> },
    Known { ether: [u8; 6], confirmed: Time, next_poll: Time },
}

/// What is to be done with a packet.
#[derive(Debug)]
pub(super) enum Route {
    /// Send it there; if `poll`, also query whether the address is still valid.
    Send { packet: Packet, ether: [u8; 6], poll: bool },
    /// It waits, in place of `replaced`, if any. If `ask`, query the address.
    Wait { ask: bool, replaced: Option<Packet> },
    /// Nothing more can wait.
    Full(Packet),
}

/// What time brought about.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Addresses to query.
    pub(super) ask: Vec<Ipv6Addr>,
    /// Packets whose neighbour did not answer.
    pub(super) unreachable: Vec<Packet>,
    /// When something is due again.
    pub(super) next: Option<Time>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Neighbours {
    pub(super) limits: Limits,
    entries: BTreeMap<u128, Entry>,
    waiting: usize,
    next_sweep: Time,
}

impl Neighbours {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, entries: BTreeMap::new(), waiting: 0, next_sweep: Time(0) }
    }

    /// Packets that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Makes room: forgets what is too old. A full table is looked through once a second at most.
    fn sweep(&mut self, now: Time) {
        let timeout = self.limits.timeout;
        if timeout.is_zero() || now < self.next_sweep {
            return;
        }
        self.next_sweep = now + ASK_INTERVAL;
        self.entries.retain(|_, entry| match entry {
            Entry::Known { confirmed, .. } => now < *confirmed + timeout,
            Entry::Asking { .. } => true,
        });
    }

    fn poll_at(&self, confirmed: Time) -> Time {
        match self.limits.poll_timeout {
            Duration::ZERO => Time(i64::MAX),
            after => confirmed + after,
        }
    }

    /// Decides about a packet to `address`, one of one host.
    pub(super) fn route(&mut self, address: Ipv6Addr, packet: Packet, now: Time) -> Route {
        let is_full = self.waiting >= self.limits.packets_max;
        let (limits, key) = (self.limits, u128::from(address));
        if self.entries.len() >= limits.addresses_max {
            self.sweep(now);
        }
        match self.entries.get_mut(&key) {
            Some(Entry::Known { ether, confirmed, next_poll })
                if limits.timeout.is_zero() || now < *confirmed + limits.timeout =>
            {
                let poll = now >= *next_poll;
                if poll {
                    *next_poll = now + ASK_INTERVAL;
                }
                Route::Send { packet, ether: *ether, poll }
            }
            Some(Entry::Asking { waiting, .. }) => {
                let replaced = match waiting.len() >= limits.address_packets_max {
                    true => waiting.pop_front(),
                    false if is_full => return Route::Full(packet),
                    false => None,
                };
                self.waiting += usize::from(replaced.is_none());
                waiting.push_back(packet);
                Route::Wait { ask: false, replaced }
            }
            old => {
                let is_new = old.is_none();
                if is_full || is_new && self.entries.len() >= limits.addresses_max {
                    return Route::Full(packet);
                }
                let next = now + ASK_INTERVAL;
                let waiting = VecDeque::from([packet]);
                self.entries.insert(key, Entry::Asking { asks: 1, next, waiting });
                self.waiting += 1;
                Route::Wait { ask: true, replaced: None }
            }
        }
    }

    /// Learns that `address` is at `ether`. An answer confirms it. Gives the packets that waited.
    ///
    /// Addresses that were not queried are ignored. A known address is not changed unless
    /// `overrides`.
    pub(super) fn learn(
        &mut self,
        address: Ipv6Addr,
        ether: Option<[u8; 6]>,
        is_answer: bool,
        overrides: bool,
        now: Time,
    ) -> VecDeque<Packet> {
        let none = VecDeque::new();
        let polled = self.poll_at(now);
        let Some(entry) = self.entries.get_mut(&address.into()) else { return none };
        match entry {
            Entry::Known { ether: known, confirmed, next_poll } => {
                let is_same = ether.is_none_or(|ether| ether == *known);
                if !is_same && !overrides {
                    return none;
                }
                *known = ether.unwrap_or(*known);
                if is_answer {
                    (*confirmed, *next_poll) = (now, polled);
                } else if !is_same {
                    *next_poll = now;
                }
                none
            }
            Entry::Asking { waiting, .. } => {
                let Some(ether) = ether else { return none };
                let waiting = std::mem::take(waiting);
                self.waiting -= waiting.len();
                // An unsolicited address is queried again at its first use.
                let next_poll = if is_answer { polled } else { now };
                *entry = Entry::Known { ether, confirmed: now, next_poll };
                waiting
            }
        }
    }

    /// Inserts a configured address. Returns the packets that waited; an error if there is no
    /// room.
    pub(super) fn insert(
        &mut self,
        address: Ipv6Addr,
        ether: [u8; 6],
        now: Time,
    ) -> Result<VecDeque<Packet>, ()> {
        let is_new = !self.entries.contains_key(&address.into());
        if self.entries.len() >= self.limits.addresses_max {
            self.sweep(now);
        }
        if is_new && self.entries.len() >= self.limits.addresses_max {
            return Err(());
        }
        let next_poll = self.poll_at(now);
        let known = Entry::Known { ether, confirmed: now, next_poll };
        Ok(self.replace(address, Some(known)))
    }

    /// Forgets an address and gives the packets that waited for it.
    pub(super) fn forget(&mut self, address: Ipv6Addr) -> VecDeque<Packet> {
        self.replace(address, None)
    }

    /// Forgets all addresses and gives all packets that waited.
    pub(super) fn forget_all(&mut self) -> Vec<Packet> {
        self.waiting = 0;
        let entries = std::mem::take(&mut self.entries);
        entries.into_values().flat_map(Entry::into_waiting).collect()
    }

    fn replace(&mut self, address: Ipv6Addr, entry: Option<Entry>) -> VecDeque<Packet> {
        let key = u128::from(address);
        let old = match entry {
            Some(entry) => self.entries.insert(key, entry),
            None => self.entries.remove(&key),
        };
        let waiting = old.map(Entry::into_waiting).unwrap_or_default();
        self.waiting -= waiting.len();
        waiting
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Time) -> Due {
        let mut due = Due::default();
        let mut gone = Vec::new();
        for (&key, entry) in &mut self.entries {
            let Entry::Asking { asks, next, .. } = entry else { continue };
            if *next <= now && *asks == ASKS_MAX {
                gone.push(key);
                continue;
            }
            if *next <= now {
                due.ask.push(key.into());
                (*asks, *next) = (*asks + 1, now + ASK_INTERVAL);
            }
            due.next = Some(due.next.map_or(*next, |due| due.min(*next)));
        }
        for key in gone {
            due.unreachable.extend(self.forget(key.into()));
        }
        due
    }

    /// What is known now: address, link address if there is one.
    pub(super) fn iter(&self, now: Time) -> impl Iterator<Item = (Ipv6Addr, Option<[u8; 6]>)> + '_ {
        let timeout = self.limits.timeout;
        self.entries.iter().filter_map(move |(&key, entry)| match entry {
            Entry::Known { confirmed, .. } if !timeout.is_zero() && now >= *confirmed + timeout => {
                None
            }
            Entry::Known { ether, .. } => Some((key.into(), Some(*ether))),
            Entry::Asking { .. } => Some((key.into(), None)),
        })
    }
}

impl Entry {
    fn into_waiting(self) -> VecDeque<Packet> {
        match self {
            Entry::Asking { waiting, .. } => waiting,
            Entry::Known { .. } => VecDeque::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        addresses_max: 3,
        packets_max: 4,
        address_packets_max: 2,
        timeout: Duration::from_secs(120),
        poll_timeout: Duration::from_secs(60),
    };

    fn at(seconds: i64) -> Time {
        Time(seconds * Time::SECOND)
    }

    fn packet(byte: u8) -> Packet {
        let mut packet = Packet::new();
        packet.set_data(&[byte]);
        packet
    }

    /// `send`, `poll`, `ask`, `wait`, `wait-N` if packet N had to go, or `full`.
    fn route(neighbours: &mut Neighbours, host: u128, byte: u8, now: i64) -> String {
        match neighbours.route(host.into(), packet(byte), at(now)) {
            Route::Send { poll: true, .. } => "poll".into(),
            Route::Send { .. } => "send".into(),
            Route::Wait { ask: true, .. } => "ask".into(),
            Route::Wait { replaced: Some(old), .. } => format!("wait-{}", old.data()[0]),
            Route::Wait { .. } => "wait".into(),
            Route::Full(_) => "full".into(),
        }
    }

    fn ether(neighbours: &Neighbours, address: Ipv6Addr, now: i64) -> Option<[u8; 6]> {
        neighbours.iter(at(now)).find(|(known, _)| *known == address)?.1
    }

    #[test]
    fn packets_wait_within_limits() {
        let mut all = Neighbours::new(LIMITS);
        let mut check = |host: u128, byte: u8, what: &str, waiting: usize| {
            assert_eq!(route(&mut all, host, byte, 0), what);
            assert_eq!(all.waiting(), waiting);
        };
        check(1, 1, "ask", 1);
        check(1, 2, "wait", 2);
        check(1, 3, "wait-1", 2);
        check(2, 4, "ask", 3);
        check(3, 5, "ask", 4);
        check(4, 6, "full", 4);
        check(2, 7, "full", 4);
        check(1, 8, "wait-2", 4);
        let waited = all.learn(1u128.into(), Some([1; 6]), true, true, at(0));
        assert_eq!(waited.iter().map(|p| p.data()[0]).collect::<Vec<_>>(), [3, 8]);
        assert_eq!((all.waiting(), route(&mut all, 4, 9, 0)), (2, "full".into()), "addresses");
        assert_eq!(all.forget_all().len(), 2);
        assert_eq!((all.waiting(), all.iter(at(0)).count()), (0, 0));
    }

    #[test]
    fn who_does_not_answer_is_asked_three_times() {
        let mut all = Neighbours::new(LIMITS);
        assert_eq!(route(&mut all, 1, 1, 0), "ask");
        for second in [1, 2] {
            let due = all.tick(at(second));
            assert_eq!((due.ask.len(), due.next), (1, Some(at(second + 1))));
        }
        let due = all.tick(at(3));
        assert_eq!((due.ask.len(), due.unreachable.len(), due.next), (0, 1, None));
        assert_eq!((all.waiting(), route(&mut all, 1, 2, 3)), (0, "ask".into()));
    }

    #[test]
    fn what_is_known_gets_old() {
        let mut all = Neighbours::new(LIMITS);
        let host = Ipv6Addr::from(1u128);
        assert!(all.insert(host, [1; 6], at(0)).is_ok());
        assert_eq!(route(&mut all, 1, 1, 59), "send");
        assert_eq!([60, 60, 61].map(|now| route(&mut all, 1, 1, now)), ["poll", "send", "poll"]);
        // An answer makes it young again; what is no answer does not.
        all.learn(host, None, false, true, at(61));
        assert_eq!(route(&mut all, 1, 1, 62), "poll");
        all.learn(host, None, true, false, at(63));
        assert_eq!(route(&mut all, 1, 1, 122), "send");
        assert_eq!((ether(&all, host, 182), ether(&all, host, 183)), (Some([1; 6]), None));
        assert_eq!(route(&mut all, 1, 1, 183), "ask");
    }

    #[test]
    fn what_is_too_old_makes_room() {
        let mut all = Neighbours::new(LIMITS);
        for host in 1..=3u128 {
            assert!(all.insert(host.into(), [1; 6], at(host as i64)).is_ok());
        }
        assert_eq!(route(&mut all, 4, 4, 120), "full");
        assert!(all.insert(5u128.into(), [1; 6], at(120)).is_err());
        assert_eq!(route(&mut all, 4, 4, 121), "ask");
        assert_eq!((all.entries.len(), route(&mut all, 2, 2, 121)), (3, "poll".into()));
    }

    #[test]
    fn only_what_overrides_changes_what_is_known() {
        let mut all = Neighbours::new(LIMITS);
        let host = Ipv6Addr::from(1u128);
        all.learn(host, Some([1; 6]), true, true, at(0));
        assert_eq!(ether(&all, host, 0), None, "nobody asked");
        assert_eq!(route(&mut all, 1, 1, 0), "ask");
        assert!(all.learn(host, None, true, true, at(0)).is_empty(), "no link address");
        assert_eq!(all.learn(host, Some([1; 6]), false, false, at(0)).len(), 1);
        assert_eq!(route(&mut all, 1, 1, 0), "poll", "nobody was asked");
        all.learn(host, Some([2; 6]), true, false, at(0));
        assert_eq!(ether(&all, host, 0), Some([1; 6]));
        all.learn(host, Some([2; 6]), true, true, at(0));
        assert_eq!(ether(&all, host, 0), Some([2; 6]));
    }
}
