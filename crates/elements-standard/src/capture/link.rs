//! Link types of captures: encapsulation names, and the offset of the IP header.

use warpswitch_elements_support::link::wire_bytes;
use warpswitch_graph::Context;
use warpswitch_graph::language::args::split::split_args;
use warpswitch_graph::language::{FlatElement, Visit, nearest};
use warpswitch_packet::{Header, Packet, PacketType};
use warpswitch_wire::link::LinkType;
use warpswitch_wire::link_watch::is_ip;

/// What packets start with, under the names that arguments and handlers use.
const ENCAPS: &[(&str, LinkType, u32)] = &[
    ("ETHER", LinkType::Ethernet, 1),
    ("IP", LinkType::RawIp, 101),
    ("NULL", LinkType::Loopback, 0),
    ("LINUX_SLL", LinkType::Sll, 113),
    ("FDDI", LinkType::Unsupported(10), 10),
    ("ATM", LinkType::Unsupported(100), 100),
    ("RFC1483", LinkType::Unsupported(100), 100),
    ("802.11", LinkType::Unsupported(105), 105),
    ("SLL", LinkType::Sll, 113),
    ("PPP", LinkType::Unsupported(9), 9),
    ("LINUX_SLL2", LinkType::Sll2, 276),
];

/// Who looks for headers in frames as they come.
const LOOKERS: [&str; 3] = ["IDSMatcher", "GPUIDSMatcher", "SDNClassifier"];

/// The name of an element that looks for headers in what the element of `cx` gives, if there is one
/// that nothing stands before which may take other headers off.
pub(crate) fn looks_for_headers(cx: &Context<'_>) -> Option<String> {
    unchanged_at(cx, |element| LOOKERS.contains(&&*element.class))
}

/// The name of a downstream `ToDump` whose arguments do not specify the encapsulation, if one is
/// reached from the element of `cx` without passing an element that may add or remove headers.
pub(crate) fn writes_by_default(cx: &Context<'_>) -> Option<String> {
    let keyword = |arg: &String| arg.split_ascii_whitespace().next().unwrap_or("").to_owned();
    unchanged_at(cx, |element| {
        let args = split_args(&element.config);
        let says = args.iter().any(|arg| ["ENCAP", "USE_ENCAP_FROM"].contains(&&*keyword(arg)));
        // Without a keyword it is the third one, a word.
        let third = args.get(2).is_some_and(|arg| !arg.contains(char::is_whitespace));
        element.class == "ToDump" && !says && !third
    })
}

/// The name of an element that `is_meant` and gets what the element of `cx` gives, with nothing
/// before it that may take headers off or put others on.
fn unchanged_at(cx: &Context<'_>, is_meant: impl Fn(&FlatElement) -> bool) -> Option<String> {
    let elements = &cx.graph().elements;
    let changes = |class: &str| ["Strip", "Encap", "Decap"].iter().any(|part| class.contains(part));
    let stops = |visit: Visit| changes(&elements[visit.at.element].class);
    let found = cx.flow().downstream(cx.element(), None, stops);
    let meant = found.into_iter().map(|element| &elements[element]).find(|it| is_meant(it))?;
    Some(meant.name.clone())
}

/// Whether a packet starts with the IP header that it is known to have.
pub(crate) fn starts_with_ip(packet: &Packet) -> bool {
    packet.header_offset(Header::Network) == Some(0)
        && is_ip(LinkType::RawIp, packet.data(), wire_bytes(packet))
}

/// The number that capture files have for the encapsulation called `name`.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    ENCAPS.iter().find(|(other, ..)| *other == name).map(|(_, _, number)| *number)
}

/// What there is in place of an encapsulation called `name`.
pub(crate) fn expected_encap(name: &str) -> String {
    let names = || ENCAPS.iter().map(|(name, ..)| *name);
    let meant = names().find(|known| known.eq_ignore_ascii_case(name));
    let meant = meant.or_else(|| nearest(name, names()));
    let meant = meant.map_or(String::new(), |near| format!(": did you mean '{near}'?"));
    format!("ENCAP takes {}{meant}", names().collect::<Vec<_>>().join(", "))
}

/// What `ENCAP` calls `link`.
pub(crate) fn encap_of(link: LinkType) -> Option<&'static str> {
    ENCAPS.iter().find(|(_, other, _)| *other == link).map(|(name, ..)| *name)
}

/// What handlers call `link`.
pub(crate) fn name_of(link: LinkType) -> &'static str {
    encap_of(link).unwrap_or("??")
}

/// Sets the packet type of `packet` from the destination of its Ethernet header.
pub(crate) fn set_packet_type(packet: &mut Packet) {
    let kind = match packet.data() {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => PacketType::Broadcast,
        [first, ..] if first & 1 == 1 => PacketType::Multicast,
        _ => PacketType::Host,
    };
    packet.set_packet_type(kind);
}
