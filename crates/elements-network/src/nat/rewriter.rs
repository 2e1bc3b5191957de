//! Common part of all rewriters: input specs, membership in a set of flows, and the packet path.
//!
//! ```text
//! packet ─► shape ─► flow? ─ no ─► input spec ─► new flow
//!                      │                            │
//!                      └── yes ──────────┬──────────┘
//!                                        ▼
//!                 addresses, ports, checksums ─► output of the flow's direction
//! ```
//! One element owns the set: usually this one; if several share it, the one that the others name.
//! Users take the set from its owner, and put it back when done.

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, Raw};
use warpswitch_graph::{ConfigureContext, Context, Element, HandlerError, HandlerSpec, Time};
use warpswitch_packet::packet::{ANNOTATION_BYTES, annotation};
use warpswitch_packet::{Batch, Packet};

use super::apply::{self, ICMP, Shape, TCP, UDP};
use super::flow::{FlowId, Limits, TableId};
use super::input::InputSpec;
use super::mapper::Mapper;
use super::pattern::Scope;
use super::patterns;
use super::set::{FlowSet, Kind, Member, NewFlow, Range, Tally};
use super::{handlers, takeover};
use warpswitch_elements_support::outputs;

/// Why packets are dropped.
pub(super) const REASONS: &[&str] = &[
    "no IP header",
    "not to be rewritten",
    "fragment",
    "short header",
    "no flow",
    "nothing free",
    "pattern does not fit",
    "full",
];
const NO_HEADER: usize = 0;
const OTHER_PROTOCOL: usize = 1;
const FRAGMENT: usize = 2;
const SHORT: usize = 3;
const NO_FLOW: usize = 4;
const NOTHING_FREE: usize = 5;
const NO_FIT: usize = 6;
const FULL: usize = 7;

/// The timer that takes out flows that ended.
const REAP_TIMER: usize = 0;
const SECOND_MS: i64 = 1000;
const CLASSES: [&str; 6] = [
    "IPRewriter",
    "TCPRewriter",
    "UDPRewriter",
    "IPAddrRewriter",
    "IPAddrPairRewriter",
    "ICMPPingRewriter",
];

/// Whether elements of `class` are rewriters.
pub(super) fn is_rewriter(class: &str) -> bool {
    CLASSES.contains(&class)
}

/// Milliseconds, which is how exact the ends of flows are.
pub(super) fn to_ms(time: Time) -> i64 {
    time.0.div_euclid(1_000_000)
}

/// See the module.
#[derive(Debug)]
pub struct Rewriter {
    pub(super) kind: Kind,
    pub(super) specs: Vec<InputSpec>,
    limits: [Limits; 2],
    is_dst_noted: bool,
    reply_anno: Option<usize>,
    reap_ms: i64,
    /// When it was initialized: reaping keeps step with that.
    started_ms: i64,
    is_reaper_set: bool,
    /// The element whose set it is configured to share.
    shares: Option<usize>,
    /// The element that the set is with.
    holder: usize,
    /// Its number among those that share the set.
    pub(super) member: usize,
    /// The set, if it is with this element and nobody works on it.
    set: Option<Box<FlowSet>>,
}

/// What the direction of a packet is, and the flow that it belongs to.
type Found = (u32, usize);

impl Rewriter {
    pub(super) fn new(kind: Kind) -> Self {
        let plain_ms = match kind {
            Kind::Address | Kind::AddressPair => 2 * 60 * 60 * SECOND_MS,
            _ => 5 * 60 * SECOND_MS,
        };
        let limits = Limits {
            idle_ms: plain_ms,
            busy_ms: if kind == Kind::Udp { plain_ms } else { 24 * 60 * 60 * SECOND_MS },
            done_ms: 4 * 60 * SECOND_MS,
            guarantee_ms: 5 * SECOND_MS,
        };
        Self {
            kind,
            specs: Vec::new(),
            limits: [limits, Limits { busy_ms: plain_ms, ..limits }],
            is_dst_noted: true,
            reply_anno: None,
            reap_ms: 15 * 60 * SECOND_MS,
            started_ms: 0,
            is_reaper_set: false,
            shares: None,
            holder: 0,
            member: 0,
            set: Some(Box::default()),
        }
    }

