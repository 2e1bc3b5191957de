//! Encapsulates IP packets in Ethernet; resolves destination addresses with ARP.
//!
//! # Synopsis
//! `ARPQuerier(IP[/MASK], ETH, …)`, `ARPQuerier(NAME, …)`, where `NAME` is an `AddressInfo` name
//! with both addresses
//!
//! # Ports
//! Two push inputs. Input 0: IP packets with the destination annotation set. Input 1: ARP replies
//! with Ethernet header. Output 0: frames. Output 1: queries; they go to output 0 if it is not
//! connected. Output 2, optional: IP packets, unchanged, whose destination did not reply.
//!
//! # Configuration
//! - `IP`, `ETH`: own addresses
//! - `TABLE`: an `ARPTable`, or another `ARPQuerier`, whose table is shared, including its limits
//! - `CAPACITY`, `ENTRY_CAPACITY`, `ENTRY_PACKET_CAPACITY`, `CAPACITY_SLIM_FACTOR`, `TIMEOUT`: as
//!   in `ARPTable`
//! - `POLL_TIMEOUT`: age at which an entry that is in use is queried again, default: 1 minute; 0
//!   disables polling
//! - `BROADCAST`: broadcast address, default: that of `IP/MASK`, or 255.255.255.255 without a mask
//! - `BROADCAST_POLL`: whether polls are broadcast instead of unicast, default: false
//!
//! Packets for an unresolved address are held until the reply arrives. Queries per address are
//! limited to ten per second, and to one every two seconds after ten queries without reply. Packets
//! to 255.255.255.255 and to `BROADCAST` are sent to the Ethernet broadcast address, multicast
//! packets to the group address of RFC 1112.
//!
//! If output 2 is connected, an address is queried three times, one second apart (RFC 1122,
//! 2.3.2.1). Packets still held one second later are emitted on output 2, so that an `ICMPError`
//! can notify their senders (RFC 1812, 3.3.2). The next packet for the address starts over. With a
//! `TIMEOUT` below three seconds, the entry expires first.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `ipaddr`, `broadcast` | read, write | IP address |
//! | `table`, `count`, `length` | read | as in `ARPTable` |
//! | `insert`, `delete`, `clear` | write | as in `ARPTable` |
//! | `queries`, `responses` | read | packets |
//! | `drops` | read | packets dropped as `no destination` or `no address` |
//! | `stats` | read | these drops plus those of the table, and queries |
//!
//! # Drops
//! - `too many wait`, `no answer`, `forgotten`: as in `ARPTable`, for its own table
//! - `no destination`: the destination annotation is 0.0.0.0
//! - `no address`: `IP` is 0.0.0.0
//! - `too many for one`: `ENTRY_PACKET_CAPACITY` packets are held for the address
//! - `too long`: the frame would exceed the maximum packet length
//!
//! # Threads
//! Runs on one worker, the same as its `TABLE`.
//!
//! # Example
//! ```text
//! c :: Classifier(12/0806 20/0002, 12/0800);
//! c[0] -> [1] q :: ARPQuerier(10.0.0.1/24, 0:0:5e:0:0:1); c[1] -> Strip(14) -> … -> [0] q;
//! q[0], q[1] -> Queue -> ToDevice(eth0);
//! q[2] -> ICMPError(10.0.0.1, unreachable, host) -> routes;
//! ```

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use warpswitch_graph::language::args::{
    Args, ArgsError, BareIpv4Prefix, ElementRef, EtherAddress, Ipv4Prefix,
};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::packet::{PACKET_BYTES_MAX, annotation};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::arp::{ArpRepr, OPERATION_REPLY, OPERATION_REQUEST};
use warpswitch_wire::ethernet::{EtherType, HEADER_BYTES, MacAddr};

