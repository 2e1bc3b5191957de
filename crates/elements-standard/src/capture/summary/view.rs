//! Extracts field values from a packet, bounds-checked: no byte of the packet is trusted.

use warpswitch_elements_support::annotation as own_annotation;
use warpswitch_packet::{Header, Packet, annotation};

use super::options::{Which, select_tcp};
use super::{Field, names};

const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_LITE: u8 = 136;
const DCCP: u8 = 33;
const ICMP: u8 = 1;

/// Options that a TCP segment of a connection with timestamps has: these and nothing else.
const ALIGNED_TIME: [u8; 4] = [1, 1, 8, 10];

/// What a field of a packet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    /// Nanoseconds since 1970.
    Time(i64),
    Address([u8; 4]),
    Mac([u8; 6]),
    Letter(u8),
    IpOptions(&'a [u8]),
    TcpOptions(&'a [u8], Which),
    Payload(&'a [u8]),
}

impl Value<'_> {
    /// TCP options that are meant, as bytes.
    pub(crate) fn tcp_options(options: &[u8], which: Which) -> Vec<u8> {
        select_tcp(options, which)
    }
}

/// How a packet is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Whether errors in packets are reported.
    pub(crate) tells_bad: bool,
    /// Whether less data than the length in the IP header is an error.
    pub(crate) careful_truncation: bool,
    /// Whether bytes that were not captured count.
    pub(crate) extra_length: bool,
}

/// A packet that is looked at.
pub(crate) struct View<'a> {
    packet: &'a Packet,
    manner: Manner,
    /// The data, up to the end that the IP header specifies.
    data: &'a [u8],
    /// The IPv4 header and what follows; none if there is none that can be read.
    ip: Option<&'a [u8]>,
    /// What follows the IP header, if the packet has a transport header offset.
    transport: Option<&'a [u8]>,
    /// The protocol whose header can be read.
    header: Option<u8>,
    /// Bytes that were not captured and that the IP header does not count.
    extra: u32,
    /// What is wrong with the packet, first of all.
    bad: Option<String>,
}

impl<'a> View<'a> {
    /// Looks at `packet`.
    pub(crate) fn new(packet: &'a Packet, manner: Manner) -> Self {
        let extra = packet.anno_u32(annotation::EXTRA_LEN);
        let mut view = Self {
            packet,
            manner,
            data: packet.data(),
            ip: None,
            transport: None,
            header: None,
            extra,
            bad: None,
        };
        view.find_headers();
        view
    }

    /// The first error in the packet, if errors are reported.
    pub(crate) fn bad(&self) -> Option<&str> {
        self.bad.as_deref()
    }

    fn tell(&mut self, message: impl FnOnce() -> String) {
        if self.manner.tells_bad && self.bad.is_none() {
            self.bad = Some(message());
        }
    }

    fn find_headers(&mut self) {
        let Some(network) = self.packet.header_offset(Header::Network) else { return };
        let ip = &self.data[network..];
        let &[first, _, high, low, ..] = ip else {
            return self.tell(|| "truncated IP header".into());
        };
        let (version, words) = (first >> 4, first & 15);
        let total = usize::from(u16::from_be_bytes([high, low]));
        if version != 4 {
            return self.tell(|| format!("IP version {version}"));
        }
        if words < 5 {
            return self.tell(|| format!("IP header length {words}"));
        }
        if total < usize::from(words) * 4 {
            return self.tell(|| format!("IP length {total}"));
        }
        let extra = self.extra as usize;
        if ip.len() > total {
            self.data = &self.data[..network + total];
        } else if self.manner.careful_truncation && ip.len() + extra < total {
            self.tell(|| format!("truncated IP missing {}", total - ip.len() - extra));
        }
        // Lengths are taken from the IP header: what it counts is no longer extra.
        let whole = (ip.len() + extra).saturating_sub(0xffff);
        self.extra = if total == 0xffff { whole as u32 } else { 0 };
        let ip = &self.data[network..];
        self.ip = Some(ip);
        let transport = self.packet.header_offset(Header::Transport);
        self.transport = transport.and_then(|at| self.data.get(at..));
        let (Some(transport), true) = (self.transport, ip.len() > usize::from(words) * 4) else {
            return;
        };
        let proto = ip[9];
        if self.is_first_fragment() && matches!(proto, TCP | UDP | ICMP) {
            self.header = Some(proto);
            let words = transport.get(12).map_or(5, |byte| byte >> 4);
            if proto == TCP && words < 5 {
                self.header = None;
                self.tell(|| format!("TCP header length {words}"));
            }
        }
    }

