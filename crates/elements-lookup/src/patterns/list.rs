//! Lookup of packets in a list of patterns, each with an output.
//!
//! ```text
//! short list   all patterns ─► one program
//! long list    patterns expressible as rules ─► rules ─► batch of keys ─► one lookup ─► pattern p
//!              other patterns ─► one program each ─► run in order while they precede p
//! ```
//! There are two rule sets: a smaller one for usual packets, and one for fragments and truncated
//! packets. A packet without a key, because its IP header or first transport word is truncated, is
//! matched against one pattern after the other.

use std::sync::Arc;

use warpswitch_classify::{BuildOptions, Classifier, Engine, build};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{BATCH_LEN_MAX, Batch, Packet};
use warpswitch_rules::schema::IPV4_5TUPLE;
use warpswitch_rules::{Action, KeyBatch, Rule, RuleId, RulesetBuilder};

use super::cubes::{self, Cube, KEY_WORDS, NETWORK_BYTES};
use super::expr::Expr;
use super::program::{Program, Region, Step, Way};
use super::run::{DROP, Regions, Tests};

/// Lists with more patterns that rules can express are looked up as rules.
const PROGRAM_PATTERNS_MAX: usize = 16;
/// Most memory that an engine may take, in bytes.
const ENGINE_BYTES_MAX: usize = 1 << 30;

/// A pattern, and the way of packets that match it.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) expr: Expr,
    pub(super) way: Way,
}

impl Pattern {
    fn program(&self) -> Program {
        self.expr.program(self.way)
    }

    fn output(&self) -> u32 {
        match self.way {
            Way::Output(output) => output,
            _ => DROP,
        }
    }
}

/// One program of all `patterns`, in order.
///
/// Halves are joined and optimized, then what they gave: a long program costs more to optimize
/// than its halves.
pub(super) fn whole_program(patterns: &[Pattern]) -> Program {
    let mut programs: Vec<Program> = patterns.iter().map(Pattern::program).collect();
    if let [only] = programs.as_mut_slice() {
        only.optimize(order);
    }
    while programs.len() > 1 {
        let mut pairs = programs.into_iter();
        let mut joined = Vec::new();
        while let Some(mut program) = pairs.next() {
            if let Some(next) = pairs.next() {
                program.or_else(next);
                program.optimize(order);
            }
            joined.push(program);
        }
        programs = joined;
    }
    let mut program = programs.pop().unwrap_or_else(|| Program::all(Way::Drop));
    program.fail_to(Way::Drop);
    program.prune();
    program.sort(order);
    program
}

/// Steps of a chain come in the order of their words, only the protocol before fragments: most
/// patterns test it first.
fn order(step: &Step) -> u32 {
    const PROTO: u32 = 256 + 8;
    match step.place.number() {
        PROTO => 256 + 3,
        number => number,
    }
}

/// A list as it runs. See the module.
#[derive(Clone)]
pub(super) struct List {
    patterns: Arc<[Pattern]>,
    plan: Plan,
}

#[derive(Clone)]
enum Plan {
    Program(Tests),
    Engine(Box<Lookup>),
}

impl List {
    /// The list of `patterns`.
    pub(super) fn new(patterns: Vec<Pattern>) -> Self {
        let lookup = Lookup::new(&patterns);
        let plan = match lookup {
            Some(lookup) => Plan::Engine(Box::new(lookup)),
            None => Plan::Program(Tests::new(&whole_program(&patterns)).0),
        };
        Self { patterns: patterns.into(), plan }
    }

