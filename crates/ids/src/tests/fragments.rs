//! Packets that come in fragments.

use proptest::prelude::*;

use super::frames::{ACK, CLIENT, End, SERVER, connection, cut, handshake, tagged, tcp, udp};
use super::{alerts, inspector, packets, told};
use crate::inspect::{Inspector, InspectorOptions, Uninspected};

const EVIL: &str = "alert ip any any -> any any (content:\"evil\"; sid:1;)\n\
    alert udp any any -> any 80 (content:\"evil\"; dsize:>20; sid:2;)\n\
    alert tcp any any -> any 80 (content:\"ab\"; content:\"evil\"; distance:0; sid:3;)";

fn fragments_lost(one: &Inspector) -> u64 {
    one.stats().uninspected[Uninspected::Fragment as usize]
}

#[test]
fn what_no_fragment_has_alone_is_found() {
    // Two bytes of the content in each; ports in the first alone.
    let whole = udp(CLIENT, SERVER, b"0123456789012345678901evil");
    let parts = cut(&whole, &[2, 1, 1], 9);
    assert!(parts.iter().all(|part| !part.windows(4).any(|bytes| bytes == b"evil")));
    assert_eq!(told(EVIL, &parts), [(4, 1), (4, 2)]);
    let mut parts = parts;
    parts.reverse();
    let around = [udp(CLIENT, SERVER, b"x"), udp(CLIENT, SERVER, b"evil")];
    let frames = [&around[..1], &parts, &around[1..]].concat();
    assert_eq!(told(EVIL, &frames), [(5, 1), (5, 2), (6, 1)]);
    // Of TCP not even the header is in one piece.
    let mut frames = handshake(CLIENT, SERVER);
    frames.extend(cut(&tcp(CLIENT, SERVER, ACK, 1001, 5001, b"abev"), &[1], 3));
    frames.push(tcp(CLIENT, SERVER, ACK, 1005, 5001, b"il"));
    assert_eq!(told(EVIL, &frames), [(6, 1), (6, 3)]);
}

#[test]
fn whose_they_are_is_told_apart() {
    let whole = udp(CLIENT, SERVER, b"0123evil8901");
    let parts = cut(&whole, &[2], 9);
    assert_eq!(told(EVIL, &parts).len(), 1);
    let other = cut(&udp(End("10.0.0.2", 9), SERVER, b"0123evil8901"), &[2], 9);
    let of_vlan = |vlan| tagged(&parts[1], vlan);
    for other in [cut(&whole, &[2], 8)[1].clone(), other[1].clone(), of_vlan(5)] {
        let mut one = inspector(EVIL, InspectorOptions::default());
        assert_eq!(alerts(&mut one, &[parts[0].clone(), other]).len(), 0);
        assert_eq!((fragments_lost(&one), one.stats().fragments.whole), (2, 0));
    }
    let mut one = inspector(EVIL, InspectorOptions::default());
    let found = alerts(&mut one, &[tagged(&parts[0], 5), of_vlan(5)]);
    assert_eq!((found.len(), found[0].vlans[0], found[0].ports), (1, Some(5), Some((40000, 80))));
    assert_eq!((fragments_lost(&one), one.stats().packets, one.stats().flows), (0, 2, 1));
}

#[test]
fn rules_may_ask_whether_a_packet_was_whole() {
    let text = "alert udp any any -> any any (content:\"evil\"; flow:no_frag; sid:1;)\n\
        alert udp any any -> any any (content:\"evil\"; flow:to_server,only_frag; sid:2;)";
    let whole = udp(CLIENT, SERVER, b"0123evil8901");
    let frames = [vec![whole.clone()], cut(&whole, &[2], 9)].concat();
    assert_eq!(told(text, &frames), [(1, 1), (3, 2)]);
}

