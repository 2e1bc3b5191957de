//! Builds packets from the fields of a summary.
//!
//! Fields are applied in the order of [`Spec::order`], so that each finds its prerequisites: a port
//! requires a transport header, which requires an IP header. Missing headers are created with
//! default values. Fields that the summary lacks are zero.

use std::net::Ipv4Addr;

use warpswitch_elements_support::annotation as own_annotation;
use warpswitch_graph::language::args::split::unquote;
use warpswitch_graph::language::args::{EtherAddress, FromArg, Names};
use warpswitch_packet::packet::PACKET_BYTES_MAX;
use warpswitch_packet::{Header, Packet, annotation};
use warpswitch_wire::checksum::{PseudoHeader, checksum};
use warpswitch_wire::ip::IpProto;

use super::options::{OPTIONS_BYTES_MAX, Which, read_ip, read_tcp};
use super::view::set_first_timestamp;
use super::write::TCP_FLAGS;
use super::{Field, Spec, Width, names};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const UDP_LITE: u8 = 136;

/// Bytes of an IP header without options.
const IP_BYTES: usize = 20;
/// Bytes of a TCP header without options.
const TCP_BYTES: usize = 20;
/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// The time to live of packets whose summary does not contain one.
const TTL: u8 = 100;

/// Addresses and ports of packets whose summary does not contain them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowId {
    pub(crate) src: Ipv4Addr,
    pub(crate) sport: u16,
    pub(crate) dst: Ipv4Addr,
    pub(crate) dport: u16,
}

/// What holds where columns are missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) proto: u8,
    pub(crate) flow_id: Option<FlowId>,
    pub(crate) aggregate: Option<u32>,
    /// The minor version of the dump: 0 counts fragments' offsets in eight bytes.
    pub(crate) minor_version: u32,
}

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Number(u64),
    Time(i64),
    Address([u8; 4]),
    Mac([u8; 6]),
    Bytes(Vec<u8>),
}

/// A number: decimal, `0x` hexadecimal, `0` octal.
pub(crate) fn number(text: &str) -> Option<u64> {
    u64::from_arg(text, &warpswitch_graph::language::args::NoNames).ok()
}

/// A time in seconds, or with a unit.
fn time(text: &str, names: &dyn Names) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let duration = std::time::Duration::from_arg(text, names).ok()?;
    i64::try_from(duration.as_nanos()).ok().map(|ns| sign * ns)
}

/// The bits of an offset of fragments, from text.
fn fragment(text: &str, minor_version: u32) -> Option<u64> {
    match text {
        "." => return Some(0),
        "!" => return Some(0x4000),
        "F" => return Some(0x2000),
        // Some fragment but the first.
        "f" => return Some(100),
        _ => {}
    }
    let digits = text.trim_end_matches(['!', '+']);
    let offset = number(digits)? >> if minor_version > 0 { 3 } else { 0 };
    let bit = |mark: char, bit: u64| if text[digits.len()..].contains(mark) { bit } else { 0 };
    (offset < 0x2000).then_some(offset | bit('!', 0x4000) | bit('+', 0x2000))
}

fn tcp_flags(text: &str) -> Option<u64> {
    if text == "." {
        return Some(0);
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return number(text).filter(|flags| *flags < 0x1000);
    }
    // Old dumps have other letters for two flags.
    let bit = |flag: char| match flag {
        'W' | 'Y' => Some(7),
        'X' => Some(6),
        _ => TCP_FLAGS.find(flag),
    };
    text.chars().try_fold(0, |flags, flag| Some(flags | 1 << bit(flag)?))
}