    /// Whether any pattern tests anything behind the Ethernet header.
    pub(super) fn asks_of_ip(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.expr.asks_of_ip())
    }

    /// Whether any pattern tests the length in the IPv4 header.
    pub(super) fn asks_for_ip_length(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.expr.asks_for_ip_length())
    }

    /// The same, by a program however long it is.
    #[cfg(test)]
    pub(super) fn by_program(patterns: Vec<Pattern>) -> Self {
        let plan = Plan::Program(Tests::new(&whole_program(&patterns)).0);
        Self { patterns: patterns.into(), plan }
    }

    /// The program of the list, as people read it.
    pub(super) fn text(&self) -> String {
        Tests::new(&whole_program(&self.patterns)).1.text()
    }

    /// Warnings about those of `outputs` outputs that no packet leaves through.
    pub(super) fn unused_outputs(&self, outputs: usize) -> Vec<String> {
        match &self.plan {
            Plan::Program(_) => whole_program(&self.patterns).unused_outputs(outputs),
            // To find out more would take as long as to do without the engine.
            Plan::Engine(_) => {
                let used = Step::always(super::program::Place { region: Region::Data, offset: 0 });
                let steps = self.patterns.iter().map(|p| Step { ways: [p.way; 2], ..used });
                Program { steps: steps.collect(), all: None }.unused_outputs(outputs)
            }
        }
    }

    /// How the list is looked up.
    pub(super) fn engine(&self) -> String {
        match &self.plan {
            Plan::Program(_) => format!("program: {} patterns", self.patterns.len()),
            Plan::Engine(lookup) => format!(
                "{}: {} patterns, {} of them as {} rules",
                lookup.usual.classifier.engine(),
                self.patterns.len(),
                self.patterns.len() - lookup.others.len(),
                lookup.usual.classifier.len(),
            ),
        }
    }

    /// Writes where each packet of `batch` goes, or [`DROP`], into `outputs`.
    pub(super) fn run(&mut self, batch: &Batch, outputs: &mut Vec<u32>) {
        outputs.clear();
        match &mut self.plan {
            Plan::Program(tests) => {
                outputs.extend(batch.iter().map(|packet| run_one(tests, packet)));
            }
            Plan::Engine(lookup) => lookup.run(batch, outputs),
        }
    }
}

#[inline]
fn run_one(tests: &Tests, packet: &Packet) -> u32 {
    let mut ethernet = [0; 16];
    tests.run(&regions(packet, tests.uses_ethernet(), &mut ethernet))
}

/// Where the headers of `packet` are. Ethernet's is copied to `ethernet`, if that is wanted.
#[inline]
pub(super) fn regions<'a>(
    packet: &'a Packet,
    wants_ethernet: bool,
    ethernet: &'a mut [u8; 16],
) -> Regions<'a> {
    let (network, transport) = headers(packet);
    let mut regions: Regions<'a> = [&[]; Region::COUNT];
    if wants_ethernet {
        let len = copy_ethernet(packet, ethernet);
        regions[Region::Ethernet as usize] = &ethernet[..len];
    }
    regions[Region::Network as usize] = network;
    regions[Region::Transport as usize] = transport;
    regions
}

/// The bytes from the network header on, and from the transport header on: where that is not set,
/// where the length of the network header puts it.
#[inline]
fn headers(packet: &Packet) -> (&[u8], &[u8]) {
    let data = packet.data();
    let from = |header| Some(data.get(packet.header_offset(header)?..).unwrap_or_default());
    let network = from(Header::Network).unwrap_or_default();
    let transport = from(Header::Transport).unwrap_or_else(|| behind_header(network));
    (network, transport)
}

#[cold]
fn behind_header(network: &[u8]) -> &[u8] {
    let header_bytes = network.first().map_or(0, |first| usize::from(first & 15) * 4);
    network.get(header_bytes..).filter(|_| header_bytes > 0).unwrap_or_default()
}

/// Copies the Ethernet header to offset 2 of `bytes`. Returns the end offset; 0 without a header.
fn copy_ethernet(packet: &Packet, bytes: &mut [u8; 16]) -> usize {
    let header = packet.stripped_mac().unwrap_or_else(|| packet.from_header(Header::Mac));
    let len = header.len().min(14);
    bytes[2..2 + len].copy_from_slice(&header[..len]);
    if len > 0 { len + 2 } else { 0 }
}

