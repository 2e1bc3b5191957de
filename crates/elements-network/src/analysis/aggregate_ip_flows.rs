//! Numbers TCP and UDP flows.
//!
//! # Synopsis
//! `AggregateIPFlows(TCP_TIMEOUT, TCP_DONE_TIMEOUT, UDP_TIMEOUT, FRAGMENT_TIMEOUT, REAP,
//! FRAGMENTS)`
//!
//! # Ports
//! One input, one or two outputs; push or pull, output 1 is push. Packets of flows are emitted on
//! output 0 with the flow number, from 1, in the aggregate annotation. Their paint is 0 in the
//! direction of the first packet of the flow, 1 in the other. Other packets are emitted on output 1
//! if it is connected. Packets need the network header set.
//!
//! # Configuration
//! - `TCP_TIMEOUT`: idle timeout of TCP flows; default: 24 hours
//! - `TCP_DONE_TIMEOUT`: idle timeout of TCP flows that both sides closed or one reset; default: 30
//!   seconds
//! - `UDP_TIMEOUT`: idle timeout of UDP flows; default: 1 minute
//! - `FRAGMENT_TIMEOUT`: how long fragments wait for the first fragment of their packet; default:
//!   30 seconds
//! - `REAP`: interval between removals of expired flows; default: 20 minutes
//! - `FRAGMENTS`: assign fragments after the first to flows; requires push; default: true if the
//!   input is push
//!
//! All times are packet timestamps. Fragments wait until the first fragment supplies the ports.
//! Later packets between the same two hosts wait with them, which preserves their order.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `clear` | write | removes all flows |
//!
//! # Drops
//! - `no flow`: neither TCP nor UDP, truncated, a fragment without first fragment, or the flow
//!   table is full; and output 1 is not connected
//!
//! # Threads
//! Runs on one worker. Limits: 2^20 flows, 4096 waiting packets.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> CheckIPHeader(14) -> AggregateIPFlows
//!   -> ToIPSummaryDump(out.txt, FIELDS aggregate link ip_len);
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet, annotation};
use warpswitch_wire::ip::IpProto;

use crate::ip::support::{ipv4, transport};
use warpswitch_elements_support::annotation as own_annotation;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("AggregateIPFlows", "1/1-2", "a/ah", || Box::<AggregateIpFlows>::default())
        .drops(&["no flow"]);

/// Reason for drops, by number.
const NO_FLOW: usize = 0;
/// The most flows.
const FLOWS_MAX: usize = 1 << 20;
/// The most packets that wait, and the most first fragments that are remembered.
const HELD_MAX: usize = 4096;
/// Flags of a TCP header.
const FIN: u8 = 1;
const RST: u8 = 4;
/// The flag of a flow whose sender ended it, for the first packet's sender; that of the other side
/// is the next one.
const ENDED: u8 = 1;
const BOTH_ENDED: u8 = 3;

/// An address and a port.
type End = (u32, u16);

/// Key of a flow: both ends, the lower first, and the protocol.
type FlowKey = ([End; 2], u8);

/// Key of a fragmented packet: source, destination, protocol, identification.
type PacketKey = (u32, u32, u8, u16);

#[derive(Clone, Copy, Debug)]
struct Flow {
    number: u32,
    /// Whether the first packet came from the higher end.
    from_high: bool,
    ended: u8,
    seen_ns: i64,
}

/// Header fields of a packet that identify its flow and its fragments.
#[derive(Clone, Copy, Debug)]
struct Shape {
    src: u32,
    dst: u32,
    proto: u8,
    id: u16,
    /// Ports and flags, of all but later fragments.
    ends: Option<(u16, u16, u8)>,
    has_more: bool,
}

impl Shape {
    /// None for packets that can be of no flow.
    fn of(packet: &Packet) -> Option<Self> {
        let view = ipv4(packet)?;
        let proto = view.proto();
        if proto != IpProto::TCP && proto != IpProto::UDP {
            return None;
        }
        let ends = match view.fragment_offset() {
            0 => {
                let l4 = transport(packet);
                let ports: [u8; 4] = *l4.first_chunk()?;
                let flags = l4.get(13).copied().filter(|_| proto == IpProto::TCP).unwrap_or(0);
                let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
                Some((port(0), port(2), flags))
            }
            _ => None,
        };
        let (src, dst) = (view.src().into(), view.dst().into());
        let (id, has_more) = (view.identification(), view.more_fragments());
        Some(Self { src, dst, proto: proto.0, id, ends, has_more })
    }

