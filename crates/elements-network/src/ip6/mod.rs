//! IPv6 elements: header checks, forwarding, ICMPv6 errors, neighbour discovery.

mod check_ip6_header;
mod check_ip6_mtu;
mod dec_ip6_hlim;
mod fix_ip6_src;
mod icmp6_error;
mod icmp6_ping_responder;
mod ip6_addresses;
mod ip6_mirror;
mod ip6_nd_advertiser;
mod ip6_nd_solicitor;
mod ip6_print;
mod mark_ip6_header;
mod names;
mod neighbour_message;
mod neighbours;
mod set_icmp6_checksum;
mod support;
#[cfg(test)]
mod testing;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &check_ip6_header::CLASS,
    &check_ip6_mtu::CLASS,
    &check_ip6_mtu::FRAGMENTER,
    &dec_ip6_hlim::CLASS,
    &fix_ip6_src::CLASS,
    &icmp6_error::CLASS,
    &icmp6_ping_responder::CLASS,
    &ip6_addresses::GET,
    &ip6_addresses::SET,
    &ip6_addresses::STORE,
    &ip6_mirror::CLASS,
    &ip6_nd_advertiser::CLASS,
    &ip6_nd_solicitor::CLASS,
    &ip6_print::CLASS,
    &mark_ip6_header::CLASS,
    &set_icmp6_checksum::CLASS,
];
