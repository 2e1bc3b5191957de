//! Rule matching, with flows and streams or packet by packet.

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

/// The packets at `places`, those that are free of matches as runs.
fn in_runs<'p>(
    mut places: impl Iterator<Item = usize>,
    packet: impl Fn(usize) -> Packet<'p>,
    is_free: impl Fn(usize) -> bool,
    bytes_of: impl Fn(usize) -> usize,
) -> impl Iterator<Item = BatchPacket<'p>> {
    let mut next = None;
    std::iter::from_fn(move || {
        let (mut packets, mut bytes) = (0, 0);
        next = next.take().or_else(|| {
            places.find(|&place| {
                let is_free = is_free(place);
                if is_free {
                    packets += 1;
                    bytes += bytes_of(place) as u64;
                }
                !is_free
            })
        });
        match packets {
            0 => next.take().map(|place| BatchPacket::Packet(packet(place))),
            _ => Some(BatchPacket::Free { packets, bytes }),
        }
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
    /// `searched` returns the group of a payload that was captured whole and has no pattern, as a
    /// search found before, and `bytes` the bytes of its packet. Without state most of these
    /// packets are not read.
    pub(crate) fn inspect<'p>(
        &mut self,
        places: impl Iterator<Item = usize> + Clone,
        packet: impl Fn(usize) -> Packet<'p> + Clone,
        (searched, bytes): (impl Fn(usize) -> Option<usize>, impl Fn(usize) -> usize),
        alerts: &mut Vec<Alert>,
    ) {
        match self {
            Self::Flows(inspector) => inspector.inspect(places.map(packet), alerts),
            Self::Packets(stateless) => {
                let Stateless { engine, scratch, matches, clock, time } = &mut **stateless;
                let began = clock.map(|clock| clock());
                let need_patterns: [bool; GROUPS] =
                    std::array::from_fn(|group| engine.needs_patterns(group));
                let is_free = |place| searched(place).is_some_and(|group| need_patterns[group]);
                engine.match_batch(in_runs(places, packet, is_free, bytes), scratch, matches);
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
