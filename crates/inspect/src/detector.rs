//! Rule matching, with flows and streams or packet by packet.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use warpswitch_ids::{
    Alert, BatchPacket, Engine, GROUPS, Inspector, InspectorOptions, Packet, Search, SearchWork,
    StatelessEngine, StatelessMatches, StatelessOptions, StatelessScratch, eve,
};

/// Matches packets against rules.
pub(crate) enum Detector {
    /// Tracks flows and reassembles streams.
    Flows(Box<Inspector>),
    /// Matches each packet by itself, without state.
    Packets(Box<Stateless>),
}

/// Stateless rules, and buffers for batches.
pub(crate) struct Stateless {
    engine: Arc<StatelessEngine>,
    scratch: StatelessScratch,
    matches: StatelessMatches,
    /// Clock for measuring searches, if enabled.
    clock: Option<fn() -> Duration>,
    time: Duration,
}

/// Packets of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Places<'l> {
    /// All, so many.
    All(usize),
    /// Those with these numbers.
    Listed(&'l [u32]),
}

impl Places<'_> {
    /// The number of the packet at index `idx`.
    #[inline]
    pub(crate) fn get(self, idx: usize) -> Option<usize> {
        match self {
            Self::All(len) => (idx < len).then_some(idx),
            Self::Listed(list) => list.get(idx).map(|&place| place as usize),
        }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..).map_while(move |idx| self.get(idx))
    }
}

/// The packets at `places`, those that are free of matches as runs. `free` is how many of a range
/// are, from its first packet on, and `bytes_of` has the bytes of a range.
fn in_runs<'p>(
    places: Places<'_>,
    packet: impl Fn(usize) -> Packet<'p>,
    free: impl Fn(Range<usize>) -> usize,
    bytes_of: impl Fn(Range<usize>) -> u64,
) -> impl Iterator<Item = BatchPacket<'p>> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let (first, mut bytes) = (next, 0);
        match places {
            Places::All(len) => {
                next += free(next..len);
                bytes = bytes_of(first..next);
            }
            Places::Listed(_) => {
                while let Some(place) = places.get(next)
                    && free(place..place + 1) > 0
                {
                    bytes += bytes_of(place..place + 1);
                    next += 1;
                }
            }
        }
        if next > first {
            return Some(BatchPacket::Free { packets: next - first, bytes });
        }
        let place = places.get(next)?;
        next += 1;
        Some(BatchPacket::Packet(packet(place)))
    })
}

impl Detector {
    pub(crate) fn of_flows(engine: Arc<Engine>, options: InspectorOptions) -> Self {
        Self::Flows(Box::new(Inspector::new(engine, options)))
    }

    pub(crate) fn of_packets(engine: Arc<StatelessEngine>, payload_bytes: usize) -> Self {
        let options = StatelessOptions { payload_bytes, ..StatelessOptions::default() };
        Self::Packets(Box::new(Stateless {
            engine,
            scratch: StatelessScratch::new(options),
            matches: StatelessMatches::default(),
            clock: None,
            time: Duration::ZERO,
        }))
    }

    pub(crate) fn engine(&self) -> &Engine {
        match self {
            Self::Flows(inspector) => inspector.engine(),
            Self::Packets(stateless) => stateless.engine.engine(),
        }
    }

    /// Delegates the search of texts to `search`; `None`: the detector searches itself.
    pub(crate) fn search_by(&mut self, search: Option<Box<dyn Search>>) {
        match self {
            Self::Flows(inspector) => inspector.search_by(search),
            Self::Packets(stateless) => stateless.scratch.search_by(search),
        }
    }

    /// Measures searches with `clock` from now on; without state, the whole of matching.
    pub(crate) fn time_searches(&mut self, clock: fn() -> Duration) {
        match self {
            Self::Flows(inspector) => inspector.time_searches(clock),
            Self::Packets(stateless) => stateless.clock = Some(clock),
        }
    }

    /// Total work of searches so far.
    pub(crate) fn search_work(&self) -> SearchWork {
        match self {
            Self::Flows(inspector) => inspector.search_work(),
            Self::Packets(stateless) => {
                let stats = stateless.scratch.stats();
                SearchWork { known: stats.known, texts: stats.searched, time: stateless.time }
            }
        }
    }

