//! Chains against the same configuration without them: same output bytes in the same order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use warpswitch_gpu::deadline::Deadline;
use warpswitch_gpu::host::{FaultPlan, HostPool};
use warpswitch_gpu::resident::{ResidentChoice, ResidentUse};
use warpswitch_gpu::{Device, ErrorKind, GpuError};
use warpswitch_graph::language::ClassTable;
use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost, Transcript, router, router_for};
use warpswitch_graph::{Host, Router, RouterOptions, Time, language};
use warpswitch_io::{CaptureFormat, CaptureWriter};
use warpswitch_rules::generate::Prng;

use warpswitch_elements_lookup::testing;

use super::Offload;

mod backlog;
mod branches;
mod detection;
mod forward;
mod ip6;
mod predicates;

/// All classes, with those of tests.
pub(crate) fn registry() -> warpswitch_graph::Registry {
    testing::with_classes(crate::registry())
}

#[test]
fn synopses_name_every_class() {
    let registry = crate::registry();
    let doc = |class: &str| crate::doc(class).or_else(|| warpswitch_elements::doc(class));
    let without: Vec<&str> =
        registry.names().into_iter().filter(|name| doc(name).is_none()).collect();
    assert!(without.is_empty(), "no synopsis names {without:?}");
    assert_eq!(doc("Batcher").map(|doc| doc.area), Some("offload"));
    assert_eq!(doc("IDSMatcher").map(|doc| doc.area), Some("inspect"));
}

/// Like [`testing::run`], with all classes.
pub(crate) fn run_shown(config: &str) -> (Vec<testing::Shown>, Vec<String>, Router) {
    let (router, transcript) = warpswitch_graph::simulate::run(config, &registry());
    let (shown, said) = testing::shown(&transcript.said());
    (shown, said, router)
}

/// Files of a test, removed at its end.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self::with(frame);
        std::fs::write(folder.file("flows"), FLOWS).expect("a file");
        folder
    }

    /// A folder with a capture of frames from the generator `frame`.
    fn with(frame: fn(&mut Prng) -> Vec<u8>) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        let mut writer = CaptureWriter::create(folder.file("in"), CaptureFormat::Pcap, false)
            .expect("a capture");
        let mut draw = Prng::new(7);
        for number in 1..=3000 {
            writer.write_frame(number * 1000, &frame(&mut draw)).expect("it is written");
        }
        writer.finish().expect("it is whole");
        folder
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// The packets of each output of a run.
    fn outputs(&self) -> Vec<Vec<u8>> {
        let names = ["out0", "out1", "out2", "out3"];
        names.map(|name| std::fs::read(self.file(name)).expect("it was written")).into()
    }

    /// `chains` with the outputs `way0` to `way3`, which write captures.
    fn config(&self, chains: &str) -> String {
        let file = |name: &str| self.file(name);
        let mut config = String::new();
        // Stores the destination annotation, which may be a gateway; IPv6 tests store it
        // themselves.
        let store = if chains.contains("StoreIP6") { "Null" } else { "StoreIPAddress(16)" };
        for way in 0..4 {
            let to = file(&format!("out{way}"));
            config += &format!("way{way} :: {store} -> ToDump({to}, SNAPLEN 0);\n");
        }
        // Shortest name first: the random name of the folder may contain "IN".
        let chains = chains.replace("IN", &file("in"));
        config + &chains.replace("FLOWS", &file("flows")).replace("ROUTES", ROUTES)
    }
}

const FLOWS: &str = "priority=9,tcp,tp_dst=80 actions=output:1\n\
    priority=8,ip,nw_src=10.0.0.3 actions=drop\n\
    priority=7,udp actions=load:0x105->NXM_NX_PKT_MARK[],NORMAL\n\
    priority=1,ip actions=output:0\n";

const ROUTES: &str = "10.0.0.0/24 0, 10.0.1.0/24 10.0.1.9 1, 10.0.1.4/32 2, 0/1 2";

const SERIAL: &str = "FromDump(IN, STOP true) -> sdn :: SDNClassifier(FLOWS, MISS 2);
    sdn[0], sdn[1] -> Strip(14) -> check :: CheckIPHeader -> rt :: StaticIPLookup(ROUTES);
    rt[0] -> way0; rt[1] -> way1; rt[2] -> way2; sdn[2] -> way3;\n";