/// Parses `text` as the value of a field; none if it is invalid.
pub(crate) fn parse(spec: &Spec, text: &str, draft: &Draft, names: &dyn Names) -> Option<Input> {
    let limited = |value: u64| match spec.width {
        Width::Bytes(width @ 1..8) => value >> (8 * u32::from(width)) == 0,
        _ => true,
    };
    let number = match spec.field {
        Field::Nothing | Field::IpCaptureLen => return Some(Input::Number(0)),
        Field::Timestamp | Field::FirstTimestamp => return time(text, names).map(Input::Time),
        Field::EthSrc | Field::EthDst => {
            return EtherAddress::from_arg(text, names).ok().map(|mac| Input::Mac(mac.0));
        }
        Field::IpSrc | Field::IpDst => {
            let address = Ipv4Addr::from_arg(text, names).ok()?;
            return Some(Input::Address(address.octets()));
        }
        Field::IpOpt => return read_ip(text).map(Input::Bytes),
        Field::TcpOpt => return read_tcp(text, Which::All).map(Input::Bytes),
        Field::TcpNtOpt => return read_tcp(text, Which::NoTime).map(Input::Bytes),
        Field::TcpSack => return read_tcp(text, Which::Sack).map(Input::Bytes),
        Field::Payload => return Some(Input::Bytes(unquote(text))),
        Field::EthType => u64::from_str_radix(text.trim_start_matches("0x"), 16).ok(),
        Field::Link | Field::Direction => match text {
            ">" | "L" => Some(0),
            "<" | "R" | "X" => Some(1),
            _ => number(text),
        },
        Field::IpFrag | Field::IpFragOff => fragment(text, draft.defaults.minor_version),
        Field::IpProto => names::protocol(text).map(u64::from),
        Field::IpEcn => match text {
            "no" => Some(0),
            "ect1" | "ECT(1)" => Some(1),
            "ect2" | "ECT(0)" => Some(2),
            "ce" | "CE" => Some(3),
            _ => number(text).filter(|ecn| *ecn < 4),
        },
        Field::TcpFlags => tcp_flags(text),
        Field::IcmpType | Field::IcmpTypeName => names::icmp_type(text).map(u64::from),
        Field::IcmpCode | Field::IcmpCodeName => {
            names::icmp_code(draft.icmp_type, text).map(u64::from)
        }
        _ => number(text),
    };
    // Flags are nine, in a byte.
    let is_wide = spec.field == Field::TcpFlags || spec.field == Field::IpFrag;
    number.filter(|number| is_wide || limited(*number)).map(Input::Number)
}

/// Reads a field of a binary record, which loses its bytes.
pub(crate) fn parse_binary(spec: &Spec, record: &mut &[u8]) -> Option<Input> {
    let mut take = |bytes: usize| {
        let (head, rest) = record.split_at_checked(bytes)?;
        *record = rest;
        Some(head)
    };
    let word = |bytes: &[u8]| bytes.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    Some(match spec.width {
        Width::None | Width::TextOnly => Input::Number(0),
        Width::Micro | Width::Nano => {
            let (seconds, fraction) = (word(take(4)?), word(take(4)?));
            let unit = if spec.width == Width::Micro { 1000 } else { 1 };
            Input::Time(seconds as i64 * 1_000_000_000 + fraction as i64 * unit)
        }
        Width::Counted => {
            let bytes = usize::from(take(1)?[0]);
            Input::Bytes(take(bytes)?.to_vec())
        }
        Width::Bytes(width) => {
            let bytes = take(width.into())?;
            match spec.field {
                Field::EthSrc | Field::EthDst => Input::Mac(bytes.try_into().ok()?),
                Field::IpSrc | Field::IpDst => Input::Address(bytes.try_into().ok()?),
                Field::IpFrag => Input::Number(match bytes {
                    b"!" => 0x4000,
                    b"F" => 0x2000,
                    b"f" => 100,
                    _ => 0,
                }),
                _ => Input::Number(word(bytes)),
            }
        }
    })
}

/// A packet that is being made.
#[derive(Debug)]
pub(crate) struct Draft {
    bytes: Vec<u8>,
    defaults: Defaults,
    /// Where the network header starts.
    network: usize,
    /// Where the transport header starts, once there is an IP header.
    transport: usize,
    has_mac: bool,
    has_ip: bool,
    /// Whether it is an IP packet according to its EtherType.
    is_ip: bool,
    has_ip_header_bytes: bool,
    has_tcp_header_bytes: bool,
    icmp_type: Option<u8>,
    icmp_code: Option<u8>,
    /// Bytes that the whole packet is to have; 0 if unspecified.
    wanted: usize,
    timestamp_ns: i64,
    first_timestamp_ns: i64,
    extra_packets: u32,
    paint: u8,
    aggregate: Option<u32>,
}

