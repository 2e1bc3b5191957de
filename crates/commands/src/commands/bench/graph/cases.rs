//! The configurations that are measured: each with its frames, and what must leave through every
//! output, computed without the graph.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use warpswitch_classify::{BuildOptions, Engine};
use warpswitch_packet::packet::LINE_BYTES;
use warpswitch_rules::format::{ReadOptions, RulesFormat, read_rules, write_rules};
use warpswitch_rules::generate::{
    FRAME_BYTES_MIN, Family, Point, Prng, RulesetSpec, Style, TraceSpec,
};
use warpswitch_rules::{Action, KeyBuf, RuleId, Ruleset, RulesetBuilder};
use warpswitch_wire::ipv4::Ipv4;

use super::filter;
use super::routes;
use super::sink::Seen;
use super::source::{Feed, Source};
use super::traffic::{Frames, Traffic};
use crate::exit::bad_input;
use crate::load::{self, build_engine};

/// The configuration of the router, as it is shipped.
const ROUTER: &str = include_str!("../../../../../../conf/ip-router.click");
/// What of it reads captures, prints and writes, and what takes its place.
const ROUTER_CHANGES: [(&str, &str); 11] = [
    ("FromDump($IN0, TIMING $TIMING, STOP true) -> port0;", "<replay> -> port0;"),
    ("FromDump($IN1, TIMING $TIMING, STOP true) -> port1;", "<replay1> -> port1;"),
    ("DriverManager(wait_stop 2, wait_time $WAIT, stop);", ""),
    ("Queue(200) -> ToDump($OUT0, SNAPLEN 0);", "Queue(1024) -> out0 :: Discard(BURST 256);"),
    ("Queue(200) -> ToDump($OUT1, SNAPLEN 0);", "Queue(1024) -> out1 :: Discard(BURST 256);"),
    ("-> IPPrint(\"for us\") -> Discard;", "-> Discard;"),
    ("-> IPPrint(\"to lan0\") ", ""),
    ("-> IPPrint(\"to lan1\") ", ""),
    ("routes[1] -> out0 ::", "routes[1] -> way0 ::"),
    ("routes[2] -> out1 ::", "routes[2] -> way1 ::"),
    ("out0[1], out1[1] -> errors;", "way0[1], way1[1] -> errors;"),
];
/// Hosts of each network of the router.
const HOSTS: u64 = 200;

/// Outputs of filters and lookups: as many as the published figures of filters were taken with.
const OUTPUTS: usize = 16;
/// Routes of a table that is made up, which is about what the Internet's has.
const ROUTES: usize = 900_000;
/// Lines of a filter.
const LINES: usize = 1_000;
/// Ports of the switch.
const PORTS: usize = 4;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// InfiniteSource, Counter, Discard
    Null,
    /// RadixIPLookup with a table of the Internet's size
    Routes,
    /// IPFilter with a thousand lines of an access list
    FilterAcl,
    /// IPFilter with a thousand lines of a firewall
    FilterFw,
    /// The IPv4 router of conf/ip-router.click, both ways
    Router,
    /// SDNClassifier with ten thousand rules
    Sdn,
}

impl Case {
    /// All, in the order in which they run.
    pub const ALL: [Case; 6] =
        [Case::Null, Case::Routes, Case::FilterAcl, Case::FilterFw, Case::Router, Case::Sdn];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Case::Null => "null",
            Case::Routes => "routes",
            Case::FilterAcl => "filter-acl",
            Case::FilterFw => "filter-fw",
            Case::Router => "router",
            Case::Sdn => "sdn",
        }
    }

    /// Published figures to hold it against, with so many rules or routes: whose, Mpps. None if
    /// they were taken with far more or far fewer.
    pub fn stated(self, entries: usize) -> &'static [(&'static str, f64)] {
        let usual = match self {
            Case::Routes => ROUTES,
            Case::FilterAcl | Case::FilterFw => LINES,
            Case::Null | Case::Router | Case::Sdn => entries,
        };
        // Sets of one name differ by a fifth, tables of the Internet by their year.
        if entries * 4 < usual * 3 || entries > usual * 2 {
            return &[];
        }
        match self {
            Case::Null => &[("Click", 13.1), ("FastClick", 25.8)],
            Case::Routes => &[("Click DirectIPLookup", 5.74), ("FastClick DirectIPLookup", 14.3)],
            Case::FilterAcl => &[("Click", 3.29), ("FastClick", 3.63)],
            Case::FilterFw => &[("Click", 2.50), ("FastClick", 2.71)],
            Case::Router | Case::Sdn => &[],
        }
    }
}

