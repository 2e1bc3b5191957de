//! The frames of a run: UDP flows that are generated, or frames of a trace or capture.
//!
//! A generated flow differs from the others by its source port, and beyond [`PORTS`] flows by its
//! source address. All frames of one size are copies of one template; addresses and checksums are
//! updated.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use warpswitch_packet::{Packet, Pool};
use warpswitch_wire::checksum::{update_u32, update_udp_u16, update_udp_u32};
use warpswitch_wire::ethernet::{self, EtherType, Ethernet, EthernetRepr, MacAddr};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{self, Ipv4, Ipv4Repr};
use warpswitch_wire::parse::parse_ethernet;
use warpswitch_wire::udp::{self, Udp, UdpRepr};

use super::probe::{Probe, ProbePlace, Purpose};
use super::sizes::FrameSize;

/// The most flows, a bound of memory.
pub const FLOWS_MAX: usize = 1 << 20;
/// The most bytes of loaded frames.
const LOADED_BYTES_MAX: usize = 256 << 20;
/// Flows of one source address, by port.
const PORTS: u32 = 16_384;
/// Port of the first flow: ports from here on are dynamic (RFC 6335).
const FIRST_PORT: u16 = 49_152;
/// Destination port: discard (RFC 863).
const DST_PORT: u16 = 9;

const IP_AT: usize = ethernet::HEADER_BYTES;
const UDP_AT: usize = IP_AT + ipv4::HEADER_BYTES;

/// Generated flows.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    /// Size of frames.
    pub size: FrameSize,
    /// Number of flows, 1 to [`FLOWS_MAX`].
    pub flows: u32,
    /// Source address of the first flow.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

impl FlowSpec {
    /// Number of source addresses.
    pub fn addresses(&self) -> u32 {
        self.flows.div_ceil(PORTS)
    }
}

/// A frame to copy.
#[derive(Clone, Debug)]
struct Template {
    bytes: Vec<u8>,
    place: Option<ProbePlace>,
    flow: u32,
}

/// A frame in a packet: its flow, and where the probe goes.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    pub flow: u32,
    pub place: Option<ProbePlace>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct FrameSet {
    templates: Vec<Template>,
    next: usize,
    flows: u32,
    /// The next flow of generated frames; none for loaded ones, which have their own.
    next_flow: Option<u32>,
}

impl FrameSet {
    /// Generated flows.
    pub fn generate(spec: &FlowSpec) -> Self {
        let templates = spec.size.cycle().into_iter().map(|bytes| {
            let bytes = udp_frame(bytes, spec.src, spec.dst);
            Template { place: ProbePlace::find(&bytes), bytes, flow: 0 }
        });
        let templates = templates.collect();
        Self { templates, next: 0, flows: spec.flows, next_flow: Some(0) }
    }

    /// No frames yet; [`Loading::add`] appends some.
    pub fn empty() -> Loading {
        let set = Self { templates: Vec::new(), next: 0, flows: 0, next_flow: None };
        Loading { set, flows: HashMap::new(), bytes: 0 }
    }

    /// Number of flows.
    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// Frames before they repeat, apart from flows.
    pub fn len(&self) -> usize {
        self.templates.len()
    }

    /// How many of [`FrameSet::len`] have no room for a probe.
    pub fn without_probe(&self) -> usize {
        self.templates.iter().filter(|template| template.place.is_none()).count()
    }

    /// Sets the Ethernet addresses of all frames.
    pub fn set_macs(&mut self, src: Option<MacAddr>, dst: Option<MacAddr>) {
        for template in &mut self.templates {
            let mut view = Ethernet::new_unchecked(&mut template.bytes[..]);
            if let Some(src) = src {
                view.set_src(src);
            }
            if let Some(dst) = dst {
                view.set_dst(dst);
            }
        }
    }

