//! Our router: the shipped configuration, run by the binary on captures, in simulated time.

use std::path::{Path, PathBuf};
use std::process::Command;

use warpswitch_io::{CaptureFormat, CaptureReader, CaptureWriter};

use crate::frames::{Family, Step, advertisement, arp_reply, host, udp_v6, v6};

/// When simulated time begins.
const START_NS: u64 = 1_000_000_000 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;
/// When the first frame of a scenario comes; before it, the router learns who its neighbours are.
const FIRST_NS: u64 = START_NS + 2 * SECOND_NS;
/// Hosts that it learns of, those that the kernel was told.
const KNOWN_HOSTS: std::ops::Range<u8> = 10..20;

/// Sends the frames of a scenario, one each half second, through the router; gives what left by
/// each link.
pub fn run(family: Family, steps: &[Step]) -> [Vec<Vec<u8>>; 2] {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| folder.path().join(name);
    let mut frames = introductions(family);
    let times = (0..).map(|idx| FIRST_NS + idx * SECOND_NS / 2);
    let timed = times.zip(steps.iter().cloned());
    frames.extend(timed.filter(|(_, step)| !step.frame.is_empty()));
    let (inputs, outputs) = (["in0", "in1"].map(file), ["out0", "out1"].map(file));
    for (lan, input) in inputs.iter().enumerate() {
        write(input, frames.iter().filter(|(_, step)| step.lan == lan));
    }
    let (config, more): (_, &[&str]) = match family {
        Family::V4 => ("conf/ip-router.click", &["TIMING=true", "WAIT=4s"]),
        Family::V6 => ("conf/ipv6-router.click", &[]),
    };
    let variables = ["IN0", "IN1", "OUT0", "OUT1"].into_iter().zip(inputs.iter().chain(&outputs));
    let output = Command::new(env!("CARGO_BIN_EXE_warpswitch"))
        .args(["run", "--simtime", config])
        .args(variables.map(|(name, path)| format!("{name}={}", path.display())))
        .args(more)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{config}: {said}");
    outputs.map(|path| read(&path))
}

/// What tells the router its neighbours: ARP replies, or packets for them and what they answer
/// when they are asked for.
fn introductions(family: Family) -> Vec<(u64, Step)> {
    let hosts = || (0..2).flat_map(|lan| KNOWN_HOSTS.map(move |number| host(lan, number)));
    match family {
        Family::V4 => hosts().map(|host| (START_NS, arp_reply(host))).collect(),
        Family::V6 => {
            let packets = hosts().map(|from| {
                let to = host(1 - from.lan, from.mac.0[5]);
                (START_NS, v6(from, to.v6, udp_v6(from.v6, to.v6, 9), |_| {}))
            });
            let answers = hosts().map(|host| (START_NS + SECOND_NS / 2, advertisement(host)));
            packets.chain(answers).collect()
        }
    }
}

fn write<'a>(path: &PathBuf, frames: impl Iterator<Item = &'a (u64, Step)>) {
    let mut writer = CaptureWriter::create(path, CaptureFormat::Pcap, false).expect("a capture");
    for (time_ns, step) in frames {
        writer.write_frame(*time_ns, &step.frame).expect("a frame");
    }
    writer.finish().expect("a whole capture");
}

/// What left from the first frame of the scenario on.
fn read(path: &PathBuf) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().expect("a frame") {
        if frame.timestamp_ns >= FIRST_NS - SECOND_NS / 2 {
            frames.push(frame.data.to_vec());
        }
    }
    frames
}
