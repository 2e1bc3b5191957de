//! Prints a line for each IPv4 packet.
//!
//! # Synopsis
//! `IPPrint([LABEL], CONTENTS, PAYLOAD, MAXLENGTH, ID, TIMESTAMP, PAINT, TOS, TTL, SWAP, LENGTH,
//! AGGREGATE, ACTIVE, OUTFILE, CHANNEL)`
//!
//! # Ports
//! One input, one output; push or pull. Packets whose network header is not set are forwarded
//! without a line.
//!
//! # Configuration
//! - `LABEL`: text in front of each line
//! - `CONTENTS`: print the bytes of the packet: `none` (default), `hex` or `ascii`
//! - `PAYLOAD`: print the bytes behind the TCP or UDP header, with the same values; excludes
//!   `CONTENTS`
//! - `MAXLENGTH`: maximum number of bytes to print, negative for all; default: 1500. `NBYTES` is a
//!   synonym
//! - `TIMESTAMP`: print the timestamp; default: true
//! - `ID`, `TOS`, `TTL`, `LENGTH`, `PAINT`, `AGGREGATE`: print that header field or annotation;
//!   default: false
//! - `SWAP`: read identifier and sequence number of ICMP echo messages in network byte order;
//!   default: true
//! - `ACTIVE`: print at all; default: true
//! - `OUTFILE`: file to print to
//! - `CHANNEL`: accepted for compatibility, ignored
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! ... -> CheckIPHeader -> IPPrint(in) -> ...;
//! ```

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, Raw, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::packet::{Header, annotation};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4};
use warpswitch_wire::tcp::TcpFlags;

use super::support::{get_u16, get_u32, ipv4, is_fragment, transport};
use crate::lines::Lines;
use warpswitch_elements_lookup::names::{ICMP_TYPES, PROTOCOLS, icmp_codes, name};
use warpswitch_elements_support::digits::{decimal, dotted, fraction};
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IPPrint", "1/1", "a/a", || Box::new(IpPrint::new()));

/// Place of the aggregate annotation.
const AGGREGATE: usize = 20;

/// How bytes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bytes {
    Not,
    Hex,
    Ascii,
}

/// See the module.
#[derive(Debug)]
pub struct IpPrint {
    label: String,
    bytes: Bytes,
    /// Whether only what lies behind the transport header is shown.
    payload_only: bool,
    bytes_max: i32,
    id: bool,
    timestamp: bool,
    paint: bool,
    tos: bool,
    ttl: bool,
    swap: bool,
    length: bool,
    aggregate: bool,
    active: bool,
    lines: Lines,
    line: String,
}

impl IpPrint {
    fn new() -> Self {
        Self {
            label: String::new(),
            bytes: Bytes::Not,
            payload_only: false,
            bytes_max: 1500,
            id: false,
            timestamp: true,
            paint: false,
            tos: false,
            ttl: false,
            swap: true,
            length: false,
            aggregate: false,
            active: true,
            lines: Lines::default(),
            line: String::new(),
        }
    }

    /// Sets what is shown of the bytes, from two words.
    fn set_bytes(&mut self, contents: &str, payload: &str) -> Result<(), String> {
        let read = |word: &str| match (bool::from_arg(word, &NoNames), &word.to_uppercase()[..]) {
            (Ok(false), _) | (_, "NO" | "NONE" | "FALSE") => Some(Bytes::Not),
            (Ok(true), _) | (_, "YES" | "TRUE" | "HEX") => Some(Bytes::Hex),
            (_, "ASCII") => Some(Bytes::Ascii),
            _ => None,
        };
        let of_all = read(contents).ok_or_else(|| {
            format!("bad contents value '{contents}'; should be 'NONE', 'HEX', or 'ASCII'")
        })?;
        let of_payload = read(payload).ok_or_else(|| {
            format!("bad payload value '{payload}'; should be 'false', 'hex', or 'ascii'")
        })?;
        match (of_all, of_payload) {
            (_, Bytes::Not) => self.bytes = of_all,
            (Bytes::Not, _) => (self.bytes, self.payload_only) = (of_payload, true),
            _ => return Err("specify at most one of PAYLOAD and CONTENTS".to_owned()),
        }
        Ok(())
    }

