//! Fragments in any order, and invalid fragments.

use warpswitch_wire::ip::IpProto;

use super::testing::{Shown, ipv4, run, unhex};

/// A fragment of a packet: `bytes` bytes of `payload` from `start` on.
fn fragment(payload: &[u8], start: usize, bytes: usize, more: bool) -> Vec<u8> {
    ipv4(&payload[start..start + bytes], |repr| {
        (repr.identification, repr.proto) = (7, IpProto(99));
        (repr.fragment_offset, repr.more_fragments) = ((start / 8) as u16, more);
    })
}

/// Returns the output packets for `packets` in this order, and what is dropped and held after them.
fn reassemble(packets: &[Vec<u8>], arguments: &str) -> (Vec<Shown>, String, String) {
    let sends: String = packets
        .iter()
        .map(|bytes| {
            format!("InfiniteSource(DATA \\<{}>, LIMIT 1) -> q;\n", super::testing::hex(bytes))
        })
        .collect();
    let (shown, _, mut router) = run(&format!(
        "q :: Queue -> Unqueue -> MarkIPHeader -> r :: IPReassembler({arguments}) -> Show(0);
         r[1] -> Show(1);\n{sends}"
    ));
    let read =
        |router: &mut warpswitch_graph::Router, name| router.read(name).expect("it is there");
    (shown, read(&mut router, "r.drops_by_reason"), read(&mut router, "r.held"))
}

#[test]
fn pieces_in_any_order_become_the_packet() {
    let payload: Vec<u8> = (0..=255).cycle().take(101).collect();
    let cuts = [(0, 24), (24, 8), (32, 40), (72, 29)];
    let pieces = cuts.map(|(start, bytes)| fragment(&payload, start, bytes, start + bytes < 101));
    let whole = ipv4(&payload, |repr| (repr.identification, repr.proto) = (7, IpProto(99)));
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| ![a, b].contains(c)) {
                orders.push([a, b, c, 6 - a - b - c]);
            }
        }
    }
    for order in orders {
        let mut packets: Vec<_> = order.iter().map(|&idx| pieces[idx].clone()).collect();
        // One comes twice, and a packet that is no fragment passes at once.
        packets.insert(2, pieces[order[1]].clone());
        packets.insert(1, ipv4(b"whole", |_| {}));
        let (shown, drops, held) = reassemble(&packets, "");
        assert_eq!(shown.len(), 2, "{order:?}");
        assert_eq!((&shown[1].bytes, &held[..]), (&whole, "0"), "{order:?}");
        assert!(drops.starts_with("0\t"), "{drops}");
    }
}

#[test]
fn the_first_fragment_brings_the_header() {
    let options = unhex("83070401 02030400");
    let payload = [5; 40];
    let first = ipv4(&payload[..16], |repr| {
        (repr.identification, repr.proto, repr.more_fragments) = (7, IpProto(99), true);
        (repr.options, repr.ttl, repr.tos) = (&options, 9, 4);
    });
    let second = fragment(&payload, 16, 24, false);
    for packets in [[first.clone(), second.clone()], [second, first]] {
        let (shown, ..) = reassemble(&packets, "MAX_MTU_ANNO 24");
        let view = shown[0].ipv4();
        assert_eq!((view.options(), view.payload()), (&options[..], &payload[..]));
        assert_eq!((view.ttl(), view.tos(), view.more_fragments()), (9, 4, false));
        let longest = u16::from_ne_bytes([shown[0].annotations[24], shown[0].annotations[25]]);
        assert_eq!(longest, 44);
    }
}

