//! Encodes fields as text or binary.

use std::fmt::Write;

use warpswitch_packet::Packet;

use super::options::{self};
use super::view::{Manner, Value, View};
use super::{Field, Spec, Width, md5, names};
use warpswitch_elements_support::digits::{decimal, fraction};

/// Letters of TCP flags, the lowest bit first.
pub(crate) const TCP_FLAGS: &str = "FSRPAUECN";

/// Writes a line for `packet` to `out`, and its first error to `bad` if errors are reported.
pub(crate) fn line(
    packet: &Packet,
    fields: &[&Spec],
    manner: Manner,
    out: &mut String,
    bad: &mut String,
) {
    let mut view = View::new(packet, manner);
    for (at, spec) in fields.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        match view.value(spec.field) {
            Some(value) => text(spec.field, &value, &mut view, out),
            None => out.push('-'),
        }
    }
    out.push('\n');
    if let Some(message) = view.bad() {
        let _ = writeln!(bad, "!bad {message}");
    }
}

fn text(field: Field, value: &Value<'_>, view: &mut View<'_>, out: &mut String) {
    match *value {
        Value::Number(number) => number_text(field, number, view, out),
        Value::Time(time) => time_text(time, out),
        Value::Address(address) => _ = write!(out, "{}", std::net::Ipv4Addr::from(address)),
        Value::Mac(mac) => {
            for (at, byte) in mac.iter().enumerate() {
                let _ = write!(out, "{}{byte:02X}", if at > 0 { "-" } else { "" });
            }
        }
        Value::Letter(letter) => out.push(letter as char),
        Value::IpOptions(bytes) => options::write_ip(bytes, out),
        Value::TcpOptions(bytes, which) => options::write_tcp(bytes, which, out),
        Value::Payload(bytes) => match field {
            Field::PayloadMd5 => out.push_str(&md5::text(md5::digest(bytes))),
            Field::PayloadMd5Hex => {
                for byte in md5::digest(bytes) {
                    let _ = write!(out, "{byte:02x}");
                }
            }
            _ => quote(bytes, out),
        },
    }
}

fn number_text(field: Field, number: u64, view: &mut View<'_>, out: &mut String) {
    let named = match (field, number) {
        (Field::Direction, 0) => Some(">"),
        (Field::Direction, 1) => Some("<"),
        (Field::IpProto, 6) => Some("T"),
        (Field::IpProto, 17) => Some("U"),
        (Field::IpProto, 1) => Some("I"),
        (Field::IpEcn, 0) => Some("no"),
        (Field::IpEcn, 1) => Some("ect1"),
        (Field::IpEcn, 2) => Some("ect2"),
        (Field::IpEcn, 3) => Some("ce"),
        (Field::TcpFlags, 0) => Some("."),
        (Field::TcpFlags, 0x18) => Some("PA"),
        (Field::IcmpTypeName, kind) => names::icmp_type_name(kind as u8),
        (Field::IcmpCodeName, _) => view.icmp_code_name(),
        _ => None,
    };
    if let Some(name) = named {
        return out.push_str(name);
    }
    let _ = match field {
        Field::IpFragOff => {
            let more = if number & 0x2000 != 0 { "+" } else { "" };
            let whole = if number & 0x4000 != 0 { "!" } else { "" };
            write!(out, "{}{more}{whole}", (number & 0x1fff) << 3)
        }
        Field::TcpFlags => {
            let flags = TCP_FLAGS.chars().enumerate();
            out.extend(flags.filter(|(bit, _)| number >> bit & 1 == 1).map(|(_, flag)| flag));
            Ok(())
        }
        Field::EthType => write!(out, "{number:04X}"),
        // Seconds before 1970 are negative.
        Field::TimestampSeconds => write!(out, "{}", number as i64),
        Field::TimestampWholeMicroseconds => write!(out, "{}", number as i64),
        _ => write!(out, "{number}"),
    };
}

/// Writes a time: six digits behind the point, or nine if it has them.
pub(crate) fn time_text(time: i64, out: &mut String) {
    let ns = time.unsigned_abs();
    out.push_str(if time < 0 { "-" } else { "" });
    decimal(out, ns / 1_000_000_000);
    out.push('.');
    fraction(out, ns % 1_000_000_000);
}

/// Writes `bytes` within quotes.
pub(crate) fn quote(bytes: &[u8], out: &mut String) {
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' | b'$' => out.extend(['\\', byte as char]),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push(byte as char),
            _ => _ = write!(out, "\\{byte:03o}"),
        }
    }
    out.push('"');
}

/// Writes a binary record for `packet` to `out`, and what is wrong with it to `bad`.
pub(crate) fn record(
    packet: &Packet,
    fields: &[&Spec],
    manner: Manner,
    out: &mut Vec<u8>,
    bad: &mut String,
) {
    let start = out.len();
    out.extend([0; 4]);
    let mut view = View::new(packet, manner);
    for spec in fields {
        let value = view.value(spec.field);
        binary(spec.width, value.as_ref(), out);
    }
    let bytes = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
    if let Some(message) = view.bad() {
        let _ = writeln!(bad, "!bad {message}");
    }
}

/// Writes a line of text as a record.
pub(crate) fn text_record(line: &str, out: &mut Vec<u8>) {
    out.extend(((line.len() as u32 + 4) | 1 << 31).to_be_bytes());
    out.extend(line.as_bytes());
}

fn binary(width: Width, value: Option<&Value<'_>>, out: &mut Vec<u8>) {
    let time = if let Some(Value::Time(time)) = value { *time } else { 0 };
    let (seconds, ns) = (time.div_euclid(1_000_000_000), time.rem_euclid(1_000_000_000));
    match width {
        Width::None | Width::TextOnly => {}
        Width::Micro | Width::Nano => {
            out.extend((seconds as u32).to_be_bytes());
            let fraction = if width == Width::Micro { ns / 1000 } else { ns };
            out.extend((fraction as u32).to_be_bytes());
        }
        Width::Counted => {
            let bytes = match value {
                Some(Value::IpOptions(bytes)) => bytes.to_vec(),
                Some(Value::TcpOptions(bytes, which)) => Value::tcp_options(bytes, *which),
                _ => Vec::new(),
            };
            out.push(bytes.len() as u8);
            out.extend(bytes);
        }
        Width::Bytes(width) => {
            let width = usize::from(width);
            match value {
                Some(Value::Number(number)) => out.extend(&number.to_be_bytes()[8 - width..]),
                Some(Value::Address(address)) => out.extend(address),
                Some(Value::Mac(mac)) => out.extend(mac),
                Some(Value::Letter(letter)) => out.push(*letter),
                Some(Value::Payload(bytes)) => out.extend(md5::digest(bytes)),
                _ => out.resize(out.len() + width, 0),
            }
        }
    }
}