impl Draft {
    /// An empty draft that uses the memory of `bytes`.
    pub(crate) fn new(mut bytes: Vec<u8>, defaults: Defaults) -> Self {
        bytes.clear();
        Self {
            bytes,
            defaults,
            network: 0,
            transport: 0,
            has_mac: false,
            has_ip: false,
            is_ip: true,
            has_ip_header_bytes: false,
            has_tcp_header_bytes: false,
            icmp_type: None,
            icmp_code: None,
            wanted: 0,
            timestamp_ns: 0,
            first_timestamp_ns: 0,
            extra_packets: 0,
            paint: 0,
            aggregate: defaults.aggregate,
        }
    }

    /// Writes `field` at `at`, as far as there are bytes.
    fn put(&mut self, at: usize, field: &[u8]) {
        for (byte, value) in self.bytes.iter_mut().skip(at).zip(field) {
            *byte = *value;
        }
    }

    /// Adds zeros until there are `bytes` bytes.
    fn grow(&mut self, bytes: usize) {
        if self.bytes.len() < bytes.min(PACKET_BYTES_MAX) {
            self.bytes.resize(bytes.min(PACKET_BYTES_MAX), 0);
        }
    }

    fn proto(&self) -> u8 {
        self.bytes.get(self.network + 9).copied().unwrap_or(0)
    }

    fn is_first_fragment(&self) -> bool {
        let bits = self.bytes.get(self.network + 6..self.network + 8).unwrap_or(&[0, 0]);
        u16::from_be_bytes([bits[0], bits[1]]) & 0x1fff == 0
    }

    /// Makes an Ethernet header.
    fn make_mac(&mut self) {
        if !self.has_mac {
            self.has_mac = true;
            self.bytes.splice(0..0, [0; ETHERNET_BYTES]);
            self.put(12, &[8, 0]);
            self.network = ETHERNET_BYTES;
        }
    }

    /// Makes an IP header. Returns whether the packet has one, of `proto` if one is given.
    fn make_ip(&mut self, proto: Option<u8>) -> bool {
        if !self.is_ip {
            return false;
        }
        if !self.has_ip {
            self.has_ip = true;
            self.grow(self.network + IP_BYTES);
            self.transport = self.network + IP_BYTES;
            let at = self.network;
            self.put(at, &[0x45]);
            self.put(at + 8, &[TTL, self.defaults.proto]);
            if let Some(flow) = self.defaults.flow_id {
                self.put(at + 12, &flow.src.octets());
                self.put(at + 16, &flow.dst.octets());
            }
        }
        proto.is_none_or(|proto| self.proto() == 0 || self.proto() == proto)
    }

    /// Makes the transport header of an IP packet. Returns whether there may be one.
    fn make_transport(&mut self) -> bool {
        if !self.is_first_fragment() {
            return false;
        }
        let mut bytes = match self.proto() {
            TCP => TCP_BYTES,
            UDP | UDP_LITE | ICMP => 8,
            DCCP => 12,
            _ => return true,
        };
        let start = self.transport;
        if self.wanted > 0 {
            bytes = bytes.min(self.wanted.saturating_sub(start));
        }
        let before = self.bytes.len().saturating_sub(start);
        if before >= bytes || before >= 8 {
            return true;
        }
        self.grow(start + bytes);
        if self.proto() == TCP && bytes >= 13 {
            self.put(start + 12, &[0x50]);
        }
        if let Some(flow) = self.defaults.flow_id {
            self.put(start, &flow.sport.to_be_bytes());
            self.put(start + 2, &flow.dport.to_be_bytes());
        }
        true
    }

    /// Makes the headers down to the transport header of `proto`, or of any.
    fn make_headers(&mut self, proto: Option<u8>) -> bool {
        self.make_ip(proto) && self.make_transport()
    }

    fn header_words(&self, at: usize, shift: u32) -> usize {
        self.bytes.get(at).map_or(0, |byte| usize::from(byte >> shift & 15))
    }

    /// Makes the header that starts at `start` `bytes` bytes long, by zeros behind its options.
    fn widen(&mut self, start: usize, old: usize, bytes: usize) {
        let end = start + old;
        if bytes > old && end <= self.bytes.len() {
            self.bytes.splice(end..end, std::iter::repeat_n(0, bytes - old));
        }
    }