/// The headers of a packet whose network header has no options, if there is enough of them.
#[inline(always)]
fn plain_headers(packet: &Packet) -> Option<&[u8; cubes::PLAIN_BYTES]> {
    let network = packet.header_offset(Header::Network)?;
    let transport = packet.header_offset(Header::Transport)?;
    let headers = packet.data().get(network..)?.first_chunk()?;
    (transport == network + NETWORK_BYTES).then_some(headers)
}

/// Rules, and what follows from each.
#[derive(Clone)]
struct Rules {
    classifier: Arc<dyn Classifier>,
    /// The pattern of each rule, and where its packets go.
    winners: Arc<[(u32, u32)]>,
    /// Where they go, once more; what follows if no rule matches comes last.
    outputs: Arc<[u32]>,
}

/// What follows if no rule matches.
const NO_WINNER: (u32, u32) = (u32::MAX, DROP);

impl Rules {
    /// The rules of `cubes`, each with the pattern that it is of.
    fn new(patterns: &[Pattern], cubes: &[(u32, Vec<Cube>)]) -> Option<Self> {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        let mut winners = Vec::new();
        for (idx, cubes) in cubes {
            for cube in cubes {
                builder.push(Rule::new(cube.to_match()?, Action::Pass));
                winners.push((*idx, patterns[*idx as usize].output()));
            }
        }
        let options = BuildOptions { bytes_max: ENGINE_BYTES_MAX, ..BuildOptions::default() };
        let classifier = build(Engine::Turbo, &builder.build(), &options).ok()?;
        let outputs = winners.iter().map(|(_, output)| *output).chain([DROP]).collect();
        Some(Self { classifier: classifier.into(), winners: winners.into(), outputs })
    }

    /// Finds the rule of each of `keys`; what lies behind in `found` is old.
    fn find(&self, keys: &[u32], found: &mut Vec<RuleId>) {
        if found.len() < keys.len() / KEY_WORDS {
            found.resize(keys.len() / KEY_WORDS, RuleId::NONE);
        }
        self.classifier.classify(KeyBatch::new(&IPV4_5TUPLE, keys), found);
    }

    /// Writes where packets go whose rules were `found`.
    fn outputs(&self, found: &[RuleId], outputs: &mut Vec<u32>) {
        let last = self.outputs.len() - 1;
        outputs.extend(found.iter().map(|id| self.outputs[id.as_usize().min(last)]));
    }

    #[inline]
    fn winner(&self, id: RuleId) -> (u32, u32) {
        self.winners.get(id.as_usize()).copied().unwrap_or(NO_WINNER)
    }
}

/// A long list. See the module.
#[derive(Clone)]
struct Lookup {
    /// For usual packets, and for all that have a key.
    usual: Rules,
    any: Rules,
    /// Patterns that rules cannot express, in order.
    others: Arc<[(u32, u32, Tests)]>,
    /// A program for each pattern, for packets without a key.
    one_by_one: Arc<[(u32, Tests)]>,
    keys: Vec<u32>,
    found: Vec<RuleId>,
    winners: Vec<(u32, u32)>,
    /// Packets of the batch that are not usual, and those without a key.
    unusual: Vec<usize>,
    keyless: Vec<usize>,
    unusual_keys: Vec<u32>,
}