    /// The next frame, without its probe.
    pub fn next(&mut self, pool: &mut Pool) -> (Packet, Prepared) {
        let template = &self.templates[self.next];
        self.next = (self.next + 1) % self.templates.len();
        let mut packet = pool.packet_of(&template.bytes);
        let flow = match &mut self.next_flow {
            Some(next) => {
                let flow = *next;
                *next = (flow + 1) % self.flows;
                set_flow(packet.data_mut(), flow);
                flow
            }
            None => template.flow,
        };
        (packet, Prepared { flow, place: template.place })
    }

    /// A frame by which devices learn addresses; none if no frame has room for a probe.
    pub fn learning_frame(&self, run: u16) -> Option<Vec<u8>> {
        let found = self.templates.iter().find_map(|template| Some((template, template.place?)));
        let (template, place) = found?;
        let mut bytes = template.bytes.clone();
        let (purpose, flow, sequence, time_ns) = (Purpose::Learn, 0, 0, 0);
        place.write(&mut bytes, Probe { purpose, run, flow, sequence, time_ns });
        Some(bytes)
    }
}

/// A set that is being loaded: packets of equal addresses and ports are one flow.
#[derive(Debug)]
pub struct Loading {
    set: FrameSet,
    flows: HashMap<Vec<u8>, u32>,
    bytes: usize,
}

impl Loading {
    /// Appends an Ethernet frame. Returns whether there was room; see [`FLOWS_MAX`].
    pub fn add(&mut self, frame: &[u8]) -> bool {
        if frame.len() < ethernet::HEADER_BYTES {
            return true;
        }
        self.bytes += frame.len();
        let next = self.flows.len() as u32;
        let flow = *self.flows.entry(flow_key(frame)).or_insert(next);
        let has_room = self.bytes <= LOADED_BYTES_MAX && self.flows.len() <= FLOWS_MAX;
        if has_room {
            let bytes = frame.to_vec();
            self.set.templates.push(Template { place: ProbePlace::find(frame), bytes, flow });
            self.set.flows = self.flows.len() as u32;
        }
        has_room
    }

    /// The frames; `None` if none of them has room for a probe.
    pub fn finish(self) -> Option<FrameSet> {
        let has_probe = self.set.templates.iter().any(|template| template.place.is_some());
        has_probe.then_some(self.set)
    }
}

/// Addresses, protocol and ports; of other frames the Ethernet addresses.
fn flow_key(frame: &[u8]) -> Vec<u8> {
    let Ok(parsed) = parse_ethernet(frame) else { return frame[..12].to_vec() };
    let ports = parsed.transport_bytes(frame);
    let ports = &ports[..ports.len().min(4)];
    if let Some(packet) = parsed.ipv4(frame) {
        return [&packet.src().octets()[..], &packet.dst().octets(), &[packet.proto().0], ports]
            .concat();
    }
    match parsed.ipv6(frame) {
        Some(packet) => {
            let proto = [parsed.ip_proto.0];
            [&packet.src().octets()[..], &packet.dst().octets(), &proto, ports].concat()
        }
        None => frame[..12].to_vec(),
    }
}

/// A UDP frame of the first flow; payload bytes count up.
fn udp_frame(frame_bytes: usize, src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..frame_bytes).map(|at| at as u8).collect();
    let ether_type = EtherType::IPV4;
    EthernetRepr { ether_type, ..EthernetRepr::default() }
        .emit(&mut Ethernet::new_unchecked(&mut frame[..]));
    let payload_bytes = frame_bytes - UDP_AT - udp::HEADER_BYTES;
    let datagram_bytes = frame_bytes - UDP_AT;
    Ipv4Repr::new(src, dst, IpProto::UDP, datagram_bytes)
        .emit(&mut Ipv4::new_unchecked(&mut frame[IP_AT..]));
    let pseudo = Ipv4::new_unchecked(&frame[IP_AT..]).pseudo_header();
    let mut datagram = Udp::new_unchecked(&mut frame[UDP_AT..]);
    UdpRepr { src_port: FIRST_PORT, dst_port: DST_PORT, payload_bytes }.emit(&mut datagram);
    datagram.fill_checksum(&pseudo);
    frame
}

