//! Encapsulates IPv6 packets in Ethernet; resolves neighbours with neighbour discovery.
//!
//! # Synopsis
//! `IP6NDSolicitor(IP, ETH, CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, TIMEOUT,
//! POLL_TIMEOUT)`
//!
//! # Ports
//! Two inputs, one to three outputs; push.
//! - input 0: IPv6 packets with the address of the neighbour as destination annotation
//! - input 1: Ethernet frames with neighbour advertisements
//! - output 0: Ethernet frames with packets for neighbours
//! - output 1: neighbour solicitations; they go to output 0 if it is not connected
//! - output 2: IPv6 packets, unchanged, whose neighbour did not reply
//!
//! # Configuration
//! - `IP`: source address of solicitations
//! - `ETH`: source Ethernet address
//! - `CAPACITY`: maximum number of held packets, default: 2048
//! - `ENTRY_CAPACITY`: maximum number of addresses, resolved or being resolved, default: 4096
//! - `ENTRY_PACKET_CAPACITY`: maximum number of packets held per address, default: 3, at least 1;
//!   the most recent ones are kept
//! - `TIMEOUT`: lifetime of an entry after its last reply, default: 2 minutes; 0 means no expiry
//! - `POLL_TIMEOUT`: age at which an entry that is in use is queried again, default: 1 minute; 0
//!   disables polling
//!
//! An unresolved address is queried three times, one second apart.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table` | read | lines: address, 1 if resolved or 0, Ethernet address |
//! | `stats` | read | dropped packets and sent solicitations, as text |
//! | `queries` | read | solicitations |
//! | `drops` | read | packets |
//! | `length` | read | held packets |
//! | `insert` | write | `IP ETH` |
//! | `delete` | write | `IP` |
//! | `clear` | write | removes all entries |
//!
//! # Drops
//! - `no destination`: the destination annotation is `::`
//! - `replaced`: evicted by a later packet for the same address, see `ENTRY_PACKET_CAPACITY`
//! - `full`: `CAPACITY` or `ENTRY_CAPACITY` is exhausted
//! - `unreachable`: the neighbour did not reply, and output 2 is not connected
//! - `too long`: the frame would exceed the maximum packet length
//! - `deleted`: held for an address that `delete` or `clear` removed
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! nd :: IP6NDSolicitor(fe80::1, 02:00:00:00:00:01);
//! rt[1] -> [0]nd; c[1] -> [1]nd; nd -> Queue -> ToDump(out.pcap);
//! ```
//!
//! # Source
//! RFC 4861, 7.2; RFC 2464, 7 for multicast addresses.

use std::net::Ipv6Addr;
use std::time::Duration;

use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::packet::{Header, PACKET_BYTES_MAX};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ethernet::{EtherType, Ethernet, EthernetRepr, HEADER_BYTES, MacAddr};

use super::neighbour_message::{FLAG_OVERRIDE, FLAG_SOLICITED, Kind, NeighbourMessage};
use super::neighbours::{ASK_INTERVAL, Limits, Neighbours, Route};
use super::support::{group_ether, solicited_node};
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IP6NDSolicitor", "2/1-3", "h/h", || Box::new(Ip6NdSolicitor::new()))
        .flow("xy/x")
        .drops(&["no destination", "replaced", "full", "unreachable", "deleted", "too long"]);

/// Reasons for drops, by number.
const NO_DESTINATION: usize = 0;
const REPLACED: usize = 1;
const FULL: usize = 2;
const UNREACHABLE: usize = 3;
const DELETED: usize = 4;
const TOO_LONG: usize = 5;

/// Outputs.
const TO_NEIGHBOURS: usize = 0;
const SOLICITATIONS: usize = 1;
const NOT_REACHED: usize = 2;

/// See the module.
#[derive(Debug)]
pub struct Ip6NdSolicitor {
    ip: Ipv6Addr,
    ether: EtherAddress,
    neighbours: Neighbours,
    queries: u64,
    drops: u64,
    /// When the timer is to run.
    timer_at: Option<Time>,
}