impl Lookup {
    /// None if the list is short, or an engine would not do.
    fn new(patterns: &[Pattern]) -> Option<Self> {
        if patterns.len() <= PROGRAM_PATTERNS_MAX {
            return None;
        }
        let (mut cubes, mut others, mut one_by_one) = (Vec::new(), Vec::new(), Vec::new());
        for (idx, pattern) in patterns.iter().enumerate() {
            // Output 0 stands for "it matches".
            let mut program = pattern.expr.program(Way::Output(0));
            program.optimize(order);
            program.fail_to(Way::Drop);
            let tests = Tests::new(&program).0;
            let said = cubes::cubes(&pattern.expr);
            match said.filter(|cubes| cubes.iter().all(|cube| cube.to_match().is_some())) {
                Some(said) => cubes.push((idx as u32, said)),
                None => others.push((idx as u32, pattern.output(), tests.clone())),
            }
            one_by_one.push((pattern.output(), tests));
        }
        if cubes.len() <= PROGRAM_PATTERNS_MAX || others.len() * 4 > cubes.len() {
            return None;
        }
        let any = Rules::new(patterns, &cubes)?;
        cubes.iter_mut().for_each(|(_, cubes)| *cubes = cubes::usual(cubes));
        let room = BATCH_LEN_MAX;
        Some(Self {
            usual: Rules::new(patterns, &cubes)?,
            any,
            others: others.into(),
            one_by_one: one_by_one.into(),
            keys: Vec::with_capacity(room * KEY_WORDS),
            found: Vec::with_capacity(room),
            winners: Vec::with_capacity(room),
            unusual: Vec::with_capacity(room),
            keyless: Vec::with_capacity(room),
            unusual_keys: Vec::with_capacity(room * KEY_WORDS),
        })
    }

    fn run(&mut self, batch: &Batch, outputs: &mut Vec<u32>) {
        self.extract(batch);
        self.usual.find(&self.keys[..batch.len() * KEY_WORDS], &mut self.found);
        let found = &self.found[..batch.len()];
        if self.unusual.is_empty() && self.keyless.is_empty() && self.others.is_empty() {
            return self.usual.outputs(found, outputs);
        }
        self.winners.clear();
        self.winners.extend(found.iter().map(|&id| self.usual.winner(id)));
        if !self.unusual.is_empty() {
            self.any.find(&self.unusual_keys, &mut self.found);
            for (&idx, &id) in self.unusual.iter().zip(&self.found) {
                self.winners[idx] = self.any.winner(id);
            }
        }
        let with_others = batch.iter().zip(&self.winners).map(|(packet, &(pattern, output))| {
            let mut before = self.others.iter().take_while(|(other, ..)| *other < pattern);
            let matching = before.find(|(.., tests)| run_one(tests, packet) != DROP);
            matching.map_or(output, |(_, output, _)| *output)
        });
        outputs.extend(with_others);
        for &idx in &self.keyless {
            let packet = &batch.as_slice()[idx];
            let matching = self.one_by_one.iter().find(|(_, tests)| run_one(tests, packet) != DROP);
            outputs[idx] = matching.map_or(DROP, |(output, _)| *output);
        }
    }

    /// Makes the keys of `batch`.
    fn extract(&mut self, batch: &Batch) {
        // A packet without a key leaves an old one in `keys`, whose result is not used.
        if self.keys.len() < batch.len() * KEY_WORDS {
            self.keys.resize(batch.len() * KEY_WORDS, 0);
        }
        self.unusual.clear();
        self.keyless.clear();
        self.unusual_keys.clear();
        let keys = self.keys.chunks_exact_mut(KEY_WORDS);
        for (idx, (packet, key)) in batch.iter().zip(keys).enumerate() {
            if let Some(headers) = plain_headers(packet)
                && cubes::write_plain_key(headers, key)
            {
                continue;
            }
            let (network, transport) = headers(packet);
            let header = network.first_chunk::<NETWORK_BYTES>();
            // Of ports that are cut off a program may see a part, a key does not.
            let header = header.filter(|_| transport.len() >= 4 || transport.is_empty());
            match header {
                None => self.keyless.push(idx),
                Some(header) => {
                    if !cubes::write_key(header, transport, key) {
                        self.unusual.push(idx);
                        self.unusual_keys.extend_from_slice(key);
                    }
                }
            }
        }
    }
}
