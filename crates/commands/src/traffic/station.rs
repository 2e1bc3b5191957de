//! A host on a link, as far as ARP needs one: answers requests, announces itself, resolves a
//! gateway.

use std::net::Ipv4Addr;

use warpswitch_packet::{Packet, Pool, RxPort, Transmitted, TxPort};
use warpswitch_wire::arp::{self, Arp, ArpRepr};
use warpswitch_wire::ethernet::{self, EtherType, Ethernet, EthernetRepr, MacAddr};
use warpswitch_wire::parse::parse_ethernet;

/// Bytes of an ARP frame without the check sequence.
const ARP_FRAME_BYTES: usize = 60;

/// Addresses that a station answers for.
#[derive(Clone, Copy, Debug)]
pub enum Addresses {
    /// So many from the first on.
    Range(Ipv4Addr, u32),
    /// All: the destinations of a trace or capture.
    All,
}

impl Addresses {
    fn contain(self, address: Ipv4Addr) -> bool {
        match self {
            Self::Range(first, count) => u32::from(address).wrapping_sub(first.into()) < count,
            Self::All => true,
        }
    }
}

/// See the module.
pub struct Station {
    /// Receives; a sink may receive from it as well, and pass frames to [`Station::handle`].
    pub rx: Box<dyn RxPort>,
    tx: Box<dyn TxPort>,
    mac: MacAddr,
    addresses: Addresses,
    /// The address that it resolves, and the answer.
    sought: Option<(Ipv4Addr, Option<MacAddr>)>,
    pool: Pool,
}

impl Station {
    /// A station that answers for `addresses` with `mac`.
    pub fn new(
        rx: Box<dyn RxPort>,
        tx: Box<dyn TxPort>,
        mac: MacAddr,
        addresses: Addresses,
    ) -> Self {
        Self { rx, tx, mac, addresses, sought: None, pool: Pool::new() }
    }

    /// Its Ethernet address.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Receives and handles frames; returns whether there were any.
    pub fn step(&mut self) -> bool {
        let mut batch = self.pool.batch();
        let received = self.rx.receive(&mut self.pool, &mut batch, 64);
        for packet in batch.iter() {
            self.handle(packet.data());
        }
        self.pool.recycle_batch(batch);
        received > 0
    }

    /// Handles a received frame: answers ARP requests, notes the answer that it waits for.
    pub fn handle(&mut self, frame: &[u8]) {
        let Ok(parsed) = parse_ethernet(frame) else { return };
        let Some(request) = parsed.arp(frame).and_then(|view| ArpRepr::parse(&view).ok()) else {
            return;
        };
        if let Some((address, found)) = &mut self.sought
            && request.sender_ip == *address
        {
            *found = Some(request.sender_mac);
        }
        // An announcement requests the address of its sender.
        let is_announcement = request.sender_ip == request.target_ip;
        if request.operation == arp::OPERATION_REQUEST
            && !is_announcement
            && self.addresses.contain(request.target_ip)
        {
            self.send(
                request.sender_mac,
                ArpRepr {
                    operation: arp::OPERATION_REPLY,
                    sender_mac: self.mac,
                    sender_ip: request.target_ip,
                    target_mac: request.sender_mac,
                    target_ip: request.sender_ip,
                },
            );
        }
    }

    /// Announces the first address, so that bridges learn where it is.
    pub fn announce(&mut self) {
        let address = match self.addresses {
            Addresses::Range(first, _) => first,
            Addresses::All => Ipv4Addr::UNSPECIFIED,
        };
        self.request(address, address);
    }

    /// Requests the Ethernet address of `gateway`; [`Station::resolved`] has it later.
    pub fn resolve(&mut self, gateway: Ipv4Addr, own: Ipv4Addr) {
        self.sought = Some((gateway, self.resolved()));
        self.request(own, gateway);
    }

    /// The Ethernet address that was resolved.
    pub fn resolved(&self) -> Option<MacAddr> {
        self.sought?.1
    }

    fn request(&mut self, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) {
        self.send(
            MacAddr::BROADCAST,
            ArpRepr {
                operation: arp::OPERATION_REQUEST,
                sender_mac: self.mac,
                sender_ip,
                target_mac: MacAddr::default(),
                target_ip,
            },
        );
    }

    fn send(&mut self, dst: MacAddr, message: ArpRepr) {
        let mut frame = [0; ARP_FRAME_BYTES];
        EthernetRepr { dst, src: self.mac, ether_type: EtherType::ARP }
            .emit(&mut Ethernet::new_unchecked(&mut frame[..]));
        message.emit(&mut Arp::new_unchecked(&mut frame[ethernet::HEADER_BYTES..]));
        self.send_frame(&frame);
    }

    /// Sends a frame; one that the port does not accept is lost, as on any link.
    pub fn send_frame(&mut self, frame: &[u8]) -> bool {
        let packets: [Packet; 1] = [self.pool.packet_of(frame)];
        let sent = self.tx.send(&packets);
        let [packet] = packets;
        self.pool.recycle(packet);
        sent == Transmitted::Frames(1)
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_io::MemoryPort;

    use super::*;

    fn station(port: &MemoryPort, last: u8, addresses: Addresses) -> Station {
        let mac = MacAddr([2, 0, 0, 0, 0, last]);
        Station::new(Box::new(port.clone()), Box::new(port.clone()), mac, addresses)
    }

    /// Whether a station with `addresses` answers for `target`.
    fn answers(addresses: Addresses, target: &str) -> bool {
        let (a, b) = MemoryPort::pair(16).unwrap();
        let own = Ipv4Addr::new(10, 0, 0, 1);
        let mut asker = station(&a, 1, Addresses::Range(own, 1));
        let mut answerer = station(&b, 2, addresses);
        asker.resolve(target.parse().unwrap(), own);
        assert!(answerer.step());
        asker.step();
        let found = asker.resolved();
        assert!(found.is_none() || found == Some(answerer.mac()));
        found.is_some()
    }

    #[test]
    fn answers_for_its_addresses_only() {
        let range = Addresses::Range(Ipv4Addr::new(10, 0, 0, 2), 2);
        for (target, expected) in
            [("10.0.0.1", false), ("10.0.0.2", true), ("10.0.0.3", true), ("10.0.0.4", false)]
        {
            assert_eq!(answers(range, target), expected, "{target}");
        }
        assert!(answers(Addresses::All, "192.0.2.77"));
    }

    #[test]
    fn announcements_are_not_answered() {
        let (a, b) = MemoryPort::pair(16).unwrap();
        let mut first = station(&a, 1, Addresses::All);
        let mut second = station(&b, 2, Addresses::All);
        first.announce();
        assert!(second.step());
        assert!(!first.step(), "no answer");
    }
}
