//! IP summary dumps: text with one line per packet and one column per field.
//!
//! ```text
//! !IPSummaryDump 1.3                     format and version
//! !data timestamp ip_src sport           the columns from here on
//! !proto U   !flowid SRC SPORT DST DPORT [PROTO]      defaults for missing columns
//! 996033261.451094 18.26.4.44 53         a packet; "-" is a missing value
//! ```
//! [`view`] extracts fields from packets, [`write`] encodes them, [`read`] builds packets from
//! lines, [`options`] implements the notation of IP and TCP options.

pub(crate) mod md5;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod read;
pub(crate) mod view;
pub(crate) mod write;

/// The version of the format that is written, and the newest that is read: 1 and this.
pub(crate) const MINOR_VERSION: u32 = 3;

/// A field that a column can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Field {
    Nothing,
    Timestamp,
    TimestampSeconds,
    TimestampMicroseconds,
    TimestampWholeMicroseconds,
    FirstTimestamp,
    Count,
    Link,
    Direction,
    Aggregate,
    WireLen,
    EthSrc,
    EthDst,
    EthType,
    IpSrc,
    IpDst,
    IpTos,
    IpDscp,
    IpEcn,
    IpTtl,
    IpFrag,
    IpFragOff,
    IpId,
    IpSum,
    IpProto,
    IpHl,
    IpLen,
    IpCaptureLen,
    IpOpt,
    Sport,
    Dport,
    TcpSeq,
    TcpAck,
    TcpOff,
    TcpFlags,
    TcpWindow,
    TcpUrp,
    TcpOpt,
    TcpNtOpt,
    TcpSack,
    UdpLen,
    IcmpType,
    IcmpTypeName,
    IcmpCode,
    IcmpCodeName,
    IcmpFlowId,
    IcmpSeq,
    IcmpNextMtu,
    PayloadLen,
    Payload,
    PayloadMd5,
    PayloadMd5Hex,
}

/// How a field is written in binary records, all numbers in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Not at all.
    None,
    /// So many bytes.
    Bytes(u8),
    /// Seconds and microseconds, four bytes each.
    Micro,
    /// Seconds and nanoseconds, four bytes each.
    Nano,
    /// A byte with a length, and so many bytes.
    Counted,
    /// It cannot be.
    TextOnly,
}

/// A field, its name and when it is applied: fields that others build on come first.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) field: Field,
    pub(crate) width: Width,
    pub(crate) order: u16,
    /// Whether packets can be made of it.
    pub(crate) is_input: bool,
}

const fn spec(name: &'static str, field: Field, width: Width, order: u16) -> Spec {
    Spec { name, field, width, order, is_input: true }
}

const fn bytes(name: &'static str, field: Field, width: u8, order: u16) -> Spec {
    spec(name, field, Width::Bytes(width), order)
}

/// A field that is written only.
const fn output(name: &'static str, field: Field, width: Width) -> Spec {
    Spec { name, field, width, order: 0, is_input: false }
}

/// A column that is passed over.
pub(crate) static NOTHING: Spec = spec("none", Field::Nothing, Width::None, 100);

