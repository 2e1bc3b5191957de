//! The table of a learning switch: behind which port an Ethernet address is.
//!
//! Used by outputs to the port `NORMAL`, and by a switch without controllers in the fail mode
//! `standalone`. Memory: 24 bytes an address, at most [`ADDRESSES_MAX`] addresses; the address
//! that was seen longest ago makes room.

use std::collections::HashMap;

/// The most addresses, as Open vSwitch has by default.
pub const ADDRESSES_MAX: usize = 8192;
/// Nanoseconds after which an address is forgotten that sends nothing.
const AGE_MAX: u64 = 300 * 1_000_000_000;

/// An Ethernet address in a VLAN; VLAN 0 for frames without a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Station {
    vlan: u16,
    address: [u8; 6],
}

/// Where a station was seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    port: u32,
    at: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct LearningTable {
    stations: HashMap<Station, Seen>,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// Out of this port.
    Port(u32),
    /// Out of all ports that flood, except the one it came in on.
    Flood,
    /// Nowhere: its receiver is behind the port that it came in on.
    Drop,
}

impl LearningTable {
    /// Learns the source of a frame and finds where it goes. `frame` has at least 12 bytes, as
    /// frames that have a flow key do; `vlan` is the id in its tag, or 0.
    pub fn forward(&mut self, frame: &[u8], vlan: u16, in_port: u32, now: u64) -> Forward {
        let Some(&source) = frame.get(6..).and_then(|rest| rest.first_chunk::<6>()) else {
            return Forward::Drop;
        };
        // A group address is never a source.
        if source[0] & 1 == 0 {
            self.learn(Station { vlan, address: source }, Seen { port: in_port, at: now });
        }
        self.find(frame, vlan, in_port, now)
    }

    /// Finds where a frame goes, and learns nothing.
    pub fn find(&self, frame: &[u8], vlan: u16, in_port: u32, now: u64) -> Forward {
        let Some(&destination) = frame.first_chunk::<6>() else { return Forward::Drop };
        let seen = self.stations.get(&Station { vlan, address: destination });
        match seen.filter(|seen| now.saturating_sub(seen.at) <= AGE_MAX) {
            Some(seen) if seen.port == in_port => Forward::Drop,
            Some(seen) => Forward::Port(seen.port),
            None => Forward::Flood,
        }
    }

    fn learn(&mut self, station: Station, seen: Seen) {
        let is_full = self.stations.len() >= ADDRESSES_MAX;
        if is_full && !self.stations.contains_key(&station) {
            self.make_room(seen.at);
        }
        self.stations.insert(station, seen);
    }

    /// Forgets what is too old, or else the older half, so that a flood of addresses does not
    /// search the table for each.
    fn make_room(&mut self, now: u64) {
        self.stations.retain(|_, seen| now.saturating_sub(seen.at) <= AGE_MAX);
        if self.stations.len() >= ADDRESSES_MAX {
            let mut times: Vec<u64> = self.stations.values().map(|seen| seen.at).collect();
            let (_, &mut median, _) = times.select_nth_unstable(ADDRESSES_MAX / 2);
            self.stations.retain(|_, seen| seen.at > median);
        }
    }

    /// The addresses: port, VLAN, address and age in nanoseconds, in this order.
    pub fn entries(&self, now: u64) -> Vec<(u32, u16, [u8; 6], u64)> {
        let entry = |(station, seen): (&Station, &Seen)| {
            (seen.port, station.vlan, station.address, now.saturating_sub(seen.at))
        };
        let mut entries: Vec<_> = self.stations.iter().map(entry).collect();
        entries.sort_unstable();
        entries
    }

    /// Forgets all addresses.
    pub fn clear(&mut self) {
        self.stations.clear();
    }

    /// Forgets the addresses behind a port that went down.
    pub fn forget_port(&mut self, port: u32) {
        self.stations.retain(|_, seen| seen.port != port);
    }

    /// The number of addresses.
    pub fn len(&self) -> usize {
        self.stations.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.stations.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn frame(destination: u16, source: u16) -> Vec<u8> {
        let address = |host: u16| [&[2, 0, 0, 0][..], &host.to_be_bytes()].concat();
        [address(destination), address(source)].concat()
    }

    #[test]
    fn a_frame_goes_where_its_receiver_was_seen() {
        let mut table = LearningTable::default();
        assert_eq!(table.forward(&frame(2, 1), 0, 10, 0), Forward::Flood);
        assert_eq!(table.forward(&frame(1, 2), 0, 20, 0), Forward::Port(10));
        assert_eq!(table.forward(&frame(1, 3), 0, 10, 0), Forward::Drop);
        assert_eq!(table.forward(&frame(1, 2), 7, 20, 0), Forward::Flood, "another VLAN");
        // It moved.
        table.forward(&frame(9, 1), 0, 30, SECOND);
        assert_eq!(table.forward(&frame(1, 2), 0, 20, SECOND), Forward::Port(30));
        table.forget_port(30);
        assert_eq!(table.forward(&frame(1, 2), 0, 20, SECOND), Forward::Flood);
    }

    #[test]
    fn addresses_age_and_are_bounded() {
        let mut table = LearningTable::default();
        table.forward(&frame(0, 1), 0, 10, 0);
        assert_eq!(table.forward(&frame(1, 2), 0, 20, 301 * SECOND), Forward::Flood);
        for host in 0..20_000 {
            table.forward(&frame(0, host), 0, 10, u64::from(host));
            assert!(table.len() <= ADDRESSES_MAX);
        }
        assert_eq!(table.forward(&frame(19_999, 1), 0, 20, 20_000), Forward::Port(10));
    }

    #[test]
    fn group_addresses_and_short_frames_teach_nothing() {
        let mut table = LearningTable::default();
        let mut from_group = frame(2, 1);
        from_group[6] |= 1;
        assert_eq!(table.forward(&from_group, 0, 10, 0), Forward::Flood);
        assert_eq!(table.forward(&[0; 11], 0, 10, 0), Forward::Drop);
        assert!(table.is_empty());
    }
}
