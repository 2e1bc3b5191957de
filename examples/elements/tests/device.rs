//! Compares the device element with its CPU twin and with a reference, packet by packet.

use std::sync::Arc;
use std::{fs, thread};

use warpswitch_example_elements::gpu_flow_hash::FlowHash;
use warpswitch_example_elements::register;
use warpswitch_gpu::driver::{compile, compiler_version};
use warpswitch_gpu::host::{FaultPlan, HostPool};
use warpswitch_gpu::kernels::{KernelShape, options};
use warpswitch_gpu::work::{Lookup, Work};
use warpswitch_gpu::{Device, ErrorKind};
use warpswitch_graph::Router;
use warpswitch_graph::simulate::{SimulatedHost, Transcript, router_for};
use warpswitch_io::CaptureReader;
use warpswitch_offload::Offload;

const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/captures");

/// The test vectors of Microsoft's specification of receive-side scaling.
#[test]
fn hash_equals_published_test_vectors() {
    for (source, target, ports, hash) in [
        ([66, 9, 149, 187], [161, 142, 100, 80], [2794, 1766], 0x51cc_c178),
        ([199, 92, 111, 2], [65, 69, 140, 83], [14230, 4739], 0xc626_b0ea),
        ([24, 19, 198, 95], [12, 22, 207, 184], [12898, 38024], 0x5c2b_394a),
        ([38, 27, 205, 30], [209, 142, 163, 6], [48228, 2217], 0xafc7_327f),
        ([153, 39, 163, 191], [202, 188, 127, 2], [44251, 1303], 0x10e8_28a2),
    ] {
        let [source, target] = [source, target].map(u32::from_be_bytes);
        let flow = [source, target, ports[0] << 16 | ports[1]];
        assert_eq!(FlowHash::hash(flow), hash, "{flow:x?}");
        let mut answer = [0];
        FlowHash.answer(&flow, &mut answer);
        assert_eq!(answer, [hash], "the CPU twin answers as the function does");
    }
}

/// `WARPSWITCH_NEED_NVRTC` makes the compiler's absence a failure.
#[test]
fn kernel_compiles() {
    if compiler_version().is_err() {
        let is_needed = std::env::var_os("WARPSWITCH_NEED_NVRTC").is_some();
        assert!(!is_needed, "NVRTC is not installed");
        return;
    }
    let source = FlowHash.kernel().source();
    let shape: KernelShape = FlowHash.shape();
    let compiled = compile(source.name, &source.whole(), &options(&shape, (9, 0)));
    let (code, _) = compiled.expect("the kernel compiles");
    assert!(code.starts_with(b"\x7fELF"), "machine code");
}

/// No device, a pool of threads, one that fails, and a GPU if there is one; and whether the device
/// answers.
fn devices() -> Vec<(&'static str, Option<Arc<Device>>, bool)> {
    let pool = |faults| {
        let start = &mut |worker| _ = thread::spawn(worker);
        Device::from_pool(HostPool::with_faults(2, faults, start))
    };
    let broken = FaultPlan { error_chance: 0.5, ..FaultPlan::default() };
    let mut devices = vec![
        ("no device", None, false),
        ("threads", Some(pool(None)), true),
        ("threads that fail", Some(pool(Some(broken))), false),
    ];
    match Device::open_card(0, None) {
        Ok(card) => devices.push(("GPU", Some(card), true)),
        Err(error) => {
            let is_absent = matches!(error.kind(), ErrorKind::NoDriver | ErrorKind::NoCard);
            assert!(is_absent, "{error}");
        }
    }
    devices
}

/// Runs `config` with a device. Panics if a packet is lost.
fn run(config: &str, device: Option<Arc<Device>>) -> Router {
    let transcript = match device {
        Some(device) => Transcript::with_device(Offload::to(device)),
        None => Transcript::default(),
    };
    let registry = register(warpswitch_offload::register(warpswitch_elements::registry()));
    let made = router_for(config, &registry, &transcript);
    let mut router = made.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    router.run(&mut SimulatedHost::default());
    router.finish().map_err(|errors| errors.to_click()).expect("the run finishes");
    assert_eq!(router.packets_unaccounted(), 0, "packets in = out + dropped + held");
    router
}

fn count(router: &mut Router, handler: &str) -> usize {
    let value = router.read(handler).unwrap_or_else(|error| panic!("{handler}: {error}"));
    value.parse().unwrap_or_else(|_| panic!("{handler}: {value}"))
}

/// The frames of a capture.
fn frames(path: &str) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().expect("a whole capture") {
        frames.push(frame.data.to_vec());
    }
    frames
}