    fn set_ip_header_bytes(&mut self, bytes: usize) {
        self.has_ip_header_bytes = true;
        let old = self.header_words(self.network, 0) * 4;
        self.widen(self.network, old, bytes.min(60));
        self.transport = self.transport.max(self.network + bytes.min(60));
        let words = (bytes.min(60) / 4) as u8;
        self.put(self.network, &[0x40 | words]);
    }

    fn set_tcp_header_bytes(&mut self, bytes: usize) {
        self.has_tcp_header_bytes = true;
        let old = self.header_words(self.transport + 12, 4) * 4;
        self.widen(self.transport, old, bytes.min(60));
        let low = self.bytes.get(self.transport + 12).map_or(0, |byte| byte & 15);
        let high = ((bytes.min(60) / 4) as u8) << 4;
        self.put(self.transport + 12, &[high | low]);
    }

    /// Applies the value of a column.
    pub(crate) fn apply(&mut self, field: Field, input: &Input) {
        match input {
            Input::Time(time) if field == Field::FirstTimestamp => self.first_timestamp_ns = *time,
            Input::Time(time) => self.timestamp_ns = *time,
            Input::Address(address) => {
                if self.make_ip(None) {
                    let at = if field == Field::IpSrc { 12 } else { 16 };
                    self.put(self.network + at, address);
                }
            }
            Input::Mac(mac) => {
                self.make_mac();
                self.put(if field == Field::EthSrc { 6 } else { 0 }, mac);
            }
            Input::Bytes(bytes) => self.apply_bytes(field, bytes),
            Input::Number(number) => {
                let number = *number;
                if !self.apply_annotation(field, number)
                    && !self.apply_ip(field, number)
                    && !self.apply_transport(field, number)
                {
                    self.apply_icmp(field, number);
                }
            }
        }
    }

    fn apply_bytes(&mut self, field: Field, bytes: &[u8]) {
        let padded = bytes.len().next_multiple_of(4);
        match field {
            Field::IpOpt if self.make_ip(None) && padded <= OPTIONS_BYTES_MAX => {
                if !bytes.is_empty() {
                    let old = self.header_words(self.network, 0) * 4;
                    self.set_ip_header_bytes(old.max(IP_BYTES + padded));
                    self.put(self.network + IP_BYTES, bytes);
                }
                self.has_ip_header_bytes = true;
            }
            Field::TcpOpt | Field::TcpNtOpt | Field::TcpSack
                if self.make_headers(Some(TCP)) && padded <= OPTIONS_BYTES_MAX =>
            {
                if !bytes.is_empty() {
                    let old = self.header_words(self.transport + 12, 4) * 4;
                    self.set_tcp_header_bytes(old.max(TCP_BYTES + padded));
                    self.put(self.transport + TCP_BYTES, bytes);
                }
                self.has_tcp_header_bytes = true;
            }
            Field::Payload if !bytes.is_empty() => {
                self.place_payload(bytes.len());
                let start = self.payload_start();
                self.grow(start + bytes.len());
                self.put(start, bytes);
            }
            _ => {}
        }
    }

    fn apply_annotation(&mut self, field: Field, number: u64) -> bool {
        let ns = self.timestamp_ns;
        match field {
            Field::TimestampSeconds => {
                let seconds = i64::try_from(number).unwrap_or(0).saturating_mul(1_000_000_000);
                self.timestamp_ns = seconds.saturating_add(ns.rem_euclid(1_000_000_000));
            }
            Field::TimestampMicroseconds => {
                let fraction = (number.min(999_999) * 1000) as i64;
                self.timestamp_ns = ns - ns.rem_euclid(1_000_000_000) + fraction;
            }
            Field::TimestampWholeMicroseconds => {
                self.timestamp_ns = i64::try_from(number).unwrap_or(0).saturating_mul(1000);
            }
            Field::Count => self.extra_packets = (number as u32).saturating_sub(1),
            Field::Link | Field::Direction => self.paint = number as u8,
            Field::Aggregate => self.aggregate = Some(number as u32),
            Field::WireLen => self.wanted = number as usize,
            Field::EthType => {
                self.make_mac();
                self.put(12, &(number as u16).to_be_bytes());
                self.is_ip = matches!(number, 0x0800 | 0x86dd);
            }
            Field::Nothing | Field::IpCaptureLen => {}
            _ => return false,
        }
        true
    }