/// What cases are made of.
#[derive(Clone, Debug)]
pub struct Making {
    /// Where their files go.
    pub folder: PathBuf,
    /// Where rules and routes are read from, if they are not made up.
    pub data: Option<PathBuf>,
    /// Frames in memory.
    pub frames: usize,
    /// Whether tables are small.
    pub smoke: bool,
}

/// What a classifier is measured on without the graph.
#[derive(Debug)]
pub struct Bare {
    /// The rules.
    pub rules: Ruleset,
    /// The keys of all frames, in order.
    pub keys: KeyBuf,
    /// The frames, one behind the other.
    pub frames: FrameLines,
}

impl Bare {
    fn new(rules: Ruleset, frames: &Frames) -> Self {
        let mut keys = KeyBuf::with_capacity(rules.schema(), frames.order.len());
        frames.order.iter().for_each(|&kind| keys.push(&frames.keys[kind as usize]));
        Self { rules, keys, frames: FrameLines::new(frames) }
    }
}

/// Frames of up to [`LINE_BYTES`], each from the start of a line, as a network card leaves them.
#[derive(Debug)]
pub struct FrameLines {
    lines: Vec<[u8; LINE_BYTES]>,
    frame_bytes: usize,
}

impl FrameLines {
    fn new(frames: &Frames) -> Self {
        let line = |&kind: &u32| {
            let mut line = [0; LINE_BYTES];
            line[..FRAME_BYTES_MIN].copy_from_slice(&frames.kinds[kind as usize]);
            line
        };
        Self { lines: frames.order.iter().map(line).collect(), frame_bytes: FRAME_BYTES_MIN }
    }

    /// Frames `from` to `to`.
    pub fn span(&self, from: usize, to: usize) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.lines[from..to].iter().map(|line| &line[..self.frame_bytes])
    }
}

/// A case that is ready.
#[derive(Debug)]
pub struct Ready {
    /// The configuration, with variables for its files and placeholders for its feeds.
    config: String,
    /// Those variables.
    files: BTreeMap<String, String>,
    /// The elements that deliver frames.
    pub feeds: Vec<Feed>,
    /// Handlers to write first.
    pub writes: Vec<(String, String)>,
    /// What one pass over all frames brings to each sink.
    pub expected: Vec<(String, Seen)>,
    /// Rules or routes in it.
    pub entries: usize,
    /// For classifiers: what to look up without the graph.
    pub bare: Option<Bare>,
}

impl Ready {
    fn new(config: String) -> Self {
        Self {
            config,
            files: BTreeMap::new(),
            feeds: vec![Feed::new("replay", "IN")],
            writes: Vec::new(),
            expected: Vec::new(),
            entries: 0,
            bare: None,
        }
    }

    fn variable(&mut self, name: &str, path: &Path) {
        self.files.insert(name.to_owned(), path.display().to_string());
    }

    /// The configuration with frames from `source`.
    pub fn config(&self, source: Source) -> String {
        self.feeds.iter().fold(self.config.clone(), |text, feed| feed.fill(&text, source))
    }

    /// Its variables, for one pass over the frames or for passes without end.
    pub fn variables(&self, source: Source, is_endless: bool) -> BTreeMap<String, String> {
        let ends = self.feeds.iter().flat_map(|feed| feed.variables(source, is_endless));
        self.files.clone().into_iter().chain(ends).collect()
    }

    /// Whether `source` generates frames without end, so no pass can be checked.
    pub fn is_generated(&self, source: Source) -> bool {
        source == Source::Memory && self.feeds.iter().any(|feed| feed.generator.is_some())
    }
}