    /// Writes the line about `packet`.
    fn describe(&self, out: &mut String, packet: &Packet) {
        if !self.label.is_empty() {
            out.push_str(&self.label);
            out.push_str(": ");
        }
        if self.timestamp {
            write_time(out, packet.timestamp_ns());
        }
        if self.aggregate {
            let _ = write!(out, "#{}", packet.anno_u32(AGGREGATE));
        }
        if self.paint {
            let before = if self.aggregate { "." } else { "paint " };
            let _ = write!(out, "{before}{}", packet.anno_u8(annotation::PAINT));
        }
        if self.aggregate || self.paint {
            out.push_str(": ");
        }
        let Some(view) = ipv4(packet) else { return out.push_str("truncated-ip") };
        self.write_fields(out, &view);
        let bytes = transport(packet);
        match view.proto() {
            IpProto::TCP => write_tcp(out, &view, bytes, packet.len()),
            IpProto::UDP => write_udp(out, &view, bytes),
            IpProto::ICMP => write_icmp(out, &view, bytes, self.swap),
            IpProto(proto) => {
                write_pair(out, &view, "");
                let _ = write!(out, "ip-proto-{proto}");
            }
        }
        if is_fragment(&view) {
            let payload_bytes = view.total_bytes() as i64 - view.header_bytes() as i64;
            let (id, at) = (view.identification(), u32::from(view.fragment_offset()) * 8);
            let more = if view.more_fragments() { "+" } else { "" };
            let _ = write!(out, " (frag {id}:{payload_bytes}@{at}{more})");
        }
        self.write_bytes(out, packet, &view);
    }

    fn write_fields(&self, out: &mut String, view: &Ipv4<&[u8]>) {
        for (is_wanted, what, value) in [
            (self.id, "id", usize::from(view.identification())),
            (self.ttl, "ttl", usize::from(view.ttl())),
            (self.tos, "tos", usize::from(view.tos())),
            (self.length, "length", view.total_bytes()),
        ] {
            if is_wanted {
                let _ = write!(out, "{what} {value} ");
            }
        }
    }

    fn write_bytes(&self, out: &mut String, packet: &Packet, view: &Ipv4<&[u8]>) {
        let mut bytes = packet.data();
        if self.payload_only {
            bytes = &packet.from_header(Header::Network)[view.header_bytes()..];
            let skip = match view.proto() {
                _ if view.fragment_offset() != 0 => 0,
                IpProto::TCP => bytes.get(12).map_or(0, |words| usize::from(words >> 4) * 4),
                IpProto::UDP => 8,
                _ => 0,
            };
            bytes = bytes.get(skip..).unwrap_or(&[]);
        }
        let most = usize::try_from(self.bytes_max).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(most)];
        let (per_line, per_group) = match self.bytes {
            Bytes::Not => return,
            Bytes::Hex => (24, 4),
            Bytes::Ascii => (48, 8),
        };
        for (idx, &byte) in bytes.iter().enumerate() {
            if idx % per_line == 0 {
                out.push_str("\n  ");
            } else if idx % per_group == 0 {
                out.push(' ');
            }
            match self.bytes {
                Bytes::Hex => {
                    let _ = write!(out, "{byte:02x}");
                }
                _ if matches!(byte, 32..=126) => out.push(char::from(byte)),
                _ => out.push('.'),
            }
        }
    }
}

/// Writes seconds with six decimal places, or nine if the time has a fraction of a microsecond.
pub(super) fn write_time(out: &mut String, ns: i64) {
    decimal(out, ns.div_euclid(1_000_000_000));
    out.push('.');
    fraction(out, ns.rem_euclid(1_000_000_000) as u64);
    out.push_str(": ");
}

