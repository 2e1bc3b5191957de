//! Neighbour table of IPv4: Ethernet addresses, and the packets held until one is resolved.
//!
//! ```text
//!            ┌─ index: address ─► slot
//! slots ─────┤
//!            └─ list by age: oldest ◄─► … ◄─► newest      evicted from its old end
//! ```
//! # Invariants
//! - N1: a slot is in the index if and only if it is in the list; free slots are in neither.
//! - N2: the list is ordered by `live_at`.
//! - N3: `packets` is the number of packets held in all slots.
//!
//! # Limits
//! Held packets, entries, and held packets per entry. Beyond the first limit, the packets of the
//! oldest entries are dropped, down to a fraction of the limit, which amortizes the cost over a
//! burst. Beyond the second, the oldest entries are evicted. Beyond the third, the new packet is
//! rejected.
//!
//! # Queries
//! Queries are triggered either by packets, for each one that has to wait and within a rate limit,
//! or by a timer, which repeats the query until a reply arrives or the maximum number is reached.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use warpswitch_graph::{Context, Time};
use warpswitch_packet::Packet;
use warpswitch_packet::packet::annotation;

/// Reasons for drops, by number, in all classes that have neighbours.
pub(super) const REASONS: [&str; 3] = ["too many wait", "no answer", "forgotten"];
const TOO_MANY: usize = 0;
const NO_ANSWER: usize = 1;
const FORGOTTEN: usize = 2;

/// Packets that wait at most, where there is no limit.
const PACKETS_MAX: usize = 1 << 16;
/// Entries at most, where there is no limit.
const ENTRIES_MAX: usize = 1 << 18;
/// Between two queries for an address.
const QUERY_NS: i64 = 100_000_000;
/// The same, after so many queries without an answer.
const PATIENT_QUERY_NS: i64 = 2_000_000_000;
const QUERIES_UNTIL_PATIENT: u8 = 10;
/// Between two queries for an address by the clock, as RFC 1122, 2.3.2.1 recommends; and how many
/// there are, as hosts do it.
pub(super) const ASK_INTERVAL: Duration = Duration::from_secs(1);
const QUERIES_BY_CLOCK: u8 = 3;
/// No slot.
const NONE: u32 = u32::MAX;
const BROADCAST: [u8; 6] = [0xff; 6];

/// Limits; 0 is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) packets: u32,
    pub(super) entries: u32,
    pub(super) packets_per_entry: u32,
    /// The part of `packets` that is thrown away at once: one in so many.
    pub(super) slim_factor: u32,
    /// How long an entry holds.
    pub(super) timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let timeout = Duration::from_secs(300);
        Self { packets: 2048, entries: 0, packets_per_entry: 0, slim_factor: 2, timeout }
    }
}

impl Limits {
    fn timeout_ns(&self) -> i64 {
        i64::try_from(self.timeout.as_nanos()).unwrap_or(0)
    }

    /// Time between two looks for entries that no longer hold.
    pub(super) fn period(&self) -> Duration {
        Duration::from_secs(self.timeout.as_secs().saturating_add(1))
    }
}

#[derive(Debug)]
struct Slot {
    address: u32,
    mac: [u8; 6],
    is_known: bool,
    queries: u8,
    live_at: Time,
    queried_at: Time,
    waiting: VecDeque<Packet>,
    older: u32,
    newer: u32,
}

impl Slot {
    fn is_expired(&self, now: Time, timeout_ns: i64) -> bool {
        timeout_ns != 0 && now.0.saturating_sub(self.live_at.0) > timeout_ns
    }

    /// Whether it may be queried again; if so, the query is counted.
    fn may_query(&mut self, now: Time) -> bool {
        let is_patient = self.queries >= QUERIES_UNTIL_PATIENT;
        let pause = if is_patient { PATIENT_QUERY_NS } else { QUERY_NS };
        let may = now.0.saturating_sub(self.queried_at.0) >= pause;
        if may {
            self.queried_at = now;
            self.queries = self.queries.saturating_add(1);
        }
        may
    }

