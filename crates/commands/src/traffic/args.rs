//! Options of commands that send test traffic: interfaces and addresses.

use std::net::Ipv4Addr;

use clap::{Args, ValueEnum};
use warpswitch_io::{PortTable, ethernet_address};
use warpswitch_packet::{PortMethod, PortSpec};
use warpswitch_wire::ethernet::MacAddr;

use super::frames::{FlowSpec, FrameSet};
use super::session::{Session, run_number};
use super::station::{Addresses, Station};
use crate::exit::bad_input;
use crate::{interrupt, term};

/// How interfaces are reached, as the argument `METHOD` of `FromDevice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Method {
    /// The fastest that every interface supports
    Auto,
    /// A packet socket
    Afpacket,
    /// A packet socket that receives blocks of frames, up to 1 ms late
    #[value(name = "AFPACKET_BLOCKS")]
    AfpacketBlocks,
    /// AF_XDP
    Afxdp,
}

impl Method {
    /// The same for ports.
    pub fn port_method(self) -> PortMethod {
        match self {
            Self::Auto => PortMethod::Auto,
            Self::Afpacket => PortMethod::AfPacket,
            Self::AfpacketBlocks => PortMethod::AfPacketBlocks,
            Self::Afxdp => PortMethod::AfXdp,
        }
    }
}

/// The interfaces on both sides of the device under test.
#[derive(Clone, Debug)]
pub struct Interfaces {
    /// Sends.
    pub tx: Option<String>,
    /// Receives.
    pub rx: Option<String>,
}

/// Addresses of the frames.
#[derive(Args, Clone, Debug)]
pub struct LinkArgs {
    /// Source Ethernet address [default: that of the sending interface]
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub src_mac: Option<MacAddr>,

    /// Destination Ethernet address [default: that of the gateway, or else of the sink]
    #[arg(long, value_name = "MAC", value_parser = parse_mac, conflicts_with = "gateway")]
    pub dst_mac: Option<MacAddr>,

    /// Ethernet address of the sink; give that of the receiving interface where a network allows no
    /// other one [default: that of the receiving interface with the local bit inverted]
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub sink_mac: Option<MacAddr>,

    /// Source IP address of the first flow
    #[arg(long, value_name = "IP", default_value = "198.18.0.2")]
    pub src: Ipv4Addr,

    /// Destination IP address
    #[arg(long, value_name = "IP", default_value = "198.19.0.2")]
    pub dst: Ipv4Addr,

    /// Router that frames are sent to; its Ethernet address is requested by ARP
    #[arg(long, value_name = "IP")]
    pub gateway: Option<Ipv4Addr>,

    /// How interfaces are reached
    #[arg(long, value_enum, ignore_case = true, default_value = "AUTO")]
    pub method: Method,
}

/// Ethernet addresses of the frames; a trace or capture keeps its own in place of none.
#[derive(Clone, Copy, Debug)]
pub struct Macs {
    src: Option<MacAddr>,
    dst: Option<MacAddr>,
}

impl Macs {
    /// Sets them in all frames.
    pub fn apply(self, frames: &mut FrameSet) {
        frames.set_macs(self.src, self.dst);
    }
}

impl LinkArgs {
    /// Opens the interfaces. `sources` is the number of source addresses; the sink answers for all
    /// destinations if `has_own_addresses`: the frames are not generated.
    ///
    /// # Errors
    /// An interface that is missing or not permitted.
    pub fn open(
        &self,
        interfaces: &Interfaces,
        sources: u32,
        has_own_addresses: bool,
    ) -> anyhow::Result<Session> {
        let mut table = PortTable::default();
        let mut session = Session::new(run_number(), interrupt::is_ended);
        let destinations = match has_own_addresses {
            true => Addresses::All,
            false => Addresses::Range(self.dst, 1),
        };
        if let Some(rx) = &interfaces.rx {
            let mac = match self.sink_mac {
                Some(mac) => mac,
                None => sink_address(ethernet_address(rx).map_err(bad_input)?),
            };
            session.rx = Some(self.station(&mut table, rx, destinations, Some(mac))?);
        }
        if let Some(tx) = &interfaces.tx {
            let addresses = Addresses::Range(self.src, sources);
            let station = self.station(&mut table, tx, addresses, self.src_mac)?;
            let port = table.open_tx(&self.spec(tx)).map_err(bad_input)?;
            session.tx = Some((station, port));
        }
        Ok(session)
    }