/// Frames of all kinds: tagged, with options, truncated, fragments, and not IPv4.
fn frame(draw: &mut Prng) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if draw.below(8) == 0 {
        frame.extend([0x81, 0, 0, draw.below(4) as u8]);
    }
    match draw.below(12) {
        0 => frame.extend([0x08, 0x06]),
        1 => frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]),
        _ => frame.extend([0x08, 0x00]),
    }
    let options = if draw.below(6) == 0 { 4 } else { 0 };
    let payload = draw.below(40) as usize;
    let proto = [6, 17, 1][draw.below(3) as usize];
    let total = 20 + options + 20 + payload;
    let fragment = if draw.below(10) == 0 { 0x20 } else { 0 };
    let mut ip = vec![0x45 + options as u8 / 4, 0, 0, total as u8, 0, 1, fragment, 0, 64, proto];
    ip.extend([0, 0, 10, 0, 0, draw.below(5) as u8]);
    let networks = [[10, 0, 0], [10, 0, 1], [192, 168, 1]];
    ip.extend(networks[draw.below(3) as usize]);
    ip.push(draw.below(6) as u8);
    ip.extend(vec![1; options]);
    let checksum = warpswitch_wire::checksum::checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&checksum);
    frame.extend(ip);
    frame.extend([4, 0, 0, 80 + draw.below(2) as u8, 0, 28, 0, 0]);
    frame.extend((0..12 + payload).map(|_| draw.below(256) as u8));
    if draw.below(15) == 0 {
        frame.truncate(draw.below(60) as usize);
    }
    frame
}

/// The time since the first call.
fn now() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

fn pool(faults: FaultPlan) -> Arc<Offload> {
    let start = &mut |worker| _ = thread::spawn(worker);
    let device = Device::from_pool(HostPool::with_faults(3, Some(faults), start));
    if faults.hang_chance > 0.0 {
        device.set_deadline(Deadline { slack: Duration::from_millis(5), now });
    }
    Offload::to(device)
}

/// Runs a configuration to its end.
fn run(config: &str, offload: Option<&Arc<Offload>>) -> (Router, Transcript) {
    let transcript = match offload {
        Some(offload) => Transcript::with_device(offload.clone()),
        None => Transcript::default(),
    };
    let made = router_for(config, &crate::registry(), &transcript);
    let mut router = made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    router.run(&mut SimulatedHost::default());
    router.finish().map_err(|errors| errors.to_click()).expect("the run finishes");
    assert_eq!(router.packets_unaccounted(), 0, "packets in = out + dropped + held");
    (router, transcript)
}

fn chain(batcher: &str, members: &str) -> String {
    format!(
        "{batcher} -> HostToDeviceMemcpy -> {members} -> DeviceToHostMemcpy
        -> GPUCompletionQueue -> Debatcher"
    )
}

/// Lookups ahead for unchanged elements downstream.
fn ahead(batcher: &str) -> String {
    let chain = chain(batcher, "gs :: GPUSDNClassifier(FOR sdn) -> gr :: GPUIPLookup(FOR rt)");
    SERIAL.replace("(IN, STOP true)", &format!("(IN, STOP true) -> {chain}"))
}

/// As in Snap: device elements replace others.
fn instead(batcher: &str) -> String {
    let sdn = chain(batcher, "gs :: GPUSDNClassifier(FLOWS, MISS 2)");
    let routes = chain(batcher, "gr :: GPUIPLookup(ROUTES, ANNO 44)");
    format!(
        "FromDump(IN, STOP true) -> {sdn} -> sdn :: Dispatcher;
        sdn[0], sdn[1] -> Strip(14) -> check :: CheckIPHeader -> {routes}
        -> rt :: Dispatcher(ANNO 44);
        rt[0] -> way0; rt[1] -> way1; rt[2] -> way2; sdn[2] -> way3;\n"
    )
}

#[test]
fn chains_keep_the_output_despite_device_faults() {
    let folder = Folder::new();
    run(&folder.config(SERIAL), None);
    assert!(folder.outputs().iter().all(|bytes| bytes.len() > 1000));
    agree(&folder, ahead, &["sdn.ahead", "rt.ahead"]);
    agree(&folder, instead, &[]);
}

/// A chain with one rule lookup submits wide batches to the resident kernel, on a thread of the
/// pool here, and by launches where they are too wide.
#[test]
fn chains_keep_the_output_with_a_resident_kernel() {
    let folder = Folder::new();
    run(&folder.config(SERIAL), None);
    let expected = folder.outputs();
    let none = FaultPlan::default();
    let slow = FaultPlan { delay_chance: 0.5, delay_max: Duration::from_millis(1), ..none };
    for batcher in ["Batcher(IDLE true)", "Batcher(SIZE 100, DEPTH 3)", "Batcher(SIZE 2500)"] {
        let chain = chain(batcher, "gs :: GPUSDNClassifier(FOR sdn)");
        let config = SERIAL.replace("(IN, STOP true)", &format!("(IN, STOP true) -> {chain}"));
        for (plan, choice) in
            [(none, ResidentChoice::Always), (slow, ResidentChoice::Always), (none, <_>::default())]
        {
            let offload = pool(plan);
            offload.device().set_resident_use(ResidentUse { choice, now });
            let (mut router, _) = run(&folder.config(&config), Some(&offload));
            assert!(folder.outputs() == expected, "{batcher}, {choice:?}, {plan:?}");
            let ahead = router.read("sdn.ahead").expect("a handler");
            assert!(ahead.parse::<u32>().expect("a number") > 1000, "{batcher}: {ahead}");
            assert_eq!(offload.device().retired().map(GpuError::kind), None);
        }
    }
}

