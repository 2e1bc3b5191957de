//! The probe: 18 bytes of payload by which a sink recognizes frames, so it fits the smallest UDP
//! frame.
//!
//! ```text
//! 0      2      4      8        12     18
//! magic  run    flow   sequence time             big endian; time: 48 bits of nanoseconds
//! ```
//! The time is that of the machine's monotonic clock, so sender and sink may be two processes of
//! one machine. The checksum of the frame is updated, not computed anew.

use warpswitch_wire::checksum::update_bytes;
use warpswitch_wire::ip::{Fragment, IpProto};
use warpswitch_wire::parse::{Network, ParsedFrame, parse_ethernet};

/// Bytes of a probe.
pub const PROBE_BYTES: usize = 18;
/// Bits of the time.
const TIME_MASK: u64 = (1 << 48) - 1;

/// Purpose of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It counts.
    Measure,
    /// It teaches addresses to the devices between, and does not count.
    Learn,
}

impl Purpose {
    fn magic(self) -> u16 {
        match self {
            Self::Measure => 0x57c5,
            Self::Learn => 0x57c6,
        }
    }
}

/// Contents of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Purpose of the frame.
    pub purpose: Purpose,
    /// The run, so that late frames of another one do not count.
    pub run: u16,
    /// The flow.
    pub flow: u32,
    /// Number of the frame in its flow.
    pub sequence: u32,
    /// Time of transmission, cut to 48 bits.
    pub time_ns: u64,
}

impl Probe {
    fn to_bytes(self) -> [u8; PROBE_BYTES] {
        let mut bytes = [0; PROBE_BYTES];
        bytes[..2].copy_from_slice(&self.purpose.magic().to_be_bytes());
        bytes[2..4].copy_from_slice(&self.run.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.flow.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[12..].copy_from_slice(&self.time_ns.to_be_bytes()[2..]);
        bytes
    }

    /// Reads the probe of a received frame, if it has one.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let parsed = parse_ethernet(frame).ok()?;
        let bytes: &[u8; PROBE_BYTES] = parsed.payload(frame).first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        let known = [Purpose::Measure, Purpose::Learn];
        Some(Self {
            purpose: known.into_iter().find(|purpose| purpose.magic() == word(0))?,
            run: word(2),
            flow: long(4),
            sequence: long(8),
            time_ns: u64::from(word(12)) << 32 | u64::from(long(14)),
        })
    }

    /// Nanoseconds from its transmission to `now_ns`.
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        let age = now_ns.wrapping_sub(self.time_ns) & TIME_MASK;
        // A clock that goes backwards between processors is no age of three days.
        if age > TIME_MASK / 2 { 0 } else { age }
    }
}

/// Where in a frame its probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlace {
    at: usize,
    checksum_at: Option<usize>,
    is_udp: bool,
}

impl ProbePlace {
    /// The place in `frame`; none if its payload is too short, or has another checksum than that
    /// of IP.
    pub fn find(frame: &[u8]) -> Option<Self> {
        let parsed = parse_ethernet(frame).ok()?;
        let is_ip = matches!(parsed.network, Network::Ipv4 | Network::Ipv6);
        let has_room = parsed.payload(frame).len() >= PROBE_BYTES;
        if !is_ip || !has_room || parsed.fragment != Fragment::No {
            return None;
        }
        let checksum = Self::checksum_offset(&parsed)?;
        Some(Self {
            at: parsed.payload_offset,
            checksum_at: checksum.map(|at| parsed.transport_offset + at),
            is_udp: parsed.ip_proto == IpProto::UDP,
        })
    }

    /// Where in the transport header the checksum is, `Some(None)` without one.
    fn checksum_offset(parsed: &ParsedFrame) -> Option<Option<usize>> {
        match parsed.ip_proto {
            IpProto::UDP => Some(Some(6)),
            IpProto::TCP => Some(Some(16)),
            IpProto::ICMP | IpProto::ICMPV6 => Some(Some(2)),
            IpProto::SCTP => None,
            _ => Some(None),
        }
    }

    /// Writes `probe` into `frame`, the frame that the place was found in, or a copy.
    pub fn write(&self, frame: &mut [u8], probe: Probe) {
        let (old, new) = (read_array(frame, self.at), probe.to_bytes());
        frame[self.at..self.at + PROBE_BYTES].copy_from_slice(&new);
        if let Some(at) = self.checksum_at {
            self.update(frame, at, &old, &new);
        }
    }

    /// Updates the checksum at `at` after `old` became `new`.
    fn update(&self, frame: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
        let checksum = u16::from_be_bytes([frame[at], frame[at + 1]]);
        // In UDP zero means no checksum.
        if self.is_udp && checksum == 0 {
            return;
        }
        let updated = match update_bytes(checksum, old, new) {
            0 if self.is_udp => 0xffff,
            updated => updated,
        };
        frame[at..at + 2].copy_from_slice(&updated.to_be_bytes());
    }
}

fn read_array(frame: &[u8], at: usize) -> [u8; PROBE_BYTES] {
    let mut bytes = [0; PROBE_BYTES];
    bytes.copy_from_slice(&frame[at..at + PROBE_BYTES]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_survives_a_wrapped_time_and_a_clock_that_goes_backwards() {
        let (purpose, run, flow, sequence) = (Purpose::Measure, 1, 2, 3);
        let sent = |time_ns| Probe { purpose, run, flow, sequence, time_ns };
        assert_eq!(sent(100).age_ns(150), 50);
        assert_eq!(sent(TIME_MASK).age_ns(TIME_MASK + 11), 11);
        assert_eq!(sent(100).age_ns(99), 0);
    }

    #[test]
    fn arbitrary_bytes_have_no_probe() {
        for len in 0..200 {
            let frame: Vec<u8> = (0..len).map(|at| (at * 37) as u8).collect();
            assert_eq!((Probe::read(&frame), ProbePlace::find(&frame)), (None, None));
        }
    }
}
