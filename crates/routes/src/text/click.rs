//! Click's routes: `ADDR/MASK [GATEWAY] PORT`, separated by commas or line ends.

use std::fmt::{self, Write};

use super::diagnostic::{Place, Word, words};
use super::{Out, Reader, Via, address, length, lines, prefix_looks};
use crate::address::Address;
use crate::prefix::Prefix;

/// The most ports that an element may have.
const PORTS_MAX: u32 = 1 << 16;

pub(super) fn read<A: Address>(reader: &mut Reader<'_, A>, text: &[u8]) {
    let text = without_comments(text);
    for (line_no, line) in lines(&text) {
        let place = reader.place(line_no, line);
        let mut start = 0;
        for part in line.split(|&byte| byte == b',') {
            let words = words(line, start..start + part.len());
            start += part.len() + 1;
            route(reader, &place, &words);
        }
    }
}

fn route<A: Address>(reader: &mut Reader<'_, A>, place: &Place<'_>, words: &[Word<'_>]) {
    let Some((first, rest)) = words.split_first() else { return };
    let prefix = masked_prefix(first.text);
    if prefix.is_none() {
        reader.error(place, first, "not a prefix of this family", prefix_looks::<A>());
    }
    let (gateway, port) = match rest {
        [] => return reader.missing(place, words, "the output port is missing", "a number"),
        [port] => (Some(None), port),
        [gateway, port] if gateway.text == "-" => (Some(None), port),
        [gateway, port] => (reader.address(place, gateway).map(Some), port),
        [_, _, extra, ..] => {
            let expected = "a comma or the end of the line";
            return reader.error(place, extra, "unexpected text after the route", expected);
        }
    };
    let number = port.text.parse().ok().filter(|&number| number < PORTS_MAX);
    if number.is_none() {
        reader.error(place, port, "not an output port", "a number below 65536");
    }
    if let (Some(prefix), Some(gateway), Some(number)) = (prefix, gateway, number) {
        // Click writes 0.0.0.0 for no gateway, too.
        let gateway = gateway.filter(|gateway: &A| gateway.to_left() != 0);
        reader.route(place, first, prefix, Via { gateway, out: Out::Port(number) });
    }
}

/// `ADDR/LEN`, `ADDR/MASK` or `ADDR`; bits behind the mask are dropped, as Click does.
fn masked_prefix<A: Address>(text: &str) -> Option<Prefix<A>> {
    let (addr, mask) = text.split_once('/').unwrap_or((text, ""));
    let addr: A = address(addr)?;
    if !text.contains('/') {
        return Some(Prefix::containing(addr, A::BITS));
    }
    if let Some(mask) = address::<A>(mask) {
        let len = mask.to_left().leading_ones();
        let is_mask = mask.to_left().count_ones() == len;
        return is_mask.then(|| Prefix::containing(addr, len as u8));
    }
    Some(Prefix::containing(addr, length::<A>(mask).ok()?))
}

/// The text with comments as spaces, so that places stay what they are.
fn without_comments(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    let mut at = 0;
    while at + 1 < text.len() {
        let end = match &text[at..at + 2] {
            b"//" => text[at..].iter().position(|&b| b == b'\n').map(|len| at + len),
            b"/*" => {
                let inside = &text[at + 2..];
                inside.windows(2).position(|two| two == b"*/").map(|len| at + len + 4)
            }
            _ => {
                at += 1;
                continue;
            }
        };
        let end = end.unwrap_or(text.len());
        text[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        at = end;
    }
    text
}

pub(super) fn write<A: Address>(text: &mut String, prefix: Prefix<A>, via: &Via<A>) -> fmt::Result {
    let Out::Port(port) = via.out else { return Err(fmt::Error) };
    match via.gateway {
        _ if port >= PORTS_MAX => Err(fmt::Error),
        Some(gateway) => writeln!(text, "{prefix} {} {port}", gateway.to_std()),
        None => writeln!(text, "{prefix} - {port}"),
    }
}