impl Ip6NdSolicitor {
    fn new() -> Self {
        let limits = Limits {
            addresses_max: 4096,
            packets_max: 2048,
            address_packets_max: 3,
            timeout: Duration::from_secs(120),
            poll_timeout: Duration::from_secs(60),
        };
        Self {
            ip: Ipv6Addr::UNSPECIFIED,
            ether: EtherAddress::default(),
            neighbours: Neighbours::new(limits),
            queries: 0,
            drops: 0,
            timer_at: None,
        }
    }

    fn drop_packet(&mut self, cx: &mut Context<'_>, packet: Packet, reason: usize) {
        self.drops += 1;
        cx.drop_packet(packet, reason);
    }

    fn run_timer_by(&mut self, cx: &mut Context<'_>, at: Time) {
        if self.timer_at.is_none_or(|set| at < set) {
            self.timer_at = Some(at);
            cx.set_timer(0, at);
        }
    }

    /// Sends `packet` in a frame to `ether`.
    fn send(&self, cx: &mut Context<'_>, mut packet: Packet, ether: [u8; 6]) {
        let ethernet = EthernetRepr {
            dst: MacAddr(ether),
            src: MacAddr(self.ether.0),
            ether_type: EtherType::IPV6,
        };
        ethernet.emit(&mut Ethernet::new_unchecked(packet.push(HEADER_BYTES)));
        packet.set_header(Header::Mac, 0);
        cx.emit(TO_NEIGHBOURS, packet);
    }

    /// Solicits `target`: by multicast, or by unicast to the Ethernet address `known`.
    fn ask(&mut self, cx: &mut Context<'_>, target: Ipv6Addr, known: Option<[u8; 6]>) {
        let group = solicited_node(target);
        let question = NeighbourMessage {
            kind: Kind::Solicitation,
            ether_src: self.ether.0,
            ether_dst: known.unwrap_or(group_ether(group)),
            src: self.ip,
            dst: if known.is_some() { target } else { group },
            target,
            flags: 0,
            link: Some(self.ether.0),
        };
        let mut packet = question.packet(cx.pool());
        packet.set_timestamp_ns(cx.now().0);
        self.queries += 1;
        let output = if cx.has_output(SOLICITATIONS) { SOLICITATIONS } else { TO_NEIGHBOURS };
        cx.emit(output, packet);
    }

    fn route(&mut self, cx: &mut Context<'_>, packet: Packet) {
        let address = Ipv6Addr::from(packet.dst_ipv6());
        if address.is_unspecified() {
            return self.drop_packet(cx, packet, NO_DESTINATION);
        }
        if packet.len() > PACKET_BYTES_MAX - HEADER_BYTES {
            return self.drop_packet(cx, packet, TOO_LONG);
        }
        if address.is_multicast() {
            return self.send(cx, packet, group_ether(address));
        }
        match self.neighbours.route(address, packet, cx.now()) {
            Route::Send { packet, ether, poll } => {
                if poll {
                    self.ask(cx, address, Some(ether));
                }
                self.send(cx, packet, ether);
            }
            Route::Wait { ask, replaced } => {
                if let Some(replaced) = replaced {
                    self.drop_packet(cx, replaced, REPLACED);
                }
                if ask {
                    self.ask(cx, address, None);
                    let due = cx.now() + ASK_INTERVAL;
                    self.run_timer_by(cx, due);
                }
            }
            Route::Full(packet) => self.drop_packet(cx, packet, FULL),
        }
    }

    fn hear(&mut self, cx: &mut Context<'_>, frame: &[u8]) {
        let Some(heard) = NeighbourMessage::parse(frame, Kind::Advertisement) else { return };
        // A group is no address of a neighbour.
        if heard.link.is_some_and(|link| link[0] & 1 != 0) {
            return;
        }
        let [is_answer, overrides] =
            [FLAG_SOLICITED, FLAG_OVERRIDE].map(|flag| heard.flags & flag != 0);
        let now = cx.now();
        let waited = self.neighbours.learn(heard.target, heard.link, is_answer, overrides, now);
        for packet in waited {
            self.send(cx, packet, heard.link.unwrap_or_default());
        }
    }