    fn is_first_fragment(&self) -> bool {
        let bytes = self.ip.and_then(|ip| ip.get(6..8)).unwrap_or(&[0, 0]);
        u16::from_be_bytes([bytes[0], bytes[1]]) & 0x1fff == 0
    }

    fn ip_header_bytes(&self) -> usize {
        self.ip.map_or(0, |ip| usize::from(ip[0] & 15) * 4)
    }

    /// Reports that bytes of the IP header are missing.
    fn missing_ip<T>(&mut self) -> Option<T> {
        let message = match self.ip {
            None => "no IP header",
            Some(_) => "truncated IP header capture",
        };
        self.tell(|| message.into());
        None
    }

    /// Reports that some of the first `bytes` bytes of the header of `proto` are missing. A packet
    /// of another protocol is not an error.
    fn missing<T>(&mut self, proto: &[u8], name: &str, bytes: usize) -> Option<T> {
        let Some(ip) = self.ip else { return self.missing_ip() };
        if ip.get(9).is_some_and(|found| !proto.contains(found)) {
            return None;
        }
        let transport_bytes = self.transport.map_or(0, <[u8]>::len) + self.extra as usize;
        let message = if !self.is_first_fragment() {
            format!("fragmented {name} header")
        } else if transport_bytes >= bytes {
            format!("truncated {name} header capture")
        } else {
            format!("truncated {name} header")
        };
        self.tell(|| message);
        None
    }

    /// A number of `bytes` bytes at `at` of the IP header.
    fn ip_number(&mut self, at: usize, bytes: usize) -> Option<u64> {
        match self.ip.and_then(|ip| ip.get(at..at + bytes)) {
            Some(field) => Some(big_endian(field)),
            None => self.missing_ip(),
        }
    }

    /// A number of `bytes` bytes at `at` of the header of `proto`.
    fn transport_number(&mut self, proto: u8, name: &str, at: usize, bytes: usize) -> Option<u64> {
        let transport = self.transport.filter(|_| self.header == Some(proto));
        match transport.and_then(|transport| transport.get(at..at + bytes)) {
            Some(field) => Some(big_endian(field)),
            None => self.missing(&[proto], name, at + bytes),
        }
    }

    fn tcp_number(&mut self, at: usize, bytes: usize) -> Option<u64> {
        self.transport_number(TCP, "TCP", at, bytes)
    }

    fn icmp_number(&mut self, at: usize, bytes: usize) -> Option<u64> {
        self.transport_number(ICMP, "ICMP", at, bytes)
    }

    /// A port: at 0 the source's, at 2 the destination's.
    fn port(&mut self, at: usize) -> Option<u64> {
        let protos = [TCP, UDP, DCCP, UDP_LITE];
        let has_ports = self.ip.is_some_and(|ip| {
            ip.len() > self.ip_header_bytes()
                && self.is_first_fragment()
                && ip.get(9).is_some_and(|proto| protos.contains(proto))
        });
        let transport = self.transport.filter(|_| has_ports);
        match transport.and_then(|transport| transport.get(at..at + 2)) {
            Some(field) => Some(big_endian(field)),
            None => self.missing(&[TCP, UDP], "TCP/UDP", at + 2),
        }
    }

