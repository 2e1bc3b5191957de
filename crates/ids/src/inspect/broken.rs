//! Packets whose transport header is broken or cut off: rules of `ip` need only the IP header.
//!
//! Such a packet has no ports, no payload and no flow. It is matched against the rules that need
//! none of these, and its alerts take the packet's place among the others. It still counts as
//! [`Uninspected::Malformed`].

use super::{Alert, Inspector, Packet, Uninspected};
use crate::decode::{Decoded, decode_network};
use crate::engine::FlowFacts;
use crate::rule::{Action, Direction};
use crate::threshold::Occurrence;

/// A packet without a readable transport header, and the rules that match it, in their order.
#[derive(Debug)]
pub(super) struct BrokenPacket {
    decoded: Decoded<'static>,
    /// The packet of the batch.
    packet: u32,
    number: u64,
    timestamp_ns: u64,
    rules: Vec<u32>,
}

impl Inspector {
    /// Matches a packet that `decode` refused; returns whether its alerts wait in `self.broken`.
    pub(super) fn take_broken(
        &mut self,
        packet: &Packet<'_>,
        idx: u32,
        reason: Uninspected,
    ) -> bool {
        if reason != Uninspected::Malformed || self.engine.network_rules().is_empty() {
            return false;
        }
        let decoded = decode_network(packet.link, packet.bytes, packet.wire_bytes);
        let number = self.stats.packets;
        self.broken = decoded
            .and_then(|decoded| self.match_broken(decoded, idx, number, packet.timestamp_ns));
        self.broken.is_some()
    }

    /// The rules that match a packet by its IP header; `None` without any.
    pub(super) fn match_broken(
        &mut self,
        decoded: Decoded<'static>,
        packet: u32,
        number: u64,
        timestamp_ns: u64,
    ) -> Option<BrokenPacket> {
        let scratches = &mut self.scratch.scratches;
        let candidates = &mut scratches.candidates;
        candidates.clear();
        candidates.extend_from_slice(self.engine.network_rules());
        self.stats.candidates += candidates.len() as u64;
        let no_flow = FlowFacts { direction: Direction::ToServer, is_established: false };
        self.engine.in_turn((&decoded, &no_flow), candidates, &mut scratches.open);
        candidates.sort_unstable();
        let rules = candidates.clone();
        (!rules.is_empty()).then_some(BrokenPacket { decoded, packet, number, timestamp_ns, rules })
    }

    /// Adds the alerts of a broken packet, unless a rule with `pass` matches it.
    pub(super) fn report_broken(&mut self, broken: &BrokenPacket, alerts: &mut Vec<Alert>) {
        let BrokenPacket { decoded, packet, number, timestamp_ns, rules } = broken;
        let is_pass = |&rule: &u32| self.engine.rule(rule).action == Action::Pass;
        let is_passed = rules.iter().any(is_pass);
        for &idx in rules {
            let rule = self.engine.rule(idx);
            if rule.action == Action::Pass || rule.no_alert {
                continue;
            }
            if is_passed {
                self.stats.passed += 1;
                continue;
            }
            let (src, dst, is_ipv6) = (decoded.src_number, decoded.dst_number, decoded.is_ipv6);
            let time_ns = *timestamp_ns;
            let occurrence = Occurrence { rule: idx, src, dst, is_ipv6, flow_id: 0, time_ns };
            if let Some(threshold) = &rule.threshold
                && !self.windows.tells(threshold, &occurrence)
            {
                self.stats.suppressed += 1;
                continue;
            }
            alerts.push(Alert {
                packet: Some(*packet),
                number: *number,
                timestamp_ns: *timestamp_ns,
                ..Alert::of_packet(idx, decoded)
            });
            self.by_rule[idx as usize] += 1;
            self.stats.alerts += 1;
        }
    }
}