/// Runs what `config` makes of each of several `Batcher`s, with devices that do as they should, are
/// slow, fail, or hang, and without: the outputs stay what they are. `taken` are the handlers that
/// count answers which elements behind the chain took.
fn agree(folder: &Folder, config: impl Fn(&str) -> String, taken: &[&str]) {
    let expected = folder.outputs();
    let none = FaultPlan::default();
    let slow = FaultPlan { delay_chance: 0.5, delay_max: Duration::from_millis(1), ..none };
    let broken = FaultPlan { error_chance: 0.1, ..slow };
    let hanging = FaultPlan { hang_chance: 0.1, ..slow };
    let batchers = [
        "Batcher(IDLE true)",
        "Batcher(SIZE 100, DEPTH 3)",
        "Batcher(SIZE 13, DEPTH 1, SLICES false)",
        "Batcher(SIZE 65536, DELAY_MAX 1us)",
    ];
    for batcher in batchers {
        let config = folder.config(&config(batcher));
        for (seed, plan) in [none, slow, broken, hanging].into_iter().enumerate() {
            let offload = pool(FaultPlan { seed: seed as u64, ..plan });
            let (mut router, _) = run(&config, Some(&offload));
            assert!(folder.outputs() == expected, "{batcher}, answers {taken:?}, {plan:?}");
            let mut count = |handler: &str| -> u64 {
                router.read(handler).expect("it is there").parse().expect("a number")
            };
            if plan == none || plan == slow {
                assert_eq!(offload.device().retired().map(GpuError::kind), None);
                assert!(count("gr.on_device") > 20, "{batcher}");
            }
            if plan == none {
                assert!(taken.iter().all(|handler| count(handler) > 20), "{batcher}");
            }
        }
        run(&config, None);
        assert!(folder.outputs() == expected, "{batcher}, without a device");
    }
}

#[test]
fn reports_a_retired_device_once() {
    let folder = Folder::new();
    let offload = pool(FaultPlan { first_batch: 5, error_chance: 1.0, ..FaultPlan::default() });
    let config = folder.config(&ahead("b :: Batcher(SIZE 50, DEPTH 2)"));
    let (mut router, transcript) = run(&config, Some(&offload));
    let said = transcript.said();
    assert_eq!(said.matches("device retired").count(), 1, "{said}");
    assert!(said.contains("an error that was asked for"), "{said}");
    assert!(router.read("b.bypassed").unwrap().parse::<u64>().unwrap() > 10);
    assert_eq!(offload.device().retired().map(GpuError::kind), Some(ErrorKind::Call));
}

#[test]
fn applies_route_and_rule_changes_during_lookups_ahead() {
    let folder = Folder::new();
    let chain =
        chain("Batcher(SIZE 64, IDLE true)", "GPUSDNClassifier(FOR sdn) -> GPUIPLookup(FOR rt)");
    let config = format!(
        "s :: InfiniteSource(DATA \\<020000000002 020000000001 0800
            4500 0028 0000 0000 4006 66ce 0a000001 0a000002
            0400 0050 00000000 00000000 5002 0000 0000 0000>, LIMIT 100)
        -> {chain} -> sdn :: SDNClassifier({}) -> Strip(14) -> CheckIPHeader
        -> rt :: StaticIPLookup(10.0.0.0/24 0, 0/0 1);
        sdn[1] -> c :: Discard; rt[0] -> a :: Discard; rt[1] -> b :: Discard;",
        folder.file("flows")
    );
    let transcript = Transcript::with_device(pool(FaultPlan::default()));
    let made = router_for(&config, &crate::registry(), &transcript);
    let mut router = made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    let mut again = |call: Option<(&str, &str)>| {
        if let Some((handler, value)) = call {
            router.write(handler, value).expect("it obeys");
            router.write("s.reset", "").expect("it obeys");
        }
        router.run(&mut SimulatedHost::default());
        ["a.count", "b.count", "c.count", "rt.ahead", "sdn.ahead"]
            .map(|handler| router.read(handler).unwrap().parse::<u32>().unwrap())
    };
    assert_eq!(again(None), [0, 0, 100, 0, 100]);
    let rule = "priority=10,tcp,tp_dst=80 actions=output:0";
    assert_eq!(again(Some(("sdn.add", rule))), [100, 0, 100, 100, 200]);
    assert_eq!(again(Some(("rt.add", "10.0.0.2 1"))), [100, 100, 100, 200, 300]);
    assert_eq!(again(Some(("rt.remove", "10.0.0.2"))), [200, 100, 100, 300, 400]);
    let changes = "set 10.0.0.0/24 1\nadd 10.0.0.2 0\nremove 10.0.0.2";
    assert_eq!(again(Some(("rt.ctrl", changes))), [200, 200, 100, 400, 500]);
    assert_eq!(again(Some(("sdn.remove", "4"))), [200, 200, 200, 400, 600]);
}

