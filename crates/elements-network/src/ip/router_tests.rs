//! The elements of this area as a router with two interfaces, and packets covered by RFC 1812.

use std::net::Ipv4Addr;

use warpswitch_wire::icmp::Icmp;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4Repr;

use super::testing::{Shown, hex, ipv4, run, source, unhex};

/// What lies between the interfaces of a router with 10.0.0.1/24 (MTU 1500) and 10.0.1.1/24 (MTU
/// 600): packets come in at `in`, and go out at `host`, `if1`, `if2`.
const ROUTER: &str = "
    in :: CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24)
    -> rt :: StaticIPLookup(10.0.0.1/32 0, 10.0.0.255/32 0, 10.0.0.0/32 0,
                            10.0.1.1/32 0, 10.0.1.255/32 0, 10.0.1.0/32 0,
                            10.0.0.0/24 1, 10.0.1.0/24 2, 18.0.0.0/8 10.0.0.254 1,
                            20.0.0.0/8 10.0.1.254 2,
                            255.255.255.255/32 0.0.0.0 0, 0.0.0.0/32 0);
    rt[0] -> IPReassembler -> ping :: ICMPPingResponder -> [0]rt;
    ping[1] -> Show(host);
    elementclass Out { $addr, $mtu |
        input -> DropBroadcasts -> gio :: IPGWOptions($addr) -> FixIPSrc($addr)
        -> dt :: DecIPTTL -> fr :: IPFragmenter($mtu) -> [0]output;
        gio[1] -> ICMPError($addr, parameterproblem) -> [1]output;
        dt[1] -> ICMPError($addr, timeexceeded) -> [1]output;
        fr[1] -> ICMPError($addr, unreachable, needfrag, PMTU $mtu) -> [1]output;
    }
    rt[1] -> o1 :: Out(10.0.0.1, 1500) -> Show(if1); o1[1] -> rt;
    rt[2] -> o2 :: Out(10.0.1.1, 600) -> Show(if2); o2[1] -> rt;
";

/// Where a packet comes out of the router, in order.
fn route(bytes: &[u8], before: &str) -> Vec<Shown> {
    run(&format!("{ROUTER} {} -> {before} in;", source(bytes))).0
}

fn from_to<'a>(src: [u8; 4], dst: [u8; 4]) -> impl FnOnce(&mut Ipv4Repr<'a>) {
    move |repr| (repr.src, repr.dst) = (src.into(), dst.into())
}

/// Type, code and second word of an ICMP error, and what it quotes.
fn error(shown: &Shown) -> (u8, u8, [u8; 4], Vec<u8>) {
    let view = shown.ipv4();
    assert_eq!(view.proto(), IpProto::ICMP);
    let message = Icmp::new_checked(view.payload()).expect("a message");
    assert!(message.is_checksum_right());
    (message.kind(), message.code(), message.rest().to_be_bytes(), message.payload().to_vec())
}

#[test]
fn packets_go_on_to_the_next_hop() {
    let check = |dst: [u8; 4], label: &str, next_hop: [u8; 4]| {
        let bytes = ipv4(&[7; 100], from_to([18, 1, 1, 1], dst));
        let shown = route(&bytes, "");
        assert_eq!((shown.len(), &shown[0].label[..]), (1, label));
        assert_eq!(shown[0].dst(), Ipv4Addr::from(next_hop));
        assert_eq!((shown[0].ipv4().ttl(), shown[0].ipv4().dst()), (63, dst.into()));
    };
    check([10, 0, 1, 77], "if2", [10, 0, 1, 77]);
    check([20, 9, 9, 9], "if2", [10, 0, 1, 254]);
    check([18, 9, 9, 9], "if1", [10, 0, 0, 254]);
    assert_eq!(route(&ipv4(b"", from_to([18, 1, 1, 1], [99, 1, 1, 1])), ""), []);
}

#[test]
fn what_is_for_the_router_reaches_its_host_and_pings_come_back() {
    for dst in [[10, 0, 0, 1], [10, 0, 1, 1], [10, 0, 0, 255], [255; 4]] {
        let bytes = ipv4(b"for us", |repr| {
            from_to([18, 1, 1, 1], dst)(repr);
            repr.ttl = 1;
        });
        let shown = route(&bytes, "");
        assert_eq!((&shown[0].label[..], &shown[0].bytes), ("host", &bytes));
    }
    let mut ping = unhex("0800 0000 0001 0002 61626364");
    Icmp::new_unchecked(&mut ping[..]).fill_checksum();
    let bytes = ipv4(&ping, |repr| {
        from_to([20, 1, 1, 1], [10, 0, 0, 1])(repr);
        repr.proto = IpProto::ICMP;
    });
    let shown = route(&bytes, "");
    assert_eq!((&shown[0].label[..], shown[0].dst()), ("if2", [10, 0, 1, 254].into()));
    let (kind, _, numbers, data) = error(&shown[0]);
    assert_eq!((kind, numbers, &data[..]), (0, [0, 1, 0, 2], &b"abcd"[..]));
    assert_eq!(shown[0].ipv4().src().octets(), [10, 0, 0, 1]);
}

