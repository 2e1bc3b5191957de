//! IPv4: checks, forwarding, errors.

mod check_ip_header;
mod check_transport_header;
mod dec_ip_ttl;
mod drop_broadcasts;
mod fast_udp_source;
mod fix_ip_src;
mod get_ip_address;
mod icmp_encap;
mod icmp_error;
mod icmp_ping_responder;
mod icmp_ping_source;
mod ip_encap;
mod ip_fragmenter;
mod ip_gw_options;
mod ip_input_combo;
mod ip_mirror;
mod ip_output_combo;
mod ip_print;
#[cfg(test)]
mod ip_print_tests;
mod ip_reassembler;
#[cfg(test)]
mod ip_reassembler_tests;
mod mark_ip_header;
mod ping_statistics;
#[cfg(test)]
mod router_tests;
mod set_ip_address;
mod set_ip_checksum;
mod set_ip_tos;
mod set_rand_ip_address;
mod set_transport_checksum;
mod store_ip_address;
mod strip_ip_header;
mod strip_tcp_header;
pub(crate) mod support;
mod tcp_fragmenter;
#[cfg(test)]
mod testing;
mod udp_ip_encap;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &check_ip_header::CLASS,
    &check_ip_header::CLASS2,
    &check_transport_header::ICMP,
    &check_transport_header::TCP,
    &check_transport_header::UDP,
    &dec_ip_ttl::CLASS,
    &drop_broadcasts::CLASS,
    &fast_udp_source::CLASS,
    &fix_ip_src::CLASS,
    &get_ip_address::CLASS,
    &icmp_encap::ANY,
    &icmp_encap::PING,
    &icmp_error::CLASS,
    &icmp_ping_responder::CLASS,
    &icmp_ping_source::CLASS,
    &ip_encap::CLASS,
    &ip_fragmenter::CLASS,
    &ip_gw_options::CLASS,
    &ip_input_combo::CLASS,
    &ip_mirror::CLASS,
    &ip_output_combo::CLASS,
    &ip_print::CLASS,
    &ip_reassembler::CLASS,
    &mark_ip_header::CLASS,
    &set_ip_address::CLASS,
    &set_ip_checksum::CLASS,
    &set_ip_tos::CE,
    &set_ip_tos::DSCP,
    &set_ip_tos::ECN,
    &set_rand_ip_address::CLASS,
    &set_transport_checksum::TCP,
    &set_transport_checksum::UDP,
    &store_ip_address::CLASS,
    &strip_ip_header::STRIP,
    &strip_ip_header::UNSTRIP,
    &strip_tcp_header::STRIP,
    &strip_tcp_header::UNSTRIP,
    &tcp_fragmenter::CLASS,
    &udp_ip_encap::CLASS,
];