    fn apply_ip(&mut self, field: Field, number: u64) -> bool {
        let is_ip_field = matches!(
            field,
            Field::IpTos
                | Field::IpDscp
                | Field::IpEcn
                | Field::IpTtl
                | Field::IpFrag
                | Field::IpFragOff
                | Field::IpId
                | Field::IpSum
                | Field::IpProto
                | Field::IpHl
                | Field::IpLen
        );
        if !is_ip_field || !self.make_ip(None) {
            return is_ip_field;
        }
        let at = self.network;
        let (byte, half) = ([number as u8], (number as u16).to_be_bytes());
        let tos = self.bytes.get(at + 1).copied().unwrap_or(0);
        match field {
            Field::IpTos => self.put(at + 1, &byte),
            Field::IpDscp => self.put(at + 1, &[tos & 3 | byte[0] << 2]),
            Field::IpEcn => self.put(at + 1, &[tos & !3 | byte[0] & 3]),
            Field::IpTtl => self.put(at + 8, &byte),
            Field::IpFrag | Field::IpFragOff => self.put(at + 6, &half),
            Field::IpId => self.put(at + 4, &half),
            Field::IpSum => self.put(at + 10, &half),
            Field::IpProto => self.put(at + 9, &byte),
            Field::IpHl => self.set_ip_header_bytes((number as usize).next_multiple_of(4)),
            _ => self.wanted = at + number as usize,
        }
        true
    }

    fn apply_transport(&mut self, field: Field, number: u64) -> bool {
        let proto = match field {
            Field::Sport | Field::Dport | Field::UdpLen => None,
            Field::TcpSeq
            | Field::TcpAck
            | Field::TcpOff
            | Field::TcpFlags
            | Field::TcpWindow
            | Field::TcpUrp => Some(TCP),
            Field::PayloadLen => {
                self.place_payload(number as usize);
                return true;
            }
            _ => return false,
        };
        if !self.make_headers(proto) {
            return true;
        }
        let at = self.transport;
        let (word, half) = ((number as u32).to_be_bytes(), (number as u16).to_be_bytes());
        let has_ports = matches!(self.proto(), 0 | TCP | UDP | DCCP | UDP_LITE);
        match field {
            Field::Sport if has_ports => self.put(at, &half),
            Field::Dport if has_ports => self.put(at + 2, &half),
            Field::UdpLen if matches!(self.proto(), 0 | UDP | UDP_LITE) => {
                self.grow(at + 8);
                self.put(at + 4, &half);
            }
            Field::TcpSeq => self.put(at + 4, &word),
            Field::TcpAck => self.put(at + 8, &word),
            Field::TcpOff => self.set_tcp_header_bytes((number as usize).next_multiple_of(4)),
            Field::TcpFlags => {
                let words = self.bytes.get(at + 12).map_or(0, |byte| byte & 0xf0);
                self.put(at + 12, &[words | half[0] & 15, half[1]]);
            }
            Field::TcpWindow => self.put(at + 14, &half),
            Field::TcpUrp => self.put(at + 18, &half),
            _ => {}
        }
        true
    }

    fn apply_icmp(&mut self, field: Field, number: u64) {
        let is_icmp_field = matches!(
            field,
            Field::IcmpType
                | Field::IcmpTypeName
                | Field::IcmpCode
                | Field::IcmpCodeName
                | Field::IcmpFlowId
                | Field::IcmpSeq
                | Field::IcmpNextMtu
        );
        if !is_icmp_field || !self.make_headers(Some(ICMP)) {
            return;
        }
        let at = self.transport;
        self.grow(at + 8);
        let (byte, half) = (number as u8, (number as u16).to_be_bytes());
        let has_flow = self.icmp_type.is_none_or(names::icmp_has_flow);
        let has_mtu = self.icmp_type.is_none_or(|kind| kind == 3)
            && self.icmp_code.is_none_or(|code| code == 4);
        match field {
            Field::IcmpType | Field::IcmpTypeName => {
                self.icmp_type = Some(byte);
                self.put(at, &[byte]);
                // Times and masks follow the numbers.
                match byte {
                    13 | 14 => self.grow(at + 20),
                    17 | 18 => self.grow(at + 12),
                    _ => {}
                }
            }
            Field::IcmpCode | Field::IcmpCodeName => {
                self.icmp_code = Some(byte);
                self.put(at + 1, &[byte]);
            }
            Field::IcmpFlowId if has_flow => self.put(at + 4, &half),
            Field::IcmpSeq if has_flow => self.put(at + 6, &half),
            Field::IcmpNextMtu if has_mtu => self.put(at + 6, &half),
            _ => {}
        }
    }