/// Halts a run after this many calls of `serve`.
struct HaltsAfter(u32);

impl Host for HaltsAfter {
    fn now(&mut self) -> Time {
        SIMULATED_START
    }

    fn wait(&mut self, _until: Option<Time>) -> bool {
        true
    }

    fn serve(&mut self, router: &mut Router) {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            router.halt();
        }
    }
}

#[test]
fn reconfiguration_keeps_packets_in_a_chain() {
    let chain = "b :: Batcher(SIZE 100, DEPTH 3) -> in :: HostToDeviceMemcpy
        -> gr :: GPUIPLookup(FOR rt) -> out :: DeviceToHostMemcpy -> q :: GPUCompletionQueue
        -> d :: Debatcher";
    let config = format!(
        "s :: InfiniteSource(DATA \\<020000000002 020000000001 0800
            4500 0028 0000 0000 4006 66ce 0a000001 0a000002
            0400 0050 00000000 00000000 5002 0000 0000 0000>, LIMIT 100000, BURST 64)
        -> {chain} -> Strip(14) -> CheckIPHeader -> rt :: StaticIPLookup(0/0 0)
        -> c :: Counter -> Discard;"
    );
    let delay_max = Duration::from_millis(2);
    let slow = FaultPlan { delay_chance: 0.9, delay_max, ..FaultPlan::default() };
    let transcript = Transcript::with_device(pool(slow));
    let registry = crate::registry();
    let made = router_for(&config, &registry, &transcript);
    let mut running = made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    let mut most = 0;
    for round in 0..12 {
        running.run(&mut HaltsAfter(20 + round));
        most = most.max(running.standing().iter().map(|(_, packets)| packets).sum());
        let globals = Default::default();
        let loaded = language::load("next", config.as_bytes(), &registry, &globals, None);
        let options = RouterOptions {
            console: Box::new(transcript.clone()),
            seed: 1,
            now: SIMULATED_START,
            ticks: None,
        };
        let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
        let replaced = Router::replacing(loaded, &registry, options, running);
        let (next, lost) = replaced.map_err(|(errors, _)| errors.to_click()).expect("it starts");
        assert_eq!((lost, next.packets_unaccounted()), (0, 0), "round {round}");
        running = next;
    }
    assert!(most > 200, "chains held {most} packets");
    running.run(&mut SimulatedHost::default());
    assert_eq!(running.read("c.count"), Ok("100000".into()));
}

/// Packets without a marked header that are not Ethernet frames have no readable destination.
#[test]
fn counts_packets_without_a_destination() {
    let chain = chain("Batcher(SIZE 100)", "gr :: GPUIPLookup(FOR rt)");
    let check = |front: &str, without: &str, reason: &str| {
        let config = format!(
            "InfiniteSource(DATA \\<4500 0014 0000 0000 4006 66e2 0a000001 0a000002>, LIMIT 100,
                STOP true) {front} -> {chain} -> GetIPAddress(16) -> rt :: StaticIPLookup(10/8 0)
            -> Discard;"
        );
        let (mut router, _) = run(&config, Some(&pool(FaultPlan::default())));
        assert_eq!(router.read("gr.no_destination"), Ok(without.to_owned()));
        let missed = router.read("rt.ahead_missed").expect("it is there");
        assert!(missed.contains(reason), "{missed}");
    };
    check("", "100", "100\tresult for another key\n");
    check("-> CheckIPHeader", "0", "\n0\tresult for another key\n");
}

