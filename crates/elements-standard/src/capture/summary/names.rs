//! Names of ICMP types and codes, and of IP protocols.

/// Names of ICMP types.
#[rustfmt::skip]
const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0), ("unreachable", 3), ("sourcequench", 4), ("redirect", 5), ("echo", 8),
    ("routeradvert", 9), ("routersolicit", 10), ("timeexceeded", 11), ("parameterproblem", 12),
    ("timestamp", 13), ("timestamp-reply", 14), ("inforeq", 15), ("inforeq-reply", 16),
    ("maskreq", 17), ("maskreq-reply", 18),
];

/// Names of ICMP codes, by type.
#[rustfmt::skip]
const ICMP_CODES: &[(u8, &[(&str, u8)])] = &[
    (3, &[
        ("net", 0), ("host", 1), ("protocol", 2), ("port", 3), ("needfrag", 4),
        ("srcroutefail", 5), ("netunknown", 6), ("hostunknown", 7), ("hostisolated", 8),
        ("netprohibited", 9), ("hostprohibited", 10), ("nettos", 11), ("hosttos", 12),
        ("filterprohibited", 13), ("hostprecedence", 14), ("precedencecutoff", 15),
    ]),
    (5, &[("net", 0), ("host", 1), ("nettos", 2), ("hosttos", 3)]),
    (11, &[("transit", 0), ("reassembly", 1)]),
    (12, &[("erroratptr", 0), ("missingopt", 1), ("length", 2)]),
];

/// Names of IP protocols.
#[rustfmt::skip]
const PROTOCOLS: &[(&str, u8)] = &[
    ("I", 1), ("icmp", 1), ("igmp", 2), ("ipip", 4), ("T", 6), ("tcp", 6), ("U", 17),
    ("udp", 17), ("dccp", 33), ("gre", 47), ("icmp6", 58), ("sctp", 132), ("udplite", 136),
];

fn number_of(names: &[(&str, u8)], text: &str) -> Option<u8> {
    let named = names.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    named.or_else(|| super::read::number(text).and_then(|number| u8::try_from(number).ok()))
}

fn name_of(names: &[(&'static str, u8)], number: u8) -> Option<&'static str> {
    names.iter().find(|(_, other)| *other == number).map(|(name, _)| *name)
}

fn codes(kind: u8) -> &'static [(&'static str, u8)] {
    ICMP_CODES.iter().find(|(other, _)| *other == kind).map_or(&[], |(_, codes)| codes)
}

/// The ICMP type called `text`, or the number.
pub(crate) fn icmp_type(text: &str) -> Option<u8> {
    number_of(ICMP_TYPES, text)
}

/// The name of ICMP type `kind`.
pub(crate) fn icmp_type_name(kind: u8) -> Option<&'static str> {
    name_of(ICMP_TYPES, kind)
}

/// The code called `text` of ICMP type `kind`, or the number.
pub(crate) fn icmp_code(kind: Option<u8>, text: &str) -> Option<u8> {
    number_of(kind.map_or(&[], codes), text)
}

/// The name of code `code` of ICMP type `kind`.
pub(crate) fn icmp_code_name(kind: u8, code: u8) -> Option<&'static str> {
    name_of(codes(kind), code)
}

/// The protocol called `text`, or the number; `T`, `U` and `I` are the three usual ones.
pub(crate) fn protocol(text: &str) -> Option<u8> {
    number_of(PROTOCOLS, text)
}

/// Whether packets of ICMP type `kind` have an identifier and a number.
pub(crate) fn icmp_has_flow(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13..=16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_stand_for_each_other() {
        assert_eq!(
            (icmp_type("echo"), icmp_type("200"), icmp_type("256")),
            (Some(8), Some(200), None)
        );
        assert_eq!((icmp_type_name(3), icmp_type_name(99)), (Some("unreachable"), None));
        assert_eq!(icmp_code(Some(3), "needfrag"), Some(4));
        assert_eq!((icmp_code(Some(8), "needfrag"), icmp_code(None, "4")), (None, Some(4)));
        assert_eq!((icmp_code_name(11, 1), icmp_code_name(0, 0)), (Some("reassembly"), None));
        assert_eq!((protocol("U"), protocol("tcp"), protocol("47")), (Some(17), Some(6), Some(47)));
    }
}
