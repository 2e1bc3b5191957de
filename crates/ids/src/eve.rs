//! EVE: alerts and counters as JSON, one event a line, with the field names of Suricata.
//!
//! ```text
//! {"timestamp":"2026-01-01T00:00:00.000000+0000","flow_id":1,"pcap_cnt":4,"event_type":"alert",
//!  "src_ip":"10.0.0.1","src_port":1025,"dest_ip":"10.0.0.2","dest_port":80,"proto":"TCP",
//!  "alert":{"action":"allowed","gid":1,"signature_id":7,"rev":1,"signature":"…",
//!  "category":"Misc activity","severity":3},"direction":"to_server"}
//! ```
//! Times are of packets and in UTC, numbers count from 1: the same packets give the same bytes.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::engine::Engine;
use crate::inspect::{Alert, Inspector, Stats, Uninspected};
use crate::rule::Direction;
use crate::text::classes::class;

#[derive(Serialize)]
struct AlertEvent<'a> {
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pcap_cnt: Option<u64>,
    event_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    vlan: Option<Vec<u16>>,
    src_ip: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    dest_ip: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_port: Option<u16>,
    proto: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_type: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_code: Option<u8>,
    alert: AlertPart<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u8>,
}

#[derive(Serialize)]
struct AlertPart<'a> {
    action: &'static str,
    gid: u32,
    signature_id: u32,
    rev: u32,
    signature: &'a str,
    category: &'a str,
    severity: u32,
}

#[derive(Serialize)]
struct StatsEvent {
    timestamp: String,
    event_type: &'static str,
    stats: StatsPart,
}

/// Counters as the event `stats` has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatsPart {
    /// Packets.
    pub decoder: DecoderStats,
    /// IP fragments.
    pub defrag: DefragStats,
    /// Flows.
    pub flow: FlowStats,
    /// TCP streams.
    pub tcp: TcpStats,
    /// Messages of HTTP.
    pub http: HttpStats,
    /// Rules.
    pub detect: DetectStats,
}

/// Packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecoderStats {
    /// Packets.
    pub pkts: u64,
    /// Their captured bytes.
    pub bytes: u64,
    /// Packets whose headers cannot be read.
    pub invalid: u64,
    /// Packets that are neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// IP fragments whose packets did not become whole.
    pub fragments: u64,
    /// Packets that the capture has in part.
    pub cut: u64,
}

/// IP fragments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefragStats {
    /// Fragments.
    pub fragments: u64,
    /// Packets that became whole.
    pub reassembled: u64,
    /// Packets that took too long.
    pub timed_out: u64,
    /// Packets that were given up to make room.
    pub evicted: u64,
    /// Fragments of no place in a packet, or that the capture has in part.
    pub unusable: u64,
    /// Fragments that say something else than what came before.
    pub overlap_diff_data: u64,
    /// The most bytes that fragments took.
    pub memuse_peak: u64,
}

/// Flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowStats {
    /// Flows that began.
    pub total: u64,
    /// Flows that ended as nothing was heard of them.
    pub timed_out: u64,
    /// Flows that ended to make room.
    pub evicted: u64,
    /// Flows that ended for the memory of streams.
    pub evicted_for_memory: u64,
}

/// TCP streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TcpStats {
    /// Connections that were met midway.
    pub midstream_pickups: u64,
    /// Segments that had come before.
    pub retransmissions: u64,
    /// Segments that had to wait for others.
    pub out_of_order: u64,
    /// Segments of no place in their stream.
    pub out_of_window: u64,
    /// Segments that say something else than what came before.
    pub overlap_diff_data: u64,
    /// Places where bytes are missing.
    pub reassembly_gap: u64,
    /// Bytes that are missing there.
    pub reassembly_gap_bytes: u64,
    /// The most bytes that streams held.
    pub reassembly_memuse_peak: u64,
}

/// Messages of HTTP, which are read where a rule is about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HttpStats {
    /// Requests whose heads were looked at.
    pub requests: u64,
    /// Responses, the same.
    pub responses: u64,
    /// Sides that were not looked at any more before their stream ended.
    pub given_up: u64,
}

/// Rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DetectStats {
    /// Rules that are looked for.
    pub rules_loaded: u64,
    /// Rules that were left out.
    pub rules_left_out: u64,
    /// Alerts.
    pub alert: u64,
    /// Alerts that rules with `pass` took back.
    pub alerts_passed: u64,
    /// Alerts that thresholds kept quiet.
    pub alerts_suppressed: u64,
    /// Windows of thresholds that were forgotten for others.
    pub thresholds_evicted: u64,
    /// Rules that were looked at for a text.
    pub candidates: u64,
    /// Texts for which there was too much work.
    pub work_cut: u64,
}