#[test]
fn whole_segments_of_a_stream_are_looked_at_together() {
    let text = "alert tcp any any -> any any (content:\"evil\"; flow:no_frag; sid:1;)\n\
        alert tcp any any -> any any (content:\"evil\"; flow:no_frag,only_stream; sid:2;)";
    let found = told(text, &connection(&[(0, b"ev"), (2, b"il")]));
    assert_eq!(found, [(5, 1), (5, 2)]);
}

#[test]
fn no_room_is_no_fragments() {
    let options = InspectorOptions { fragment_bytes_max: 0, ..InspectorOptions::default() };
    let mut one = inspector(EVIL, options);
    let whole = udp(CLIENT, SERVER, b"0123evil8901");
    assert_eq!(alerts(&mut one, &cut(&whole, &[2], 9)), []);
    assert_eq!((fragments_lost(&one), one.stats().fragments.evicted), (2, 2));
}

#[test]
fn they_outlast_a_change_of_rules() {
    let parts = cut(&udp(CLIENT, SERVER, b"0123evil8901"), &[2], 9);
    let (mut old, mut found) = (inspector(EVIL, InspectorOptions::default()), Vec::new());
    old.inspect(packets(&parts[..1]), &mut found);
    let mut new = inspector(EVIL, InspectorOptions::default());
    new.take_flows(&mut old);
    assert!(old.fragment_bytes() == 0 && new.fragment_bytes() > 0);
    new.inspect(packets(&parts[1..]), &mut found);
    assert_eq!((found.len(), new.fragment_bytes()), (1, 0));
}

proptest! {
    /// What is found in packets is found in their fragments, in whichever order these come and
    /// however they are cut into batches.
    #[test]
    fn fragments_tell_what_packets_tell(
        texts in prop::collection::vec(prop::collection::vec(
            prop::sample::select(b"evilab".to_vec()), 1..60), 1..8),
        kinds in prop::collection::vec((0..4u8, 0..8usize, 1..4usize, any::<bool>()), 8),
        batch in 1..9usize,
    ) {
        let text = "alert ip any any -> any any (content:\"evi\"; sid:1;)\n\
            alert tcp any any -> any any (content:\"ab\"; content:\"l\"; distance:1; sid:2;)\n\
            alert udp any any -> any 53 (content:\"a\"; dsize:<20; sid:3;)";
        let (mut whole, mut parts, mut place) = (handshake(CLIENT, SERVER), Vec::new(), 0);
        parts.extend(whole.clone());
        for (id, (bytes, &(kind, turn, cuts, twice))) in (0..).zip(texts.iter().zip(&kinds)) {
            let frame = match kind {
                0 => udp(End("fd00::1", 9), End("fd00::2", 53), bytes),
                1 => udp(CLIENT, End("192.0.2.53", 53), bytes),
                _ => {
                    place += bytes.len() as u32;
                    connection(&[(place - bytes.len() as u32, bytes)])[3].clone()
                }
            };
            let mut cut = cut(&frame, &vec![cuts; turn], id);
            let len = cut.len();
            cut.rotate_left(turn % len);
            // One of them twice, but not the last to come.
            if twice && len > 1 {
                cut.insert(turn % (len - 1), cut[turn % (len - 1)].clone());
            }
            parts.extend(cut);
            whole.push(frame);
        }
        let mut one = inspector(text, InspectorOptions::default());
        let of = |alerts: Vec<crate::Alert>| -> Vec<_> {
            let key = |a: &crate::Alert| (a.rule, a.flow_id, a.src, a.dst, a.ports, a.in_stream);
            alerts.iter().map(key).collect()
        };
        let expected = of(alerts(&mut one, &whole));
        let (mut one, mut found) = (inspector(text, InspectorOptions::default()), Vec::new());
        let all = packets(&parts);
        for some in all.chunks(batch) {
            one.inspect(some.iter().copied(), &mut found);
        }
        one.finish(&mut found);
        prop_assert_eq!(of(found), expected);
        prop_assert_eq!(fragments_lost(&one), 0);
    }
}
