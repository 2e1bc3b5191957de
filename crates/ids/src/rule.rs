//! A rule, as the engine sees it: what its header asks, what its payload must hold, what it says.

use std::net::IpAddr;
use std::sync::Arc;

use crate::addresses::Addresses;
use crate::bytes::{Amount, ByteJump, ByteSet, ByteTest, From, Made, Read, Values};
use crate::flowbits::FlowBits;
use crate::http::{Buffer, Kind};
use crate::ranges::{Ranges, Set};
use crate::text::UnusedVariable;
use crate::threshold::Threshold;

/// The most rules of all files together.
pub const RULES_MAX: usize = 1 << 17;
/// The most bytes of one `content`.
pub const CONTENT_BYTES_MAX: usize = 2048;
/// The most payload options (`content`, `pcre`, `isdataat`, `byte_test`, …) of one rule.
pub const STEPS_MAX: usize = 64;
/// The most bytes of one rule.
pub const RULE_BYTES_MAX: usize = 64 << 10;
/// The most bytes of all rule files together.
pub const TEXT_BYTES_MAX: usize = 256 << 20;
/// The most bytes that an expression may take compiled, and once more for what it learns as it
/// searches.
pub const REGEX_BYTES_MAX: usize = 256 << 10;
/// The most expressions of all rules together.
pub const REGEXES_MAX: usize = 1 << 13;

/// The most ranges that lists of addresses in the headers of all rules may be put together from,
/// and those of ports. A list counts once, however many rules have it.
pub const LISTED_RANGES_MAX: usize = 1 << 22;

/// Transport ports.
pub type Ports = Ranges<u16>;

/// An address as a number: IPv4 ones stand where IPv6 has them mapped (`::ffff:0:0/96`).
#[inline]
pub fn address_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// What a rule wants to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `alert`: tell.
    Alert,
    /// `drop`, `reject` and their kind: told like an alert; nothing is dropped by this crate.
    Drop,
    /// `pass`: whatever else the same packet would tell is not told, or its flow from then on, as
    /// [`Rule::passes_flow`] says.
    Pass,
}

/// What lies on IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    /// Anything.
    Ip,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP, either version.
    Icmp,
}

/// Protocol, addresses and ports.
#[derive(Clone, Debug)]
pub struct Header {
    /// What lies on IP.
    pub proto: Proto,
    /// Left addresses: the source, unless `both_ways`.
    pub src: Arc<Addresses>,
    /// Left ports.
    pub src_ports: Arc<Ports>,
    /// Right addresses.
    pub dst: Arc<Addresses>,
    /// Right ports.
    pub dst_ports: Arc<Ports>,
    /// `<>`: either side may be the source.
    pub both_ways: bool,
}

/// Which way a packet goes in its flow. The client is who sent the flow's first packet, or the
/// one that was answered where the capture starts within a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// What `flow` asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowTest {
    /// `established` or `not_established`.
    pub established: Option<bool>,
    /// `to_server`, `to_client` and their other names.
    pub direction: Option<Direction>,
    /// `no_stream`, `only_stream`.
    pub only: Option<Only>,
}

/// Where alone a rule looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Only {
    /// At packets (`no_stream`, `tcp-pkt`).
    Packets,
    /// At streams (`only_stream`, `tcp-stream`).
    Streams,
}

/// A number that a header holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Bytes of the payload.
    Dsize,
    /// Time to live, or hop limit.
    Ttl,
    /// Type of service, or traffic class.
    Tos,
    /// IPv4 identification.
    Id,
    /// IP protocol, the last of an IPv6 chain.
    IpProto,
    /// ICMP type.
    Itype,
    /// ICMP code.
    Icode,
    /// ICMP identifier.
    IcmpId,
    /// ICMP sequence number.
    IcmpSeq,
    /// TCP sequence number.
    Seq,
    /// TCP acknowledgment number.
    Ack,
    /// TCP window.
    Window,
}

/// What a packet's headers must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// A number in a range, or outside of it.
    Number {
        /// Which number.
        field: Field,
        /// The least.
        low: u32,
        /// The largest.
        high: u32,
        /// Whether it must lie outside.
        outside: bool,
    },
    /// TCP flags, of those under `mask`.
    Flags {
        /// The flags that the option names.
        flags: u16,
        /// The flags that are looked at.
        mask: u16,
        /// How they are compared.
        how: FlagsHow,
    },
    /// Source and destination address are the same.
    SameIp,
    /// Whether the packet was put together from fragments.
    Rebuilt(bool),
}

