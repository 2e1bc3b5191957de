//! Meters: a token bucket per band (specification 1.3.5, 5.7).
//!
//! A packet takes its bits, or itself, out of the bucket of each band that holds enough. Of the
//! bands that do not, the one with the highest rate applies.

use std::collections::BTreeMap;

use warpswitch_rules::openflow::{Band, BandKind, Meter};

/// Bursts of a meter without burst sizes: so long a time at the band's rate …
const BURST_DEFAULT_PER_SECOND: u64 = 10;
/// … but at least so many bits, two full frames: a smaller bucket would stop every such frame.
const BURST_BITS_MIN: u64 = 2 * 1518 * 8;
/// … and at least so many packets.
const BURST_PACKETS_MIN: u64 = 2;
/// Tokens for a bit in a bucket of bits: a rate of 1 kbit/s gives one token a nanosecond.
const BIT_TOKENS: u64 = 1_000_000;
/// Tokens for a packet in a bucket of packets: a rate of one a second gives one token a nanosecond.
const PACKET_TOKENS: u64 = 1_000_000_000;

/// What a meter has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStats {
    /// The meter.
    pub meter: Meter,
    /// Flows that refer to it.
    pub flows: u32,
    /// Packets that it measured.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds since it was added.
    pub age_ns: u64,
    /// Packets and bytes to which each band applied.
    pub bands: Vec<(u64, u64)>,
}

/// A meter at work.
#[derive(Clone, Debug)]
pub(crate) struct MeterState {
    pub(crate) meter: Meter,
    pub(crate) created_ns: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) bands: Vec<BandState>,
}

/// A band at work.
#[derive(Clone, Debug)]
pub(crate) struct BandState {
    tokens: u64,
    filled_ns: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Meters by number.
pub(crate) type Meters = BTreeMap<u32, MeterState>;

impl MeterState {
    /// A meter whose buckets are full.
    pub(crate) fn new(meter: Meter, now: u64) -> Self {
        let full = |band: &Band| BandState {
            tokens: capacity(&meter, band),
            filled_ns: now,
            packets: 0,
            bytes: 0,
        };
        let bands = meter.bands.iter().map(full).collect();
        Self { created_ns: now, packets: 0, bytes: 0, bands, meter }
    }

    /// Measures a packet; what happens to it, if it is above a rate.
    pub(crate) fn measure(&mut self, bytes: usize, now: u64) -> Option<BandKind> {
        self.packets += 1;
        self.bytes += bytes as u64;
        let cost = match self.meter.in_packets {
            true => PACKET_TOKENS,
            false => bytes as u64 * 8 * BIT_TOKENS,
        };
        let mut applied: Option<usize> = None;
        for (place, (band, state)) in self.meter.bands.iter().zip(&mut self.bands).enumerate() {
            let elapsed_ns = now.saturating_sub(state.filled_ns);
            let fresh = elapsed_ns.saturating_mul(u64::from(band.rate));
            let tokens = state.tokens.saturating_add(fresh).min(capacity(&self.meter, band));
            state.filled_ns = state.filled_ns.max(now);
            state.tokens = tokens.checked_sub(cost).unwrap_or(tokens);
            let is_above = tokens < cost;
            if is_above && applied.is_none_or(|other| band.rate > self.meter.bands[other].rate) {
                applied = Some(place);
            }
        }
        let place = applied?;
        self.bands[place].packets += 1;
        self.bands[place].bytes += bytes as u64;
        Some(self.meter.bands[place].kind)
    }

    /// Its counters.
    pub(crate) fn stats(&self, flows: u32, now: u64) -> MeterStats {
        MeterStats {
            meter: self.meter.clone(),
            flows,
            packets: self.packets,
            bytes: self.bytes,
            age_ns: now.saturating_sub(self.created_ns),
            bands: self.bands.iter().map(|band| (band.packets, band.bytes)).collect(),
        }
    }
}

/// Tokens in a full bucket of a band.
fn capacity(meter: &Meter, band: &Band) -> u64 {
    let (burst, rate) = (u64::from(band.burst), u64::from(band.rate));
    match (meter.in_packets, meter.has_burst && burst > 0) {
        (true, true) => burst * PACKET_TOKENS,
        (true, false) => (rate / BURST_DEFAULT_PER_SECOND).max(BURST_PACKETS_MIN) * PACKET_TOKENS,
        (false, true) => (burst * 1000).max(BURST_BITS_MIN) * BIT_TOKENS,
        (false, false) => (rate * 1000 / BURST_DEFAULT_PER_SECOND).max(BURST_BITS_MIN) * BIT_TOKENS,
    }
}

/// The DSCP after its drop precedence was raised by `levels`, as far as it goes: assured
/// forwarding (RFC 2597) has three, other classes have none.
pub(crate) fn remark(dscp: u8, levels: u8) -> u8 {
    let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
    let is_assured = (1..=4).contains(&class) && precedence > 0 && dscp & 1 == 0;
    if !is_assured {
        return dscp;
    }
    class << 3 | precedence.saturating_add(levels).min(3) << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(in_packets: bool, bands: &[(u32, u32, BandKind)]) -> MeterState {
        let band = |&(rate, burst, kind): &(u32, u32, BandKind)| Band { rate, burst, kind };
        let bands = bands.iter().map(band).collect();
        MeterState::new(Meter { id: 1, in_packets, has_burst: true, has_stats: true, bands }, 0)
    }

    #[test]
    fn rates_hold_over_time() {
        // Twice the rate of 1 Mbit/s for ten seconds: half passes, and the burst.
        let mut state = meter(false, &[(1000, 100, BandKind::Drop)]);
        let passed = (0..2000u64).filter(|i| state.measure(1250, i * 5_000_000).is_none()).count();
        assert!((1000..=1011).contains(&passed), "{passed}");
        assert_eq!((state.packets, state.bytes), (2000, 2_500_000));
        assert_eq!(state.bands[0].packets, 2000 - passed as u64);

        let mut state = meter(true, &[(100, 1, BandKind::Drop)]);
        let passed = (0..1000u64).filter(|i| state.measure(60, i * 1_000_000).is_none()).count();
        assert_eq!(passed, 100);
    }

    #[test]
    fn the_highest_rate_that_is_passed_applies() {
        let bands = [(10, 1, BandKind::DscpRemark(1)), (20, 2, BandKind::Drop)];
        let mut state = meter(true, &bands);
        let kinds: Vec<_> = (0..3).map(|_| state.measure(60, 0)).collect();
        assert_eq!(kinds, [None, Some(BandKind::DscpRemark(1)), Some(BandKind::Drop)]);
    }

    #[test]
    fn drop_precedence_rises_inside_its_class() {
        assert_eq!([18, 20, 22].map(|dscp| remark(dscp, 1)), [20, 22, 22]);
        assert_eq!([0, 8, 46, 19].map(|dscp| remark(dscp, 1)), [0, 8, 46, 19]);
        assert_eq!(remark(10, 255), 14);
    }
}
