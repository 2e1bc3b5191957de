//! Ports and queues in messages (specification 1.3.5, sections 7.2.1, 7.2.2, 7.3.4.3, 7.3.5.5,
//! 7.3.5.7 and 7.4.3).

use crate::ErrorCode;
use crate::bytes::{Append, Reader};
use crate::flows::write_age;

/// Settings of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortConfig {
    /// The port is switched off.
    pub is_down: bool,
    /// Received packets are dropped.
    pub no_receive: bool,
    /// Packets for the port are dropped.
    pub no_forward: bool,
    /// Received packets are not sent to controllers.
    pub no_packet_in: bool,
}

impl PortConfig {
    const DOWN: u32 = 1 << 0;
    const NO_RECEIVE: u32 = 1 << 2;
    const NO_FORWARD: u32 = 1 << 5;
    const NO_PACKET_IN: u32 = 1 << 6;
    const ALL: u32 = Self::DOWN | Self::NO_RECEIVE | Self::NO_FORWARD | Self::NO_PACKET_IN;

    fn bits(self) -> u32 {
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        bit(self.is_down, Self::DOWN)
            | bit(self.no_receive, Self::NO_RECEIVE)
            | bit(self.no_forward, Self::NO_FORWARD)
            | bit(self.no_packet_in, Self::NO_PACKET_IN)
    }

    fn from_bits(bits: u32) -> Self {
        Self {
            is_down: bits & Self::DOWN != 0,
            no_receive: bits & Self::NO_RECEIVE != 0,
            no_forward: bits & Self::NO_FORWARD != 0,
            no_packet_in: bits & Self::NO_PACKET_IN != 0,
        }
    }
}

/// State of a port's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortState {
    /// There is no link.
    pub is_link_down: bool,
    /// The port is blocked, for example by a spanning tree.
    pub is_blocked: bool,
    /// Fast-failover groups may use the port.
    pub is_live: bool,
}

/// Bits of the features of links (specification 1.3.5, section 7.2.1).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod link {
    pub const MB10_HALF: u32 = 1 << 0;
    pub const MB10: u32 = 1 << 1;
    pub const MB100_HALF: u32 = 1 << 2;
    pub const MB100: u32 = 1 << 3;
    pub const GB1_HALF: u32 = 1 << 4;
    pub const GB1: u32 = 1 << 5;
    pub const GB10: u32 = 1 << 6;
    pub const GB40: u32 = 1 << 7;
    pub const GB100: u32 = 1 << 8;
    pub const TB1: u32 = 1 << 9;
    pub const OTHER: u32 = 1 << 10;
    pub const COPPER: u32 = 1 << 11;
    pub const FIBER: u32 = 1 << 12;
    pub const AUTONEG: u32 = 1 << 13;
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortDescription {
    /// Its number.
    pub number: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its name, of which messages hold 15 bytes.
    pub name: String,
    /// Its settings.
    pub config: PortConfig,
    /// The state of its link.
    pub state: PortState,
    /// Current features of the link: bits of [`link`].
    pub current: u32,
    /// Features that it advertises.
    pub advertised: u32,
    /// Features that it supports.
    pub supported: u32,
    /// Features that its peer advertises.
    pub peer: u32,
    /// Current bit rate in kbit/s.
    pub current_kbps: u32,
    /// Maximum bit rate in kbit/s.
    pub max_kbps: u32,
}