use super::arp_table::{ArpTable, TimedTable, parse_delete, parse_insert, read_limits, read_table};
use super::neighbours::{ASK_INTERVAL, Asks, Held, Neighbours, Next, REASONS};
use super::{ARP_FRAME_BYTES, arp_of, header, push_header, set_arp, written_address};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ARPQuerier", "2/1-3", "h/h", || Box::new(ArpQuerier::new()))
        .flow("xy/x")
        .drops(&[
            REASONS[0],
            REASONS[1],
            REASONS[2],
            "no destination",
            "no address",
            "too many for one",
            "too long",
        ]);

/// Reasons for drops, by number, beside those of the table.
const NO_DESTINATION: usize = 3;
const NO_ADDRESS: usize = 4;
const TOO_MANY_FOR_ONE: usize = 5;
const TOO_LONG: usize = 6;

/// The output of packets whose destination did not answer.
const UNANSWERED: usize = 2;
/// The timer that repeats queries; timer 0 is the table's.
const ASK_TIMER: usize = 1;
/// Addresses whose queries the timer repeats, at most; if there are more, the oldest are left out.
const ASKED_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub struct ArpQuerier {
    ip: Ipv4Addr,
    mac: EtherAddress,
    broadcast: Ipv4Addr,
    poll_after: Duration,
    polls_all: bool,
    /// Its own table, if it has no other.
    pub(super) table: TimedTable,
    /// The element whose table it uses.
    shared: Option<usize>,
    /// With output 2: the queried addresses and when they were queried, the oldest first.
    asked: VecDeque<(u32, Time)>,
    queries: u64,
    responses: u64,
    drops: u64,
    has_warned: bool,
}

/// Where a packet goes.
enum Way {
    /// To this Ethernet address.
    To([u8; 6]),
    /// To this Ethernet address, which is also to be queried again.
    Polls([u8; 6]),
    /// It is not known where.
    Unknown,
}

impl ArpQuerier {
    fn new() -> Self {
        Self {
            ip: Ipv4Addr::UNSPECIFIED,
            mac: EtherAddress::default(),
            broadcast: Ipv4Addr::BROADCAST,
            poll_after: Duration::from_secs(60),
            polls_all: false,
            table: TimedTable::default(),
            shared: None,
            asked: VecDeque::new(),
            queries: 0,
            responses: 0,
            drops: 0,
            has_warned: false,
        }
    }