/// How TCP flags are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlagsHow {
    /// These and no others.
    Exactly,
    /// These and maybe others: `+`.
    All,
    /// One of these: `*`.
    Any,
    /// None of these: `!`.
    Not,
}

/// Where a step looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// From `offset` on, within `depth` bytes from there.
    Absolute {
        /// The first byte.
        offset: u32,
        /// Bytes from `offset` on; none for all.
        depth: Option<u32>,
    },
    /// From `distance` behind the end of the occurrence before, within `within` bytes from there.
    Relative {
        /// Bytes that are skipped; back if negative.
        distance: i32,
        /// Bytes from there on; none for all.
        within: Option<u32>,
    },
}

impl Place {
    /// Anywhere.
    pub const ANYWHERE: Place = Place::Absolute { offset: 0, depth: None };

    /// Whether it counts from the occurrence before.
    pub fn is_relative(&self) -> bool {
        matches!(self, Place::Relative { .. })
    }
}

/// Variables in the place of a [`Place`]'s numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceBy {
    /// Of `offset` or `distance`.
    pub start: Option<u8>,
    /// Of `depth` or `within`.
    pub len: Option<u8>,
}

impl PlaceBy {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_none() && self.len.is_none()
    }

    /// The place with the variables' values, which are no larger than texts may be.
    pub(crate) fn place(&self, place: Place, values: &Values) -> Place {
        if self.is_empty() {
            return place;
        }
        let value = |variable: u8| values[usize::from(variable)].min(i32::MAX as u64) as u32;
        let (start, len) = (self.start.map(value), self.len.map(value));
        match place {
            Place::Absolute { offset, depth } => {
                Place::Absolute { offset: start.unwrap_or(offset), depth: len.or(depth) }
            }
            Place::Relative { distance, within } => Place::Relative {
                distance: start.map_or(distance, |start| start as i32),
                within: len.or(within),
            },
        }
    }
}

/// A byte string of the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The bytes, at least one; in lower case if `nocase`.
    pub bytes: Vec<u8>,
    /// Letters of either case are the same.
    pub nocase: bool,
    /// It must not be there.
    pub negated: bool,
    /// Where it is looked for.
    pub place: Place,
    /// The variables that say so in its stead.
    pub by: PlaceBy,
    /// It must end where the payload ends.
    pub at_end: bool,
    /// The part that is searched first, if the rule says so: offset and length.
    pub fast: Option<(u32, u32)>,
}

/// An expression over the payload.
#[derive(Clone, Debug)]
pub struct Expression {
    /// What it is, for [`regex::bytes`].
    pub regex: regex::bytes::Regex,
    /// It must not match.
    pub negated: bool,
    /// It is looked at behind the occurrence before, which is its start.
    pub relative: bool,
    /// It speaks of the start of its text.
    pub at_start: bool,
    /// It speaks of the end of its text.
    pub at_end: bool,
}

/// That there are so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAt {
    /// Absolute: the byte at this offset is there. Relative: so many bytes follow the occurrence
    /// before.
    pub bytes: Amount,
    /// It counts from the occurrence before.
    pub relative: bool,
    /// It must not be so.
    pub negated: bool,
}

/// One payload option, with its modifiers.
#[derive(Clone, Debug)]
pub enum Step {
    /// `content`.
    Content(Content),
    /// `pcre`.
    Expression(Expression),
    /// `isdataat`.
    DataAt(DataAt),
    /// `byte_test`.
    ByteTest(ByteTest),
    /// `byte_jump`.
    ByteJump(ByteJump),
    /// `byte_extract`, `byte_math`.
    ByteSet(ByteSet),
}

/// What a rule asks of one buffer of a message.
#[derive(Clone, Debug)]
pub struct InBuffer {
    /// Which one.
    pub buffer: Buffer,
    /// How many bytes it must have; all of them.
    pub sizes: Vec<Size>,
    /// What it must hold; all of them, in this order.
    pub steps: Vec<Step>,
}

/// How many bytes a buffer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The least.
    pub low: u32,
    /// The most.
    pub high: u32,
    /// Whether it must be none of these.
    pub outside: bool,
}

/// With which part of a message a rule about buffers is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldWith {
    /// With the head.
    Head,
    /// With the body.
    Body,
    /// With the head, or with the body if it does not hold before.
    Either,
}

impl Size {
    /// Whether so many bytes are right.
    pub fn holds(&self, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        (self.low..=self.high).contains(&bytes) != self.outside
    }
}