    /// Whether the timer is to start querying it; if so, the query is counted.
    fn may_begin(&mut self, now: Time) -> bool {
        if std::mem::take(&mut self.is_known) {
            self.queries = 0;
        }
        // The clock may be late, and there may be none any more: then it begins anew.
        let is_asked_for = self.queries > 0 && now - self.queried_at < 2 * ASK_INTERVAL;
        if !is_asked_for {
            (self.queries, self.queried_at) = (1, now);
        }
        !is_asked_for
    }
}

/// Hashes addresses: one multiplication, with a random secret.
#[derive(Clone, Debug)]
struct Secret(u64);

impl Default for Secret {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0) | 1)
    }
}

impl BuildHasher for Secret {
    type Hasher = AddressHasher;

    fn build_hasher(&self) -> AddressHasher {
        AddressHasher(self.0)
    }
}

#[derive(Debug)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, word: u32) {
        let product = u128::from(self.0) * u128::from(u64::from(word) ^ 0x9e37_79b9_7f4a_7c15);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The fate of a packet that had to wait.
#[derive(Debug)]
pub(super) enum Held {
    /// It waits; whether its address is to be queried.
    Waits(bool),
    /// Too many wait for its address.
    Refused(Packet),
}

/// What triggers queries for an address that packets wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    Packets,
    Clock,
}

/// What to do about an address that was queried a while ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It answered, has no entry any more, or was queried again since.
    Nothing,
    /// It is to be queried again, on behalf of a packet with this VLAN tag.
    Ask(u16),
    /// Enough is enough.
    GiveUp,
}

/// Slots that are remembered beside the index.
const RECENT_LEN: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Neighbours {
    pub(super) limits: Limits,
    slots: Vec<Slot>,
    free: Vec<u32>,
    index: HashMap<u32, u32, Secret>,
    oldest: u32,
    newest: u32,
    /// Slots that were found recently, by the low bits of their addresses. Addresses that share
    /// these bits evict each other: their lookups run at the speed of the index.
    recent: Vec<u32>,
    packets: usize,
    drops: u64,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            slots: Vec::new(),
            free: Vec::new(),
            index: HashMap::default(),
            oldest: NONE,
            newest: NONE,
            recent: Vec::new(),
            packets: 0,
            drops: 0,
        }
    }
}

/// Questions.
impl Neighbours {
    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Packets that wait.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// Packets that waited in vain, or were refused.
    pub(super) fn drops(&self) -> u64 {
        self.drops
    }

    #[inline]
    fn find(&mut self, address: u32) -> Option<&mut Slot> {
        let place = address as usize % RECENT_LEN;
        let recent = self.recent.get(place).copied().unwrap_or(NONE);
        if self.slots.get(recent as usize).is_some_and(|slot| slot.address == address) {
            return self.slots.get_mut(recent as usize);
        }
        let found = *self.index.get(&address)?;
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = found;
        }
        self.slots.get_mut(found as usize)
    }

    /// The Ethernet address of `address` if it is known, and whether it is to be queried again
    /// because it is about to expire.
    #[inline]
    pub(super) fn lookup(
        &mut self,
        address: u32,
        now: Time,
        poll_after: Duration,
    ) -> Option<([u8; 6], bool)> {
        let timeout_ns = self.limits.timeout_ns();
        let slot = self.find(address)?;
        if !slot.is_known || slot.is_expired(now, timeout_ns) {
            return None;
        }
        let poll_after_ns = poll_after.as_nanos() as i128;
        let age_ns = i128::from(now.0.saturating_sub(slot.live_at.0));
        let is_old = poll_after_ns > 0 && age_ns >= poll_after_ns;
        Some((slot.mac, is_old && slot.may_query(now)))
    }

    /// The handler `table`: lines of address, whether it is known, Ethernet address and age.
    pub(super) fn lines(&self, now: Time) -> String {
        let mut lines = String::new();
        let mut at = self.oldest;
        while let Some(slot) = self.slots.get(at as usize) {
            let is_known = slot.is_known && !slot.is_expired(now, self.limits.timeout_ns());
            lines += &format!(
                "{} {} {} {}\n",
                std::net::Ipv4Addr::from(slot.address),
                u8::from(is_known),
                warpswitch_graph::language::args::EtherAddress(slot.mac),
                warpswitch_elements_support::format::timestamp(
                    (now - slot.live_at).as_nanos() as i64 / 1_000_000 * 1_000_000
                )
            );
            at = slot.newer;
        }
        lines
    }
}

