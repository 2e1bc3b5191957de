//! Names of ICMPv6 types and codes.
//!
//! Source: RFC 4443; RFC 4861 for redirects.

use warpswitch_graph::language::args::{FromArg, Names};

/// Type "destination unreachable".
pub(super) const UNREACHABLE: u8 = 1;
/// Type "packet too big".
pub(super) const PACKET_TOO_BIG: u8 = 2;
/// Type "time exceeded".
pub(super) const TIME_EXCEEDED: u8 = 3;
/// Type "parameter problem".
pub(super) const PARAMETER_PROBLEM: u8 = 4;
/// Type "redirect".
pub(super) const REDIRECT: u8 = 137;
/// Types below this are errors.
pub(super) const ERROR_TYPES_END: u8 = 128;

/// Types of messages that an element may answer packets with.
pub(super) const TYPES: &[(&str, u8)] = &[
    ("unreachable", UNREACHABLE),
    ("packettoobig", PACKET_TOO_BIG),
    ("toobig", PACKET_TOO_BIG),
    ("timeexceeded", TIME_EXCEEDED),
    ("parameterproblem", PARAMETER_PROBLEM),
    ("paramprob", PARAMETER_PROBLEM),
    ("redirect", REDIRECT),
];

/// The codes of a type.
pub(super) fn codes(kind: u8) -> &'static [(&'static str, u8)] {
    match kind {
        UNREACHABLE => &[
            ("noroute", 0),
            ("adminprohibited", 1),
            ("beyondscope", 2),
            ("address", 3),
            ("port", 4),
            ("policy", 5),
            ("rejectroute", 6),
        ],
        TIME_EXCEEDED => &[("transit", 0), ("reassembly", 1)],
        PARAMETER_PROBLEM => &[("erroratptr", 0), ("nextheader", 1), ("option", 2)],
        _ => &[],
    }
}

/// What `text` means, by one of these names or as a number.
pub(super) fn number(table: &[(&str, u8)], text: &str, names: &dyn Names) -> Option<u8> {
    let named = table.iter().find(|(name, _)| *name == text).map(|&(_, number)| number);
    named.or_else(|| u8::from_arg(text, names).ok())
}