    /// Where the payload starts.
    fn payload_start(&self) -> usize {
        if !self.has_ip {
            return self.network;
        }
        let header = match self.proto() {
            _ if !self.is_first_fragment() => 0,
            TCP => (self.header_words(self.transport + 12, 4) * 4).max(TCP_BYTES),
            UDP | UDP_LITE => 8,
            _ => 0,
        };
        self.transport + header
    }

    /// Makes headers such that `bytes` bytes of payload end where the packet is to end: options
    /// that no column specifies take the rest.
    fn place_payload(&mut self, bytes: usize) {
        if self.make_ip(None) {
            self.make_transport();
        }
        let start = self.payload_start();
        if !self.has_ip || self.wanted == 0 {
            self.wanted = start + bytes;
            return;
        }
        let mut rest = self.wanted.saturating_sub(start + bytes) & !3;
        let is_tcp = self.is_first_fragment() && self.proto() == TCP;
        if rest > 0 && is_tcp && !self.has_tcp_header_bytes && start == self.transport + TCP_BYTES {
            let more = rest.min(OPTIONS_BYTES_MAX);
            self.set_tcp_header_bytes(TCP_BYTES + more);
            rest -= more;
        }
        if rest > 0 && !self.has_ip_header_bytes && self.transport == self.network + IP_BYTES {
            self.set_ip_header_bytes(IP_BYTES + rest.min(OPTIONS_BYTES_MAX));
        }
    }

    /// Writes lengths, and checksums if requested; then copies the draft to `packet`.
    pub(crate) fn finish(&mut self, packet: &mut Packet, checksums: bool) {
        if self.defaults.flow_id.is_some() {
            self.make_ip(None);
        }
        if self.has_ip {
            self.make_transport();
            self.set_lengths(checksums);
        }
        let extra = self.wanted.saturating_sub(self.bytes.len());
        packet.set_data(&self.bytes);
        if self.has_mac {
            packet.set_header(Header::Mac, 0);
        }
        if self.has_ip {
            packet.set_header(Header::Network, self.network);
            packet.set_header(Header::Transport, self.transport.min(self.bytes.len()));
            if let Some(&dst) = self.bytes[self.network..].get(16..).and_then(|d| d.first_chunk()) {
                packet.set_dst_ipv4(dst);
            }
        }
        packet.set_timestamp_ns(self.timestamp_ns);
        set_first_timestamp(packet, self.first_timestamp_ns);
        packet.set_anno_u8(annotation::PAINT, self.paint);
        packet.set_anno_u32(annotation::EXTRA_LEN, extra as u32);
        packet.set_anno_u32(own_annotation::EXTRA_PACKETS, self.extra_packets);
        if let Some(aggregate) = self.aggregate {
            packet.set_anno_u32(own_annotation::AGGREGATE, aggregate);
        }
    }

    fn set_lengths(&mut self, checksums: bool) {
        let at = self.network;
        let network_bytes = self.bytes.len() - at;
        let total = match self.wanted.saturating_sub(at) {
            0 => network_bytes,
            wanted => wanted,
        };
        let total = total.min(0xffff);
        self.put(at + 2, &(total as u16).to_be_bytes());
        if self.proto() == UDP
            && self.is_first_fragment()
            && self.bytes.get(self.transport + 4..self.transport + 6) == Some(&[0, 0])
        {
            let bytes = total.saturating_sub(self.transport - at);
            self.put(self.transport + 4, &(bytes as u16).to_be_bytes());
        }
        if checksums {
            self.grow(at + total);
            self.set_checksums();
        }
    }