    /// Matches the packets at `places`, which `packet` returns. [`Alert::packet`] of each alert is
    /// an index into `places`.
    ///
    /// `searched` returns how many packets of a range, from its first one on, have a payload of one
    /// of these groups that was captured whole and has no pattern, as a search found before, and
    /// `bytes` the bytes of a range. Without state most of these packets are not read.
    pub(crate) fn inspect<'p>(
        &mut self,
        places: Places<'_>,
        packet: impl Fn(usize) -> Packet<'p> + Clone,
        (searched, bytes): (
            impl Fn(Range<usize>, &[bool; GROUPS]) -> usize,
            impl Fn(Range<usize>) -> u64,
        ),
        alerts: &mut Vec<Alert>,
    ) {
        match self {
            Self::Flows(inspector) => inspector.inspect(places.iter().map(packet), alerts),
            Self::Packets(stateless) => {
                let Stateless { engine, scratch, matches, clock, time } = &mut **stateless;
                let began = clock.map(|clock| clock());
                let need_patterns: [bool; GROUPS] =
                    std::array::from_fn(|group| engine.needs_patterns(group));
                let free = |places| searched(places, &need_patterns);
                engine.match_batch(in_runs(places, packet, free, bytes), scratch, matches);
                if let (Some(clock), Some(began)) = (clock, began) {
                    *time += clock().saturating_sub(began);
                }
                alerts.append(&mut matches.alerts);
            }
        }
    }

    /// Number of alerts so far.
    pub(crate) fn alerts(&self) -> u64 {
        match self {
            Self::Flows(inspector) => inspector.stats().alerts,
            Self::Packets(stateless) => stateless.scratch.stats().alerts,
        }
    }

    /// Number of alerts by rule; empty before the first packet.
    pub(crate) fn alerts_by_rule(&self) -> &[u64] {
        match self {
            Self::Flows(inspector) => inspector.alerts_by_rule(),
            Self::Packets(stateless) => stateless.scratch.alerts_by_rule(),
        }
    }

    /// Current number of flows.
    pub(crate) fn flows(&self) -> usize {
        match self {
            Self::Flows(inspector) => inspector.flows(),
            Self::Packets(_) => 0,
        }
    }

    /// Memory limit for flows, streams and fragments.
    pub(crate) fn bytes_max(&self) -> usize {
        match self {
            Self::Flows(inspector) => inspector.bytes_max(),
            Self::Packets(_) => 0,
        }
    }

    /// All counters, with their names in the event `stats`.
    pub(crate) fn counters(&self) -> Vec<(String, u64)> {
        match self {
            Self::Flows(inspector) => eve::counters(inspector),
            Self::Packets(stateless) => {
                let counters = stateless.scratch.stats().counters();
                counters.map(|(name, value)| (name.to_owned(), value)).into()
            }
        }
    }

    /// Ends all flows, and appends the alerts of this.
    pub(crate) fn finish(&mut self, alerts: &mut Vec<Alert>) {
        if let Self::Flows(inspector) = self {
            inspector.finish(alerts);
        }
    }

    /// Takes over the flows of the detector of the previous configuration.
    pub(crate) fn take_flows(&mut self, old: &mut Self) {
        if let (Self::Flows(new), Self::Flows(old)) = (self, old) {
            new.take_flows(old);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use warpswitch_wire::link::LinkType;

    use super::*;

    proptest! {
        /// All packets come in order, once each, the free ones in runs with the bytes of all.
        #[test]
        fn packets_come_in_runs(packets in prop::collection::vec(any::<(bool, bool)>(), 0..40)) {
            let listed = (0..).zip(&packets).filter(|(_, packet)| packet.1);
            let listed: Vec<u32> = listed.map(|(place, _)| place).collect();
            for places in [Places::All(packets.len()), Places::Listed(&listed)] {
                // A packet has as many bytes as its number; the wire has room for it.
                let packet = |place| Packet {
                    bytes: &[],
                    wire_bytes: place,
                    link: LinkType::Ethernet,
                    timestamp_ns: 0,
                    found: None,
                };
                let free = |range: Range<usize>| {
                    packets[range].iter().take_while(|(is_free, _)| *is_free).count()
                };
                let bytes = |range: Range<usize>| range.map(|place| place as u64).sum();
                let mut expected = places.iter();
                for run in in_runs(places, packet, free, bytes) {
                    match run {
                        BatchPacket::Packet(packet) => {
                            prop_assert!(!packets[packet.wire_bytes].0);
                            prop_assert_eq!(expected.next(), Some(packet.wire_bytes));
                        }
                        BatchPacket::Free { packets: count, bytes } => {
                            let run: Vec<usize> = expected.by_ref().take(count).collect();
                            prop_assert!(run.iter().all(|&place| packets[place].0));
                            prop_assert_eq!(run.len(), count);
                            prop_assert_eq!(run.iter().sum::<usize>() as u64, bytes);
                        }
                    }
                }
                prop_assert_eq!(expected.next(), None);
            }
        }
    }
}