    fn packet_key(&self) -> PacketKey {
        (self.src, self.dst, self.proto, self.id)
    }

    fn hosts(&self) -> (u32, u32) {
        (self.src.min(self.dst), self.src.max(self.dst))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct AggregateIpFlows {
    tcp_ns: i64,
    tcp_done_ns: i64,
    udp_ns: i64,
    fragment_ns: i64,
    reap_ns: i64,
    fragments: Option<bool>,
    flows: HashMap<FlowKey, Flow>,
    last_number: u32,
    /// When flows were reaped last.
    reaped_ns: Option<i64>,
    /// Ports of packets that came in fragments, and when their first one did.
    firsts: HashMap<PacketKey, ((u16, u16), i64)>,
    /// What waits, by hosts. In order, so that runs are the same.
    waiting: BTreeMap<(u32, u32), VecDeque<Packet>>,
    held: usize,
}

impl AggregateIpFlows {
    fn timeout_ns(&self, key: &FlowKey, flow: &Flow) -> i64 {
        match (key.1 == IpProto::UDP.0, flow.ended == BOTH_ENDED) {
            (true, _) => self.udp_ns,
            (false, true) => self.tcp_done_ns,
            (false, false) => self.tcp_ns,
        }
    }

    /// The ports of a packet, and its flags; none of a fragment whose first one did not come.
    fn ends(&self, shape: &Shape) -> Option<(u16, u16, u8)> {
        shape.ends.or_else(|| {
            let ((src, dst), _) = self.firsts.get(&shape.packet_key())?;
            Some((*src, *dst, 0))
        })
    }

    /// Marks a packet as one of its flow; not if there are too many flows.
    fn mark(&mut self, packet: &mut Packet, shape: &Shape, ends: (u16, u16, u8)) -> bool {
        let (src, dst) = ((shape.src, ends.0), (shape.dst, ends.1));
        let from_high = src > dst;
        let key = ([src.min(dst), src.max(dst)], shape.proto);
        let now = packet.timestamp_ns();
        let known = self.flows.get(&key).copied();
        let is_live = |flow: &Flow| now.saturating_sub(flow.seen_ns) <= self.timeout_ns(&key, flow);
        let mut flow = match known.filter(is_live) {
            Some(flow) => flow,
            None if known.is_none() && self.flows.len() >= FLOWS_MAX => return false,
            None => {
                self.last_number = self.last_number.wrapping_add(1);
                Flow { number: self.last_number, from_high, ended: 0, seen_ns: now }
            }
        };
        let is_reply = from_high != flow.from_high;
        flow.seen_ns = now;
        if ends.2 & RST != 0 {
            flow.ended = BOTH_ENDED;
        } else if ends.2 & FIN != 0 {
            flow.ended |= ENDED << u8::from(is_reply);
        }
        packet.set_anno_u32(own_annotation::AGGREGATE, flow.number);
        packet.set_anno_u8(annotation::PAINT, is_reply.into());
        self.flows.insert(key, flow);
        true
    }

    /// Returns the fate of a packet that need not wait.
    fn fate(&mut self, packet: &mut Packet) -> Fate {
        let shape = Shape::of(packet);
        let ends = shape.as_ref().and_then(|shape| self.ends(shape));
        match (shape, ends) {
            (Some(shape), Some(ends)) if self.mark(packet, &shape, ends) => Fate::Pass,
            _ => Fate::EmitOrDrop(1, NO_FLOW),
        }
    }

    fn pass(&mut self, cx: &mut Context<'_>, mut packet: Packet) {
        match self.fate(&mut packet) {
            Fate::Pass => cx.emit(0, packet),
            _ => cx.emit_or_drop(1, packet, NO_FLOW),
        }
    }

    /// Takes a packet where later fragments wait.
    fn take(&mut self, cx: &mut Context<'_>, packet: Packet) {
        let now = packet.timestamp_ns();
        let Some(shape) = Shape::of(&packet) else { return self.pass(cx, packet) };
        if let (true, Some((src, dst, _))) = (shape.has_more, shape.ends)
            && self.firsts.len() < HELD_MAX
        {
            self.firsts.insert(shape.packet_key(), ((src, dst), now));
        }
        let hosts = shape.hosts();
        let waits = self.waiting.contains_key(&hosts) || self.ends(&shape).is_none();
        if !waits || self.held >= HELD_MAX {
            return self.pass(cx, packet);
        }
        self.waiting.entry(hosts).or_default().push_back(packet);
        self.held += 1;
        self.release(cx, hosts, now);
    }

    /// Lets go what waits between two hosts and no longer has to.
    fn release(&mut self, cx: &mut Context<'_>, hosts: (u32, u32), now: i64) {
        let Some(mut queue) = self.waiting.remove(&hosts) else { return };
        while let Some(packet) = queue.pop_front() {
            let is_late = now.saturating_sub(packet.timestamp_ns()) > self.fragment_ns;
            let is_known = Shape::of(&packet).is_none_or(|shape| self.ends(&shape).is_some());
            if !is_known && !is_late {
                queue.push_front(packet);
                break;
            }
            self.held -= 1;
            self.pass(cx, packet);
        }
        if !queue.is_empty() {
            self.waiting.insert(hosts, queue);
        }
    }

    /// Forgets what is over, now and then.
    fn reap(&mut self, cx: &mut Context<'_>, now: i64) {
        let last = *self.reaped_ns.get_or_insert(now);
        let is_full = self.firsts.len() >= HELD_MAX || self.held >= HELD_MAX;
        if now.saturating_sub(last) < self.reap_ns && !is_full {
            return;
        }
        self.reaped_ns = Some(now);
        let mut flows = std::mem::take(&mut self.flows);
        flows.retain(|key, flow| now.saturating_sub(flow.seen_ns) <= self.timeout_ns(key, flow));
        self.flows = flows;
        self.firsts.retain(|_, (_, at)| now.saturating_sub(*at) <= self.fragment_ns);
        let hosts: Vec<(u32, u32)> = self.waiting.keys().copied().collect();
        hosts.into_iter().for_each(|hosts| self.release(cx, hosts, now));
    }
}

impl Element for AggregateIpFlows {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut times = [24 * 3600, 30, 60, 30, 20 * 60].map(Duration::from_secs);
        let names = ["TCP_TIMEOUT", "TCP_DONE_TIMEOUT", "UDP_TIMEOUT", "FRAGMENT_TIMEOUT", "REAP"];
        for (name, time) in names.into_iter().zip(&mut times) {
            args.read(name, time);
        }
        let ns = times.map(|time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
        [self.tcp_ns, self.tcp_done_ns, self.udp_ns, self.fragment_ns, self.reap_ns] = ns;
        args.read("FRAGMENTS", &mut self.fragments).complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if cx.input_is_pull(0) && self.fragments == Some(true) {
            return Err("FRAGMENTS requires a push input".to_owned());
        }
        self.fragments.get_or_insert(!cx.input_is_pull(0));
        Ok(())
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, packet| {
            self.reap(cx, packet.timestamp_ns());
            self.fate(packet)
        });
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        if self.fragments != Some(true) {
            self.process(cx, &mut batch);
            return cx.emit_batch(0, batch);
        }
        for packet in batch.drain() {
            self.reap(cx, packet.timestamp_ns());
            self.take(cx, packet);
        }
        cx.pool().recycle_empty(batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::button("clear")] }
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _value: &str,
    ) -> Result<String, HandlerError> {
        self.flows = HashMap::new();
        Ok(String::new())
    }