    fn insert(&mut self, cx: &mut Context<'_>, value: &str) -> Result<(), HandlerError> {
        let [ip, ether] = &split_words(value)[..] else {
            return Err(HandlerError::failed("expected 'IP ETH'"));
        };
        let (ip, ether): (Ipv6Addr, EtherAddress) = (parse_seen(cx, ip)?, parse_seen(cx, ether)?);
        let waited = self.neighbours.insert(ip, ether.0, cx.now());
        for packet in waited.map_err(|()| HandlerError::failed("too many addresses"))? {
            self.send(cx, packet, ether.0);
        }
        Ok(())
    }
}

impl Element for Ip6NdSolicitor {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let limits = &mut self.neighbours.limits;
        let mut capacity = limits.packets_max as u32;
        let mut entries = limits.addresses_max as u32;
        let mut entry_packets = limits.address_packets_max as u32;
        args.read_mp("IP", &mut self.ip)
            .read_mp("ETH", &mut self.ether)
            .read("CAPACITY", &mut capacity)
            .read("ENTRY_CAPACITY", &mut entries)
            .read("ENTRY_PACKET_CAPACITY", &mut entry_packets)
            .read("TIMEOUT", &mut limits.timeout)
            .read("POLL_TIMEOUT", &mut limits.poll_timeout);
        limits.packets_max = capacity as usize;
        limits.addresses_max = entries as usize;
        limits.address_packets_max = entry_packets.max(1) as usize;
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, mut batch: Batch) {
        for packet in batch.drain() {
            if input == 0 {
                self.route(cx, packet);
            } else {
                self.hear(cx, packet.data());
                cx.consume(packet);
            }
        }
        cx.pool().recycle_empty(batch);
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        self.timer_at = None;
        let due = self.neighbours.tick(cx.now());
        for address in due.ask {
            self.ask(cx, address, None);
        }
        for packet in due.unreachable {
            if cx.has_output(NOT_REACHED) {
                cx.emit(NOT_REACHED, packet);
            } else {
                self.drop_packet(cx, packet, UNREACHABLE);
            }
        }
        if let Some(next) = due.next {
            self.run_timer_by(cx, next);
        }
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("table").expensive(),
                HandlerSpec::read("stats"),
                HandlerSpec::read("queries"),
                HandlerSpec::read("drops"),
                HandlerSpec::read("length"),
                HandlerSpec::write("insert"),
                HandlerSpec::write("delete"),
                HandlerSpec::button("clear"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "table" => {
                let line = |(ip, ether): (Ipv6Addr, Option<[u8; 6]>)| {
                    let known = u8::from(ether.is_some());
                    format!("{ip} {known} {}\n", EtherAddress(ether.unwrap_or_default()))
                };
                self.neighbours.iter(cx.now()).map(line).collect()
            }
            "stats" => format!(
                "{} packets killed\n{} ND Solicitation Message sent\n",
                self.drops, self.queries
            ),
            "queries" => self.queries.to_string(),
            "drops" => self.drops.to_string(),
            _ => self.neighbours.waiting().to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "insert" => self.insert(cx, value)?,
            "delete" => {
                for packet in self.neighbours.forget(parse_seen(cx, value)?) {
                    self.drop_packet(cx, packet, DELETED);
                }
            }
            _ => {
                for packet in self.neighbours.forget_all() {
                    self.drop_packet(cx, packet, DELETED);
                }
            }
        }
        Ok(String::new())
    }

    fn held(&self) -> usize {
        self.neighbours.waiting()
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        (self.queries, self.drops) = (old.queries, old.drops);
        if (self.ip, self.ether) != (old.ip, old.ether) {
            return;
        }
        let limits = self.neighbours.limits;
        std::mem::swap(&mut self.neighbours, &mut old.neighbours);
        self.neighbours.limits = limits;
        let now = cx.now();
        self.run_timer_by(cx, now);
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Router;
    use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost, Transcript};
    use warpswitch_packet::packet::PacketType;

    use super::super::neighbour_message::FLAG_ROUTER;
    use super::super::testing::{Shown, addr, ipv6, registry, shown};
    use super::*;

    const CONFIG: &str = "Idle -> [0]nd :: IP6NDSolicitor(fe80::1, 02:00:00:00:00:01,
        ENTRY_PACKET_CAPACITY 2); Idle -> [1]nd; nd[0] -> Show(0); nd[1] -> Show(1);";

    /// A solicitor, and what it sent so far.
    struct Run {
        router: Router,
        transcript: Transcript,
        seen: usize,
    }

    impl Run {
        fn new(config: &str) -> Self {
            let made = warpswitch_graph::simulate::router(config, &registry());
            let (router, transcript) = made.map_err(|errors| errors.to_click()).expect("right");
            Self { router, transcript, seen: 0 }
        }

        /// The packets sent since the last call.
        fn sent(&mut self) -> Vec<Shown> {
            let (all, _) = shown(&self.transcript.said());
            let new = all[self.seen..].to_vec();
            self.seen = all.len();
            assert_eq!(self.router.packets_unaccounted(), 0);
            new
        }

        fn push(&mut self, input: usize, bytes: &[u8], dst: &str) -> Vec<Shown> {
            let element = self.router.graph().elements.iter().position(|e| e.name == "nd");
            let mut batch = self.router.pool().batch();
            let mut packet = self.router.pool().packet_of(bytes);
            packet.set_dst_ipv6(addr(dst).octets());
            packet.set_packet_type(PacketType::Host);
            batch.push(packet);
            self.router.push(element.expect("it is there"), input, batch);
            self.sent()
        }

        /// Sends a packet to `dst`.
        fn packet(&mut self, dst: &str) -> Vec<Shown> {
            self.push(0, &ipv6(&[self.seen as u8; 4], |_| {}), dst)
        }

        /// Receives an advertisement that `target` is at `link`.
        fn advertise(&mut self, target: &str, link: [u8; 6], flags: u8) -> Vec<Shown> {
            let said = NeighbourMessage {
                kind: Kind::Advertisement,
                ether_src: link,
                ether_dst: [2, 0, 0, 0, 0, 1],
                src: addr(target),
                dst: addr("fe80::1"),
                target: addr(target),
                flags: FLAG_ROUTER | flags,
                link: Some(link),
            };
            let frame = said.packet(&mut warpswitch_packet::Pool::new()).data().to_vec();
            self.push(1, &frame, "::")
        }

        /// Lets time pass from the start on; what was sent meanwhile.
        fn wait(&mut self, seconds: u64) -> Vec<Shown> {
            let mut host = SimulatedHost::default();
            host.end = Some(SIMULATED_START + Duration::from_secs(seconds));
            self.router.run(&mut host);
            self.sent()
        }
    }

    fn question(shown: &Shown) -> NeighbourMessage {
        NeighbourMessage::parse(&shown.bytes, Kind::Solicitation).expect("a solicitation")
    }

    #[test]
    fn packets_wait_for_an_answer_and_leave_in_order() {
        let mut run = Run::new(CONFIG);
        let sent = run.packet("fe80::1:2:3:4");
        assert_eq!((sent.len(), &sent[0].label[..]), (1, "1"));
        let asked = question(&sent[0]);
        assert_eq!((asked.src, asked.dst), (addr("fe80::1"), addr("ff02::1:ff03:4")));
        assert_eq!(asked.ether_dst, [0x33, 0x33, 0xff, 3, 0, 4]);
        assert_eq!(asked.link, Some([2, 0, 0, 0, 0, 1]));
        assert!(run.packet("fe80::1:2:3:4").is_empty(), "it is asked for once a second");
        assert_eq!(run.router.read("nd.length"), Ok("2".into()));
        run.packet("fe80::1:2:3:4");
        assert_eq!(run.router.read("nd.drops"), Ok("1".into()), "two may wait");
        let sent = run.advertise("fe80::1:2:3:4", [4; 6], FLAG_SOLICITED | FLAG_OVERRIDE);
        assert_eq!(sent.len(), 2);
        for shown in &sent {
            assert_eq!(shown.label, "0");
            assert_eq!(shown.bytes[..14], [4, 4, 4, 4, 4, 4, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
            assert_eq!(shown.ipv6(14).dst(), addr("2001:db8:1::2"));
        }
        assert_eq!(run.packet("fe80::1:2:3:4").len(), 1, "it is known now");
        assert_eq!(run.router.read("nd.table"), Ok("fe80::1:2:3:4 1 04-04-04-04-04-04\n".into()));
        let stats = "1 packets killed\n1 ND Solicitation Message sent\n";
        assert_eq!(run.router.read("nd.stats"), Ok(stats.into()));
    }

    #[test]
    fn who_does_not_answer_is_unreachable() {
        let config = CONFIG.replace("nd[1] -> Show(1)", "nd[1] -> Show(1); nd[2] -> Show(2)");
        let mut run = Run::new(&config);
        run.packet("fe80::5");
        let labels: String = run.wait(10).iter().map(|shown| shown.label.as_str()).collect();
        assert_eq!(labels, "112");
        assert_eq!(run.router.read("nd.table"), Ok(String::new()));
        let mut run = Run::new(CONFIG);
        run.packet("fe80::5");
        assert_eq!(run.wait(10).len(), 2);
        let drops = run.router.read("nd.drops_by_reason").expect("it is there");
        assert!(drops.contains("1\tunreachable\n"), "{drops}");
    }

    #[test]
    fn groups_need_no_answer_and_no_address_has_none() {
        let mut run = Run::new(CONFIG);
        let sent = run.packet("ff0e::1:2");
        assert_eq!(sent[0].bytes[..6], [0x33, 0x33, 0, 1, 0, 2]);
        assert!(run.packet("::").is_empty());
        let drops = run.router.read("nd.drops_by_reason").expect("it is there");
        assert!(drops.starts_with("1\tno destination\n"), "{drops}");
    }

    #[test]
    fn what_is_no_advertisement_teaches_nothing() {
        let mut run = Run::new(CONFIG);
        run.packet("fe80::5");
        assert!(run.advertise("fe80::5", [5; 6], FLAG_SOLICITED).is_empty(), "a group's");
        assert!(run.push(1, &[0; 90], "::").is_empty());
        assert!(run.advertise("fe80::6", [4; 6], FLAG_SOLICITED).is_empty());
        assert_eq!(run.router.read("nd.table"), Ok("fe80::5 0 00-00-00-00-00-00\n".into()));
    }

    #[test]
    fn handlers_change_what_is_known() {
        let mut run = Run::new(CONFIG);
        run.packet("fe80::5");
        run.router.write("nd.insert", "fe80::5 04:04:04:04:04:05").expect("it obeys");
        assert_eq!(run.sent()[0].bytes[..6], [4, 4, 4, 4, 4, 5]);
        assert!(run.router.write("nd.insert", "fe80::5").is_err());
        run.router.write("nd.delete", "fe80::5").expect("it obeys");
        assert_eq!(run.packet("fe80::5")[0].label, "1");
        run.router.write("nd.clear", "").expect("it obeys");
        assert_eq!(run.router.read("nd.length"), Ok("0".into()));
        let drops = run.router.read("nd.drops_by_reason").expect("it is there");
        assert!(drops.contains("1\tdeleted\n"), "{drops}");
    }
}
