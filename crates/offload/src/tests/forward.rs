//! `GPUIPForward` against the sequence of elements that it replaces.

use super::*;

/// IPv4 frames with every kind of header error, padding, options, and low TTL.
fn framed(draw: &mut Prng) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let options = 4 * draw.below(3) as usize * usize::from(draw.below(4) == 0);
    let payload = draw.below(30) as usize;
    let total = (20 + options + payload) as u8;
    let ttl = [0, 1, 2, 64, 255][draw.below(5) as usize];
    let mut ip = vec![0x45 + options as u8 / 4, 0, 0, total, 0, 1, 0, 0, ttl, 17, 0, 0];
    ip.extend([10, 0, 0, 1]);
    ip.extend([[10, 0, 0], [10, 0, 1], [192, 168, 1]][draw.below(3) as usize]);
    ip.push(draw.below(6) as u8);
    ip.extend(vec![1; options]);
    let checksum = warpswitch_wire::checksum::checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&checksum);
    if draw.below(8) == 0 {
        let at = draw.below(20) as usize;
        ip[at] ^= 1 << draw.below(8);
    }
    frame.extend(ip);
    frame.extend((0..payload).map(|_| draw.below(256) as u8));
    frame.extend(vec![0; draw.below(2) as usize * 9]);
    if draw.below(15) == 0 {
        frame.truncate(14 + draw.below(40) as usize);
    }
    frame
}

const TO_ONE: &str = "10.0.0.0/24 0, 10.0.1.0/24 10.0.1.9 0";
const ENDS: &str = "by[0] -> way0; by[2] -> way2; by[3] -> way3; Idle -> way1;\n";

fn forward(batcher: &str) -> String {
    let member = format!("gr :: GPUIPForward({TO_ONE}, EXPIRED 2, BAD 3)");
    let chain = chain(batcher, &member);
    format!(
        "FromDump(IN, STOP true) -> Strip(14) -> {chain} -> by :: Dispatcher;
        by[1] -> Discard; {ENDS}"
    )
}

/// The three elements that `GPUIPForward` replaces.
const ONE_BY_ONE: &str = "FromDump(IN, STOP true) -> Strip(14) -> check :: CheckIPHeader
    -> StaticIPLookup(ROUTES) -> ttl :: DecIPTTL -> way0; ttl[1] -> way2; check[1] -> way3;
    Idle -> way1;\n";

#[test]
fn matches_the_elements_that_it_replaces() {
    let folder = Folder::with(framed);
    run(&folder.config(&ONE_BY_ONE.replace("ROUTES", TO_ONE)), None);
    let sizes: Vec<usize> = folder.outputs().iter().map(Vec::len).collect();
    assert!(sizes[0] > 1000 && sizes[2] > 1000 && sizes[3] > 1000, "{sizes:?}");
    agree(&folder, forward, &[]);
}

#[test]
fn counts_verdicts_and_changes_routes() {
    let folder = Folder::with(framed);
    for offload in [None, Some(pool(FaultPlan::default()))] {
        let config = folder.config(&forward("Batcher(SIZE 100)"));
        let (mut router, _) = run(&config, offload.as_ref());
        let verdicts = router.read("gr.verdicts").expect("it is there");
        let counts: Vec<u64> = verdicts
            .lines()
            .map(|line| line.split('\t').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!((counts.len(), counts.iter().sum::<u64>()), (8, 3000), "{verdicts}");
        assert!(counts.iter().all(|&count| count > 0), "{verdicts}");
        let mut count = |handler: &str| router.read(handler).unwrap().parse::<u64>().unwrap();
        let (on_device, on_cores) = (count("gr.on_device"), count("gr.on_cores"));
        assert_eq!((on_device > 0, on_device + on_cores), (offload.is_some(), 3000));
        assert_eq!(router.write("gr.add", "192.168.0.0/16 1"), Ok(String::new()));
        assert_eq!(router.read("gr.lookup 192.168.3.3"), Ok("1".into()));
    }
}

/// Packets after a route change use the new route, on the device as well.
#[test]
fn applies_route_changes_on_the_device() {
    let config = format!(
        "s :: InfiniteSource(DATA \\<4500 0014 0000 0000 4011 66d7 0a000001 0a000002>, LIMIT 100)
        -> {} -> by :: Dispatcher;
        by[0] -> a :: Counter -> Discard; by[1] -> b :: Counter -> Discard;",
        chain("Batcher(SIZE 50, IDLE true)", "gr :: GPUIPForward(10/8 0)")
    );
    let transcript = Transcript::with_device(pool(FaultPlan::default()));
    let made = router_for(&config, &crate::registry(), &transcript);
    let mut router = made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    router.run(&mut SimulatedHost::default());
    router.write("gr.set", "10/8 1").expect("it obeys");
    router.write("s.reset", "").expect("it obeys");
    router.run(&mut SimulatedHost::default());
    let mut read = |handler: &str| router.read(handler).expect("it is there");
    assert_eq!((read("a.count"), read("b.count")), ("100".into(), "100".into()));
    assert_ne!(read("gr.on_device"), "0");
}