/// Makes a frame of the first flow one of `flow`.
fn set_flow(frame: &mut [u8], flow: u32) {
    let port = FIRST_PORT + (flow % PORTS) as u16;
    if port != FIRST_PORT {
        let mut datagram = Udp::new_unchecked(&mut frame[UDP_AT..]);
        let checksum = update_udp_u16(datagram.checksum(), FIRST_PORT, port);
        datagram.set_src_port(port);
        datagram.set_checksum(checksum);
    }
    let addresses_before = flow / PORTS;
    if addresses_before > 0 {
        let mut packet = Ipv4::new_unchecked(&mut frame[IP_AT..]);
        let old = u32::from(packet.src());
        let new = old.wrapping_add(addresses_before);
        let checksum = update_u32(packet.checksum(), old, new);
        packet.set_src(Ipv4Addr::from(new));
        packet.set_checksum(checksum);
        let mut datagram = Udp::new_unchecked(&mut frame[UDP_AT..]);
        let checksum = update_udp_u32(datagram.checksum(), old, new);
        datagram.set_checksum(checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(size: FrameSize, flows: u32) -> FlowSpec {
        let (src, dst) = (Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2));
        FlowSpec { size, flows, src, dst }
    }

    /// Whether both checksums of an IPv4 UDP frame are right.
    fn is_right(frame: &[u8]) -> bool {
        let parsed = parse_ethernet(frame).unwrap();
        let (packet, datagram) = (parsed.ipv4(frame).unwrap(), parsed.udp(frame).unwrap());
        packet.is_checksum_right() && datagram.is_checksum_right(&packet.pseudo_header())
    }

    #[test]
    fn frames_of_all_sizes_and_flows_have_right_checksums_with_their_probe() {
        for size in ["64", "65", "512", "1518", "IMIX"] {
            let mut set = FrameSet::generate(&spec(size.parse().unwrap(), 3 * PORTS + 5));
            let mut pool = Pool::new();
            let mut keys = std::collections::HashSet::new();
            for number in 0..set.flows() {
                let (mut packet, prepared) = set.next(&mut pool);
                assert_eq!(prepared.flow, number);
                if number % 1_000 == 0 || number > set.flows() - 20 {
                    let (purpose, time_ns) = (Purpose::Measure, 1 << 40 | u64::from(number));
                    let probe = Probe { purpose, run: 7, flow: number, sequence: 9, time_ns };
                    prepared.place.unwrap().write(packet.data_mut(), probe);
                    assert!(is_right(packet.data()), "{size} {number}");
                    assert_eq!(Probe::read(packet.data()), Some(probe), "{size} {number}");
                }
                assert!(keys.insert(flow_key(packet.data())), "{number} has a flow of its own");
                pool.recycle(packet);
            }
        }
    }

    #[test]
    fn loaded_frames_of_equal_addresses_and_ports_are_one_flow() {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut loading = FrameSet::empty();
        for frame in [udp_frame(60, a, b), udp_frame(590, a, b), udp_frame(60, b, a), vec![0; 60]] {
            assert!(loading.add(&frame));
        }
        let mut set = loading.finish().unwrap();
        assert_eq!((set.len(), set.flows(), set.without_probe()), (4, 3, 1));
        let mut pool = Pool::new();
        let flows: Vec<u32> = (0..5).map(|_| set.next(&mut pool).1.flow).collect();
        assert_eq!(flows, [0, 0, 1, 2, 0]);
        let mut useless = FrameSet::empty();
        assert!(useless.add(&[0; 60]));
        assert!(useless.finish().is_none());
    }

    #[test]
    fn sets_both_ethernet_addresses() {
        let mut set = FrameSet::generate(&spec(FrameSize::Fixed(64), 1));
        let (src, dst) = (MacAddr([2; 6]), MacAddr([4; 6]));
        set.set_macs(Some(src), None);
        set.set_macs(None, Some(dst));
        let (packet, _) = set.next(&mut Pool::new());
        let view = Ethernet::new_unchecked(packet.data());
        assert_eq!((view.src(), view.dst()), (src, dst));
    }
}
