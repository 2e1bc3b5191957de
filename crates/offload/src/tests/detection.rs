//! Detection with a chain must give the same alerts as without one, line by line.

use warpswitch_ids::{Packet, payload};
use warpswitch_io::CaptureReader;
use warpswitch_wire::link::LinkType;

use super::*;

/// A letter of a stream, fixed by its position. Few distinct letters, so that rules match.
fn letter(flow: u32, place: u32) -> u8 {
    b"abcAB\0"[Prng::new((flow << 20 ^ place).into()).below(6) as usize]
}

/// Segments of four streams in any order, datagrams, echo requests, and packets of other protocols.
pub(super) fn frame(draw: &mut Prng) -> Vec<u8> {
    let flow = draw.below(4) as u32;
    let place = draw.below(3000) as u32;
    let len = [0, 1, 9, 40, 700][draw.below(5) as usize] + draw.below(20) as u32;
    let text: Vec<u8> = (place..place + len).map(|at| letter(flow, at)).collect();
    let proto = [6, 6, 6, 17, 1, 47][draw.below(6) as usize];
    let mut carried = match proto {
        6 => {
            let mut header = vec![4, flow as u8, 0, 80];
            header.extend((1 + place).to_be_bytes());
            header.extend([0, 0, 0, 0, 0x50, 0x10, 32, 0, 0, 0, 0, 0]);
            header
        }
        17 => vec![4, 0, 0, 53, 0, 8 + len as u8, 0, 0],
        1 => vec![8, 0, 0, 0, 0, 1, 0, flow as u8],
        _ => Vec::new(),
    };
    carried.extend(&text);
    if proto == 17 {
        carried[4..6].copy_from_slice(&(8 + len as u16).to_be_bytes());
    }
    let total = (20 + carried.len() as u16).to_be_bytes();
    let fragment = if draw.below(30) == 0 { 0x20 } else { 0 };
    let mut ip = vec![0x45, 0, total[0], total[1], 0, 1, fragment, 0, 64, proto, 0, 0];
    ip.extend([10, 0, 0, 1, 10, 0, 0, 2 + flow as u8]);
    let checksum = warpswitch_wire::checksum::checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&checksum);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    frame.extend(ip);
    frame.extend(carried);
    if draw.below(15) == 0 {
        frame.truncate(draw.below(80) as usize);
    }
    frame
}

pub(super) const RULES: &str = "alert tcp any any -> any 80 (content:\"abca\"; sid:1;)\n\
    alert tcp any any -> any any (content:\"ABc\"; nocase; content:\"ba\"; distance:1; sid:2;)\n\
    alert udp any any -> any 53 (content:\"cab\"; nocase; sid:3;)\n\
    alert tcp any any -> any any (content:\"|00 00|aA\"; dsize:>20; sid:4;)\n\
    alert icmp any any -> any any (content:\"bb\"; itype:8; sid:5;)\n\
    alert ip any any -> any any (content:\"AbAbA\"; sid:6;)\n";

/// Alerts and streams of a run, and its counters.
pub(super) fn alerts_of(
    folder: &Folder,
    config: &str,
    offload: Option<&Arc<Offload>>,
) -> (String, [u64; 2]) {
    let config = config.replace("DIR", &folder.file(""));
    let (mut router, _) = run(&config, offload);
    let mut text = std::fs::read_to_string(folder.file("eve")).expect("it was written");
    text += &router.read("ids.streams").expect("it is there");
    let counts = ["on_device", "on_cores"].map(|name| {
        let count = router.read(&format!("ids.{name}")).expect("it is there");
        count.parse().expect("a number")
    });
    (text, counts)
}

/// The number of packets with a payload in the capture.
fn payloads(folder: &Folder) -> u64 {
    let mut reader = CaptureReader::open(folder.file("in")).expect("a capture");
    let mut count = 0;
    while let Some(frame) = reader.next_frame().expect("it is whole") {
        let packet = Packet {
            bytes: frame.data,
            wire_bytes: frame.original_bytes,
            link: LinkType::Ethernet,
            timestamp_ns: 0,
            found: None,
        };
        count += u64::from(payload(&packet).is_some_and(|(_, text)| !text.is_empty()));
    }
    count
}