/// What a rule says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its number, with `gid`.
    pub sid: u32,
    /// Its generator; 1 unless it says another.
    pub gid: u32,
    /// Its revision; 0 unless it says one.
    pub rev: u32,
    /// What it tells.
    pub msg: String,
    /// Its class, as the rule names it; empty if it names none.
    pub classtype: String,
    /// Its priority: what it says, or its class, or 3.
    pub priority: u32,
    /// The number of the file it came from.
    pub file: usize,
    /// The line it starts in, from 1.
    pub line: u32,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it wants to happen.
    pub action: Action,
    /// Protocol, addresses and ports.
    pub header: Header,
    /// What the flow must be.
    pub flow: FlowTest,
    /// What the headers must say; all of them.
    pub checks: Vec<Check>,
    /// What the payload must hold; all of them, in this order.
    pub steps: Vec<Step>,
    /// What buffers of one message must hold; where there are any, `steps` and `checks` are empty.
    pub buffers: Vec<InBuffer>,
    /// What the flow's bits must say, and what becomes of them.
    pub bits: FlowBits,
    /// It is not told: it only changes bits.
    pub no_alert: bool,
    /// How often it is told, if not always.
    pub threshold: Option<Threshold>,
    /// What it says of itself.
    pub about: About,
}

/// Which texts a rule is looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// In the payload of each packet; what is no TCP has no streams, so rules of IP that are looked
    /// for in streams alone are looked for in its packets all the same.
    pub packets: bool,
    /// In the windows of TCP streams.
    pub streams: Streams,
}

/// Which windows of a stream a rule is looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// In none.
    No,
    /// In those that begin where the stream begins: the rule counts bytes from there.
    Start,
    /// In all.
    All,
}

impl Rule {
    /// Whether it takes back, where it says `pass`, what is told of the flow from then on, and not
    /// of one packet alone: if it asks for nothing but addresses, is about buffers, or was found in
    /// a stream. So Suricata has it.
    pub fn passes_flow(&self, in_stream: bool) -> bool {
        let Header { src_ports, dst_ports, .. } = &self.header;
        let is_of_addresses = self.asks_headers_alone()
            && self.flow == FlowTest::default()
            && self.bits.is_empty()
            && src_ports.is_all()
            && dst_ports.is_all();
        in_stream || !self.buffers.is_empty() || is_of_addresses
    }

    /// Whether it asks for nothing of a packet but protocol, addresses and ports, and of its flow.
    pub(crate) fn asks_headers_alone(&self) -> bool {
        self.steps.is_empty() && self.checks.is_empty() && self.buffers.is_empty()
    }

    /// Whether an IP header decides it: a rule of `ip` without payload options and flow.
    pub(crate) fn needs_network_only(&self) -> bool {
        let FlowTest { established, direction, only } = self.flow;
        self.header.proto == Proto::Ip
            && self.steps.is_empty()
            && self.buffers.is_empty()
            && self.bits.is_empty()
            && established != Some(true)
            && direction.is_none()
            && only != Some(Only::Streams)
    }

    /// With which part of a message it is told, if it is about buffers.
    pub fn told_with(&self) -> ToldWith {
        let has = |is_so: fn(Buffer) -> bool| self.buffers.iter().any(|of| is_so(of.buffer));
        match (has(Buffer::is_body), has(|buffer| buffer == Buffer::Whole)) {
            (true, _) => ToldWith::Body,
            (false, true) => ToldWith::Either,
            (false, false) => ToldWith::Head,
        }
    }

    /// Which bodies it asks for: of requests, and of responses.
    pub(crate) fn bodies(&self) -> [bool; 2] {
        let has = |kind| self.buffers.iter().any(|of| of.buffer.kind() == Some(kind));
        let is_open = match self.flow.direction {
            _ if self.told_with() == ToldWith::Head => return [false; 2],
            Some(direction) => [Direction::ToServer, Direction::ToClient].map(|it| it == direction),
            None => [true; 2],
        };
        match (has(Kind::Request), has(Kind::Response)) {
            (false, false) => is_open,
            asks => asks.into(),
        }
    }

    /// Which texts it is looked for in, beside messages; `docs/ids.md` has the table.
    pub fn scope(&self) -> Scope {
        if !self.buffers.is_empty() {
            return Scope { packets: false, streams: Streams::No };
        }
        let packets = Scope { packets: true, streams: Streams::No };
        let is_of_headers = |check: &Check| !matches!(check, Check::Rebuilt(_));
        let needs_packet = self.checks.iter().any(is_of_headers)
            || self.flow.only == Some(Only::Packets)
            || self.steps.iter().any(Step::sees_the_end);
        if !matches!(self.header.proto, Proto::Tcp | Proto::Ip) || needs_packet {
            return packets;
        }
        if !self.steps.iter().any(Step::is_positive) {
            return packets;
        }
        let mut has_before = false;
        let mut counts_from_start = false;
        for step in &self.steps {
            counts_from_start |= step.counts_from_start(has_before);
            has_before |= step.moves();
        }
        let streams = if counts_from_start { Streams::Start } else { Streams::All };
        let packets = counts_from_start && self.flow.only != Some(Only::Streams);
        Scope { packets, streams }
    }
}