impl Making {
    /// Makes a case.
    ///
    /// # Errors
    /// Rules or routes that cannot be read, files that cannot be written.
    pub fn make(&self, case: Case, traffic: Traffic) -> anyhow::Result<Ready> {
        match case {
            Case::Null => self.null(),
            Case::Routes => self.routes(traffic),
            Case::FilterAcl => self.filter("acl1_1k", Style::Acl, traffic),
            Case::FilterFw => self.filter("fw1_1k", Style::Fw, traffic),
            Case::Router => self.router(traffic),
            Case::Sdn => self.sdn(traffic),
        }
    }

    /// A file of this run.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes the capture of a case that has one source.
    fn capture(&self, ready: &mut Ready, name: &str, frames: &Frames) -> anyhow::Result<()> {
        let path = self.file(&format!("{name}.pcap"));
        frames.write(&path)?;
        ready.variable("IN", &path);
        Ok(())
    }

    /// One frame over and over.
    fn null(&self) -> anyhow::Result<Ready> {
        let host = |number| u32::from(Ipv4Addr::new(10, 0, 0, number));
        let mut frames = Traffic::Uniform.frames(1, || [host(1), host(2), 0x0400_0035, 17 << 24]);
        frames.order = vec![0; self.frames];
        let mut ready = Ready::new("<replay> -> Counter -> out0 :: Discard;\n".into());
        let bytes: String = frames.kinds[0].iter().map(|byte| format!("{byte:02x}")).collect();
        ready.feeds[0].generator = Some(format!("InfiniteSource(DATA \\<{bytes}>)"));
        self.capture(&mut ready, "null", &frames)?;
        ready.expected = expected(&frames, 1, |_| Some(0), <[u8]>::to_vec);
        Ok(ready)
    }

    fn routes(&self, traffic: Traffic) -> anyhow::Result<Ready> {
        let table = match &self.data {
            Some(folder) => routes::read(folder)?,
            None => routes::made_up(if self.smoke { 1_000 } else { ROUTES }),
        };
        let mut draw = Prng::new(2);
        let frames = traffic.frames(self.frames, || {
            let dst = table.address(&mut draw);
            [u32::from(Ipv4Addr::new(10, 1, 2, 3)), dst, 0x0400_0035, 17 << 24]
        });
        let mut config = "<replay>\n  \
            -> Strip(14) -> GetIPAddress(16) -> table :: RadixIPLookup(\n"
            .to_owned();
        table.write(OUTPUTS, &mut config);
        config.push_str(");\n");
        write_sinks(&mut config, "table", OUTPUTS);
        let mut ready = Ready::new(config);
        ready.entries = table.len();
        self.capture(&mut ready, &format!("routes-{}", traffic.name()), &frames)?;
        let hops: Vec<Option<usize>> = frames.keys.iter().map(|key| table.hop(key[1])).collect();
        let output = |kind: usize| hops[kind].map(|hop| hop % OUTPUTS);
        ready.expected = expected(&frames, OUTPUTS, output, |frame| frame[14..].to_vec());
        Ok(ready)
    }