/// The list by age.
impl Neighbours {
    fn unlink(&mut self, at: u32) {
        let Slot { older, newer, .. } = self.slots[at as usize];
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }

    /// Links `at` in as older than `newer`, or as the newest if `newer` is [`NONE`].
    fn link_before(&mut self, at: u32, newer: u32) {
        let older = match self.slots.get_mut(newer as usize) {
            Some(slot) => std::mem::replace(&mut slot.older, at),
            None => std::mem::replace(&mut self.newest, at),
        };
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
        let slot = &mut self.slots[at as usize];
        (slot.older, slot.newer) = (older, newer);
    }

    /// The slot of `address`; makes one if there is none.
    fn ensure(&mut self, cx: &mut Context<'_>, address: u32, now: Time) -> u32 {
        if let Some(&at) = self.index.get(&address) {
            return at;
        }
        self.make_room(cx, now);
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                address,
                mac: BROADCAST,
                is_known: false,
                queries: 0,
                live_at: now,
                queried_at: now,
                waiting: VecDeque::new(),
                older: NONE,
                newer: NONE,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[at as usize];
        (slot.address, slot.mac, slot.is_known, slot.queries) = (address, BROADCAST, false, 0);
        (slot.live_at, slot.queried_at) = (now, Time(now.0 - Time::SECOND));
        self.index.insert(address, at);
        self.recent.resize(RECENT_LEN, NONE);
        self.link_before(at, NONE);
        at
    }
}

/// Changes.
impl Neighbours {
    fn lose(&mut self, cx: &mut Context<'_>, at: u32, reason: usize) {
        while let Some(packet) = self.slots[at as usize].waiting.pop_front() {
            self.packets -= 1;
            self.drops += 1;
            cx.drop_packet(packet, reason);
        }
    }

    fn remove_slot(&mut self, cx: &mut Context<'_>, at: u32, reason: usize) {
        self.lose(cx, at, reason);
        self.unlink(at);
        let address = self.slots[at as usize].address;
        self.index.remove(&address);
        // A free slot is never taken for one that was found.
        if let Some(recent) = self.recent.get_mut(address as usize % RECENT_LEN) {
            *recent = NONE;
        }
        self.free.push(at);
    }

    /// Forgets entries that no longer hold, and as many as it takes for one more.
    fn make_room(&mut self, cx: &mut Context<'_>, now: Time) {
        let entries_max = match self.limits.entries {
            0 => ENTRIES_MAX,
            entries => entries as usize,
        };
        if self.len() >= entries_max {
            self.slim(cx, now);
            while self.len() >= entries_max {
                self.remove_slot(cx, self.oldest, NO_ANSWER);
            }
        }
    }

    /// Forgets entries that no longer hold.
    pub(super) fn slim(&mut self, cx: &mut Context<'_>, now: Time) {
        let timeout_ns = self.limits.timeout_ns();
        while let Some(slot) = self.slots.get(self.oldest as usize)
            && slot.is_expired(now, timeout_ns)
        {
            self.remove_slot(cx, self.oldest, NO_ANSWER);
        }
    }

    /// Makes room for one more packet.
    fn make_packet_room(&mut self, cx: &mut Context<'_>, now: Time) {
        let packets_max = match self.limits.packets {
            0 => PACKETS_MAX,
            packets => packets as usize,
        };
        if self.packets < packets_max {
            return;
        }
        self.slim(cx, now);
        if self.packets < packets_max {
            return;
        }
        // The new packet counts already.
        let keep = packets_max - packets_max / self.limits.slim_factor.max(1) as usize;
        let keep = keep.max(1) - 1;
        let mut at = self.oldest;
        while self.packets > keep
            && let Some(slot) = self.slots.get_mut(at as usize)
        {
            match slot.waiting.pop_front() {
                Some(packet) => {
                    self.packets -= 1;
                    self.drops += 1;
                    cx.drop_packet(packet, TOO_MANY);
                }
                None => at = slot.newer,
            }
        }
    }

