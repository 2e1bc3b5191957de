//! Setters change their field and nothing else, and incremental checksums keep up with them.

mod common;

use common::{V4, V6, ipv4, ipv6, tcp, udp};
use proptest::prelude::*;
use warpswitch_wire::checksum::{PseudoHeader, update_bytes, update_u16, update_u32};
use warpswitch_wire::checksum::{update_udp_u16, update_udp_u32};
use warpswitch_wire::ethernet::{EtherType, Ethernet, MacAddr};
use warpswitch_wire::icmp::Icmp;
use warpswitch_wire::icmpv6::Icmpv6;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::ipv6::Ipv6;
use warpswitch_wire::mpls::Mpls;
use warpswitch_wire::sctp::Sctp;
use warpswitch_wire::tcp::Tcp;
use warpswitch_wire::udp::Udp;
use warpswitch_wire::vlan::Vlan;

/// Checks that `set` changes exactly the bytes `range` of 64 zero bytes, to `expected`.
fn check(set: impl FnOnce(&mut [u8]), at: usize, expected: &[u8]) {
    let mut bytes = [0; 64];
    set(&mut bytes);
    let mut wanted = [0; 64];
    wanted[at..at + expected.len()].copy_from_slice(expected);
    assert_eq!(bytes, wanted);
}

#[test]
fn setters_write_their_field_alone() {
    let mac = MacAddr([1, 2, 3, 4, 5, 6]);
    check(|b| Ethernet::new_unchecked(b).set_dst(mac), 0, &mac.0);
    check(|b| Ethernet::new_unchecked(b).set_src(mac), 6, &mac.0);
    check(|b| Ethernet::new_unchecked(b).set_ether_type(EtherType(0x1234)), 12, &[0x12, 0x34]);
    check(|b| Ethernet::new_unchecked(b).payload_mut()[0] = 9, 14, &[9]);
    check(|b| Vlan::new_unchecked(b).set_tci(0x1234), 0, &[0x12, 0x34]);
    check(|b| Vlan::new_unchecked(b).set_ether_type(EtherType(0x1234)), 2, &[0x12, 0x34]);
    check(|b| Mpls::new_unchecked(b).set_ttl(9), 3, &[9]);
    check(|b| Ipv4::new_unchecked(b).set_tos(9), 1, &[9]);
    check(|b| Ipv4::new_unchecked(b).set_ttl(9), 8, &[9]);
    check(|b| Ipv4::new_unchecked(b).set_checksum(0x1234), 10, &[0x12, 0x34]);
    check(|b| Ipv4::new_unchecked(b).set_src([1, 2, 3, 4].into()), 12, &[1, 2, 3, 4]);
    check(|b| Ipv4::new_unchecked(b).set_dst([1, 2, 3, 4].into()), 16, &[1, 2, 3, 4]);
    check(|b| Ipv6::new_unchecked(b).set_hop_limit(9), 7, &[9]);
    check(|b| Ipv6::new_unchecked(b).set_src([7; 16].into()), 8, &[7; 16]);
    check(|b| Ipv6::new_unchecked(b).set_dst([7; 16].into()), 24, &[7; 16]);
    check(|b| Tcp::new_unchecked(b).set_src_port(0x1234), 0, &[0x12, 0x34]);
    check(|b| Tcp::new_unchecked(b).set_dst_port(0x1234), 2, &[0x12, 0x34]);
    check(|b| Tcp::new_unchecked(b).set_checksum(0x1234), 16, &[0x12, 0x34]);
    check(|b| Udp::new_unchecked(b).set_src_port(0x1234), 0, &[0x12, 0x34]);
    check(|b| Udp::new_unchecked(b).set_dst_port(0x1234), 2, &[0x12, 0x34]);
    check(|b| Udp::new_unchecked(b).set_checksum(0x1234), 6, &[0x12, 0x34]);
    check(|b| Sctp::new_unchecked(b).set_src_port(0x1234), 0, &[0x12, 0x34]);
    check(|b| Sctp::new_unchecked(b).set_dst_port(0x1234), 2, &[0x12, 0x34]);
    check(|b| Icmp::new_unchecked(b).set_kind_and_code(3, 4), 0, &[3, 4]);
    check(|b| Icmpv6::new_unchecked(b).set_kind_and_code(3, 4), 0, &[3, 4]);
    let packet = ipv4(IpProto::UDP, &[1, 2, 3]);
    assert_eq!(Ipv4::new_unchecked(packet.clone()).payload_mut(), [1, 2, 3]);
    assert_eq!(Ipv6::new_unchecked(ipv6(IpProto::UDP, &[1, 2, 3])).payload_mut(), [1, 2, 3]);
}