    fn ip_options(&mut self) -> Option<Value<'a>> {
        let bytes = self.ip_header_bytes();
        match self.ip {
            Some(_) if bytes <= 20 => Some(Value::IpOptions(&[])),
            Some(ip) if ip.len() >= bytes => Some(Value::IpOptions(&ip[20..bytes])),
            _ => self.missing_ip(),
        }
    }

    fn tcp_options(&mut self, which: Which) -> Option<Value<'a>> {
        let transport = self.transport.filter(|_| self.header == Some(TCP));
        let transport_bytes = self.transport.map_or(0, <[u8]>::len);
        let Some((transport, off)) = transport.and_then(|t| Some((t, *t.get(12)?))) else {
            return self.missing(&[TCP], "TCP", transport_bytes + 1);
        };
        let header_bytes = usize::from(off >> 4) * 4;
        let only_time = header_bytes == 32 && transport.get(20..24) == Some(&ALIGNED_TIME);
        if header_bytes <= 20 || only_time && which != Which::All {
            return Some(Value::TcpOptions(&[], which));
        }
        match transport.get(20..header_bytes) {
            Some(options) => Some(Value::TcpOptions(options, which)),
            None => self.missing(&[TCP], "TCP", transport_bytes + 1),
        }
    }

    /// Where the payload starts in the data, and its length according to the headers.
    fn payload_place(&self) -> (usize, u64) {
        let Some(ip) = self.ip else { return (0, self.data.len() as u64) };
        let network = self.data.len() - ip.len();
        let transport = self.packet.header_offset(Header::Transport);
        let transport = transport.unwrap_or(network + self.ip_header_bytes());
        let total = u64::from(u16::from_be_bytes([ip[2], ip[3]]));
        let mut start = transport;
        if self.is_first_fragment() {
            start += match ip.get(9) {
                Some(&TCP) => {
                    let off = self.transport.and_then(|transport| transport.get(12));
                    off.map_or(20, |off| usize::from(off >> 4) * 4).max(20)
                }
                Some(&(UDP | UDP_LITE)) => 8,
                _ => 0,
            };
        }
        (start, total.saturating_sub((start - network) as u64))
    }

    fn payload(&mut self) -> Option<Value<'a>> {
        let (start, bytes) = self.payload_place();
        if bytes == 0 {
            return Some(Value::Payload(&[]));
        }
        let rest = self.data.get(start..).filter(|rest| !rest.is_empty())?;
        Some(Value::Payload(&rest[..rest.len().min(bytes as usize)]))
    }

    fn icmp_of_flow(&mut self, at: usize) -> Option<u64> {
        let kind = self.icmp_number(0, 1)?;
        if names::icmp_has_flow(kind as u8) { self.icmp_number(at, 2) } else { None }
    }

    /// The Ethernet header: in front of the network header, or all there is.
    fn ethernet(&mut self) -> Option<&'a [u8]> {
        let network = self.packet.header_offset(Header::Network);
        let data = self.packet.data();
        let header = match (self.packet.stripped_mac(), network) {
            (Some(stripped), Some(0)) => stripped,
            (None, Some(network)) => {
                let mac = self.packet.header_offset(Header::Mac).unwrap_or(0);
                data.get(mac..network).unwrap_or(&[])
            }
            _ => &[],
        };
        let is_ethernet = header.len() == 14;
        if !is_ethernet {
            self.tell(|| "Ethernet header".into());
        }
        is_ethernet.then_some(header)
    }

    /// The EtherType and the addresses, of what [`View::ethernet`] finds.
    fn mac(&mut self, at: usize) -> Option<Value<'a>> {
        let header = self.ethernet()?;
        header[at..at + 6].try_into().ok().map(Value::Mac)
    }

    /// What the packet shows of `field`, if it does.
    pub(crate) fn value(&mut self, field: Field) -> Option<Value<'a>> {
        let packet = self.packet;
        let time = packet.timestamp_ns();
        Some(match field {
            Field::Timestamp => Value::Time(time),
            Field::FirstTimestamp => Value::Time(first_timestamp(packet)),
            Field::EthSrc => return self.mac(6),
            Field::EthDst => return self.mac(0),
            Field::IpSrc => Value::Address((self.ip_number(12, 4)? as u32).to_be_bytes()),
            Field::IpDst => Value::Address((self.ip_number(16, 4)? as u32).to_be_bytes()),
            Field::IpFrag => Value::Letter(match self.ip_number(6, 2)? {
                off if off & 0x1fff != 0 => b'f',
                off if off & 0x2000 != 0 => b'F',
                off if off & 0x4000 != 0 => b'!',
                _ => b'.',
            }),
            Field::IpOpt => return self.ip_options(),
            Field::TcpOpt => return self.tcp_options(Which::All),
            Field::TcpNtOpt => return self.tcp_options(Which::NoTime),
            Field::TcpSack => return self.tcp_options(Which::Sack),
            Field::Payload | Field::PayloadMd5 | Field::PayloadMd5Hex => return self.payload(),
            _ => return self.number(field).map(Value::Number),
        })
    }

    fn number(&mut self, field: Field) -> Option<u64> {
        let packet = self.packet;
        let time = packet.timestamp_ns();
        let extra = if self.manner.extra_length { u64::from(self.extra) } else { 0 };
        Some(match field {
            Field::TimestampSeconds => time.div_euclid(1_000_000_000) as u64,
            Field::TimestampMicroseconds => time.rem_euclid(1_000_000_000) as u64 / 1000,
            Field::TimestampWholeMicroseconds => time.div_euclid(1000) as u64,
            Field::Count => u64::from(packet.anno_u32(own_annotation::EXTRA_PACKETS)) + 1,
            Field::Link | Field::Direction => packet.anno_u8(annotation::PAINT).into(),
            Field::Aggregate => packet.anno_u32(own_annotation::AGGREGATE).into(),
            Field::WireLen => packet.len() as u64,
            Field::EthType => big_endian(&self.ethernet()?[12..14]),
            Field::IpTos => self.ip_number(1, 1)?,
            Field::IpDscp => self.ip_number(1, 1)? >> 2,
            Field::IpEcn => self.ip_number(1, 1)? & 3,
            Field::IpTtl => self.ip_number(8, 1)?,
            Field::IpFragOff => self.ip_number(6, 2)?,
            Field::IpId => self.ip_number(4, 2)?,
            Field::IpSum => self.ip_number(10, 2)?,
            Field::IpProto => self.ip_number(9, 1)?,
            Field::IpHl => (self.ip_number(0, 1)? & 15) * 4,
            Field::IpLen => match self.ip {
                Some(ip) => big_endian(&ip[2..4]) + extra,
                None => self.data.len() as u64 + extra,
            },
            Field::IpCaptureLen => self.ip.unwrap_or(self.data).len() as u64,
            Field::Sport => self.port(0)?,
            Field::Dport => self.port(2)?,
            Field::TcpSeq => self.tcp_number(4, 4)?,
            Field::TcpAck => self.tcp_number(8, 4)?,
            Field::TcpOff => (self.tcp_number(12, 1)? >> 4) * 4,
            Field::TcpFlags => self.tcp_number(12, 2)? & 0x0fff,
            Field::TcpWindow => self.tcp_number(14, 2)?,
            Field::TcpUrp => self.tcp_number(18, 2)?,
            Field::UdpLen => self.transport_number(UDP, "UDP", 4, 2)?,
            Field::IcmpType | Field::IcmpTypeName => self.icmp_number(0, 1)?,
            Field::IcmpCode | Field::IcmpCodeName => self.icmp_number(1, 1)?,
            Field::IcmpFlowId => self.icmp_of_flow(4)?,
            Field::IcmpSeq => self.icmp_of_flow(6)?,
            // Only "fragmentation needed" has one.
            Field::IcmpNextMtu if self.icmp_number(0, 2)? == 0x0304 => self.icmp_number(6, 2)?,
            Field::PayloadLen => {
                let extra = if self.ip.is_none() { u64::from(self.extra) } else { extra };
                self.payload_place().1 + extra
            }
            _ => return None,
        })
    }

    /// The name of the code of an ICMP packet.
    pub(crate) fn icmp_code_name(&mut self) -> Option<&'static str> {
        let both = self.icmp_number(0, 2)?;
        names::icmp_code_name((both >> 8) as u8, both as u8)
    }
}

/// When the first packet of those that `packet` stands for was seen.
pub(crate) fn first_timestamp(packet: &Packet) -> i64 {
    let bytes = &packet.annotations()[annotation::FIRST_TIMESTAMP..][..8];
    bytes.try_into().map_or(0, i64::from_ne_bytes)
}

/// Sets the time that [`first_timestamp`] returns.
pub(crate) fn set_first_timestamp(packet: &mut Packet, timestamp_ns: i64) {
    packet.annotations_mut()[annotation::FIRST_TIMESTAMP..][..8]
        .copy_from_slice(&timestamp_ns.to_ne_bytes());
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
