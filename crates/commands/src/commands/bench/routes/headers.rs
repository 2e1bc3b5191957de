//! Whole IPv4 headers: rates of packets that are checked, routed and sent on by a device.

use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use warpswitch_gpu::Device;
use warpswitch_gpu::routes::{HeaderImage, LiveHeaders, SLICE_WORDS, Slice, Verdict};
use warpswitch_routes::RouteTable;
use warpswitch_rules::RuleId;
use warpswitch_rules::generate::Prng;
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4};

use super::super::gpu::measure::{Words, check_answers};
use super::super::gpu::report::Mode;
use super::report::Report;
use super::{BenchRoutesArgs, List, measure_list};
use crate::devices::unusable;
use crate::digest::Digest;
use crate::exit::Outcome;

/// Bytes of the packets whose headers are measured.
const PACKET_BYTES: u16 = 50;

/// One packet of so many has its time up, and as many a wrong checksum.
const ODD_ONES: usize = 64;

/// Checks and measures them.
///
/// # Errors
/// A structure past its bound; a wrong answer; a card that fails.
pub fn run(
    args: &BenchRoutesArgs,
    device: &Arc<Device>,
    table: &RouteTable<u32>,
) -> anyhow::Result<Outcome> {
    let start = Instant::now();
    let live = LiveHeaders::build_for_headers(device, table.iter(), args.memory_max)?;
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    let list = List::inside(args, table);
    let slices: Vec<Slice> = slices(&list);
    let want: Vec<Slice> = slices
        .iter()
        .zip(&list.hops)
        .map(|(slice, &hop)| {
            let mut slice = *slice;
            slice.forward(|_| hop);
            slice
        })
        .collect();
    let words: Vec<u32> = slices.iter().flat_map(|slice| *slice.words()).collect();
    let words = Words::new(&words, HeaderImage::FORM);
    for mode in Mode::ways(device) {
        let mut got = vec![Slice::from_words([u32::MAX; SLICE_WORDS]); want.len()];
        check_answers(device, &live.current(), words, mode, &mut got)?;
        if let Some(at) = got.iter().zip(&want).position(|(got, want)| got != want) {
            bail!("{mode}: packet {at} came back as {:x?}, expected {:x?}", got[at], want[at]);
        }
    }
    let mut report = Report::new(args, device, &live, build_ms)?;
    let keys = ("headers", digest(&want), words);
    measure_list(args, device, &live.current(), keys, &mut report)?;
    match device.retired() {
        Some(cause) => Err(unusable(device, cause)),
        None => report.print(args),
    }
}

/// Headers of packets to the addresses of a list, most of them good.
fn slices(list: &List<u32>) -> Vec<Slice> {
    let mut draw = Prng::new(13);
    let one = |(at, &dst): (usize, &u32)| {
        let mut packet = [0; PACKET_BYTES as usize];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&PACKET_BYTES.to_be_bytes());
        packet[4..6].copy_from_slice(&(draw.next_u64() as u16).to_be_bytes());
        packet[8] = if at % ODD_ONES == 0 { 1 } else { 64 };
        packet[9] = 17;
        packet[12..16].copy_from_slice(&(draw.next_u64() as u32).to_be_bytes());
        packet[16..HEADER_BYTES].copy_from_slice(&dst.to_be_bytes());
        Ipv4::new_unchecked(&mut packet).fill_checksum();
        packet[10] ^= u8::from(at % ODD_ONES == 1);
        Slice::new(&packet)
    };
    list.addrs.iter().enumerate().map(one).collect()
}

/// That of the hops where packets are sent on, -1 for others.
fn digest(slices: &[Slice]) -> Digest {
    let number = |slice: &Slice| match slice.outcome() {
        (Verdict::SentOn, hop) => RuleId(u32::from(hop.0)),
        _ => RuleId::NONE,
    };
    let mut digest = Digest::new();
    digest.update(&slices.iter().map(number).collect::<Vec<_>>());
    digest
}