/// The hash of a frame, from fixed offsets; `None` if it has none.
fn reference(frame: &[u8]) -> Option<u32> {
    let is_ipv4 = frame.get(12..15)? == [8, 0, 0x45];
    let is_fragment = u16::from_be_bytes([*frame.get(20)?, frame[21]]) & 0x3fff > 0;
    if !is_ipv4 || is_fragment || ![6, 17].contains(frame.get(23)?) {
        return None;
    }
    let word = |at: usize| Some(u32::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    Some(FlowHash::hash([word(26)?, word(30)?, word(34)?]))
}

const CHAIN: &str = "b :: Batcher(SIZE 64, IDLE true) -> HostToDeviceMemcpy
    -> hash :: GPUFlowHash(3 PREDICATE) -> DeviceToHostMemcpy -> GPUCompletionQueue
    -> Debatcher -> out :: Dispatcher;
    out[0] -> ToDump(OUT/0, SNAPLEN 0); out[1] -> ToDump(OUT/1, SNAPLEN 0);
    out[2] -> ToDump(OUT/2, SNAPLEN 0);";

#[test]
fn outputs_equal_the_reference_on_every_device() {
    for capture in ["firewall.pcap", "ids.pcap", "lan0-ipv6.pcap"] {
        let path = format!("{CAPTURES}/{capture}");
        let (frames, folder) = (frames(&path), tempfile::tempdir().expect("a folder"));
        let out = folder.path().display().to_string();
        let chain = CHAIN.replace("OUT", &out).replace("PREDICATE", "");
        let config = format!("FromDump({path}, STOP true) -> MarkIPHeader(14) -> {chain}");
        let hashed = frames.iter().filter(|frame| reference(frame).is_some()).count();
        for (name, device, answers) in devices() {
            let mut router = run(&config, device);
            for output in 0..3 {
                let wanted = |frame: &&Vec<u8>| reference(frame).unwrap_or(0) % 3 == output;
                let expected: Vec<_> = frames.iter().filter(wanted).cloned().collect();
                let found = self::frames(&format!("{out}/{output}"));
                assert_eq!(found, expected, "{capture} by {name}, output {output}");
            }
            let (on_device, on_cores) =
                (count(&mut router, "hash.on_device"), count(&mut router, "hash.on_cores"));
            assert_eq!(on_device + on_cores, hashed, "{capture} by {name}");
            assert!(!answers || on_cores == 0, "{capture} by {name}: {on_cores} on cores");
            // Three words a flow; columns end at whole lines of 128 bytes.
            let (sent, batches) =
                (count(&mut router, "b.bytes_sent"), count(&mut router, "b.batches"));
            assert!(sent <= 12 * hashed + 128 * batches, "{capture} by {name}: {sent} bytes");
            assert!(!answers || sent >= 12 * hashed, "{capture} by {name}: {sent} bytes");
        }
    }
}

#[test]
fn packets_that_a_predicate_excludes_stay_off_the_device() {
    let path = format!("{CAPTURES}/firewall.pcap");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().display().to_string();
    let chain = CHAIN.replace("OUT", &out).replace("PREDICATE", ", CHK_ANNO 44=1");
    let config = format!(
        "FromDump({path}, STOP true) -> MarkIPHeader(14) -> c :: IPClassifier(udp, -);
        c[0] -> udp :: Counter -> SetAnnoByte(44, 1) -> all :: Null; c[1] -> all -> {chain}"
    );
    let outputs = || [0, 1, 2].map(|output| fs::read(format!("{out}/{output}")).expect("a file"));
    let mut expected = None;
    for (name, device, answers) in devices() {
        let mut router = run(&config, device);
        let expected = expected.get_or_insert_with(outputs);
        assert!(expected.iter().all(|bytes| bytes.len() > 1000), "packets at each output");
        assert_eq!(&outputs(), expected, "by {name}");
        let (udp, on_device) =
            (count(&mut router, "udp.count"), count(&mut router, "hash.on_device"));
        assert!(udp > 0 && (!answers || on_device == udp), "{name}: {on_device} of {udp}");
    }
}

#[test]
fn rejects_arguments_and_places_that_cannot_work() {
    let registry = register(warpswitch_offload::register(warpswitch_elements::registry()));
    let errors = |config: &str| {
        let made = router_for(config, &registry, &Transcript::default());
        made.err().expect("an error").to_click()
    };
    let chain = |arguments: &str| {
        format!(
            "Idle -> Batcher -> HostToDeviceMemcpy -> GPUFlowHash({arguments})
            -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> Discard;"
        )
    };
    assert!(errors(&chain("0")).contains("expected at least 1"));
    let errors_of_place = errors(&chain("2, ANNO 46"));
    assert!(errors_of_place.contains("ANNO") && errors_of_place.contains("0 to 44"));
    assert!(errors("Idle -> GPUFlowHash(2) -> Discard;").contains("Batcher"));
}
