//! Lines that `IPPrint` prints for packets.

use warpswitch_packet::Pool;
use warpswitch_wire::ip::IpProto;

use super::testing::{ipv4, run, source, unhex};

/// Returns what is printed for a packet, without its time.
fn line(bytes: &[u8], arguments: &str) -> String {
    let source = source(bytes);
    let arguments = format!("{arguments}, TIMESTAMP no");
    let arguments = arguments.trim_start_matches(", ");
    let (_, said, _) =
        run(&format!("{source} -> MarkIPHeader -> IPPrint({arguments}) -> Discard;"));
    said.join("\n")
}

fn tcp(flags: u8, bytes: usize) -> Vec<u8> {
    let mut segment = unhex("0014 001e 00000064 000000c8 50000000 00000000");
    segment[13] = flags;
    segment[15] = 9;
    segment.extend(b"0123456789abcdef");
    ipv4(&segment[..bytes], |repr| repr.proto = IpProto::TCP)
}

const ENDS: &str = "18.26.4.44.20 > 10.0.0.4.30: ";

#[test]
fn tcp_is_told() {
    let check = |bytes: &[u8], text: &str| {
        assert_eq!(line(bytes, ""), format!("{ENDS}{text}"));
    };
    check(&tcp(0x10, 36), ". 100:116(16,56,56) ack 200 win 9");
    check(&tcp(0x02, 20), "S 100:101(1,40,40) win 9");
    check(&tcp(0x03, 36), "SF 100:118(18,56,56) win 9");
    check(&tcp(0x1c, 36), "RP 100:116(16,56,56) ack 200 win 9");
    check(&tcp(0x10, 15), ". 100:95(-5,35,35) ack 200truncated-tcp");
    check(&tcp(0x10, 13), "truncated-tcp");
    assert_eq!(line(&tcp(0, 3), ""), "18.26.4.44 > 10.0.0.4: truncated-tcp");
}

#[test]
fn udp_fragments_and_others_are_told() {
    let datagram = unhex("0014 001e 004d 0000");
    let with = |offset: u16, more: bool, len: usize| {
        ipv4(&datagram[..len], |repr| {
            (repr.fragment_offset, repr.more_fragments) = (offset, more);
            repr.identification = 7;
        })
    };
    assert_eq!(line(&with(0, false, 8), ""), format!("{ENDS}udp 77"));
    assert_eq!(line(&with(0, true, 8), ""), format!("{ENDS}udp 77 (frag 7:8@0+)"));
    assert_eq!(line(&with(3, true, 8), ""), "18.26.4.44 > 10.0.0.4: udp (frag 7:8@24+)");
    assert_eq!(line(&with(9, false, 5), ""), "18.26.4.44 > 10.0.0.4: udp (frag 7:5@72)");
    assert_eq!(line(&with(0, false, 7), ""), format!("{ENDS}truncated-udp"));
    let other = ipv4(b"", |repr| repr.proto = IpProto(89));
    assert_eq!(line(&other, ""), "18.26.4.44 > 10.0.0.4: ip-proto-89");
    assert_eq!(line(&other[..19], ""), "truncated-ip");
}

#[test]
fn icmp_is_told() {
    let check = |message: &str, text: &str| {
        let bytes = ipv4(&unhex(message), |repr| repr.proto = IpProto::ICMP);
        assert_eq!(line(&bytes, ""), format!("18.26.4.44 > 10.0.0.4: {text}"));
    };
    check("0800 0000 0102 0003", "icmp echo (258, 3)");
    check("0000 0000 0102 0003", "icmp echo-reply (258, 3)");
    check("0800 0000", "icmp echo truncated-icmp");
    check("08", "truncated-icmp");
    check("0b00 0000 00000000", "icmp timeexceeded transit");
    check("0d05 0000 00000000", "icmp timestamp code 5");
    check("6300 0000", "icmp type 99");
    let quoted = "45000024 00000000 40110000 01020304 05060708 0014001e";
    let unreachable = |start: &str| format!("{start} {quoted}");
    check(&unreachable("0303 0000 00000000"), "icmp 5.6.7.8 unreachable port udp/30");
    check(&unreachable("0304 0000 00000578"), "icmp 5.6.7.8 unreachable needfrag (mtu 1400)");
    check(&unreachable("0302 0000 00000000"), "icmp 5.6.7.8 unreachable protocol udp");
    check(&unreachable("0363 0000 00000000"), "icmp 5.6.7.8 unreachable code 99");
    check("0301 0000 00000000 45", "icmp unreachable host truncated-icmp");
}

#[test]
fn more_is_told_if_asked_for() {
    let bytes = ipv4(&unhex("0014 001e 0010 0000 61626300 ff646566"), |repr| {
        (repr.ttl, repr.tos, repr.identification) = (9, 3, 77);
    });
    let told = line(&bytes, "here, ID true, TTL true, TOS true, LENGTH true, PAINT true");
    assert_eq!(told, format!("here: paint 0: id 77 ttl 9 tos 3 length 36 {ENDS}udp 16"));
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let groups: Vec<&str> = (0..9).map(|idx| &hex[idx * 8..][..8]).collect();
    let shown = format!("{ENDS}udp 16\n  {}\n  {}", groups[..6].join(" "), groups[6..].join(" "));
    assert_eq!(line(&bytes, "CONTENTS hex"), shown);
    assert_eq!(line(&bytes, "PAYLOAD ascii"), format!("{ENDS}udp 16\n  abc..def"));
    assert_eq!(line(&bytes, "PAYLOAD hex, MAXLENGTH 5"), format!("{ENDS}udp 16\n  61626300 ff"));
    assert_eq!(line(&bytes, "ACTIVE no"), "");
    let mut packet = Pool::new().packet_of(&bytes);
    packet.set_timestamp_ns(1_000_020_000);
    let mut time = String::new();
    super::ip_print::write_time(&mut time, packet.timestamp_ns());
    super::ip_print::write_time(&mut time, 5);
    assert_eq!(time, "1.000020: 0.000000005: ");
}

#[test]
fn wrong_arguments_are_told() {
    let check = |arguments: &str, message: &str| {
        let config = format!("Idle -> IPPrint({arguments}) -> Discard;");
        let errors = warpswitch_graph::simulate::router(&config, &crate::registry());
        let errors = errors.map(|_| ()).expect_err("it is wrong").to_click();
        assert!(errors.contains(message), "{errors}");
    };
    check("CONTENTS all", "bad contents value 'all'; should be 'NONE', 'HEX', or 'ASCII'");
    check("PAYLOAD all", "bad payload value 'all'; should be 'false', 'hex', or 'ascii'");
    check("PAYLOAD hex, CONTENTS hex", "specify at most one of PAYLOAD and CONTENTS");
}