/// All fields. Orders: 1xx annotations, 2xx link, 3xx network, 4xx transport, 5xx payload.
#[rustfmt::skip]
static FIELDS: &[Spec] = &[
    spec("timestamp", Field::Timestamp, Width::Micro, 100),
    spec("ntimestamp", Field::Timestamp, Width::Nano, 100),
    bytes("ts_sec", Field::TimestampSeconds, 4, 100),
    bytes("ts_usec", Field::TimestampMicroseconds, 4, 100),
    bytes("ts_usec1", Field::TimestampWholeMicroseconds, 8, 100),
    spec("first_timestamp", Field::FirstTimestamp, Width::Micro, 100),
    spec("first_ntimestamp", Field::FirstTimestamp, Width::Nano, 100),
    bytes("count", Field::Count, 4, 100),
    bytes("link", Field::Link, 1, 100),
    bytes("paint", Field::Link, 1, 100),
    bytes("direction", Field::Direction, 1, 100),
    bytes("aggregate", Field::Aggregate, 4, 100),
    bytes("wire_len", Field::WireLen, 4, 100),
    bytes("eth_src", Field::EthSrc, 6, 200),
    bytes("eth_dst", Field::EthDst, 6, 200),
    bytes("eth_type", Field::EthType, 2, 200),
    bytes("ip_src", Field::IpSrc, 4, 300),
    bytes("ip_dst", Field::IpDst, 4, 300),
    bytes("ip_tos", Field::IpTos, 1, 300),
    bytes("ip_dscp", Field::IpDscp, 1, 300),
    bytes("ip_ecn", Field::IpEcn, 1, 300),
    bytes("ip_ttl", Field::IpTtl, 1, 300),
    bytes("ip_frag", Field::IpFrag, 1, 298),
    bytes("ip_fragoff", Field::IpFragOff, 2, 299),
    bytes("ip_id", Field::IpId, 2, 300),
    bytes("ip_sum", Field::IpSum, 2, 302),
    bytes("ip_proto", Field::IpProto, 1, 300),
    bytes("ip_hl", Field::IpHl, 1, 299),
    bytes("ip_len", Field::IpLen, 4, 301),
    bytes("ip_capture_len", Field::IpCaptureLen, 4, 502),
    spec("ip_opt", Field::IpOpt, Width::Counted, 300),
    bytes("sport", Field::Sport, 2, 400),
    bytes("dport", Field::Dport, 2, 400),
    bytes("tcp_seq", Field::TcpSeq, 4, 400),
    bytes("tcp_ack", Field::TcpAck, 4, 400),
    bytes("tcp_off", Field::TcpOff, 1, 399),
    bytes("tcp_flags", Field::TcpFlags, 1, 400),
    bytes("tcp_window", Field::TcpWindow, 2, 400),
    bytes("tcp_urp", Field::TcpUrp, 2, 400),
    spec("tcp_opt", Field::TcpOpt, Width::Counted, 403),
    spec("tcp_ntopt", Field::TcpNtOpt, Width::Counted, 402),
    spec("tcp_sack", Field::TcpSack, Width::Counted, 401),
    bytes("udp_len", Field::UdpLen, 4, 400),
    bytes("icmp_type", Field::IcmpType, 1, 400),
    bytes("icmp_type_name", Field::IcmpTypeName, 1, 400),
    bytes("icmp_code", Field::IcmpCode, 1, 401),
    bytes("icmp_code_name", Field::IcmpCodeName, 1, 401),
    bytes("icmp_flowid", Field::IcmpFlowId, 2, 402),
    bytes("icmp_seq", Field::IcmpSeq, 2, 402),
    bytes("icmp_nextmtu", Field::IcmpNextMtu, 2, 402),
    spec("payload", Field::Payload, Width::TextOnly, 500),
    bytes("payload_len", Field::PayloadLen, 4, 501),
    output("payload_md5", Field::PayloadMd5, Width::Bytes(16)),
    output("payload_md5_hex", Field::PayloadMd5Hex, Width::Bytes(16)),
];

/// Other names of fields.
#[rustfmt::skip]
static SYNONYMS: &[(&str, &str)] = &[
    ("utimestamp", "timestamp"), ("ts", "timestamp"), ("sec", "ts_sec"), ("usec", "ts_usec"),
    ("usec1", "ts_usec1"), ("first_utimestamp", "first_timestamp"),
    ("first_ts", "first_timestamp"), ("pkt_count", "count"), ("packet_count", "count"),
    ("agg", "aggregate"), ("wire_length", "wire_len"), ("ether_src", "eth_src"),
    ("ether_dst", "eth_dst"), ("ether_type", "eth_type"), ("length", "ip_len"),
    ("ip_p", "ip_proto"), ("tcp_seqno", "tcp_seq"), ("tcp_ackno", "tcp_ack"),
    ("tcp_win", "tcp_window"), ("payload_length", "payload_len"),
];

/// The field called `name`: by its name or another, with spaces for underscores, or without `ip_`.
pub(crate) fn find(name: &str) -> Option<&'static Spec> {
    let named = |name: &str| {
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == name);
        let name = synonym.map_or(name, |(_, name)| name);
        FIELDS.iter().find(|spec| spec.name == name)
    };
    named(name).or_else(|| {
        let name = name.replace(' ', "_");
        named(&name).or_else(|| named(&format!("ip_{name}")).filter(|_| !name.contains('_')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_several_names() {
        let check = |name: &str, field: Option<&str>| {
            assert_eq!(find(name).map(|spec| spec.name), field, "{name}");
        };
        check("src", Some("ip_src"));
        check("len", Some("ip_len"));
        check("length", Some("ip_len"));
        check("tcp seq", Some("tcp_seq"));
        check("tcp_seqno", Some("tcp_seq"));
        check("proto", Some("ip_proto"));
        check("ip p", Some("ip_proto"));
        check("ts", Some("timestamp"));
        check("_src", None);
        check("ip_ip_src", None);
        check("", None);
    }
}
