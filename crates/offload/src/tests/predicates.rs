//! Predicates: packets that an element in front of the chain excludes stay off the device.

use super::*;

/// What stands in front of the chain, how packets are recognized there, and the member.
const MEMBERS: [(&str, &str, &str); 3] = [
    ("-> Strip(14) -> check :: CheckIPHeader", "9/11", "gr :: GPUIPLookup(ROUTES, CHK_ANNO 44=1)"),
    (
        "-> Strip(14) -> check :: CheckIPHeader",
        "9/11",
        "gr :: GPUIPForward(ROUTES, UNROUTED 3, CHK_ANNO 44=1)",
    ),
    ("", "12/0800 23/11", "gr :: GPUSDNClassifier(FLOWS, MISS 2, CHK_ANNO 44=1)"),
];

/// Marks datagrams for the chain.
fn marked(front: &str, datagram: &str, chain: &str) -> String {
    format!(
        "FromDump(IN, STOP true) {front} -> c :: Classifier({datagram}, -);
        c[0] -> marked :: Counter -> SetAnnoByte(44, 1) -> all :: Null; c[1] -> all
        -> {chain} -> by :: Dispatcher;
        by[0] -> way0; by[1] -> way1; by[2] -> way2; by[3] -> way3;\n"
    )
}

fn count(router: &mut Router, handler: &str) -> u64 {
    let value = router.read(handler).unwrap_or_else(|error| panic!("{handler}: {error}"));
    value.parse().unwrap_or_else(|_| panic!("{handler}: {value}"))
}

#[test]
fn packets_excluded_in_front_of_the_chain_stay_off_the_device() {
    let folder = Folder::new();
    for (front, datagram, member) in MEMBERS {
        let config = |batcher: &str| marked(front, datagram, &chain(batcher, member));
        run(&folder.config(&config("Batcher")), None);
        let sizes: Vec<usize> = folder.outputs().iter().map(Vec::len).collect();
        assert!(sizes[0] > 1000 && sizes[2] > 1000, "{member}: {sizes:?}");
        agree(&folder, config, &[]);
        let found = [", CHK_ANNO 44=1", ""].map(|predicate| {
            let config = config("b :: Batcher").replace(", CHK_ANNO 44=1", predicate);
            let config = folder.config(&config);
            let (mut router, _) = run(&config, Some(&pool(FaultPlan::default())));
            let (on_device, on_cores) =
                (count(&mut router, "gr.on_device"), count(&mut router, "gr.on_cores"));
            assert_eq!(on_cores, 0, "{member}");
            (on_device, count(&mut router, "marked.count"), count(&mut router, "b.bytes_sent"))
        });
        let [(on_device, marked, sent), (all_on_device, _, all_sent)] = found;
        assert_eq!(on_device, marked, "{member}");
        assert!(all_on_device > 2 * marked && sent * 2 < all_sent, "{member}: {found:?}");
    }
}

#[test]
fn predicates_that_a_member_decides_exclude_no_packet_from_the_device() {
    let folder = Folder::new();
    let config = |batcher: &str| {
        let members = "gs :: GPUSDNClassifier(FLOWS, MISS 2)
            -> gr :: GPUIPForward(ROUTES, OFFSET 14, BAD 3, UNROUTED 3, ANNO 44, CHK_ANNO 40=1)";
        let chain = chain(batcher, members);
        format!(
            "FromDump(IN, STOP true) -> all :: Counter -> {chain} -> by :: Dispatcher(ANNO 44);
            by[0] -> way0; by[1] -> way1; by[2] -> way2; by[3] -> way3;\n"
        )
    };
    run(&folder.config(&config("Batcher")), None);
    assert!(folder.outputs().iter().all(|bytes| bytes.len() > 100));
    agree(&folder, config, &[]);
    let (mut router, _) =
        run(&folder.config(&config("Batcher")), Some(&pool(FaultPlan::default())));
    assert_eq!(count(&mut router, "gr.on_device"), count(&mut router, "all.count"));
}

#[test]
fn excluded_packets_keep_their_annotations() {
    let config = format!(
        "s :: InfiniteSource(DATA \\<4500 0014 0000 0000 4011 66d7 0a000001 0a000002>, LIMIT 100)
        -> MarkIPHeader -> GetIPAddress(16) -> r :: RoundRobinSwitch;
        r[0] -> SetAnnoByte(44, 1) -> all :: Null; r[1] -> all -> {} -> by :: Dispatcher;
        by[0] -> a :: Counter -> Discard; by[1] -> b :: Counter -> Discard;",
        chain("Batcher(SIZE 500, TIMEOUT 1s)", "gr :: GPUIPLookup(10/8 1, CHK_ANNO 44=1)")
    );
    let transcript = Transcript::with_device(pool(FaultPlan::default()));
    let made = router_for(&config, &crate::registry(), &transcript);
    let mut router = made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    router.run(&mut SimulatedHost::default());
    assert_eq!((count(&mut router, "a.count"), count(&mut router, "b.count")), (50, 50));
    assert_eq!(count(&mut router, "gr.on_device"), 50);
}

/// A cache in front of the chain answers frames on the host, whatever the device does.
#[test]
fn cached_frames_stay_off_the_device() {
    let folder = Folder::new();
    let source = |config: &str| config.replace("(IN, STOP true)", "(IN) -> ReplayUnqueue(STOP 4)");
    let config = |batcher: &str| {
        let members = "gs :: GPUSDNClassifier(FOR sdn, CHK_ANNO 44=1) -> gr :: GPUIPLookup(FOR rt)";
        let front = format!("cache :: RuleCache(sdn, ANNO 44) -> {}", chain(batcher, members));
        source(SERIAL).replace("(STOP 4)", &format!("(STOP 4) -> {front}"))
    };
    run(&folder.config(&source(SERIAL)), None);
    agree(&folder, config, &["sdn.ahead", "rt.ahead"]);
    let offload = pool(FaultPlan::default());
    let (mut router, _) = run(&folder.config(&config("b :: Batcher")), Some(&offload));
    let [hits, on_device, ahead] =
        ["cache.hits", "gs.on_device", "sdn.ahead"].map(|handler| count(&mut router, handler));
    assert!(hits > 1000 && on_device < 4 * 3000 - 1000, "{hits} {on_device}");
    assert!(ahead > on_device, "{ahead} {on_device}");
}