#[test]
fn what_is_in_front_of_the_first_fragment_stays() {
    let payload: Vec<u8> = (0..100).collect();
    let framed = |start: usize, bytes: usize, more: bool| {
        let mut framed = vec![start as u8; 14];
        framed.extend(fragment(&payload, start, bytes, more));
        super::testing::hex(&framed)
    };
    let pieces = [framed(0, 48, true), framed(48, 52, false)];
    for (first, second) in [(0, 1), (1, 0)] {
        let (shown, ..) = run(&format!(
            "q :: Queue -> Unqueue -> MarkIPHeader(14) -> IPReassembler -> Show(0);
             InfiniteSource(DATA \\<{}>, LIMIT 1) -> q;
             InfiniteSource(DATA \\<{}>, LIMIT 1) -> q;",
            pieces[first], pieces[second]
        ));
        assert_eq!((shown.len(), &shown[0].bytes[..14]), (1, &[0; 14][..]));
        assert_eq!(shown[0].bytes[14 + 20..], payload);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let payload = [5; 64];
    let check = |packets: &[Vec<u8>], bad: usize, held: &str| {
        let (shown, drops, found) = reassemble(packets, "");
        assert_eq!(shown, []);
        assert!(drops.starts_with(&format!("{bad}\tbad fragment\n")), "{drops}");
        assert_eq!(found, held);
    };
    // Not a multiple of eight, nothing at all, less than promised, behind the end of any packet.
    check(&[fragment(&payload, 0, 9, true)], 1, "0");
    check(&[fragment(&payload, 0, 0, true)], 1, "0");
    check(&[fragment(&payload, 0, 16, true)[..30].to_vec()], 1, "0");
    let far = ipv4(&payload, |repr| (repr.fragment_offset, repr.more_fragments) = (8191, true));
    check(&[far], 1, "0");
    // Ends that differ.
    let last = fragment(&payload, 32, 8, false);
    check(&[last.clone(), fragment(&payload, 40, 8, true)], 1, "1");
    check(&[last.clone(), fragment(&payload, 40, 8, false)], 1, "1");
    check(&[last.clone(), fragment(&payload, 24, 8, false)], 1, "1");
    check(&[fragment(&payload, 40, 8, true), last], 1, "1");
}

#[test]
fn a_packet_longer_than_any_is_not_made() {
    let options = unhex("83070401 02030400");
    let payload = vec![1; 65_535 - 20];
    let first = ipv4(&payload[..65_504], |repr| {
        (repr.identification, repr.proto, repr.more_fragments) = (7, IpProto(99), true);
        repr.options = &options;
    });
    let (shown, drops, held) = reassemble(&[first, fragment(&payload, 65_504, 11, false)], "");
    assert_eq!((shown, &held[..]), (vec![], "0"));
    assert!(drops.starts_with("1\tbad fragment\n"), "{drops}");
    let whole = [fragment(&payload, 0, 65_504, true), fragment(&payload, 65_504, 11, false)];
    assert_eq!(reassemble(&whole, "").0[0].ipv4().payload(), payload);
}

#[test]
fn what_is_given_up_is_the_piece_that_it_was() {
    let payload: Vec<u8> = (0..200).collect();
    // What comes next finds too much memory in use.
    let pusher = ipv4(&payload[..8], |repr| (repr.identification, repr.more_fragments) = (9, true));
    let check = |pieces: [Vec<u8>; 2], offset: u16, more: bool, data: &[u8]| {
        let [first, second] = pieces;
        let (shown, drops, held) = reassemble(&[first, second, pusher.clone()], "HIMEM 90");
        assert_eq!((&held[..], shown.len()), ("1", 1), "{drops}");
        let view = shown[0].ipv4();
        assert_eq!((&shown[0].label[..], view.fragment_offset()), ("1", offset));
        assert_eq!((view.more_fragments(), view.payload()), (more, data));
    };
    let of = |start, bytes, more| fragment(&payload, start, bytes, more);
    check([of(0, 24, true), of(48, 8, true)], 0, true, &payload[..24]);
    check([of(32, 16, true), of(64, 16, false)], 4, true, &payload[32..48]);
    check([of(24, 8, true), of(48, 8, false)], 3, true, &payload[24..32]);
    check([of(32, 8, true), of(40, 16, false)], 4, false, &payload[32..56]);
}

#[test]
fn fragments_that_wait_too_long_go() {
    let payload = [5; 64];
    let first = super::testing::hex(&fragment(&payload, 0, 16, true));
    let other = super::testing::hex(&ipv4(&payload[..8], |repr| {
        (repr.identification, repr.more_fragments) = (9, true);
    }));
    let registry = super::testing::registry();
    let config = format!(
        "a :: InfiniteSource(DATA \\<{first}>, LIMIT 1, TIMESTAMP false) -> SetTime(1000)
         -> m :: MarkIPHeader -> r :: IPReassembler -> Discard;
         InfiniteSource(DATA \\<{other}>, LIMIT 1) -> Queue -> Unqueue -> SetTime(1031) -> m;"
    );
    let (mut router, _) = warpswitch_graph::simulate::run(&config, &registry);
    assert_eq!(router.read("r.held"), Ok("1".into()));
    let drops = router.read("r.drops_by_reason").expect("it is there");
    assert!(drops.contains("1\ttimeout\n"), "{drops}");
    let dump = router.read("r.dump").expect("it is there");
    assert!(dump.contains("failed reassemblies: 1\n"), "{dump}");
    assert!(dump.ends_with(" (18.26.4.44, 1285, 10.0.0.4, 1285) 9 (0,8)\n"), "{dump}");
}