impl Rule {
    /// The most bytes of a stream from where a match begins, or from the stream's start where the
    /// rule counts from there, up to its end: what is at hand of a stream need not be more. 0 if it
    /// is not looked for in streams; none if there is no bound.
    pub fn reach(&self) -> Option<usize> {
        let streams = self.scope().streams;
        if streams == Streams::No {
            return Some(0);
        }
        // From the start of the first one, or of the stream, to the end of the last one.
        let mut reach = 0;
        for step in &self.steps {
            let Step::Content(content) = step else { return None };
            let bytes = content.bytes.len();
            if content.negated || !content.by.is_empty() {
                return None;
            }
            reach = match content.place {
                Place::Relative { distance, within } => {
                    reach + distance.unsigned_abs() as usize + within? as usize + bytes
                }
                Place::Absolute { offset, depth: Some(depth) } => {
                    reach.max(offset as usize + depth as usize)
                }
                // What may be anywhere may be far from all others, and from the start.
                Place::ANYWHERE if reach == 0 && streams == Streams::All => bytes,
                Place::Absolute { .. } => return None,
            };
        }
        Some(reach)
    }
}

impl Step {
    /// Whether the step is one that something must be there for.
    pub fn is_positive(&self) -> bool {
        match self {
            Step::Content(content) => !content.negated,
            Step::Expression(expression) => !expression.negated,
            Step::DataAt(data) => !data.negated,
            // The number must be there, also where what it says is negated.
            Step::ByteTest(_) | Step::ByteJump(_) | Step::ByteSet(_) => true,
        }
    }

    /// Whether what is relative behind it counts from its occurrence.
    pub fn moves(&self) -> bool {
        self.is_positive() && !matches!(self, Step::DataAt(_) | Step::ByteTest(_))
    }

    /// Where it reads a number, if it does.
    fn read(&self) -> Option<&Read> {
        match self {
            Step::ByteTest(test) => Some(&test.read),
            Step::ByteJump(jump) => Some(&jump.read),
            Step::ByteSet(set) => Some(&set.read),
            Step::Content(_) | Step::Expression(_) | Step::DataAt(_) => None,
        }
    }

    /// The variables that it asks for.
    pub fn variables(&self) -> impl Iterator<Item = u8> {
        let (one, two) = match self {
            Step::Content(content) => (content.by.start, content.by.len),
            Step::Expression(_) => (None, None),
            Step::DataAt(data) => (data.bytes.variable(), None),
            Step::ByteTest(test) => (test.value.variable(), None),
            Step::ByteJump(jump) => (jump.post_offset.variable(), None),
            Step::ByteSet(set) => match set.how {
                Made::Math { right, .. } => (right.variable(), None),
                Made::Scaled { .. } => (None, None),
            },
        };
        let offset = self.read().and_then(|read| read.offset.variable());
        [one, two, offset].into_iter().flatten()
    }

    /// Whether it counts from the occurrence before.
    pub fn is_relative(&self) -> bool {
        match self {
            Step::Content(content) => content.place.is_relative(),
            Step::Expression(expression) => expression.relative,
            Step::DataAt(data) => data.relative,
            _ => self.read().is_some_and(|read| read.relative),
        }
    }

    /// Whether its answer changes as bytes follow, other than by what these hold.
    fn sees_the_end(&self) -> bool {
        match self {
            Step::Content(content) => content.at_end,
            Step::Expression(expression) => expression.at_end,
            Step::DataAt(data) => data.negated,
            Step::ByteJump(jump) => jump.from == From::End,
            Step::ByteTest(_) | Step::ByteSet(_) => false,
        }
    }

    /// Whether its answer hangs on where the text starts.
    fn counts_from_start(&self, has_before: bool) -> bool {
        if matches!(self, Step::ByteJump(jump) if jump.from == From::Beginning) {
            return true;
        }
        if self.is_relative() {
            return !has_before;
        }
        match self {
            Step::Content(content) => content.place != Place::ANYWHERE || !content.by.is_empty(),
            Step::Expression(expression) => expression.at_start,
            _ => true,
        }
    }
}