/// Elements ignore results of other elements in the same slot.
#[test]
fn ignores_results_of_other_elements() {
    let config = |front: &str, idle: &str, lookups: &str| {
        format!(
            "InfiniteSource(DATA \\<020000000002 020000000001 0800
                4500 0028 0000 0000 4006 66ce 0a000001 0a000002
                0400 0050 00000000 00000000 5002 0000 0000 0000>, LIMIT 1000, STOP true)
            -> {front} -> {lookups}; {idle}"
        )
    };
    let ends = "y[0] -> a :: Counter -> Discard; y[1] -> b :: Counter -> Discard;";
    let check = |member: &str, lookups: &str| {
        let of = |target: &str| chain("Batcher(SIZE 100)", &format!("{member}(FOR {target})"));
        let idle = format!("Idle -> {} -> y; {ends}", of("y"));
        let config = config(&of("x"), &idle, lookups);
        let (mut router, _) = run(&config, Some(&pool(FaultPlan::default())));
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("a.count"), read("b.count")), ("0".into(), "1000".into()), "{member}");
        assert_ne!(read("x.ahead"), "0");
        assert_eq!(read("y.ahead"), "0");
        // The last packets arrive as the source stops.
        let missed = read("y.ahead_missed");
        let lines: Vec<&str> = missed.lines().collect();
        assert_eq!(lines.len(), 4, "{missed}");
        assert!(lines[2].ends_with("\tresult of another element") && lines[2] != "0", "{missed}");
        let sum: u64 =
            lines.iter().map(|l| l.split('\t').next().unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(sum, 1000, "{missed}");
    };
    check(
        "GPUIPLookup",
        "Strip(14) -> CheckIPHeader -> x :: StaticIPLookup(10/8 0)
        -> y :: StaticIPLookup(1/8 0, 10/8 1)",
    );
    let folder = Folder(tempfile::tempdir().expect("a folder"));
    let (x, y) = (folder.file("x"), folder.file("y"));
    std::fs::write(&x, "priority=1,ip actions=output:0\n").expect("a file");
    std::fs::write(&y, "priority=2,udp actions=output:0\npriority=1,ip actions=output:1\n")
        .expect("a file");
    let lookups = format!("x :: SDNClassifier({x}) -> y :: SDNClassifier({y})");
    check("GPUSDNClassifier", &lookups);
}

/// Changes that members make to packets do not affect lookups of later members.
#[test]
fn members_read_unchanged_destinations() {
    let members = "GPUIPLookup(10/8 192.168.0.1 0) -> g :: GPUIPLookup(192.168/16 1, 10/8 0)";
    let config = format!(
        "InfiniteSource(DATA \\<0a000001>, LIMIT 1000, STOP true) -> GetIPAddress(0)
        -> {} -> by :: Dispatcher; by[0] -> a :: Counter -> Discard; by[1] -> Discard;",
        chain("Batcher(SIZE 100)", members)
    );
    for offload in [None, Some(pool(FaultPlan::default()))] {
        let (mut router, _) = run(&config, offload.as_ref());
        assert_eq!(router.read("a.count"), Ok("1000".into()));
        assert_eq!(router.write("g.add", "1.0.0.0/8 1"), Ok(String::new()), "as arguments may");
    }
}

/// Later rules do not match paints that earlier rules set as input ports.
#[test]
fn members_read_unchanged_paints() {
    let folder = Folder::with(frame);
    let (marks, ports) = (folder.file("marks"), folder.file("ports"));
    std::fs::write(&marks, "priority=1,ip actions=mark:7\n").expect("a file");
    std::fs::write(&ports, "priority=9,in_port=7 actions=output:1\npriority=1 actions=output:0\n")
        .expect("a file");
    let members = format!(
        "GPUSDNClassifier({marks}, ANNO 36) -> GPUIPLookup(0/0 3, ANNO 44)
        -> g :: GPUSDNClassifier({ports}, MISS 2)"
    );
    let config = folder.config(&format!(
        "FromDump(IN, STOP true) -> Paint(5) -> {} -> by :: Dispatcher;
        by[0] -> a :: Counter -> Discard; by[1] -> b :: Counter -> Discard; by[2] -> Discard;
        Idle -> way0; Idle -> way1; Idle -> way2; Idle -> way3;",
        chain("Batcher(SIZE 100)", &members)
    ));
    let counts = [None, Some(pool(FaultPlan::default()))].map(|offload| {
        let (mut router, _) = run(&config, offload.as_ref());
        ["a.count", "b.count"].map(|handler| router.read(handler).expect("it is there"))
    });
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0][1], "0");
}

#[test]
fn rejects_wide_batches_beyond_the_memory_limit() {
    let config =
        |batcher: &str| format!("Idle -> {} -> Discard;", chain(batcher, "GPUIPLookup(0/0 0)"));
    let transcript = Transcript::with_device(pool(FaultPlan::default()));
    let made = |batcher: &str| router_for(&config(batcher), &crate::registry(), &transcript);
    assert!(made("Batcher(SIZE 65536, DEPTH 8)").is_ok());
    let refused = made("Batcher(SIZE 65536, DEPTH 256, SLICES false)").err().expect("26 GB");
    assert!(refused.to_click().contains("MiB, at most 1024 MiB"), "{}", refused.to_click());
}

