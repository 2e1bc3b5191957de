//! What matches rules: with flows and streams, or packet by packet.

use std::sync::Arc;
use std::time::Duration;

use warpswitch_ids::{
    Alert, Engine, Inspector, InspectorOptions, Packet, Search, SearchWork, StatelessEngine,
    StatelessMatches, StatelessOptions, StatelessScratch, eve,
};

/// See the module.
pub(crate) enum Detector {
    /// Follows flows and puts streams together.
    Flows(Box<Inspector>),
    /// Matches each packet by itself.
    Packets(Box<Stateless>),
}

/// Rules without state, and memory for batches.
pub(crate) struct Stateless {
    engine: Arc<StatelessEngine>,
    scratch: StatelessScratch,
    matches: StatelessMatches,
    /// Measures searches, if that is wanted.
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

    /// Has texts searched by `search`, or by the detector itself.
    pub(crate) fn search_by(&mut self, search: Option<Box<dyn Search>>) {
        match self {
            Self::Flows(inspector) => inspector.search_by(search),
            Self::Packets(stateless) => stateless.scratch.search_by(search),
        }
    }

    /// Measures searches by `clock` from now on. Without state that is matching as a whole.
    pub(crate) fn time_searches(&mut self, clock: fn() -> Duration) {
        match self {
            Self::Flows(inspector) => inspector.time_searches(clock),
            Self::Packets(stateless) => stateless.clock = Some(clock),
        }
    }

    /// What searches have done so far.
    pub(crate) fn search_work(&self) -> SearchWork {
        match self {
            Self::Flows(inspector) => inspector.search_work(),
            Self::Packets(stateless) => {
                let stats = stateless.scratch.stats();
                SearchWork { known: stats.known, texts: stats.searched, time: stateless.time }
            }
        }
    }

    /// Matches packets; [`Alert::packet`] of each alert is a place among them.
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

    /// Alerts so far.
    pub(crate) fn alerts(&self) -> u64 {
        match self {
            Self::Flows(inspector) => inspector.stats().alerts,
            Self::Packets(stateless) => stateless.scratch.stats().alerts,
        }
    }

    /// Alerts by rule; none before the first packet.
    pub(crate) fn alerts_by_rule(&self) -> &[u64] {
        match self {
            Self::Flows(inspector) => inspector.alerts_by_rule(),
            Self::Packets(stateless) => stateless.scratch.alerts_by_rule(),
        }
    }

    /// Flows at the moment.
    pub(crate) fn flows(&self) -> usize {
        match self {
            Self::Flows(inspector) => inspector.flows(),
            Self::Packets(_) => 0,
        }
    }

    /// The most bytes that flows, streams and fragments take.
    pub(crate) fn bytes_max(&self) -> usize {
        match self {
            Self::Flows(inspector) => inspector.bytes_max(),
            Self::Packets(_) => 0,
        }
    }

    /// All counters, by the names of the event `stats`.
    pub(crate) fn counters(&self) -> Vec<(String, u64)> {
        match self {
            Self::Flows(inspector) => eve::counters(inspector),
            Self::Packets(stateless) => {
                let counters = stateless.scratch.stats().counters();
                counters.map(|(name, value)| (name.to_owned(), value)).into()
            }
        }
    }

    /// Ends flows.
    pub(crate) fn finish(&mut self, alerts: &mut Vec<Alert>) {
        if let Self::Flows(inspector) = self {
            inspector.finish(alerts);
        }
    }

    /// Goes on with the flows of a detector of another configuration.
    pub(crate) fn take_flows(&mut self, old: &mut Self) {
        if let (Self::Flows(new), Self::Flows(old)) = (self, old) {
            new.take_flows(old);
        }
    }
}