fn write_pair(out: &mut String, view: &Ipv4<&[u8]>, what: &str) {
    dotted(out, view.src());
    out.push_str(" > ");
    dotted(out, view.dst());
    out.push_str(": ");
    out.push_str(what);
}

/// Both ends with their ports.
fn write_ends(out: &mut String, view: &Ipv4<&[u8]>, bytes: &[u8]) {
    let (from, to) = (get_u16(bytes, 0), get_u16(bytes, 2));
    for (idx, (address, port)) in [(view.src(), from), (view.dst(), to)].into_iter().enumerate() {
        dotted(out, address);
        out.push('.');
        decimal(out, port);
        out.push_str(if idx == 0 { " > " } else { ": " });
    }
}

fn write_tcp(out: &mut String, view: &Ipv4<&[u8]>, bytes: &[u8], packet_bytes: usize) {
    let is_first = view.fragment_offset() == 0;
    if bytes.len() < 4 || !is_first {
        return write_pair(out, view, if is_first { "truncated-tcp" } else { "tcp" });
    }
    write_ends(out, view, bytes);
    if bytes.len() < 14 {
        return out.push_str("truncated-tcp");
    }
    let total_bytes = view.total_bytes();
    let header_bytes = usize::from(bytes[12] >> 4) * 4;
    let flags = TcpFlags(u16::from(bytes[13]));
    let mut len = total_bytes as i64 - (view.header_bytes() + header_bytes) as i64;
    let shown = [
        (TcpFlags::SYN, 'S', 1),
        (TcpFlags::FIN, 'F', 1),
        (TcpFlags::RST, 'R', 0),
        (TcpFlags::PSH, 'P', 0),
    ];
    let start = out.len();
    for (flag, letter, takes) in shown {
        if flags.contains(flag) {
            out.push(letter);
            len += takes;
        }
    }
    if out.len() == start {
        out.push('.');
    }
    let seq = get_u32(bytes, 4);
    let end = seq.wrapping_add(len as u32);
    out.push(' ');
    decimal(out, seq);
    out.push(':');
    decimal(out, end);
    out.push('(');
    decimal(out, len);
    out.push(',');
    decimal(out, packet_bytes);
    out.push(',');
    decimal(out, total_bytes);
    out.push(')');
    if flags.contains(TcpFlags::ACK) {
        out.push_str(" ack ");
        decimal(out, get_u32(bytes, 8));
    }
    if bytes.len() < 16 {
        return out.push_str("truncated-tcp");
    }
    out.push_str(" win ");
    decimal(out, get_u16(bytes, 14));
}

fn write_udp(out: &mut String, view: &Ipv4<&[u8]>, bytes: &[u8]) {
    let is_first = view.fragment_offset() == 0;
    if bytes.len() < 4 || !is_first {
        return write_pair(out, view, if is_first { "truncated-udp" } else { "udp" });
    }
    write_ends(out, view, bytes);
    if bytes.len() < 8 {
        return out.push_str("truncated-udp");
    }
    out.push_str("udp ");
    decimal(out, get_u16(bytes, 4));
}

fn write_icmp(out: &mut String, view: &Ipv4<&[u8]>, bytes: &[u8], swap: bool) {
    write_pair(out, view, "");
    if view.fragment_offset() != 0 {
        return out.push_str("icmp");
    }
    let &[kind, code, ..] = bytes else { return out.push_str("truncated-icmp") };
    match kind {
        0 | 8 => {
            out.push_str(if kind == 0 { "icmp echo-reply " } else { "icmp echo " });
            if bytes.len() < 8 {
                return out.push_str("truncated-icmp");
            }
            let number =
                |at| if swap { get_u16(bytes, at) } else { get_u16(bytes, at).swap_bytes() };
            let _ = write!(out, "({}, {})", number(4), number(6));
        }
        3 => write_unreachable(out, bytes, code),
        _ => {
            let _ = match name(ICMP_TYPES, kind) {
                Some(name) => write!(out, "icmp {name}"),
                None => write!(out, "icmp type {kind}"),
            };
            let _ = match name(icmp_codes(kind), code) {
                Some(name) => write!(out, " {name}"),
                None if code != 0 => write!(out, " code {code}"),
                None => Ok(()),
            };
        }
    }
}