#[test]
fn gives_the_same_alerts_in_a_chain() {
    let folder = Folder::with(frame);
    std::fs::write(folder.file("rules"), RULES).expect("a file");
    let serial = "FromDump(DIRin, STOP true) -> ids :: IDSMatcher(RULES DIRrules, OUT DIReve)
        -> Discard;";
    let (expected, _) = alerts_of(&folder, serial, None);
    let alerts = expected.matches("signature_id").count();
    assert!(
        alerts > 500 && (1..=6).all(|sid| expected.contains(&format!("\"signature_id\":{sid},")))
    );
    let none = FaultPlan::default();
    let slow = FaultPlan { delay_chance: 0.5, delay_max: Duration::from_millis(1), ..none };
    let broken = FaultPlan { error_chance: 0.1, ..slow };
    let hanging = FaultPlan { hang_chance: 0.1, ..slow };
    let mut retired = 0;
    for batcher in ["Batcher(IDLE true)", "Batcher(SIZE 100, DEPTH 3)", "Batcher(SIZE 7, DEPTH 1)"]
    {
        let member = "ids :: GPUIDSMatcher(RULES DIRrules, OUT DIReve)";
        let config = format!(
            "FromDump(DIRin, BURST 1, STOP true) -> {} -> Discard;",
            chain(batcher, member)
        );
        for (seed, plan) in [none, slow, broken, hanging].into_iter().enumerate() {
            let offload = pool(FaultPlan { seed: seed as u64, ..plan });
            let (text, [on_device, on_cores]) = alerts_of(&folder, &config, Some(&offload));
            assert_eq!(text, expected, "{batcher}, {plan:?}");
            // Packets that arrive too fast bypass the device, and workers redo failed batches.
            // Either way, each payload is counted once.
            let is_retired = offload.device().retired().is_some();
            assert!(is_retired || on_device > 20, "{on_device}, {on_cores}");
            assert_eq!(on_device + on_cores, payloads(&folder), "{batcher}, {plan:?}");
            retired += usize::from(is_retired);
        }
        assert_eq!(alerts_of(&folder, &config, None).0, expected, "{batcher}, without a device");
    }
    assert!(retired >= 3, "{retired} of 6 faulty devices were retired");
}

/// Packets that share frames with their source stay deferred through such a chain. Counters are
/// not compared: one counts the payloads that the element itself searched.
#[test]
fn gives_the_same_alerts_without_flow_state() {
    let folder = Folder::with(frame);
    std::fs::write(folder.file("rules"), RULES).expect("a file");
    let source = "FromDump(DIRin) -> ReplayUnqueue(STOP 2, BURST 64)";
    let arguments = "(RULES DIRrules, OUT DIReve, STATE none)";
    let serial = format!("{source} -> ids :: IDSMatcher{arguments} -> Discard;");
    let lines = |offload: Option<&Arc<Offload>>, config: &str| {
        let (text, counts) = alerts_of(&folder, config, offload);
        let alerts = text.lines().filter(|line| line.contains("\"event_type\":\"alert\""));
        (alerts.map(str::to_owned).collect::<Vec<_>>(), counts)
    };
    let (expected, _) = lines(None, &serial);
    assert!(expected.len() > 500, "{} alerts", expected.len());
    let member = chain("Batcher(SIZE 100, DEPTH 3)", &format!("ids :: GPUIDSMatcher{arguments}"));
    let config = format!("{source} -> {member} -> Discard;");
    let none = FaultPlan::default();
    let broken = FaultPlan { error_chance: 0.1, ..none };
    let hanging = FaultPlan { hang_chance: 0.1, ..none };
    for plan in [none, broken, hanging] {
        let offload = pool(plan);
        let (alerts, [on_device, on_cores]) = lines(Some(&offload), &config);
        assert_eq!(alerts, expected, "{plan:?}");
        assert_eq!(on_device + on_cores, 2 * payloads(&folder), "{plan:?}");
        assert!(offload.device().retired().is_some() || on_device > 20, "{on_device}, {on_cores}");
    }
    assert_eq!(lines(None, &config).0, expected, "without a device");
}