    fn set_checksums(&mut self) {
        let at = self.network;
        let end = (at + self.header_words(at, 0) * 4).min(self.bytes.len());
        self.put(at + 10, &[0, 0]);
        let sum = checksum(&self.bytes[at..end]);
        self.put(at + 10, &sum.to_be_bytes());
        let (proto, start) = (self.proto(), self.transport);
        let place = match proto {
            TCP => 16,
            UDP => 6,
            ICMP => 2,
            _ => return,
        };
        let bits = [self.bytes[at + 6] & 0x3f, self.bytes[at + 7]];
        let is_fragment = bits != [0, 0];
        if is_fragment || self.bytes.len() < start + place + 2 {
            return;
        }
        self.put(start + place, &[0, 0]);
        let address = |at: usize| {
            let bytes: [u8; 4] = self.bytes[at..at + 4].try_into().expect("four bytes");
            Ipv4Addr::from(bytes)
        };
        let payload = &self.bytes[start..];
        let sum = if proto == ICMP {
            checksum(payload)
        } else {
            let pseudo = PseudoHeader::V4 { src: address(at + 12), dst: address(at + 16) };
            pseudo.sum(IpProto(proto), payload.len()).add_bytes(payload).checksum()
        };
        // UDP sends a checksum of 0 as 0xffff: 0 marks a packet without checksum.
        let sum = if proto == UDP && sum == 0 { 0xffff } else { sum };
        self.put(start + place, &sum.to_be_bytes());
    }

    /// Gives the memory back.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::language::args::NoNames;
    use warpswitch_wire::checksum::is_intact;

    use super::*;

    fn packet(defaults: Defaults, fields: &[(&str, &str)], checksums: bool) -> Packet {
        let mut draft = Draft::new(Vec::new(), defaults);
        let mut specs: Vec<_> = fields
            .iter()
            .map(|(name, text)| (super::super::find(name).expect("a field"), text))
            .collect();
        specs.sort_by_key(|(spec, _)| spec.order);
        for (spec, text) in specs {
            let input = parse(spec, text, &draft, &NoNames).expect("it can be read");
            draft.apply(spec.field, &input);
        }
        let mut packet = Packet::new();
        draft.finish(&mut packet, checksums);
        packet
    }

    const DEFAULTS: Defaults =
        Defaults { proto: 6, flow_id: None, aggregate: None, minor_version: 3 };

    #[test]
    fn checksums_are_right() {
        for (proto, len) in [("T", "90"), ("T", "41"), ("U", "51"), ("U", "28"), ("I", "29")] {
            let fields = [("src", "1.2.3.4"), ("dst", "5.6.7.8"), ("proto", proto), ("len", len)];
            let packet = packet(DEFAULTS, &fields, true);
            let (ip, transport) = packet.data().split_at(20);
            assert!(is_intact(ip), "{proto}");
            let sum = if proto == "I" {
                warpswitch_wire::checksum::Sum::ZERO
            } else {
                let pseudo =
                    PseudoHeader::V4 { src: [1, 2, 3, 4].into(), dst: [5, 6, 7, 8].into() };
                pseudo.sum(IpProto(ip[9]), transport.len())
            };
            assert_eq!(sum.add_bytes(transport).fold(), 0xffff, "{proto} {len}");
        }
    }

    #[test]
    fn packets_are_as_short_as_the_dump_says() {
        let check = |fields: &[(&str, &str)], len: usize, extra: u32| {
            let packet = packet(DEFAULTS, fields, false);
            let found = (packet.len(), packet.anno_u32(annotation::EXTRA_LEN));
            assert_eq!(found, (len, extra), "{fields:?}");
        };
        check(&[("src", "1.0.0.1")], 40, 0);
        check(&[("src", "1.0.0.1"), ("len", "100")], 40, 60);
        check(&[("src", "1.0.0.1"), ("len", "30"), ("tcp_ack", "5")], 30, 0);
        check(&[("src", "1.0.0.1"), ("len", "10"), ("sport", "5")], 20, 0);
        check(&[("src", "1.0.0.1"), ("frag", "f"), ("len", "60"), ("sport", "1")], 20, 40);
        check(&[("ts", "1"), ("wire_len", "9")], 0, 9);
        check(&[("payload", "abc"), ("proto", "U")], 31, 0);
        check(&[("len", "4294967295"), ("payload_len", "4294967295")], 40, u32::MAX - 40);
        check(&[("ip_hl", "255"), ("tcp_off", "255"), ("ip_opt", "nop")], 120, 0);
        check(&[("eth_type", "0806"), ("src", "1.0.0.1"), ("payload", "abc")], 17, 0);
        check(&[("icmp_type", "timestamp"), ("proto", "I")], 40, 0);
    }
}