    fn spec(&self, device: &str) -> PortSpec {
        PortSpec {
            device: device.to_owned(),
            method: self.method.port_method(),
            is_promiscuous: true,
            ..PortSpec::default()
        }
    }

    fn station(
        &self,
        table: &mut PortTable,
        device: &str,
        addresses: Addresses,
        mac: Option<MacAddr>,
    ) -> anyhow::Result<Station> {
        let spec = self.spec(device);
        let rx = table.open_rx(&spec).map_err(bad_input)?;
        let tx = table.open_tx(&spec).map_err(bad_input)?;
        let mac = match mac {
            Some(mac) => mac,
            None => MacAddr(ethernet_address(device).map_err(bad_input)?),
        };
        Ok(Station::new(rx, tx, mac, addresses))
    }

    /// The Ethernet addresses of generated frames.
    ///
    /// # Errors
    /// A gateway that does not answer; nothing to derive the destination from.
    pub fn macs(&self, session: &mut Session) -> anyhow::Result<Macs> {
        let src = session.tx.as_ref().map(|(station, _)| station.mac());
        if let Some(gateway) = self.gateway {
            let found = session.resolve(gateway, self.src);
            let dst = found.ok_or_else(|| {
                let src = self.src;
                let cause = format!("gateway {gateway} does not answer ARP requests of {src}");
                let down = session.links_down();
                bad_input(match down.is_empty() {
                    true => format!("{cause}; check --gateway and --src, or give --dst-mac"),
                    false => format!("{cause}; {down}"),
                })
            })?;
            return Ok(Macs { src, dst: Some(dst) });
        }
        let dst = self.dst_mac.or(session.rx.as_ref().map(Station::mac));
        match dst {
            Some(dst) => Ok(Macs { src, dst: Some(dst) }),
            None => Err(bad_input(
                "the destination Ethernet address is unknown; give --gateway, --dst-mac or --rx",
            )),
        }
    }

    /// The Ethernet addresses that replace those of a trace or capture.
    ///
    /// # Errors
    /// A gateway that does not answer.
    pub fn macs_of_loaded(&self, session: &mut Session) -> anyhow::Result<Macs> {
        match self.gateway.is_some() || self.dst_mac.is_some() {
            true => self.macs(session),
            false => Ok(Macs { src: self.src_mac, dst: None }),
        }
    }

    /// Lets devices learn addresses; warns if no frame passes.
    pub fn learn(&self, session: &mut Session, frames: &FrameSet) -> bool {
        let has_passed = session.learn(frames);
        if !has_passed && !interrupt::is_ended() {
            let down = session.links_down();
            term::warning(match down.is_empty() {
                true => "no frame arrives; check --dst and the way between the interfaces".into(),
                false => format!("no frame arrives; {down}"),
            });
        }
        has_passed
    }

    /// Generated flows with these addresses.
    pub fn flows(&self, size: super::FrameSize, flows: usize) -> FlowSpec {
        FlowSpec { size, flows: flows as u32, src: self.src, dst: self.dst }
    }
}

/// The address of the sink behind an interface with this address. It is another one, so that the
/// kernel drops the frames of a test early: routing each of them takes the core on which the device
/// under test sends it.
fn sink_address(interface: [u8; 6]) -> MacAddr {
    const LOCAL_BIT: u8 = 2;
    let [first, rest @ ..] = interface;
    let [b, c, d, e, f] = rest;
    MacAddr([first ^ LOCAL_BIT, b, c, d, e, f])
}

fn parse_mac(text: &str) -> Result<MacAddr, String> {
    let invalid = || "expected an Ethernet address, such as 02:00:00:00:00:01".to_owned();
    let mut bytes = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut bytes {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len())).ok_or_else(invalid)?;
        let is_hex = part.chars().all(|c| c.is_ascii_hexdigit());
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| is_hex).ok_or_else(invalid)?;
    }
    match parts.next() {
        None => Ok(MacAddr(bytes)),
        Some(_) => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ethernet_addresses() {
        assert_eq!(parse_mac("02:0:a:FF:10:01"), Ok(MacAddr([2, 0, 10, 255, 16, 1])));
        for text in ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "1:2:3:4:5:+6", "1:2:3:4:5:666"] {
            assert!(parse_mac(text).is_err(), "{text}");
        }
    }
}