    /// Does `work` with the table, wherever it is. It is taken away meanwhile and then put back: it
    /// is moved, not copied.
    fn with_table<R>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Self, &mut Context<'_>, &mut Neighbours) -> R,
    ) -> R {
        let mut neighbours = match self.shared {
            None => std::mem::take(&mut self.table.neighbours),
            Some(owner) => with_owner(cx, owner, |table, _| std::mem::take(&mut table.neighbours)),
        };
        let result = work(self, cx, &mut neighbours);
        match self.shared {
            None => {
                self.table.neighbours = neighbours;
                self.table.arm(cx);
            }
            Some(owner) => with_owner(cx, owner, |table, cx| {
                table.neighbours = neighbours;
                table.arm(cx);
            }),
        }
        result
    }

    /// Sends `to` a query for `address`; `note` is the timestamp and VLAN tag of its packet.
    fn query(&mut self, cx: &mut Context<'_>, address: [u8; 4], to: [u8; 6], note: (i64, u16)) {
        let arp = ArpRepr {
            operation: OPERATION_REQUEST,
            sender_mac: MacAddr(self.mac.0),
            sender_ip: self.ip,
            target_mac: MacAddr([0; 6]),
            target_ip: address.into(),
        };
        let mut query = cx.pool().packet();
        set_arp(&mut query, MacAddr(to), &arp);
        query.set_timestamp_ns(note.0);
        query.set_anno_u16(annotation::VLAN_TCI, note.1);
        self.queries += 1;
        cx.emit(usize::from(cx.has_output(1)), query);
    }

    #[inline]
    fn way(&self, cx: &Context<'_>, neighbours: &mut Neighbours, address: [u8; 4]) -> Way {
        let found = neighbours.lookup(u32::from_be_bytes(address), cx.now(), self.poll_after);
        match (found, Ipv4Addr::from(address)) {
            (Some((mac, false)), _) => Way::To(mac),
            (Some((mac, true)), _) => Way::Polls(mac),
            (None, to) if to.is_broadcast() || to == self.broadcast => Way::To([0xff; 6]),
            (None, to) if to.is_multicast() => {
                let [_, b, c, d] = address;
                Way::To([0x01, 0x00, 0x5e, b & 0x7f, c, d])
            }
            _ => Way::Unknown,
        }
    }

    /// Handles one IP packet; gives it back if it goes on.
    fn handle_ip(
        &mut self,
        cx: &mut Context<'_>,
        neighbours: &mut Neighbours,
        mut packet: Packet,
    ) -> Option<Packet> {
        if packet.len() > PACKET_BYTES_MAX - HEADER_BYTES {
            cx.drop_packet(packet, TOO_LONG);
            return None;
        }
        let address = packet.dst_ipv4();
        // What a query takes over from the packet.
        let note = (packet.timestamp_ns(), packet.anno_u16(annotation::VLAN_TCI));
        let to = match self.way(cx, neighbours, address) {
            Way::To(mac) => mac,
            Way::Polls(mac) => {
                self.query(cx, address, if self.polls_all { [0xff; 6] } else { mac }, note);
                mac
            }
            Way::Unknown => {
                self.hold(cx, neighbours, packet, note);
                return None;
            }
        };
        push_header(&mut packet, &header(EtherAddress(to), self.mac, EtherType::IPV4.0));
        Some(packet)
    }

    #[cold]
    fn hold(
        &mut self,
        cx: &mut Context<'_>,
        neighbours: &mut Neighbours,
        packet: Packet,
        note: (i64, u16),
    ) {
        let address = packet.dst_ipv4();
        if address == [0; 4] {
            if !std::mem::replace(&mut self.has_warned, true) {
                let declaration = cx.declaration();
                cx.say(&format!(
                    "{declaration}: would query for 0.0.0.0; missing dest IP addr annotation?"
                ));
            }
            self.drops += 1;
            return cx.drop_packet(packet, NO_DESTINATION);
        }
        let now = cx.now();
        let asks = if cx.has_output(UNANSWERED) { Asks::Clock } else { Asks::Packets };
        match neighbours.hold(cx, u32::from_be_bytes(address), now, packet, asks) {
            Held::Waits(true) => {
                self.query(cx, address, [0xff; 6], note);
                if asks == Asks::Clock {
                    self.ask_later(cx, u32::from_be_bytes(address));
                }
            }
            Held::Waits(false) => {}
            Held::Refused(packet) => cx.drop_packet(packet, TOO_MANY_FOR_ONE),
        }
    }

    /// Has the timer repeat the query for `address`, which was sent now.
    fn ask_later(&mut self, cx: &mut Context<'_>, address: u32) {
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((address, cx.now()));
        self.set_clock(cx);
    }

    fn set_clock(&self, cx: &mut Context<'_>) {
        if let Some(&(_, asked_at)) = self.asked.front() {
            cx.set_timer(ASK_TIMER, asked_at + ASK_INTERVAL);
        }
    }

    /// Repeats unanswered queries; after the last one, emits the held packets by output 2.
    fn ask_again(&mut self, cx: &mut Context<'_>, neighbours: &mut Neighbours) {
        let now = cx.now();
        while let Some(&(address, asked_at)) = self.asked.front()
            && asked_at + ASK_INTERVAL <= now
        {
            self.asked.pop_front();
            match neighbours.ask_again(address, asked_at, now) {
                Next::Nothing => {}
                Next::Ask(tag) => {
                    self.query(cx, address.to_be_bytes(), [0xff; 6], (now.0, tag));
                    self.asked.push_back((address, now));
                }
                Next::GiveUp => {
                    while let Some(packet) = neighbours.next_waiting(address) {
                        cx.emit(UNANSWERED, packet);
                    }
                    neighbours.remove(cx, address);
                }
            }
        }
        self.set_clock(cx);
    }

    /// Learns the address in a frame with an ARP reply, and sends the packets held for it.
    fn handle_response(&mut self, cx: &mut Context<'_>, neighbours: &mut Neighbours, frame: &[u8]) {
        self.responses += u64::from(frame.len() >= ARP_FRAME_BYTES);
        let reply = arp_of(frame)
            .filter(|arp| arp.operation == OPERATION_REPLY && !arp.sender_mac.is_multicast());
        if let Some(reply) = reply {
            self.learn(cx, neighbours, reply.sender_ip.into(), reply.sender_mac.0);
        }
    }

    fn learn(
        &mut self,
        cx: &mut Context<'_>,
        neighbours: &mut Neighbours,
        address: u32,
        mac: [u8; 6],
    ) {
        let now = cx.now();
        neighbours.insert(cx, address, mac, now);
        if MacAddr(mac).is_multicast() {
            return;
        }
        let header = header(EtherAddress(mac), self.mac, EtherType::IPV4.0);
        while let Some(mut packet) = neighbours.next_waiting(address) {
            push_header(&mut packet, &header);
            cx.emit(0, packet);
        }
    }
}