/// Packets that return to their chain do not prevent a stop.
#[test]
fn stops_a_chain_that_feeds_itself() {
    let config = format!(
        "InfiniteSource(LIMIT 10, STOP true) -> b :: Batcher(IDLE true);
        b {} -> b;",
        chain("", "GPUIPLookup(0/0 0)")
    );
    let made = router_for(&config, &crate::registry(), &Transcript::default());
    let mut router = made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    router.run(&mut SimulatedHost::default());
    assert_eq!(router.packets_unaccounted(), 0);
}

/// A stop waits for packets in a chain; time advances meanwhile even if a source is always
/// runnable.
#[test]
fn stops_despite_a_source_that_is_always_ready() {
    let config = format!(
        "InfiniteSource(LIMIT 10, STOP true) -> {} -> c :: Counter -> Discard;
        InfiniteSource(LIMIT -1) -> Discard;",
        chain("Batcher(IDLE true)", "GPUIPLookup(0/0 0)")
    );
    let (mut router, _) = run(&config, Some(&pool(FaultPlan::default())));
    assert_eq!(router.read("c.count"), Ok("10".into()));
}

#[test]
fn predicates_select_packets_within_a_chain() {
    let folder = Folder::new();
    let members = "GPUSDNClassifier(FLOWS, MISS 2) -> GPUIPLookup(0/0 7, ANNO 44, CHK_ANNO 40=1)
        -> GPUIPLookup(0/0 8, ANNO 44, CHK_ANNO 40=0)";
    let chain = chain("Batcher(SIZE 200)", members);
    let config = folder.config(&format!(
        "FromDump(IN, STOP true) -> GetIPAddress(30) -> {chain} -> by :: Dispatcher;
        by[0] -> a :: Dispatcher(ANNO 44); by[1] -> b :: Dispatcher(ANNO 44);
        by[2] -> way0;
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7] -> way0; a[8] -> x :: Counter -> way1;
        b[0], b[1], b[2], b[3], b[4], b[5], b[6] -> way0; b[7] -> y :: Counter -> way2;
        Idle -> way3;\n"
    ));
    let counts = |offload: Option<&Arc<Offload>>| {
        let (mut router, _) = run(&config, offload);
        ["by.drops_by_reason", "a.drops_by_reason", "b.drops_by_reason", "x.count", "y.count"]
            .map(|handler| router.read(handler).expect("it is there"))
    };
    let with = counts(Some(&pool(FaultPlan::default())));
    assert_eq!(with, counts(None));
    let none = "0\tno output\n0\tbeyond outputs\n";
    assert_eq!(with[1..3], [none, none]);
    assert!(with[3..].iter().all(|count| count.parse::<u32>().unwrap() > 100), "{with:?}");
}

#[test]
fn rejects_invalid_chains() {
    let check = |config: &str, expected: &str| {
        let errors = match router(config, &crate::registry()) {
            Ok((mut router, _)) => {
                let _ = router.run(&mut SimulatedHost::default());
                panic!("{config}: it is taken for right")
            }
            Err(errors) => errors.to_click(),
        };
        assert!(errors.contains(expected), "{config}: {errors}");
    };
    let tail = "DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> Discard;";
    check("Idle -> Batcher -> Discard;", "expected HostToDeviceMemcpy here");
    check(
        &format!("Idle -> Batcher -> HostToDeviceMemcpy -> Counter -> {tail}"),
        "expected a device element or DeviceToHostMemcpy here",
    );
    check(
        "Idle -> Batcher -> HostToDeviceMemcpy -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "expected GPUCompletionQueue here",
    );
    let chain =
        |member: &str| format!("Idle -> Batcher -> HostToDeviceMemcpy -> {member} -> {tail}");
    check(&chain("GPUIPLookup(FOR x)"), "FOR");
    let with_counter = |member: &str| chain(member).replace("Idle", "c :: Counter; Idle -> c");
    check(&with_counter("GPUIPLookup(FOR c)"), "cannot compute results for");
    check(&with_counter("GPUIPLookup(FOR c, CHK_ANNO 40=1)"), "not allowed with FOR");
    check("Idle -> GPUIPLookup(0/0 0) -> Discard;", "put it downstream of a Batcher");
    check("Idle -> Debatcher -> Discard;", "put it downstream of a Batcher");
    check(
        &format!("Idle -> Batcher -> h :: HostToDeviceMemcpy -> {tail} Idle -> Batcher -> h;"),
        "a chain has one Batcher",
    );
    check(
        "Idle -> Batcher -> HostToDeviceMemcpy -> g :: GPUIPLookup(0/0 0)
        -> GPUIPLookup(0/0 0) -> g;",
        "has other inputs",
    );
    check(&chain("GPUIPLookup(0/0 0, CHK_ANNO 3)"), "expected PLACE=NUMBER");
    check(&chain("GPUIPLookup(0/0 0, ANNO 45)"), "expected an offset from 0 to 44");
    check(&chain("GPUSDNClassifier(FOR x, ENGINE fast)"), "ENGINE");
    check("Idle -> Batcher(SIZE 0, DEPTH 0) -> Discard;", "expected 1 to 65536 packets");
}