#[test]
fn errors_go_back_with_the_address_of_their_interface() {
    let expired = ipv4(&[7; 40], |repr| {
        from_to([18, 1, 1, 1], [20, 1, 1, 1])(repr);
        repr.ttl = 1;
    });
    let shown = route(&expired, "");
    assert_eq!((shown.len(), &shown[0].label[..]), (1, "if1"));
    assert_eq!(shown[0].ipv4().src().octets(), [10, 0, 0, 1], "not 10.0.1.1, where it expired");
    assert_eq!(error(&shown[0]), (11, 0, [0; 4], expired.clone()));
    assert_eq!((shown[0].dst().octets(), shown[0].ipv4().ttl()), ([10, 0, 0, 254], 199));

    let long = ipv4(&[7; 1000], |repr| {
        from_to([18, 1, 1, 1], [20, 1, 1, 1])(repr);
        repr.dont_fragment = true;
    });
    let (kind, code, rest, quoted) = error(&route(&long, "")[0]);
    assert_eq!((kind, code, rest), (3, 4, [0, 0, 2, 88]));
    // The router had taken one off the time to live.
    assert_eq!((quoted.len(), quoted[8]), (576 - 28, 63));

    let options = unhex("07070500 00000000");
    let odd = ipv4(&[7; 40], |repr| {
        from_to([18, 1, 1, 1], [20, 1, 1, 1])(repr);
        repr.options = &options;
    });
    assert_eq!(error(&route(&odd, "")[0]), (12, 0, [22, 0, 0, 0], odd.clone()));
}

#[test]
fn nobody_is_told_where_nobody_may_be() {
    let check = |edit: fn(&mut Ipv4Repr<'_>), before: &str| {
        let bytes = ipv4(&[11; 40], |repr| {
            from_to([18, 1, 1, 1], [20, 1, 1, 1])(repr);
            repr.ttl = 1;
            edit(repr);
        });
        assert_eq!(route(&bytes, before), []);
    };
    check(|repr| repr.proto = IpProto::ICMP, "");
    check(|repr| repr.fragment_offset = 5, "");
    check(|repr| repr.src = [127, 0, 0, 1].into(), "");
    check(|repr| repr.src = [10, 0, 0, 255].into(), "");
    check(|_| {}, "SetType(broadcast) ->");
}

#[test]
fn long_packets_arrive_in_fragments_that_make_the_packet() {
    let payload: Vec<u8> = (0..=255).cycle().take(1400).collect();
    let bytes = ipv4(&payload, from_to([18, 1, 1, 1], [20, 1, 1, 1]));
    let shown = route(&bytes, "");
    assert_eq!(shown.len(), 3);
    assert!(shown.iter().all(|shown| shown.label == "if2" && shown.bytes.len() <= 600));
    assert!(shown.iter().all(|shown| shown.dst() == Ipv4Addr::new(10, 0, 1, 254)));
    let data: Vec<u8> = shown.iter().flat_map(|shown| shown.ipv4().payload().to_vec()).collect();
    assert_eq!(data, payload);
}

/// No bytes make an element of this area panic, or lose a packet: the run asserts it.
#[test]
fn frames_of_any_bytes_pass_all_elements() {
    let elements = "StoreIPAddress(1.2.3.4, src) -> SetIPChecksum -> IPMirror -> SetIPDSCP(1)
        -> IPPrint(CONTENTS ascii, PAYLOAD no) -> t :: Tee(13);
        t[0] -> CheckTCPHeader -> Discard; t[1] -> CheckUDPHeader -> Discard;
        t[2] -> CheckICMPHeader -> Discard; t[3] -> SetTCPChecksum(true) -> Discard;
        t[4] -> SetUDPChecksum -> Discard; t[5] -> IPGWOptions(1.1.1.1) -> Discard;
        t[6] -> IPFragmenter(48, false) -> Discard; t[7] -> IPReassembler -> Discard;
        t[8] -> ICMPError(1.1.1.1, redirect) -> Discard; t[9] -> ICMPPingResponder -> Discard;
        t[10] -> StripIPHeader -> UnstripIPHeader -> IPEncap(4, 1.1.1.1, DST_ANNO) -> Discard;
        t[11] -> o :: IPOutputCombo(0, 1.1.1.1, 50) -> d :: Discard;
        o[1] -> d; o[2] -> d; o[3] -> d; o[4] -> d;
        t[12] -> DecIPTTL -> MarkIPCE(true) -> IPPrint(PAYLOAD hex) -> Discard;";
    let mut state = 1u64;
    let mut random = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut sources = String::new();
    for n in 0..400 {
        let mut bytes: Vec<u8> = (0..random() % 90).map(|_| random() as u8).collect();
        // Most have a header whose lengths and protocol are at least near to what they should be.
        if n % 4 != 0 && bytes.len() >= 10 {
            bytes[0] = 0x40 | (random() % 16) as u8;
            let total = (bytes.len() + 2).saturating_sub(random() % 5) as u16;
            bytes[2..4].copy_from_slice(&total.to_be_bytes());
            bytes[6..8].copy_from_slice(&[[0, 0x20, 0x40][random() % 3], (random() % 3) as u8]);
            bytes[9] = [1, 6, 17][random() % 3];
        }
        sources += &format!("InfiniteSource(DATA \\<{}>, LIMIT 1) -> m;\n", hex(&bytes));
    }
    let (_, _, mut router) = run(&format!("m :: MarkIPHeader -> {elements}\n{sources}"));
    assert_eq!(router.read("m.packets"), Ok("400".into()));
}
