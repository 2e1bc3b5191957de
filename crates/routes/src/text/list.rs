//! Lists: `PREFIX [GATEWAY or PORT]`, one a line.

use std::fmt::{self, Write};

use super::diagnostic::words;
use super::{Out, Reader, Via, address, lines};
use crate::address::Address;
use crate::prefix::Prefix;

pub(super) fn read<A: Address>(reader: &mut Reader<'_, A>, text: &[u8]) {
    for (line_no, line) in lines(text) {
        let end = line.iter().position(|&byte| byte == b'#').unwrap_or(line.len());
        let place = reader.place(line_no, line);
        let words = words(line, 0..end);
        let Some((first, rest)) = words.split_first() else { continue };
        let prefix = reader.prefix(&place, first);
        let via = match rest.first() {
            None => Some(Via { gateway: None, out: Out::Unknown }),
            Some(hop) => {
                let port = hop.text.parse().ok().map(Out::Port);
                let via = match (port, address(hop.text)) {
                    (Some(out), _) => Some(Via { gateway: None, out }),
                    (_, Some(gateway)) => Some(Via { gateway: Some(gateway), out: Out::Unknown }),
                    _ => None,
                };
                if via.is_none() {
                    reader.error(&place, hop, "not a next hop", "an address or a port's number");
                }
                via
            }
        };
        if let Some(extra) = rest.get(1) {
            reader.error(
                &place,
                extra,
                "unexpected text after the next hop",
                "the end of the line",
            );
        } else if let (Some(prefix), Some(via)) = (prefix, via) {
            reader.route(&place, first, prefix, via);
        }
    }
}

pub(super) fn write<A: Address>(text: &mut String, prefix: Prefix<A>, via: &Via<A>) -> fmt::Result {
    match (via.gateway, &via.out) {
        (None, Out::Unknown) => writeln!(text, "{prefix}"),
        (None, Out::Port(port)) => writeln!(text, "{prefix} {port}"),
        (Some(gateway), Out::Unknown) => writeln!(text, "{prefix} {}", gateway.to_std()),
        _ => Err(fmt::Error),
    }
}