    /// The rules of a file beside the project, or such that resemble them.
    fn rules(&self, name: &str, style: Style, count: usize) -> anyhow::Result<Ruleset> {
        let Some(folder) = &self.data else {
            let rules = if self.smoke { count / 10 } else { count };
            return Ok(RulesetSpec { style, family: Family::Ipv4, rules, seed: 1 }.generate());
        };
        let wanted = [format!("{name}.rules"), format!("{name}.rules.gz")];
        let path = routes::find(folder, |file| wanted.iter().any(|wanted| wanted == file));
        let path = path.ok_or_else(|| {
            bad_input(format!("{} has neither {} nor {}", folder.display(), wanted[0], wanted[1]))
        })?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut load::open(&path, "rules")?, &mut text)
            .with_context(|| path.display().to_string())?;
        Ok(read_rules(name, &text, &ReadOptions::default())?)
    }

    /// Frames whose headers lie in rules.
    fn rule_frames(&self, rules: &Ruleset, traffic: Traffic) -> Frames {
        let spec = TraceSpec {
            keys: self.frames,
            point: Point::Inside,
            locality: None,
            realisable: true,
            seed: 1,
        };
        let mut trace = spec.generate(rules);
        traffic.frames(self.frames, || {
            let key = trace.next_key().and_then(|key| key.try_into().ok());
            key.expect("as many keys as frames, of four words")
        })
    }

    fn filter(&self, name: &str, style: Style, traffic: Traffic) -> anyhow::Result<Ready> {
        let rules = self.rules(name, style, LINES)?;
        let frames = self.rule_frames(&rules, traffic);
        let mut config = "<replay>\n  \
            -> MarkIPHeader(14) -> filter :: IPFilter(\n"
            .to_owned();
        config.push_str(&filter::patterns(&rules, OUTPUTS));
        config.push_str(");\n");
        write_sinks(&mut config, "filter", OUTPUTS);
        let mut ready = Ready::new(config);
        ready.entries = rules.len();
        self.capture(&mut ready, &format!("{name}-{}", traffic.name()), &frames)?;
        let (reference, patterns) = filter::reference(&rules);
        let found = answers(&reference, &frames)?;
        let output = |kind: usize| {
            let pattern = patterns.get(found[kind].as_usize());
            pattern.map(|pattern| pattern % OUTPUTS)
        };
        ready.expected = expected(&frames, OUTPUTS, output, <[u8]>::to_vec);
        ready.bare = Some(Bare::new(rules, &frames));
        Ok(ready)
    }

    fn sdn(&self, traffic: Traffic) -> anyhow::Result<Ready> {
        let rules = self.rules("acl1_10k", Style::Acl, 10_000)?;
        let mut builder = RulesetBuilder::new(rules.schema());
        for id in rules.ids() {
            let action = Action::Output((id.as_usize() % PORTS) as u32);
            builder.push(warpswitch_rules::Rule { action, ..rules.to_rule(id) });
        }
        let rules = builder.build();
        let path = self.file("sdn.rules");
        let mut file = std::fs::File::create(&path).context("cannot write the rules")?;
        write_rules(&rules, RulesFormat::Canonical, &mut file)?;
        let frames = self.rule_frames(&rules, traffic);
        let mut config = "<replay>\n  \
            -> table :: SDNClassifier(RULES $RULES);\n"
            .to_owned();
        write_sinks(&mut config, "table", PORTS);
        let mut ready = Ready::new(config);
        ready.entries = rules.len();
        ready.variable("RULES", &path);
        self.capture(&mut ready, &format!("sdn-{}", traffic.name()), &frames)?;
        let found = answers(&rules, &frames)?;
        let output = |kind: usize| found[kind].is_some().then(|| found[kind].as_usize() % PORTS);
        ready.expected = expected(&frames, PORTS, output, <[u8]>::to_vec);
        ready.bare = Some(Bare::new(rules, &frames));
        Ok(ready)
    }

    fn router(&self, traffic: Traffic) -> anyhow::Result<Ready> {
        let mut ready = Ready::new(router_config());
        ready.feeds = vec![Feed::new("replay", "IN0"), Feed::new("replay1", "IN1")];
        for side in 0..2u8 {
            let mut draw = Prng::new(side.into());
            let mut host =
                |net: u8| u32::from(Ipv4Addr::new(10, 0, net, 2 + draw.below(HOSTS) as u8));
            let mut ports = Prng::new(7);
            let mut frames = traffic.frames(self.frames / 2, || {
                [host(side), host(1 - side), ports.next_u64() as u32, 17 << 24]
            });
            for frame in &mut frames.kinds {
                frame[..6].copy_from_slice(&router_mac(side));
            }
            let path = self.file(&format!("router{side}-{}.pcap", traffic.name()));
            frames.write(&path)?;
            ready.variable(&format!("IN{side}"), &path);
            let to = 1 - side;
            let sent = expected(&frames, 1, |_| Some(0), |frame| forwarded(frame, to));
            ready.expected.push((format!("out{to}"), sent[0].1));
            for host in 0..HOSTS as u8 {
                let [a, b, c, d, e, f] = host_mac(side, 2 + host);
                let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
                let entry = format!("10.0.{side}.{} {mac}", 2 + host);
                ready.writes.push((format!("arp{side}.insert"), entry));
            }
        }
        ready.entries = 10;
        Ok(ready)
    }
}