/// A word that is often a corner of one's-complement arithmetic.
fn word() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0u16), Just(0xffff), Just(1), any::<u16>()]
}

proptest! {
    /// Address and port translation of IPv4, as a router or a firewall does it.
    #[test]
    fn translation_of_ipv4_keeps_checksums_right(
        (high, low, port) in (word(), word(), word()),
        payload in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let address = u32::from(high) << 16 | u32::from(low);
        let mut packet = ipv4(IpProto::TCP, &tcp(&V4, &[], &payload));
        let mut ip = Ipv4::new_unchecked(&mut packet[..]);
        let old = u32::from(ip.src());
        let checksum = update_u32(ip.checksum(), old, address);
        ip.set_src(address.into());
        ip.set_checksum(checksum);
        let ttl_before = u16::from(ip.ttl()) << 8 | u16::from(ip.proto().0);
        let checksum = update_u16(ip.checksum(), ttl_before, ttl_before - 0x100);
        ip.set_ttl(63);
        ip.set_checksum(checksum);
        prop_assert!(ip.is_checksum_right());
        ip.fill_checksum();
        prop_assert_eq!(ip.checksum(), checksum);

        let pseudo = PseudoHeader::V4 { src: ip.src(), dst: ip.dst() };
        let mut tcp = Tcp::new_unchecked(ip.payload_mut());
        let checksum = update_u32(tcp.checksum(), old, address);
        let checksum = update_u16(checksum, tcp.src_port(), port);
        tcp.set_src_port(port);
        tcp.set_checksum(checksum);
        prop_assert!(tcp.is_checksum_right(&pseudo));
        tcp.fill_checksum(&pseudo);
        prop_assert_eq!(tcp.checksum(), checksum);
    }

    #[test]
    fn translation_of_udp_over_both_families_keeps_checksums_right(
        (high, low, port) in (word(), word(), word()),
        payload in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let address = u32::from(high) << 16 | u32::from(low);
        let PseudoHeader::V4 { src: old, dst } = V4 else { unreachable!() };
        let mut datagram = udp(&V4, &payload);
        let mut view = Udp::new_unchecked(&mut datagram[..]);
        let checksum = update_udp_u32(view.checksum(), old.into(), address);
        let checksum = update_udp_u16(checksum, view.dst_port(), port);
        view.set_dst_port(port);
        view.set_checksum(checksum);
        let pseudo = PseudoHeader::V4 { src: address.into(), dst };
        prop_assert!(view.is_checksum_right(&pseudo));
        view.fill_checksum(&pseudo);
        prop_assert_eq!(view.checksum(), checksum);

        let PseudoHeader::V6 { src: old, dst } = V6 else { unreachable!() };
        let mut datagram = udp(&V6, &payload);
        let mut view = Udp::new_unchecked(&mut datagram[..]);
        let new = core::net::Ipv6Addr::from(u128::from(address) << 64);
        let checksum = match update_bytes(view.checksum(), &old.octets(), &new.octets()) {
            0 => 0xffff,
            checksum => checksum,
        };
        let pseudo = PseudoHeader::V6 { src: new, dst };
        view.fill_checksum(&pseudo);
        prop_assert_eq!(view.checksum(), checksum);
    }
}
