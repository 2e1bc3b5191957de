//! Rule matching, with flows and streams or packet by packet.

use std::sync::Arc;
use std::time::Duration;

use warpswitch_ids::{
    Alert, Engine, Inspector, InspectorOptions, Packet, Search, SearchWork, StatelessEngine,
    StatelessMatches, StatelessOptions, StatelessScratch, eve,
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

    /// Matches packets; [`Alert::packet`] of each alert is an index into `packets`.
    pub(crate) fn inspect<'p>(
        &mut self,
        packets: impl Iterator<Item = Packet<'p>> + Clone,
        alerts: &mut Vec<Alert>,
    ) {
        match self {
            Self::Flows(inspector) => inspector.inspect(packets, alerts),
            Self::Packets(stateless) => {
                let Stateless { engine, scratch, matches, clock, time } = &mut **stateless;
                let began = clock.map(|clock| clock());
                engine.match_batch(packets, scratch, matches);
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