impl PortDescription {
    pub(crate) fn read(body: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let number = body.u32()?;
        body.skip(4)?;
        let mac = body.array()?;
        body.skip(2)?;
        let name = body.text(16)?;
        let config = PortConfig::from_bits(body.u32()?);
        let state = body.u32()?;
        let state = PortState {
            is_link_down: state & 1 != 0,
            is_blocked: state & 2 != 0,
            is_live: state & 4 != 0,
        };
        let (current, advertised) = (body.u32()?, body.u32()?);
        let (supported, peer) = (body.u32()?, body.u32()?);
        let (current_kbps, max_kbps) = (body.u32()?, body.u32()?);
        Ok(Self {
            number,
            mac,
            name,
            config,
            state,
            current,
            advertised,
            supported,
            peer,
            current_kbps,
            max_kbps,
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let PortState { is_link_down, is_blocked, is_live } = self.state;
        out.u32(self.number).zeros(4).bytes(&self.mac).zeros(2).text(&self.name, 16);
        out.u32(self.config.bits());
        out.u32(u32::from(is_link_down) | u32::from(is_blocked) << 1 | u32::from(is_live) << 2);
        out.u32(self.current).u32(self.advertised).u32(self.supported).u32(self.peer);
        out.u32(self.current_kbps).u32(self.max_kbps);
    }
}

/// The counters of a port. A counter that is not kept is [`u64::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of network interfaces")]
pub struct PortStats {
    /// The port.
    pub number: u32,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_frame_errors: u64,
    pub rx_over_errors: u64,
    pub rx_crc_errors: u64,
    pub collisions: u64,
    /// Nanoseconds since the port was added.
    pub age_ns: u64,
}

impl PortStats {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u32(self.number).zeros(4);
        for counter in [
            self.rx_packets,
            self.tx_packets,
            self.rx_bytes,
            self.tx_bytes,
            self.rx_dropped,
            self.tx_dropped,
            self.rx_errors,
            self.tx_errors,
            self.rx_frame_errors,
            self.rx_over_errors,
            self.rx_crc_errors,
            self.collisions,
        ] {
            out.u64(counter);
        }
        write_age(out, self.age_ns);
    }
}

/// A change of a port's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// The port.
    pub number: u32,
    /// Its Ethernet address, which the sender has to repeat.
    pub mac: [u8; 6],
    /// New settings …
    pub config: PortConfig,
    /// … of those that are set here.
    pub mask: PortConfig,
    /// Features to advertise; 0 leaves them as they are.
    pub advertise: u32,
}

impl PortMod {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let number = body.u32()?;
        body.skip(4)?;
        let mac = body.array()?;
        body.skip(2)?;
        let (config, mask, advertise) = (body.u32()?, body.u32()?, body.u32()?);
        body.skip(4)?;
        body.finish()?;
        if config & mask & !PortConfig::ALL != 0 {
            return Err(ErrorCode::PORT_BAD_CONFIG);
        }
        let (config, mask) = (PortConfig::from_bits(config), PortConfig::from_bits(mask));
        Ok(Self { number, mac, config, mask, advertise })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u32(self.number).zeros(4).bytes(&self.mac).zeros(2);
        out.u32(self.config.bits()).u32(self.mask.bits()).u32(self.advertise).zeros(4);
    }

    /// The settings that a port has after the change.
    pub fn apply(&self, before: PortConfig) -> PortConfig {
        let mask = self.mask.bits();
        PortConfig::from_bits(before.bits() & !mask | self.config.bits() & mask)
    }
}

/// What happened to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// It was added.
    Added,
    /// It was removed.
    Removed,
    /// Its settings or its link changed.
    Modified,
}

/// A port-status message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// What happened.
    pub change: PortChange,
    /// The port.
    pub port: PortDescription,
}

impl PortStatus {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let change = match body.u8()? {
            0 => PortChange::Added,
            1 => PortChange::Removed,
            _ => PortChange::Modified,
        };
        body.skip(7)?;
        let port = PortDescription::read(&mut body)?;
        body.finish()?;
        Ok(Self { change, port })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u8(self.change as u8).zeros(7);
        self.port.write(out);
    }
}

/// The counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Its port.
    pub port: u32,
    /// Its number at this port.
    pub queue: u32,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped because the queue was full.
    pub tx_errors: u64,
    /// Nanoseconds since it was added.
    pub age_ns: u64,
}

impl QueueStats {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u32(self.port).u32(self.queue);
        out.u64(self.tx_bytes).u64(self.tx_packets).u64(self.tx_errors);
        write_age(out, self.age_ns);
    }
}

/// A queue, without properties.
pub(crate) fn write_queue_config(out: &mut Vec<u8>, queue: &QueueStats) {
    out.u32(queue.queue).u32(queue.port).u16(16).zeros(6);
}