/// `check` rejects chains that a run rejects, and warns of overwritten results.
#[test]
fn check_validates_chains() {
    let check = |member: &str| {
        let config = format!(
            "Idle -> Paint(1, 44) -> Batcher -> HostToDeviceMemcpy -> {member}
            -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> s :: RoundRobinSwitch
            -> Discard; Idle -> rt :: StaticIPLookup(0/0 0) -> Discard;
            s[1] -> Queue -> Unqueue -> near :: StaticIPLookup(0/0 0) -> Discard;"
        );
        let registry = crate::registry();
        let loaded = language::load("c", config.as_bytes(), &registry, &BTreeMap::new(), None);
        let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
        let transcript = Transcript::default();
        let console = Box::new(transcript.clone());
        let options = RouterOptions { console, seed: 0, now: Time::default(), ticks: None };
        match Router::check(loaded, &registry, options) {
            Ok(()) => transcript.said(),
            Err(errors) => errors.to_click(),
        }
    };
    assert!(check("Counter").contains("here, not 'Counter"));
    let pair = |first: &str, second: &str| {
        check(&format!("a :: GPUIPLookup(0/0 0{first}) -> b :: GPUIPLookup(0/0 1{second})"))
    };
    let told = "warning: 'b :: GPUIPLookup' overwrites ANNO 40 of 'a :: GPUIPLookup'";
    assert!(pair("", "").contains(told), "{}", pair("", ""));
    assert!(pair(", ANNO 39", "").contains(told));
    assert!(pair("", ", CHK_ANNO 40=0").contains(told));
    assert!(pair(", CHK_ANNO 36=0", ", CHK_ANNO 44=1").contains(told));
    assert_eq!(pair(", CHK_ANNO 44=0", ", CHK_ANNO 44=1"), "");
    assert_eq!(pair(", ANNO 36", ""), "");
    let told = "ANNO: overlaps the extra-length annotation at 28, see Cut";
    assert!(check("GPUIPLookup(0/0 0, ANNO 30)").contains(told));
    assert_eq!(check("GPUIPLookup(0/0 0, ANNO 32)"), "");
    assert_eq!(check("GPUIPLookup(0/0 0, ANNO 24)"), "");
    assert_eq!(check("GPUIPLookup(FOR near)"), "");
    let told = "FOR: 'rt :: StaticIPLookup' is unreachable from this chain";
    assert!(check("GPUIPLookup(FOR rt)").contains(told));
    for argument in ["ANNO 40", "CHK_ANNO 40=1"] {
        let told = check(&format!("GPUIPLookup(FOR near, {argument})"));
        assert!(told.contains("ANNO: not allowed with FOR"), "{told}");
    }
}

/// Rules match whole frames, so a stripped Ethernet header gives a warning.
#[test]
fn warns_of_a_classifier_downstream_of_strip() {
    let folder = Folder::new();
    let chain = chain("Batcher", "sdn :: GPUSDNClassifier(FLOWS)");
    for classifier in ["sdn :: SDNClassifier(FLOWS)", &format!("{chain} -> by :: Dispatcher")] {
        for (before, is_told) in [("Null", false), ("Strip(14)", true)] {
            let by = if classifier.contains("by ::") { "by" } else { "sdn" };
            let config = format!(
                "FromDump(IN, STOP true) -> {before} -> {classifier} -> Discard;
                {by}[1] -> Discard;"
            );
            let config = config.replace("IN", &folder.file("in"));
            let (_, transcript) = run(&config.replace("FLOWS", &folder.file("flows")), None);
            let said = transcript.said();
            let told = "keys are extracted from the wrong bytes: none of the first";
            assert_eq!(said.matches(told).count(), usize::from(is_told), "{classifier}: {said}");
        }
    }
}