/// The counters of an inspector.
pub fn stats(inspector: &Inspector) -> StatsPart {
    let stats: Stats = inspector.stats();
    let uninspected = |reason: Uninspected| stats.uninspected[reason as usize];
    let (streams, fragments) = (&stats.streams, &stats.fragments);
    StatsPart {
        decoder: DecoderStats {
            pkts: stats.packets,
            bytes: stats.bytes,
            invalid: uninspected(Uninspected::Malformed),
            not_ip: uninspected(Uninspected::NotIp),
            fragments: uninspected(Uninspected::Fragment),
            cut: stats.cut,
        },
        defrag: DefragStats {
            fragments: fragments.fragments,
            reassembled: fragments.whole,
            timed_out: fragments.timed_out,
            evicted: fragments.evicted,
            unusable: fragments.unusable,
            overlap_diff_data: fragments.conflicts,
            memuse_peak: fragments.bytes_peak,
        },
        flow: FlowStats {
            total: stats.flows,
            timed_out: stats.flows_timed_out,
            evicted: stats.flows_evicted,
            evicted_for_memory: stats.flows_evicted_for_memory,
        },
        tcp: TcpStats {
            midstream_pickups: stats.flows_midstream,
            retransmissions: streams.retransmissions,
            out_of_order: streams.out_of_order,
            out_of_window: streams.out_of_window,
            overlap_diff_data: streams.conflicts,
            reassembly_gap: streams.gaps,
            reassembly_gap_bytes: streams.gap_bytes,
            reassembly_memuse_peak: stats.stream_bytes_peak,
        },
        http: HttpStats {
            requests: stats.http_requests,
            responses: stats.http_responses,
            given_up: stats.http_given_up,
        },
        detect: DetectStats {
            rules_loaded: inspector.engine().rules().len() as u64,
            rules_left_out: inspector.engine().left_out().len() as u64,
            alert: stats.alerts,
            alerts_passed: stats.passed,
            alerts_suppressed: stats.suppressed,
            thresholds_evicted: stats.thresholds_evicted,
            candidates: stats.candidates,
            work_cut: stats.work_cut,
        },
    }
}

/// The counters of an inspector as text has them, `GROUP.NAME`, in the order of their names; and as
/// `tcp.reassembly_memuse` the bytes that streams hold at the moment.
pub fn counters(inspector: &Inspector) -> Vec<(String, u64)> {
    let groups = serde_json::to_value(stats(inspector)).unwrap_or_default();
    let mut counters = vec![("tcp.reassembly_memuse".to_owned(), inspector.stream_bytes() as u64)];
    for (group, fields) in groups.as_object().into_iter().flatten() {
        for (name, value) in fields.as_object().into_iter().flatten() {
            counters.push((format!("{group}.{name}"), value.as_u64().unwrap_or(0)));
        }
    }
    counters.sort_unstable();
    counters
}

/// Whose numbers the packets of an inspector are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// A capture's, all of whose packets it gets: alerts tell them.
    Capture,
    /// Its own.
    Own,
}

/// Writes an alert as a line; one without a flow has neither `flow_id` nor `direction`.
///
/// # Errors
/// If `out` does.
pub fn write_alert(
    out: &mut impl Write,
    engine: &Engine,
    alert: &Alert,
    numbers: Numbers,
) -> io::Result<()> {
    let about = &engine.rule(alert.rule).about;
    let is_icmp = alert.icmp.is_some();
    let ports = alert.ports.filter(|_| !is_icmp);
    let category = class(&about.classtype).map_or(about.classtype.as_str(), |class| class.0);
    let has_flow = alert.flow_id != 0;
    let has_payload = !alert.payload.is_empty();
    let event = AlertEvent {
        timestamp: timestamp(alert.timestamp_ns),
        flow_id: has_flow.then_some(alert.flow_id),
        pcap_cnt: (numbers == Numbers::Capture).then_some(alert.number),
        event_type: "alert",
        vlan: alert.vlans[0].map(|_| alert.vlans.into_iter().flatten().collect()),
        src_ip: alert.src.to_string(),
        src_port: ports.map(|ports| ports.0),
        dest_ip: alert.dst.to_string(),
        dest_port: ports.map(|ports| ports.1),
        proto: proto(alert.ip_proto),
        icmp_type: alert.icmp.map(|icmp| icmp.0),
        icmp_code: alert.icmp.map(|icmp| icmp.1),
        alert: AlertPart {
            action: "allowed",
            gid: about.gid,
            signature_id: about.sid,
            rev: about.rev,
            signature: &about.msg,
            category,
            severity: about.priority,
        },
        direction: has_flow.then_some(match alert.direction {
            Direction::ToServer => "to_server",
            Direction::ToClient => "to_client",
        }),
        payload: has_payload.then(|| STANDARD.encode(&alert.payload)),
        stream: has_payload.then_some(u8::from(alert.in_stream)),
    };
    line(out, &event)
}

/// Writes the counters as a line, at the time of the latest packet.
///
/// # Errors
/// If `out` does.
pub fn write_stats(out: &mut impl Write, inspector: &Inspector) -> io::Result<()> {
    let timestamp = timestamp(inspector.now_ns());
    line(out, &StatsEvent { timestamp, event_type: "stats", stats: stats(inspector) })
}

fn line(out: &mut impl Write, event: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, event)?;
    out.write_all(b"\n")
}

fn proto(number: u8) -> String {
    match number {
        1 => "ICMP".into(),
        6 => "TCP".into(),
        17 => "UDP".into(),
        47 => "GRE".into(),
        50 => "ESP".into(),
        51 => "AH".into(),
        58 => "IPv6-ICMP".into(),
        132 => "SCTP".into(),
        other => other.to_string(),
    }
}

/// A time as `2026-01-31T23:59:59.123456+0000`.
fn timestamp(ns: u64) -> String {
    let (seconds, micros) = (ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that a leap day is the last: 400 years have 146,097 days.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + carry;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let second = second % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds: u64| timestamp(seconds * 1_000_000_000);
        assert_eq!(at(0), "1970-01-01T00:00:00.000000+0000");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000000+0000");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000+0000");
        assert_eq!(at(1_704_067_199), "2023-12-31T23:59:59.000000+0000");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000+0000");
        assert_eq!(timestamp(1_500), "1970-01-01T00:00:00.000001+0000");
        assert!(timestamp(u64::MAX).starts_with("2554-"));
    }
}