    /// Calls `work` with the set; none if another caller is working on it.
    pub(super) fn with_set<R>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Self, &mut FlowSet, &mut Context<'_>) -> R,
    ) -> Option<R> {
        if self.holder == cx.element() {
            let mut set = self.set.take()?;
            let result = work(self, &mut set, cx);
            self.set = Some(set);
            return Some(result);
        }
        let take = |holder: &mut Self, _: &mut Context<'_>| holder.set.take();
        let mut set = cx.with_element(self.holder, take).flatten()?;
        let result = work(self, &mut set, cx);
        // Nobody has taken hold of the element meanwhile: it was free, and nothing runs but us.
        let put = |holder: &mut Self, _: &mut Context<'_>| holder.set = Some(set);
        cx.with_element(self.holder, put).expect("the holder of the set is free");
        Some(result)
    }

    /// The table that packets of `proto` are looked up in.
    pub(super) fn table(&self, proto: u8) -> TableId {
        TableId::new(self.member, self.kind == Kind::Ip && proto == UDP)
    }

    /// The flow that packets of `id` and `proto` belong to. As of a packet that came here, or, for
    /// `is_reply`, of the reply to one that went out.
    pub(super) fn find(
        &self,
        set: &FlowSet,
        proto: u8,
        id: FlowId,
        is_reply: bool,
    ) -> Option<Found> {
        let table = self.table(proto);
        let FlowId { src, dst, .. } = id;
        match self.kind {
            Kind::Ip if !matches!(proto, TCP | UDP) => None,
            Kind::Ip | Kind::Tcp | Kind::Udp => {
                let found = set.find(table, id);
                found.filter(|&(flow, _)| set.flow(flow).proto == proto)
            }
            Kind::Address => {
                let from = FlowId { src, ..FlowId::default() };
                let to = FlowId { dst, ..FlowId::default() };
                set.find(table, from).or_else(|| set.find(table, to))
            }
            Kind::AddressPair => set.find(table, FlowId { src, dst, ..FlowId::default() }),
            Kind::Ping if proto != ICMP => None,
            Kind::Ping => set.find(table, ping_id(id, is_reply)),
        }
    }

    /// Makes a flow of packets of `id` by the spec of `input`, for who has no packet of it.
    pub(super) fn make(
        &mut self,
        cx: &mut Context<'_>,
        set: &mut FlowSet,
        (proto, id, input): (u8, FlowId, usize),
    ) -> Option<u32> {
        let FlowId { src, dst, .. } = id;
        let id = match self.kind {
            Kind::Ping => return None,
            Kind::Address => FlowId { src, ..FlowId::default() },
            Kind::AddressPair => FlowId { src, dst, ..FlowId::default() },
            Kind::Ip | Kind::Tcp | Kind::Udp => id,
        };
        self.new_flow(cx, set, proto, id, input).ok()?.ok()
    }

    /// A flow by the spec of `input`, or where to send what makes none, or why to drop it.
    fn new_flow(
        &mut self,
        cx: &mut Context<'_>,
        set: &mut FlowSet,
        proto: u8,
        id: FlowId,
        input: usize,
    ) -> Result<Result<u32, u32>, usize> {
        let table = self.table(proto);
        let changed = match &self.specs[input] {
            InputSpec::Drop => return Err(NO_FLOW),
            InputSpec::Pass(output) => return Ok(Err(*output)),
            InputSpec::Keep(outputs) => Some((id, *outputs)),
            InputSpec::Pattern(pattern, outputs) => {
                let new = pattern.rewrite(id, table, set, || cx.random());
                new.map(|new| (new, *outputs))
            }
            InputSpec::Mapper(mapper) => cx
                .with_element(*mapper, |mapper: &mut Mapper, cx| {
                    mapper.rewrite(id, table, set, || cx.random())
                })
                .flatten(),
        };
        let Some((mut rewritten, outputs)) = changed else {
            set.tally(self.member, input).failures += 1;
            return Err(NOTHING_FREE);
        };
        let has_ports = rewritten.src_port != 0 || rewritten.dst_port != 0;
        match self.kind {
            Kind::Ping => rewritten.dst_port = apply::ping_peer(rewritten.src_port),
            Kind::Address if has_ports || rewritten.dst != 0 => return Err(NO_FIT),
            Kind::AddressPair if has_ports => return Err(NO_FIT),
            _ => {}
        }
        let new = NewFlow { table, proto, input: input as u32, id, rewritten, outputs };
        Ok(Ok(set.add(new, to_ms(cx.now())).ok_or(FULL)?))
    }

    /// What packets of this shape are looked up by.
    fn key(&self, shape: &Shape) -> Result<FlowId, usize> {
        let FlowId { src, dst, .. } = shape.id;
        let is_known = match self.kind {
            Kind::Address => return Ok(FlowId { src, ..FlowId::default() }),
            Kind::AddressPair => return Ok(FlowId { src, dst, ..FlowId::default() }),
            Kind::Ip => matches!(shape.proto, TCP | UDP),
            Kind::Tcp => shape.proto == TCP,
            Kind::Udp => matches!(shape.proto, TCP | UDP | apply::DCCP),
            Kind::Ping => shape.proto == ICMP,
        };
        let is_ping = self.kind == Kind::Ping;
        let bytes_min = if is_ping { apply::ECHO_END } else { apply::PORTS_END };
        match () {
            () if !is_known => Err(OTHER_PROTOCOL),
            () if !shape.is_first => Err(FRAGMENT),
            () if shape.l4_bytes < bytes_min => Err(SHORT),
            () if !is_ping => Ok(shape.id),
            () if !shape.is_echo() => Err(OTHER_PROTOCOL),
            () => Ok(ping_id(shape.id, shape.icmp_type == apply::ECHO_REPLY)),
        }
    }

    /// Rewrites a packet and gives its output, or why it is dropped.
    fn rewrite(
        &mut self,
        cx: &mut Context<'_>,
        set: &mut FlowSet,
        input: usize,
        packet: &mut Packet,
    ) -> Result<usize, usize> {
        let bytes = packet.from_header(warpswitch_packet::packet::Header::Network);
        let shape = Shape::read(bytes).ok_or(NO_HEADER)?;
        let pass = |reason| match self.specs[input] {
            InputSpec::Pass(output) => Ok(output as usize),
            _ => Err(reason),
        };
        let id = match self.key(&shape) {
            Ok(id) => id,
            Err(reason) => return pass(reason),
        };
        let table = self.table(shape.proto);
        let to = FlowId { dst: shape.id.dst, ..FlowId::default() };
        let found = match set.find(table, id) {
            None if self.kind == Kind::Address => set.find(table, to),
            found => found,
        };
        let (flow, direction) = match found {
            Some(found) => found,
            None if shape.icmp_type == apply::ECHO_REPLY && self.kind == Kind::Ping => {
                return pass(NO_FLOW);
            }
            None => match self.new_flow(cx, set, shape.proto, id, input)? {
                Err(output) => return Ok(output as usize),
                Ok(flow) => {
                    if let Some(at) = self.reply_anno {
                        set.flow_mut(flow).reply_anno = packet.anno_u8(at);
                    }
                    (flow, super::flow::FORWARD)
                }
            },
        };
        let is_reply = direction == super::flow::REPLY;
        let flow_mut = set.flow_mut(flow);
        apply::apply(flow_mut, self.kind, direction, &shape, packet);
        if self.is_dst_noted && (is_reply || self.kind != Kind::Address) {
            packet.set_dst_ipv4(apply::new_destination(flow_mut, direction).octets());
        }
        if let Some(at) = self.reply_anno.filter(|_| is_reply) {
            packet.set_anno_u8(at, flow_mut.reply_anno);
        }
        let output = flow_mut.outputs[direction] as usize;
        set.touch(flow, to_ms(cx.now()));
        Ok(output)
    }

    /// Sets the timer for the next time at which ended flows are taken out.
    pub(super) fn set_reaper(&mut self, cx: &mut Context<'_>) {
        if self.reap_ms > 0 && !std::mem::replace(&mut self.is_reaper_set, true) {
            let past_ms = to_ms(cx.now()) - self.started_ms;
            let next_ms = self.started_ms + (past_ms.div_euclid(self.reap_ms) + 1) * self.reap_ms;
            cx.set_timer(REAP_TIMER, Time(next_ms.saturating_mul(1_000_000)));
        }
    }

    /// What the patterns and mappers of all inputs choose from.
    pub(super) fn ranges(&self, cx: &mut Context<'_>) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        for spec in &self.specs {
            let more = match spec {
                InputSpec::Pattern(pattern, _) => pattern.range().into_iter().collect(),
                InputSpec::Mapper(mapper) => cx
                    .with_element(*mapper, |mapper: &mut Mapper, _| mapper.ranges())
                    .unwrap_or_default(),
                _ => Vec::new(),
            };
            for range in more {
                if !ranges.contains(&range) {
                    ranges.push(range);
                }
            }
        }
        ranges
    }

    /// Makes what is named in a spec ready to be used.
    pub(super) fn prepare_spec(
        cx: &mut Context<'_>,
        spec: &mut InputSpec,
        input: usize,
    ) -> Result<(), String> {
        match spec {
            InputSpec::Pattern(pattern, _) => patterns::adopt(cx, pattern),
            InputSpec::Mapper(mapper) => {
                let outputs = cx.outputs();
                let wrong = cx.with_element(*mapper, |mapper: &mut Mapper, cx| {
                    let numbers = mapper.out_of_range(outputs).into_iter();
                    let expected = outputs::expected(outputs);
                    let line = |number| {
                        let mapper = cx.declaration();
                        format!(
                            "input spec {input}: output port out of range in {mapper} pattern \
                             {number}, {expected}"
                        )
                    };
                    numbers.map(line).collect::<Vec<_>>()
                });
                let wrong = wrong.unwrap_or_default();
                if !wrong.is_empty() {
                    return Err(wrong.join("\n"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The element that the set is with: the last of those that share each other's.
    fn find_holder(&self, cx: &mut Context<'_>) -> usize {
        let own = cx.element();
        let (mut holder, mut next) = (own, self.shares);
        // Elements that name each other in a ring share the set of the first of them.
        let mut seen = vec![own];
        while let Some(element) = next {
            if seen.contains(&element) {
                let start = seen.iter().position(|&seen| seen == element).expect("it was seen");
                return *seen[start..].iter().min().expect("a ring has a member");
            }
            seen.push(element);
            holder = element;
            next = cx.with_element(element, |other: &mut Self, _| other.shares).flatten();
        }
        holder
    }

    fn join_set(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.holder = self.find_holder(cx);
        if self.holder != cx.element() {
            self.set = None;
        }
        let member = Member {
            kind: self.kind,
            name: cx.name().to_owned(),
            limits: self.limits,
            tallies: vec![Tally::default(); self.specs.len()],
            ranges: Vec::new(),
        };
        let ranges = self.ranges(cx);
        let joined = self.with_set(cx, |_, set, cx| {
            let member = set.add_member(member, || cx.random())?;
            set.set_ranges(member, ranges);
            Some(member)
        });
        self.member = joined.flatten().ok_or("too many elements share this MAPPING_CAPACITY")?;
        Ok(())
    }
}

/// The key of a ping: one port is the identifier, and the other one distinguishes requests from
/// replies.
fn ping_id(id: FlowId, is_reply: bool) -> FlowId {
    let (id_port, peer) = (id.src_port, apply::ping_peer(id.src_port));
    let (src_port, dst_port) = if is_reply { (peer, id_port) } else { (id_port, peer) };
    FlowId { src_port, dst_port, ..id }
}

/// Reads a time, into milliseconds.
fn read_ms(args: &mut Args<'_>, keyword: &str, target_ms: &mut i64) {
    let mut time = None::<Duration>;
    args.read(keyword, &mut time);
    if let Some(time) = time {
        *target_ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    }
}

/// Reads the place of an annotation of one byte.
pub(super) fn read_anno(args: &mut Args<'_>, keyword: &str, target: &mut Option<usize>) {
    args.read_as(keyword, false, false, target, |text, _| match text {
        "PAINT" => Ok(Some(annotation::PAINT)),
        "ICMP_PARAMPROB" => Ok(Some(annotation::ICMP_POINTER)),
        "FIX_IP_SRC" => Ok(Some(annotation::FIX_SRC)),
        text => {
            use warpswitch_graph::language::args::ArgError;
            let place = u32::from_arg(text, &NoNames)? as usize;
            let range = || ArgError::new("annotation offset out of range");
            Some(place).filter(|&place| place < ANNOTATION_BYTES).map(Some).ok_or_else(range)
        }
    });
}

impl Rewriter {
    fn read_times(&mut self, args: &mut Args<'_>) {
        let [main, udp] = &mut self.limits;
        if self.kind == Kind::Ip {
            read_ms(args, "UDP_TIMEOUT", &mut udp.idle_ms);
            udp.busy_ms = udp.idle_ms;
            read_ms(args, "UDP_STREAMING_TIMEOUT", &mut udp.busy_ms);
            read_ms(args, "UDP_GUARANTEE", &mut udp.guarantee_ms);
        }
        match self.kind {
            Kind::Ip | Kind::Tcp => {
                read_ms(args, "TCP_NODATA_TIMEOUT", &mut main.idle_ms);
                read_ms(args, "TCP_GUARANTEE", &mut main.guarantee_ms);
                read_ms(args, "TIMEOUT", &mut main.busy_ms);
                read_ms(args, "TCP_TIMEOUT", &mut main.busy_ms);
                read_ms(args, "TCP_DONE_TIMEOUT", &mut main.done_ms);
            }
            Kind::Udp => {
                read_ms(args, "UDP_TIMEOUT", &mut main.idle_ms);
                read_ms(args, "TIMEOUT", &mut main.idle_ms);
                main.busy_ms = main.idle_ms;
                read_ms(args, "UDP_STREAMING_TIMEOUT", &mut main.busy_ms);
                read_ms(args, "STREAMING_TIMEOUT", &mut main.busy_ms);
                read_ms(args, "UDP_GUARANTEE", &mut main.guarantee_ms);
            }
            Kind::Address | Kind::AddressPair | Kind::Ping => {
                read_ms(args, "TIMEOUT", &mut main.idle_ms);
            }
        }
        read_ms(args, "GUARANTEE", &mut main.guarantee_ms);
        read_ms(args, "REAP_INTERVAL", &mut self.reap_ms);
        read_ms(args, "REAP_TIME", &mut self.reap_ms);
    }

    fn read_capacity(&mut self, args: &mut Args<'_>, context: &ConfigureContext<'_>) {
        let mut word = Raw(String::new());
        args.read("CAPACITY", &mut word).read("MAPPING_CAPACITY", &mut word);
        if word.0.is_empty() {
            return;
        }
        let set = self.set.as_mut().expect("it was not given away yet");
        if let Ok(capacity) = i32::from_arg(&word.0, &NoNames) {
            return set.set_capacity(capacity);
        }
        let element = context.names.element(&word.0);
        self.shares =
            element.filter(|&element| is_rewriter(&context.graph.elements[element].class));
        if self.shares.is_none() {
            args.error_at("", "bad MAPPING_CAPACITY");
        }
    }
}

impl Element for Rewriter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.read_times(args);
        if !matches!(self.kind, Kind::Address | Kind::AddressPair) {
            args.read("DST_ANNO", &mut self.is_dst_noted);
        }
        read_anno(args, "REPLY_ANNO", &mut self.reply_anno);
        self.read_capacity(args, context);
        args.consume()?;
        let texts = args.rest();
        if texts.len() != context.inputs {
            let message = format!("need {} arguments, one per input port", context.inputs);
            args.error_at("", &message);
            return args.complete();
        }
        let scope = Scope { graph: context.graph, names: context.names, element: context.element };
        for (number, text) in texts.iter().enumerate() {
            match InputSpec::parse(text, scope, context.outputs) {
                Ok(spec) => self.specs.push(spec),
                Err(message) => args.error_of(number, &format!("input spec {number}: {message}")),
            }
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.started_ms = to_ms(cx.now());
        let mut errors = Vec::new();
        for (number, spec) in self.specs.iter_mut().enumerate() {
            errors.extend(Self::prepare_spec(cx, spec, number).err());
        }
        errors.extend(self.join_set(cx).err());
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, mut batch: Batch) {
        self.set_reaper(cx);
        self.with_set(cx, |rewriter, set, cx| {
            for mut packet in batch.drain() {
                match rewriter.rewrite(cx, set, input, &mut packet) {
                    Ok(output) => cx.emit(output, packet),
                    Err(reason) => cx.drop_packet(packet, reason),
                }
            }
        });
        // Nobody works on the set while packets are delivered, so there are none left.
        cx.drop_batch(batch, NO_FLOW);
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        self.is_reaper_set = false;
        let now_ms = to_ms(cx.now());
        let left = self.with_set(cx, |_, set, _| {
            set.reap(now_ms);
            set.len()
        });
        // While there are no flows the timer rests: the next packet sets it.
        if left != Some(0) {
            self.set_reaper(cx);
        }
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        handlers::of(self.kind, self.specs.len())
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        let answer =
            self.with_set(cx, |rewriter, set, cx| handlers::read(rewriter, set, cx, name, param));
        answer.unwrap_or(Err(HandlerError::Busy))
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let answer =
            self.with_set(cx, |rewriter, set, cx| handlers::write(rewriter, set, cx, name, value));
        answer.unwrap_or(Err(HandlerError::Busy))
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        // All flows of a set come from the element that held it, whichever elements they belong to.
        if let Some(old) = old.set.take() {
            takeover::take_over(self, cx, *old);
        }
    }
}
