//! Connections of a switch in a graph with its controllers.

use std::net::Ipv4Addr;

use warpswitch_graph::transport::{Place, Protocol, Received, Sent, Transport, Wire};
use warpswitch_openflow::ConnectionId;
use warpswitch_switch::Switch;

/// The port of OpenFlow.
const DEFAULT_PORT: u16 = 6653;
/// Bytes that are received at a time.
const READ_BYTES: usize = 16 << 10;
/// Receptions of one poll.
const READS_MAX: usize = 16;

/// Reads `ptcp:PORT[:ADDRESS]`.
pub(super) fn listen(text: &str) -> Result<Transport, String> {
    let expected = || "expected ptcp:PORT[:ADDRESS]".to_owned();
    let rest = text.strip_prefix("ptcp:").ok_or_else(expected)?;
    let (port, host) = rest.split_once(':').unwrap_or((rest, "127.0.0.1"));
    let port = if port.is_empty() { Ok(DEFAULT_PORT) } else { port.parse() };
    let (Ok(port), Ok(host)) = (port, host.parse()) else { return Err(expected()) };
    Ok(transport(host, port, false))
}

/// Reads `tcp:ADDRESS[:PORT]`.
pub(super) fn controller(text: &str) -> Result<Transport, String> {
    let expected = || "expected tcp:ADDRESS[:PORT]".to_owned();
    let rest = text.strip_prefix("tcp:").ok_or_else(expected)?;
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, port.parse()),
        None => (rest, Ok(DEFAULT_PORT)),
    };
    let (Ok(port), Ok(host)) = (port, host.parse()) else { return Err(expected()) };
    Ok(transport(host, port, true))
}

fn transport(host: Ipv4Addr, port: u16, is_client: bool) -> Transport {
    Transport {
        protocol: Protocol::Tcp,
        place: Place::Ip(host, port),
        local: None,
        is_client,
        no_delay: true,
        send_bytes: None,
        receive_bytes: None,
        loops: false,
    }
}

/// A place where a controller is, one at a time.
pub(super) struct Connection {
    wire: Box<dyn Wire>,
    is_ours: bool,
    /// The present controller, and which of its peers it is for the socket.
    open: Option<(ConnectionId, u64)>,
}

impl Connection {
    pub(super) fn new(wire: Box<dyn Wire>, is_ours: bool) -> Self {
        Self { wire, is_ours, open: None }
    }

    /// Moves bytes between the socket and the agent; whether there were any.
    pub(super) fn poll(&mut self, switch: &mut Switch, now_ns: u64) -> bool {
        let mut has_worked = false;
        let mut bytes = [0; READ_BYTES];
        for _ in 0..READS_MAX {
            let wants = self.open.is_none_or(|(id, _)| switch.agent().wants_input(id));
            if !wants {
                break;
            }
            let received = self.wire.receive(&mut bytes, &mut |_| true);
            self.note_peer(switch, now_ns);
            match received {
                Received::Nothing | Received::PeerChanges => break,
                Received::Passed => {}
                Received::Bytes(len) => {
                    if let Some((id, _)) = self.open {
                        switch.receive_control(id, &bytes[..len], now_ns);
                    }
                }
            }
            has_worked = true;
        }
        self.note_peer(switch, now_ns);
        has_worked | self.send(switch, now_ns)
    }

    /// Reports peers that came or went to the agent.
    fn note_peer(&mut self, switch: &mut Switch, now_ns: u64) {
        let peer = self.wire.has_peer().then(|| self.wire.peers());
        if self.open.map(|(_, peer)| peer) == peer {
            return;
        }
        if let Some((id, _)) = self.open.take() {
            switch.disconnect(id);
        }
        self.open = peer.map(|peer| (switch.connect(self.is_ours, now_ns), peer));
    }

    /// Sends what waits, and goes on with requests that waited for room.
    fn send(&mut self, switch: &mut Switch, now_ns: u64) -> bool {
        let Some((id, _)) = self.open else { return false };
        if switch.agent().has_input(id) {
            switch.receive_control(id, &[], now_ns);
        }
        let mut has_worked = false;
        loop {
            let bytes = switch.agent().transmit(id);
            if bytes.is_empty() {
                break;
            }
            match self.wire.send(bytes, None) {
                Sent::Bytes(len) if len > 0 => {
                    switch.agent().sent(id, len);
                    has_worked = true;
                }
                _ => break,
            }
        }
        if let Some(why) = switch.agent().close_reason(id) {
            self.wire.close(&format!(": {why}"));
            switch.disconnect(id);
            self.open = None;
        } else if self.wire.has_ended() && switch.agent().transmit(id).is_empty() {
            self.wire.close("");
        }
        while self.wire.news().is_some() {}
        has_worked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses() {
        let place = |host: [u8; 4], port| Place::Ip(host.into(), port);
        assert_eq!(listen("ptcp:7").unwrap().place, place([127, 0, 0, 1], 7));
        assert_eq!(listen("ptcp::0.0.0.0").unwrap().place, place([0, 0, 0, 0], 6653));
        assert_eq!(controller("tcp:10.0.0.1").unwrap().place, place([10, 0, 0, 1], 6653));
        assert_eq!(controller("tcp:10.0.0.1:7").unwrap().place, place([10, 0, 0, 1], 7));
        for text in ["tcp:1", "ptcp", "ptcp:70000", "ptcp:7:host"] {
            assert!(listen(text).is_err(), "{text}");
        }
        for text in ["ptcp:1", "tcp:host", "tcp:10.0.0.1:x", "ssl:10.0.0.1"] {
            assert!(controller(text).is_err(), "{text}");
        }
    }
}