/// The shipped router, with frames that are replayed and sinks.
fn router_config() -> String {
    ROUTER_CHANGES.iter().fold(ROUTER.to_owned(), |text, (old, new)| text.replace(old, new))
}

/// The Ethernet address of the router itself in network `net`.
fn router_mac(net: u8) -> [u8; 6] {
    [2, 0, 0, 0, net, 0]
}

/// The Ethernet address of a host of the router's network `net`.
fn host_mac(net: u8, host: u8) -> [u8; 6] {
    [2, 0, 0, 1, net, host]
}

/// What the router makes of a frame that it sends to network `to`.
fn forwarded(frame: &[u8], to: u8) -> Vec<u8> {
    let mut sent = host_mac(to, frame[33]).to_vec();
    sent.extend(router_mac(to));
    sent.extend([0x08, 0x00]);
    let total_bytes = Ipv4::new_unchecked(&frame[14..]).total_bytes();
    sent.extend_from_slice(&frame[14..14 + total_bytes]);
    let mut view = Ipv4::new_unchecked(&mut sent[14..]);
    let ttl = view.ttl();
    view.set_ttl(ttl - 1);
    view.fill_checksum();
    sent
}

fn write_sinks(config: &mut String, from: &str, outputs: usize) {
    for output in 0..outputs {
        let _ = writeln!(config, "{from}[{output}] -> out{output} :: Discard;");
    }
}

/// The winning rule of each kind of frame.
fn answers(rules: &Ruleset, frames: &Frames) -> anyhow::Result<Vec<RuleId>> {
    let mut keys = KeyBuf::new(rules.schema());
    frames.keys.iter().for_each(|key| keys.push(key));
    let mut found = vec![RuleId::NONE; keys.len()];
    let reference = build_engine(Engine::LinearSimd, rules, &BuildOptions::default())?.classifier;
    reference.classify(keys.as_batch(), &mut found);
    Ok(found)
}

/// What each of `outputs` sinks sees, given where kinds of frames go and what they are then.
fn expected(
    frames: &Frames,
    outputs: usize,
    output: impl Fn(usize) -> Option<usize>,
    sent: impl Fn(&[u8]) -> Vec<u8>,
) -> Vec<(String, Seen)> {
    let mut seen = vec![Seen::default(); outputs];
    for &kind in &frames.order {
        if let Some(output) = output(kind as usize) {
            seen[output].add(&sent(&frames.kinds[kind as usize]));
        }
    }
    seen.into_iter().enumerate().map(|(output, seen)| (format!("out{output}"), seen)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_beside_tables_of_about_their_size() {
        let check = |case: Case, entries, count| {
            assert_eq!(case.stated(entries).len(), count, "{} {entries}", case.name());
        };
        check(Case::Null, 0, 2);
        check(Case::Sdn, 10_000, 0);
        for (case, entries, count) in [
            (Case::Routes, [900_000, 1_050_000, 700_000], 2),
            (Case::Routes, [1_000, 100_000, 5_000_000], 0),
            (Case::FilterFw, [791, 916, 1_000], 2),
            (Case::FilterAcl, [100, 700, 10_000], 0),
        ] {
            entries.into_iter().for_each(|entries| check(case, entries, count));
        }
    }

    #[test]
    fn the_shipped_router_has_what_is_changed() {
        let changed = router_config();
        for (old, new) in ROUTER_CHANGES {
            assert!(ROUTER.contains(old), "{old}");
            assert!(changed.contains(new), "{new}");
        }
        assert!(!changed.contains("Print"), "nothing is printed while time is taken");
    }
}