/// Packets in a chain wait while a downstream queue is full and are not lost. A stop ends even if
/// the queue stays full.
#[test]
fn full_downstream_queue_stops_the_source() {
    let folder = Folder::new();
    let config = |chain: &str, unqueue: &str| {
        format!(
            "InfiniteSource(DATA \\<020000000002 020000000001 0800
                4500 0028 0000 0000 4006 66ce 0a000001 0a000002
                0400 0050 00000000 00000000 5002 0000 0000 0000>, LIMIT 6400, BURST 32, STOP true)
            -> {chain} sdn :: SDNClassifier({}) -> q :: Queue(64) -> {unqueue} -> c :: Counter
            -> Discard; sdn[1] -> q;",
            folder.file("flows")
        )
    };
    for batcher in ["Batcher(SIZE 256)", "Batcher(SIZE 32, DEPTH 1)", "Batcher(IDLE true)"] {
        let chain = chain(batcher, "GPUSDNClassifier(FOR sdn)") + " ->";
        let device = pool(FaultPlan::default()).device().clone();
        let offloads =
            [None, Some(Offload::to(device.clone())), Some(Offload::where_cheaper(device, wild))];
        for offload in &offloads {
            let counts = |unqueue: &str| {
                let (mut router, _) = run(&config(&chain, unqueue), offload.as_ref());
                ["c.count", "q.length", "q.drops"]
                    .map(|handler| router.read(handler).unwrap().parse::<u32>().unwrap())
            };
            let [left, held, dropped] = counts("Unqueue(BURST 32)");
            assert_eq!((left + held, dropped), (6400, 0), "{batcher}");
            assert_eq!(counts("Unqueue(ACTIVE false)"), [0, 64, 0], "{batcher}");
            // All of these are in the chain when the source requests the stop.
            let few = config(&chain, "Unqueue(ACTIVE false)").replace("LIMIT 6400", "LIMIT 160");
            let (mut router, _) = run(&few, offload.as_ref());
            assert_eq!(router.read("q.length").unwrap(), "64", "{batcher}");
        }
    }
}

/// A clock by which the cheaper path alternates.
fn wild() -> Duration {
    static NOW_NS: AtomicU64 = AtomicU64::new(0);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let calls = CALLS.fetch_add(1, Ordering::Relaxed);
    let step_ns = 1000 + (calls.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54);
    let slower = if (calls / 40).is_multiple_of(3) { 1 } else { 1000 };
    Duration::from_nanos(NOW_NS.fetch_add(step_ns * slower, Ordering::Relaxed))
}

/// Mixes batches in flight, batches that bypass the device unbatched, and the switches between
/// them.
#[test]
fn choice_of_paths_keeps_the_output() {
    let folder = Folder::new();
    run(&folder.config(SERIAL), None);
    let expected = folder.outputs();
    let none = FaultPlan::default();
    let slow = FaultPlan { delay_chance: 0.5, delay_max: Duration::from_micros(300), ..none };
    let broken = FaultPlan { error_chance: 0.05, ..slow };
    let hanging = FaultPlan { hang_chance: 0.05, ..slow };
    let mut by_path = [0; 2];
    for batcher in ["Batcher(SIZE 7, DEPTH 3)", "Batcher(SIZE 40, IDLE true)"] {
        let config = folder.config(&ahead(batcher));
        for (seed, plan) in [none, slow, slow, slow, broken, hanging].into_iter().enumerate() {
            let device = pool(FaultPlan { seed: seed as u64, ..plan }).device().clone();
            let offload = Offload::where_cheaper(device, wild);
            run(&config, Some(&offload));
            assert!(folder.outputs() == expected, "{batcher}, {plan:?}, {seed}");
            for row in offload.policy().rows() {
                by_path[0] += row.cores_batches;
                by_path[1] += row.device_batches;
            }
        }
    }
    assert!(by_path[0] > 24 && by_path[1] > 100, "{by_path:?}");
}

/// With a policy, every wide batch has a choice, including the last one.
#[test]
fn counts_a_choice_per_wide_batch() {
    let folder = Folder::new();
    for size in [64, 5000] {
        let device = pool(FaultPlan::default()).device().clone();
        let offload = Offload::where_cheaper(device, now);
        let batcher = format!("b :: Batcher(SIZE {size}, DEPTH 2)");
        let (router, _) = run(&folder.config(&ahead(&batcher)), Some(&offload));
        let mut router = router;
        let mut read = |name: &str| {
            let text = router.read(name).expect("it is there");
            text.trim().parse::<u64>().expect("a number")
        };
        let rows = offload.policy().rows();
        let chosen: u64 = rows.iter().flat_map(|row| row.why).sum();
        let by_cores: u64 = rows.iter().map(|row| row.cores_batches).sum();
        // Those without a choice bypass the device because too many packets wait.
        let (batches, bypassed) = (read("b.batches"), read("b.bypassed"));
        assert!(batches > 0 && bypassed >= by_cores, "{bypassed} of {batches}, {by_cores}");
        assert_eq!(chosen, batches - (bypassed - by_cores), "{bypassed} of {batches}");
    }
}