    fn held(&self) -> usize {
        self.held
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.flows = std::mem::take(&mut old.flows);
            self.last_number = old.last_number;
            self.firsts = std::mem::take(&mut old.firsts);
            self.waiting = std::mem::take(&mut old.waiting);
            self.held = std::mem::take(&mut old.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    /// Number, paint and identification of what leaves, of packets that are lines of columns.
    fn flows(arguments: &str, columns: &str, lines: &[&str]) -> String {
        let lines = lines.join("\n");
        let config = format!(
            "FromIPSummaryDump(DATA \"!data {columns}\n{lines}\n\", STOP true)
                -> f :: AggregateIPFlows({arguments}) -> t :: ToIPSummaryDump(-,
                   FIELDS aggregate link ip_id, HEADER false);
             f[1] -> Paint(9) -> t;"
        );
        let printed = run(&config, &crate::registry()).1.printed();
        let text = String::from_utf8(printed).expect("text");
        text.lines().filter(|line| !line.starts_with('!')).collect::<Vec<_>>().join(",")
    }

    const PORTS: &str = "ts proto src sport dst dport ip_id tcp_flags";

    #[test]
    fn both_ways_are_one_flow() {
        let lines = [
            "1 U 1.0.0.1 10 1.0.0.2 20 1 .",
            "2 T 1.0.0.1 10 1.0.0.2 20 2 .",
            "3 U 1.0.0.2 20 1.0.0.1 10 3 .",
            "4 U 1.0.0.1 11 1.0.0.1 10 4 .",
            "5 U 1.0.0.1 10 1.0.0.1 11 5 .",
            "6 I 1.0.0.1 - 1.0.0.2 - 6 .",
            "7 U 1.0.0.1 7 1.0.0.1 7 7 .",
        ];
        assert_eq!(flows("", PORTS, &lines), "1 0 1,2 0 2,1 1 3,3 0 4,3 1 5,0 9 6,4 0 7");
    }

    #[test]
    fn flows_end_after_their_time() {
        let lines = [
            "1 U 1.0.0.1 10 1.0.0.2 20 1 .",
            "61 U 1.0.0.2 20 1.0.0.1 10 2 .",
            "122 U 1.0.0.2 20 1.0.0.1 10 3 .",
            "200 T 1.0.0.2 20 1.0.0.1 10 4 S",
            "900 T 1.0.0.2 20 1.0.0.1 10 5 F",
            "1800 T 1.0.0.1 10 1.0.0.2 20 6 F",
            "1830 T 1.0.0.1 10 1.0.0.2 20 7 A",
            "1861 T 1.0.0.1 10 1.0.0.2 20 8 S",
            "1862 T 1.0.0.1 10 1.0.0.2 20 9 R",
            "1893 T 1.0.0.1 10 1.0.0.2 20 10 S",
        ];
        assert_eq!(
            flows("", PORTS, &lines),
            "1 0 1,1 1 2,2 0 3,3 0 4,3 0 5,3 1 6,3 1 7,4 0 8,4 0 9,5 0 10"
        );
        assert!(flows("UDP_TIMEOUT 1s, REAP 1s", PORTS, &lines).starts_with("1 0 1,2 0 2,3 0 3"));
    }

    const FRAGMENTS: &str = "ts proto src sport dst dport ip_id ip_fragoff";

    #[test]
    fn later_fragments_wait_for_the_first() {
        let lines = [
            "1 U 1.0.0.1 10 1.0.0.2 20 1 0",
            "2 U 1.0.0.1 10 1.0.0.2 20 5 24",
            "3 U 1.0.0.2 20 1.0.0.1 10 6 24",
            "4 U 1.0.0.3 10 1.0.0.2 20 7 0",
            "5 U 1.0.0.1 10 1.0.0.2 20 5 0+",
            "6 U 1.0.0.2 20 1.0.0.1 10 6 0+",
            "7 U 1.0.0.2 20 1.0.0.1 10 6 48",
        ];
        let expected = "1 0 1,2 0 7,1 0 5,1 1 6,1 0 5,1 1 6,1 1 6";
        assert_eq!(flows("", FRAGMENTS, &lines), expected);
        // Without them the later ones are of no flow.
        let expected = "1 0 1,0 9 5,0 9 6,2 0 7,1 0 5,1 1 6,0 9 6";
        assert_eq!(flows("FRAGMENTS false", FRAGMENTS, &lines), expected);
    }

    #[test]
    fn fragments_do_not_wait_for_ever() {
        let lines = [
            "1 U 1.0.0.1 10 1.0.0.2 20 5 24",
            "2 U 1.0.0.1 10 1.0.0.2 20 6 0",
            "40 U 1.0.0.1 10 1.0.0.2 20 7 0",
        ];
        assert_eq!(flows("", FRAGMENTS, &lines), "0 9 5,1 0 6,1 0 7");
        let pull = "Idle -> Queue -> AggregateIPFlows(FRAGMENTS true) -> Discard";
        assert!(router(pull, &crate::registry()).is_err());
    }
}