/// Two elements of a chain with rules of their own, each for some packets; and one with a wrong
/// link type, for which no payloads are searched ahead.
#[test]
fn searches_payloads_for_several_matchers_of_a_chain() {
    let folder = Folder::with(frame);
    std::fs::write(folder.file("rules"), RULES).expect("a file");
    std::fs::write(folder.file("few"), RULES.lines().next().expect("a rule")).expect("a file");
    // Shares some patterns with the other list, at other positions.
    let more = "alert ip any any -> any any (content:\"BaB\"; sid:1;)\n\
        alert udp any any -> any any (content:\"cab\"; nocase; sid:2;)\n\
        alert tcp any any -> any 80 (content:\"abca\"; sid:3;)\n";
    std::fs::write(folder.file("more"), more).expect("a file");
    let member = |more: &str| format!("GPUIDSMatcher({more})");
    let others = [
        member("RULES DIRfew, ANNO 32, LINK ip"),
        member("RULES DIRfew, ANNO 32"),
        member("RULES DIRmore, ANNO 32"),
        member("RULES DIRrules, ANNO 32, CHK_ANNO 36=1"),
        "GPUIPLookup(0/0 3, ANNO 36)".to_owned(),
    ];
    for other in others {
        let config = |class: &str, around: &dyn Fn(&str) -> String| {
            let ids = format!("ids :: {class}(RULES DIRrules, OUT DIReve)");
            format!("FromDump(DIRin, STOP true) -> {} -> Discard;", around(&ids))
        };
        let (expected, _) = alerts_of(&folder, &config("IDSMatcher", &str::to_owned), None);
        let around = |ids: &str| chain("Batcher(SIZE 64)", &format!("{other} -> {ids}"));
        let offload = pool(FaultPlan::default());
        let (text, [on_device, _]) =
            alerts_of(&folder, &config("GPUIDSMatcher", &around), Some(&offload));
        assert_eq!(text, expected, "{other}");
        // The first element sets the link type.
        assert_eq!(on_device > 20, !other.contains("LINK"), "{other}: {on_device} payloads");
    }
}

/// Results for a matcher downstream of the chain, with several elements between and with device
/// faults. A modified packet invalidates its result.
#[test]
fn gives_the_same_alerts_from_results_ahead() {
    let folder = Folder::with(frame);
    std::fs::write(folder.file("rules"), RULES).expect("a file");
    std::fs::write(folder.file("few"), RULES.lines().next().expect("a rule")).expect("a file");
    let none = FaultPlan::default();
    let slow = FaultPlan { delay_chance: 0.5, delay_max: Duration::from_millis(1), ..none };
    let broken = FaultPlan { error_chance: 0.1, ..slow };
    let other = "GPUIDSMatcher(FOR other) -> GPUIDSMatcher(FOR ids)";
    // The whole capture is one wide batch, so no packet bypasses the device.
    let whole = "Batcher(SIZE 8192, DEPTH 1)";
    let ways = [
        // Chain members, elements between, their link type, and whether results are used.
        ("GPUIDSMatcher(FOR ids)", "", "ethernet", true),
        (other, "other :: IDSMatcher(RULES DIRfew) ->", "ethernet", true),
        ("GPUIDSMatcher(FOR ids, LOOKUP 1)", "Strip(14) -> CheckIPHeader ->", "ip", true),
        ("GPUIDSMatcher(FOR ids)", "Strip(14) -> Unstrip(14) ->", "ethernet", true),
        ("GPUIDSMatcher(FOR ids)", "Strip(14) -> Strip(20) ->", "ip", false),
        ("GPUIDSMatcher(FOR ids)", "StoreData(6, xyz) ->", "ethernet", false),
    ];
    for (members, between, link, is_used) in ways {
        let ids = format!("ids :: IDSMatcher(RULES DIRrules, OUT DIReve, LINK {link})");
        let from = "FromDump(DIRin, STOP true)";
        let serial = format!("{from} -> {between} {ids} -> Discard;");
        let (expected, _) = alerts_of(&folder, &serial, None);
        for batcher in [whole, "Batcher(IDLE true)", "Batcher(SIZE 100, DEPTH 3)"] {
            let chain = chain(batcher, members);
            let config = format!("{from} -> {chain} -> {between} {ids} -> Discard;");
            for (seed, plan) in [none, slow, broken].into_iter().enumerate() {
                let offload = pool(FaultPlan { seed: seed as u64, ..plan });
                let (text, [on_device, _]) = alerts_of(&folder, &config, Some(&offload));
                assert_eq!(text, expected, "{members}, {between}, {batcher}, {plan:?}");
                let is_retired = offload.device().retired().is_some();
                assert!(is_retired || (on_device > 20) == is_used, "{between}: {on_device}");
                if between.is_empty() && batcher == whole && seed == 0 {
                    // Including payloads with several patterns.
                    assert_eq!(on_device, payloads(&folder));
                }
            }
            let device = pool(none).device().clone();
            let offload = Offload::where_cheaper(device, now);
            assert_eq!(
                alerts_of(&folder, &config, Some(&offload)).0,
                expected,
                "{between}, by cost"
            );
            assert_eq!(
                alerts_of(&folder, &config, None).0,
                expected,
                "{between}, without a device"
            );
        }
    }
}