    /// An entry that is still being queried does not expire: its age is held at the timeout.
    fn keep_alive(&mut self, at: u32, now: Time) {
        let timeout_ns = self.limits.timeout_ns();
        let live_at_min = Time(now.0.saturating_sub(timeout_ns));
        let slot = &mut self.slots[at as usize];
        if timeout_ns == 0 || slot.live_at >= live_at_min {
            return;
        }
        slot.live_at = live_at_min;
        let first = slot.newer;
        let mut newer = first;
        while let Some(other) = self.slots.get(newer as usize)
            && other.live_at < live_at_min
        {
            newer = other.newer;
        }
        if newer != first {
            self.unlink(at);
            self.link_before(at, newer);
        }
    }

    /// Lets `packet` wait until `address` is known, which it is not now.
    pub(super) fn hold(
        &mut self,
        cx: &mut Context<'_>,
        address: u32,
        now: Time,
        packet: Packet,
        asks: Asks,
    ) -> Held {
        let at = self.ensure(cx, address, now);
        self.keep_alive(at, now);
        let waiting_max = self.limits.packets_per_entry as usize;
        if waiting_max > 0 && self.slots[at as usize].waiting.len() >= waiting_max {
            self.drops += 1;
            return Held::Refused(packet);
        }
        self.make_packet_room(cx, now);
        let slot = &mut self.slots[at as usize];
        slot.waiting.push_back(packet);
        self.packets += 1;
        Held::Waits(match asks {
            Asks::Packets => slot.may_query(now),
            Asks::Clock => slot.may_begin(now),
        })
    }

    /// What to do about `address`, which the timer queried at `asked_at`. [`Next::Ask`] counts as
    /// another query.
    pub(super) fn ask_again(&mut self, address: u32, asked_at: Time, now: Time) -> Next {
        let Some(slot) = self.find(address) else { return Next::Nothing };
        if slot.is_known || slot.queried_at != asked_at {
            return Next::Nothing;
        }
        if slot.queries >= QUERIES_BY_CLOCK {
            return Next::GiveUp;
        }
        // The held packets may have been dropped: then nothing is emitted, and the next packet
        // starts over.
        let Some(packet) = slot.waiting.front() else { return Next::GiveUp };
        let tag = packet.anno_u16(annotation::VLAN_TCI);
        slot.queries += 1;
        slot.queried_at = now;
        Next::Ask(tag)
    }

    /// Learns that `address` is at `mac`.
    pub(super) fn insert(&mut self, cx: &mut Context<'_>, address: u32, mac: [u8; 6], now: Time) {
        let at = self.ensure(cx, address, now);
        let slot = &mut self.slots[at as usize];
        (slot.mac, slot.is_known, slot.queries) = (mac, mac != BROADCAST, 0);
        (slot.live_at, slot.queried_at) = (now, Time(now.0 - Time::SECOND));
        self.unlink(at);
        self.link_before(at, NONE);
    }

    /// The next packet that waits for `address`.
    pub(super) fn next_waiting(&mut self, address: u32) -> Option<Packet> {
        let packet = self.find(address)?.waiting.pop_front()?;
        self.packets -= 1;
        Some(packet)
    }

    /// Forgets `address`.
    pub(super) fn remove(&mut self, cx: &mut Context<'_>, address: u32) {
        if let Some(&at) = self.index.get(&address) {
            self.remove_slot(cx, at, FORGOTTEN);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self, cx: &mut Context<'_>) {
        while self.oldest != NONE {
            self.remove_slot(cx, self.oldest, FORGOTTEN);
        }
    }

    /// Takes over the entries and held packets of `old`, unless it has entries itself.
    pub(super) fn take(&mut self, old: &mut Self) {
        if self.len() == 0 {
            let limits = self.limits;
            *self = std::mem::take(old);
            self.limits = limits;
        }
    }
}