/// What a message about an unreachable destination quotes.
fn write_unreachable(out: &mut String, bytes: &[u8], code: u8) {
    const PROTOCOL: u8 = 2;
    const PORT: u8 = 3;
    const NEED_FRAGMENTS: u8 = 4;
    let why = name(icmp_codes(3), code).map_or_else(|| format!("code {code}"), str::to_owned);
    let quoted = bytes.get(8..).unwrap_or(&[]);
    if quoted.len() < HEADER_BYTES {
        let _ = write!(out, "icmp unreachable {why} truncated-icmp");
        return;
    }
    let dst = Ipv4Addr::from(get_u32(quoted, 16));
    let _ = write!(out, "icmp {dst} unreachable {why}");
    let protocol = name(PROTOCOLS, quoted[9]);
    match code {
        PROTOCOL => {
            let _ = match protocol {
                Some(name) => write!(out, " {name}"),
                None => write!(out, " {}", quoted[9]),
            };
        }
        PORT => {
            let _ = match protocol {
                Some(name) => write!(out, " {name}"),
                None => write!(out, " protocol {}", quoted[9]),
            };
            let ports = quoted.get(usize::from(quoted[0] & 15) * 4..).unwrap_or(&[]);
            let _ = match ports {
                [_, _, high, low, ..] => write!(out, "/{}", u16::from_be_bytes([*high, *low])),
                _ => write!(out, "truncated-icmp"),
            };
        }
        NEED_FRAGMENTS if get_u16(bytes, 6) != 0 => {
            let _ = write!(out, " (mtu {})", get_u16(bytes, 6));
        }
        _ => {}
    }
}

impl Element for IpPrint {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut contents, mut payload) = (Word("no".to_owned()), Word("no".to_owned()));
        let mut channel = Raw::default();
        args.read_p("LABEL", &mut self.label)
            .read("CONTENTS", &mut contents)
            .read("PAYLOAD", &mut payload)
            .read("MAXLENGTH", &mut self.bytes_max)
            .read("NBYTES", &mut self.bytes_max)
            .read("ID", &mut self.id)
            .read("TIMESTAMP", &mut self.timestamp)
            .read("PAINT", &mut self.paint)
            .read("TOS", &mut self.tos)
            .read("TTL", &mut self.ttl)
            .read("SWAP", &mut self.swap)
            .read("LENGTH", &mut self.length)
            .read("AGGREGATE", &mut self.aggregate)
            .read("ACTIVE", &mut self.active)
            .read("OUTFILE", &mut self.lines.path)
            .read("CHANNEL", &mut channel);
        args.note_output("OUTFILE", &self.lines.path);
        if let Err(message) = self.set_bytes(&contents.0, &payload.0) {
            args.error_at("", &message);
        }
        args.complete()
    }

    fn initialize(&mut self, _cx: &mut Context<'_>) -> Result<(), String> {
        self.lines.open()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        if !self.active {
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        for packet in batch.iter() {
            if packet.header_offset(Header::Network).is_none() {
                continue;
            }
            if !line.is_empty() {
                line.push('\n');
            }
            self.describe(&mut line, packet);
        }
        // One write for the batch: a write for each line costs more than the line.
        if !line.is_empty() {
            self.lines.say(cx, &line);
            line.clear();
        }
        self.line = line;
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("active")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.active.to_string())
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.active = parse_seen(cx, value)?;
        Ok(String::new())
    }

    fn finish(&mut self, _cx: &mut Context<'_>) -> Result<(), String> {
        self.lines.finish()
    }
}