/// Does `work` with the table of element `owner`, an `ARPTable` or an `ARPQuerier`.
fn with_owner<R>(
    cx: &mut Context<'_>,
    owner: usize,
    work: impl FnOnce(&mut TimedTable, &mut Context<'_>) -> R,
) -> R {
    let mut work = Some(work);
    let mut once = |table: &mut TimedTable, cx: &mut Context<'_>| {
        let work = work.take().expect("one of the two is called");
        work(table, cx)
    };
    let result = cx.with_element(owner, |other: &mut ArpTable, cx| once(&mut other.table, cx));
    let result = result.or_else(|| {
        cx.with_element(owner, |other: &mut ArpQuerier, cx| once(&mut other.table, cx))
    });
    result.expect("it was checked when the element was initialized")
}

impl Element for ArpQuerier {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut broadcast, mut table) = (None::<Ipv4Addr>, None::<ElementRef>);
        read_limits(args, &mut self.table.neighbours.limits);
        args.read("BROADCAST", &mut broadcast)
            .read("TABLE", &mut table)
            .read("POLL_TIMEOUT", &mut self.poll_after)
            .read("BROADCAST_POLL", &mut self.polls_all);
        self.shared = table.map(|table| table.0).filter(|table| *table != context.element);
        if let Some(table) = self.shared {
            let class = context.graph.elements[table].class.as_str();
            if !matches!(class, "ARPTable" | "ARPQuerier") {
                args.error_at("TABLE", "type mismatch, expected ARPTable");
            }
        }
        // One name may stand for both addresses.
        let mut addresses = args.rest();
        if addresses.len() == 1 {
            addresses.push(addresses[0].clone());
        }
        let mut ip = BareIpv4Prefix(Ipv4Prefix::new(self.ip, 32));
        let mut own = Args::with_names(&addresses.join(", "), context.names);
        let read = own.read_mp("IP", &mut ip).read_mp("ETH", &mut self.mac).complete();
        if let Err(error) = read {
            error.messages.iter().for_each(|message| args.error_at("", message));
        }
        let BareIpv4Prefix(prefix) = ip;
        self.ip = prefix.address;
        let last = Ipv4Addr::from(u32::from(prefix.address) | !u32::from(prefix.mask));
        let usual = if last == self.ip { Ipv4Addr::BROADCAST } else { last };
        self.broadcast = broadcast.unwrap_or(usual);
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        // A table that is another querier's may in turn be shared: it is found at the end.
        let mut hops = 0;
        while let Some(owner) = self.shared
            && let Some(Some(next)) =
                cx.with_element(owner, |other: &mut ArpQuerier, _| other.shared)
        {
            self.shared = Some(next).filter(|next| *next != cx.element());
            hops += 1;
            if hops > cx.graph().elements.len() {
                return Err("TABLE forms a cycle of shared tables".into());
            }
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, mut batch: Batch) {
        if input == 1 {
            self.with_table(cx, |querier, cx, neighbours| {
                for packet in batch.iter() {
                    querier.handle_response(cx, neighbours, packet.data());
                }
            });
            return cx.consume_batch(batch);
        }
        if self.ip.is_unspecified() {
            self.drops += batch.len() as u64;
            return cx.drop_batch(batch, NO_ADDRESS);
        }
        self.with_table(cx, |querier, cx, neighbours| {
            if cx.outputs() > 1 {
                batch.sift(|packet| querier.handle_ip(cx, neighbours, packet));
            } else {
                // Queries and packets leave through one output, in order.
                for packet in batch.drain() {
                    if let Some(packet) = querier.handle_ip(cx, neighbours, packet) {
                        cx.emit(0, packet);
                    }
                }
            }
        });
        cx.emit_batch(0, batch);
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, timer: usize) {
        match timer {
            ASK_TIMER => self.with_table(cx, Self::ask_again),
            _ => self.table.run_timer(cx),
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
                HandlerSpec::read("count"),
                HandlerSpec::read("length"),
                HandlerSpec::read("queries"),
                HandlerSpec::read("responses"),
                HandlerSpec::read("drops"),
                HandlerSpec::both("broadcast"),
                HandlerSpec::both("ipaddr"),
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
            "queries" => self.queries.to_string(),
            "responses" => self.responses.to_string(),
            "drops" => self.drops.to_string(),
            "broadcast" => self.broadcast.to_string(),
            "ipaddr" => self.ip.to_string(),
            "stats" => {
                let waited = self.with_table(cx, |_, _, neighbours| neighbours.drops());
                format!(
                    "{} packets killed\n{} ARP queries sent\n",
                    self.drops + waited,
                    self.queries
                )
            }
            name => {
                return self.with_table(cx, |_, cx, neighbours| read_table(neighbours, cx, name));
            }
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let address = |cx: &Context<'_>| {
            written_address(cx, value).ok_or_else(|| HandlerError::failed("expected IP address"))
        };
        match name {
            "broadcast" => self.broadcast = address(cx)?,
            "ipaddr" => self.ip = address(cx)?,
            "insert" => {
                let (ip, mac) = parse_insert(cx, value)?;
                self.with_table(cx, |querier, cx, table| querier.learn(cx, table, ip, mac));
            }
            "delete" => {
                let ip = parse_delete(cx, value)?;
                self.with_table(cx, |_, cx, neighbours| neighbours.remove(cx, ip));
            }
            _ => {
                (self.queries, self.responses, self.drops) = (0, 0, 0);
                self.with_table(cx, |_, cx, neighbours| neighbours.clear(cx));
            }
        }
        Ok(String::new())
    }

    fn held(&self) -> usize {
        self.table.neighbours.packets()
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        if (self.ip, self.mac, self.broadcast) != (old.ip, old.mac, old.broadcast) {
            return;
        }
        if self.shared.is_none() && old.shared.is_none() {
            self.table.neighbours.take(&mut old.table.neighbours);
            self.table.arm(cx);
        }
        if cx.has_output(UNANSWERED) {
            self.asked = std::mem::take(&mut old.asked);
            self.set_clock(cx);
        }
        (self.queries, self.responses, self.drops) = (old.queries, old.responses, old.drops);
    }
}

#[cfg(test)]
mod tests;