/// A rule that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The number of the file.
    pub file: usize,
    /// The line it starts in, from 1.
    pub line: u32,
    /// Its number, or 0 if it was not read.
    pub sid: u32,
    /// What it has that is not supported, each once, in the order of the text.
    pub keywords: Vec<String>,
}

/// Something about a rule that is right, and perhaps not what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The number of the file.
    pub file: usize,
    /// The line the rule starts in, from 1.
    pub line: u32,
    /// Its number.
    pub sid: u32,
    /// What it is.
    pub kind: RemarkKind,
}

/// What a remark is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemarkKind {
    /// The rule names a class that is not known: its priority is the usual one, unless it says one.
    UnknownClass {
        /// What stands there.
        name: String,
        /// The class that was perhaps meant.
        meant: Option<&'static str>,
    },
    /// The rule is left out for an option that is no keyword of Snort or Suricata.
    UnknownKeyword {
        /// What stands there.
        name: String,
        /// The keyword that was perhaps meant.
        meant: Option<&'static str>,
    },
    /// The rule is left out for options that nothing can have together: in words.
    Never(String),
    /// A content of one buffer names another one, which counts: both words.
    TwoBuffers(String, String),
    /// A content has capital letters where the buffer has small ones.
    CapitalsInHost(String),
    /// It asks for ports of ICMP, which has none: they are ignored.
    PortsOfIcmp,
    /// Another rule, which is kept, has the same `gid`, `sid` and `rev`: where that is.
    SameRevision {
        /// The number of its file.
        file: usize,
        /// The line it starts in.
        line: u32,
    },
}

/// The rules of all files.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Those that are looked for, in the order of the text.
    pub rules: Vec<Rule>,
    /// Those that were left out, in the order of the text.
    pub left_out: Vec<LeftOut>,
    /// What is odd about some of them, in the order of the text.
    pub remarks: Vec<Remark>,
    /// Variables that were set and that none of them asks for.
    pub unused_variables: Vec<UnusedVariable>,
    /// Names of the files, by their numbers.
    pub files: Vec<String>,
    /// Names of flows' bits, by their numbers.
    pub bit_names: Vec<String>,
}

impl Rules {
    /// A remark in words, behind the place of its rule.
    pub fn remark(&self, remark: &Remark) -> String {
        match &remark.kind {
            RemarkKind::UnknownClass { name, meant } => {
                format!("sid {}: no such class: {name}{}", remark.sid, was_meant(*meant))
            }
            RemarkKind::UnknownKeyword { name, meant } => format!(
                "sid {}: no keyword of Snort or Suricata: {name}{}",
                remark.sid,
                was_meant(*meant)
            ),
            RemarkKind::Never(what) => {
                format!("sid {}: {what}: the rule is left out", remark.sid)
            }
            RemarkKind::TwoBuffers(first, second) => format!(
                "sid {}: a content of {first} and of {second}: the last one counts",
                remark.sid
            ),
            RemarkKind::CapitalsInHost(content) => format!(
                "sid {}: the host is in small letters, and the content \"{content}\" is not: write \
                 it so, say nocase, or use http.host.raw",
                remark.sid
            ),
            RemarkKind::PortsOfIcmp => {
                format!("sid {}: ICMP has no ports: those of the rule are ignored", remark.sid)
            }
            RemarkKind::SameRevision { file, line } => format!(
                "sid {}: {}:{line} has the same gid, sid and rev, and is the one that is kept",
                remark.sid, self.files[*file]
            ),
        }
    }

    /// Warning that no rule is active, with the reason; none if a rule is.
    pub fn why_nothing(&self) -> Option<String> {
        if !self.rules.is_empty() {
            return None;
        }
        let files = self.files.join(", ");
        Some(match self.left_out.len() {
            0 => format!("no active rules: no rule in {files}"),
            count => format!("no active rules: {count} unsupported in {files}"),
        })
    }

    /// How many rules were left out for each keyword, the most frequent first. A rule counts for
    /// each of its keywords.
    pub fn keywords_left_out(&self) -> Vec<(&str, usize)> {
        let mut counts = std::collections::BTreeMap::<&str, usize>::new();
        for keyword in self.left_out.iter().flat_map(|rule| &rule.keywords) {
            *counts.entry(keyword).or_default() += 1;
        }
        let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|&(keyword, count)| (std::cmp::Reverse(count), keyword));
        counts
    }
}

/// The name that was perhaps meant, in words behind the one that is not known.
fn was_meant(meant: Option<&str>) -> String {
    meant.map_or(String::new(), |meant| format!("; was {meant} meant?"))
}
