//! Choose one of several patterns for each new flow of a rewriter.
//!
//! # Synopsis
//! `RoundRobinIPMapper(PATTERN FOUTPUT ROUTPUT, …)`,
//! `SourceIPHashMapper(NODES SEED, PATTERN FOUTPUT ROUTPUT ID, …)`
//!
//! # Ports
//! None: a rewriter names the mapper as an input spec.
//!
//! # Configuration
//! - `PATTERN`: as for `IPRewriter`, or the name of a pattern
//! - `FOUTPUT`, `ROUTPUT`: outputs of the rewriter for packets of the flow and for replies
//! - `NODES`: points on the hash ring per pattern
//! - `SEED`: seed of the hash that places the points
//! - `ID`: identifies a pattern; its points depend only on `ID` and `SEED`, not on other patterns
//!
//! `RoundRobinIPMapper` uses the patterns in turn and skips those with no free port or address.
//! `SourceIPHashMapper` uses the same pattern for all flows of a source address; adding or removing
//! a pattern moves few sources (consistent hashing).
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. The rewriter drops packets whose pattern has no free port or address.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! servers :: RoundRobinIPMapper(- - 10.0.0.1 - 0 1, - - 10.0.0.2 - 0 1);
//! rw :: IPRewriter(servers, drop);
//! ```

use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Phase};

use super::flow::{FlowId, TableId};
use super::pattern::{Pattern, Scope};
use super::patterns;
use super::set::{FlowSet, Range};

/// The class `RoundRobinIPMapper`.
pub static CLASS: ElementClass =
    ElementClass::new("RoundRobinIPMapper", "0/0", "a/a", || Box::new(Mapper::new(false)))
        .phase(Phase::Information);
/// The class `SourceIPHashMapper`.
pub static HASH: ElementClass =
    ElementClass::new("SourceIPHashMapper", "0/0", "a/a", || Box::new(Mapper::new(true)))
        .phase(Phase::Information);

/// Places on a ring.
const PLACES_MAX: usize = 1 << 20;

/// Whether elements of `class` are mappers.
pub(super) fn is_mapper(class: &str) -> bool {
    [CLASS.spec.name, HASH.spec.name].contains(&class)
}

/// See the module.
#[derive(Debug)]
pub struct Mapper {
    is_hash: bool,
    patterns: Vec<(Pattern, [i32; 2])>,
    /// The pattern that is next in turn.
    next: usize,
    /// Where the patterns' places are, in order, and whose each is.
    ring: Vec<(u64, u32)>,
    seed: u32,
}

/// Spreads all bits of `word` over all bits (SplitMix64's last step).
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

impl Mapper {
    fn new(is_hash: bool) -> Self {
        Self { is_hash, patterns: Vec::new(), next: 0, ring: Vec::new(), seed: 0 }
    }

    /// Numbers of the patterns whose outputs a rewriter of so many outputs does not have.
    pub(super) fn out_of_range(&self, outputs: usize) -> Vec<usize> {
        let is_out = |output: &i32| usize::try_from(*output).is_ok_and(|output| output < outputs);
        let numbered = self.patterns.iter().enumerate();
        numbered.filter(|(_, (_, to))| !to.iter().all(is_out)).map(|(number, _)| number).collect()
    }

    /// What the patterns choose from.
    pub(super) fn ranges(&self) -> Vec<Range> {
        self.patterns.iter().filter_map(|(pattern, _)| pattern.range()).collect()
    }

    /// What a new flow becomes, and where it leaves; none if nothing is free.
    pub(super) fn rewrite(
        &mut self,
        id: FlowId,
        table: TableId,
        set: &FlowSet,
        mut random: impl FnMut() -> u32,
    ) -> Option<(FlowId, [u32; 2])> {
        let tries = if self.is_hash { 1 } else { self.patterns.len() };
        for _ in 0..tries {
            let number = if self.is_hash { self.of_source(id.src) } else { self.in_turn() };
            let (pattern, outputs) = &self.patterns[number];
            if let Some(new) = pattern.rewrite(id, table, set, &mut random) {
                return Some((new, outputs.map(|output| output as u32)));
            }
        }
        None
    }

    fn in_turn(&mut self) -> usize {
        let number = self.next;
        self.next = (number + 1) % self.patterns.len();
        number
    }

    fn of_source(&self, src: u32) -> usize {
        let at = mix(u64::from(self.seed) << 32 | u64::from(src));
        let place = self.ring.partition_point(|place| place.0 < at);
        self.ring[place % self.ring.len()].1 as usize
    }

    /// Lays out the ring for patterns of these ids.
    fn lay_out(&mut self, nodes: u32, ids: &[u32]) {
        for (number, &id) in ids.iter().enumerate() {
            let start = mix(u64::from(self.seed) | 1 << 63) ^ mix(u64::from(id) | 1 << 62);
            let places = (0..nodes).map(|node| mix(start.wrapping_add(u64::from(node) << 20)));
            self.ring.extend(places.map(|place| (place, number as u32)));
        }
        self.ring.sort_unstable();
    }

    /// Reads `NODES SEED`.
    fn read_ring(&mut self, text: &str) -> Result<u32, &'static str> {
        let [nodes, seed] = &split_words(text)[..] else {
            return Err("requires 2 config params: numnodes seed");
        };
        let nodes = i32::from_arg(nodes, &NoNames).ok().filter(|&nodes| nodes > 0);
        let seed = i32::from_arg(seed, &NoNames);
        self.seed = seed.map_err(|_| "hash seed must be an integer")? as u32;
        Ok(nodes.ok_or("number of nodes must be an integer")? as u32)
    }

    /// Reads a pattern that may have an id behind it.
    fn read_pattern(&mut self, text: &str, scope: Scope<'_>) -> Result<u32, String> {
        let mut words = split_words(text);
        let mut id = 0;
        if self.is_hash {
            let read = words.pop().and_then(|word| i32::from_arg(&word, &NoNames).ok());
            let read = read.and_then(|id| u32::try_from(id).ok()).filter(|_| !words.is_empty());
            id = read.ok_or("bad server ID in pattern spec")?;
        }
        self.patterns.push(Pattern::parse_with_outputs(&words.join(" "), scope)?);
        Ok(id)
    }
}

impl Element for Mapper {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let scope = Scope { graph: context.graph, names: context.names, element: context.element };
        let mut rest = args.rest();
        let mut nodes = 0;
        if self.is_hash && !rest.is_empty() {
            match self.read_ring(&rest.remove(0)) {
                Ok(read) => nodes = read,
                Err(message) => args.error_at("", message),
            }
        } else if self.is_hash {
            args.error_at("", "no hash seed given");
            return args.complete();
        }
        match rest.len() {
            0 => args.error_at("", "no patterns given"),
            1 => args.warn_at("", "only one pattern given"),
            _ => {}
        }
        let mut ids = Vec::new();
        for text in &rest {
            match self.read_pattern(text, scope) {
                Ok(id) => ids.push(id),
                Err(message) => args.error_at("", &message),
            }
        }
        if ids.len().saturating_mul(nodes as usize) > PLACES_MAX {
            args.error_at("", "number of nodes too large");
        } else {
            self.lay_out(nodes, &ids);
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        for (pattern, _) in &mut self.patterns {
            patterns::adopt(cx, pattern);
        }
        Ok(())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.next = old.next % self.patterns.len().max(1);
        }
    }
}
