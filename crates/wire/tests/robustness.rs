//! Nothing panics, whatever the bytes are: every accessor behind every check, on random bytes and
//! on sound frames with a few bytes changed.

mod common;

use common::{Rng, frames};
use proptest::prelude::*;
use warpswitch_wire::walk::{walk_frame, walk_views};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        walk_frame(&bytes);
        walk_views(&bytes);
    }

    #[test]
    fn random_bytes_behind_an_ether_type(
        ether_type in prop::sample::select(vec![
            0x0800u16, 0x86dd, 0x0806, 0x8100, 0x88a8, 0x8847, 100, 8,
        ]),
        first in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x60, 0x6f, 0xaa]),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let payload = [&[first], &bytes[..]].concat();
        walk_frame(&common::eth(ether_type, &payload));
    }
}

#[test]
fn sound_frames_with_bytes_changed() {
    let mut rng = Rng(1);
    let frames = frames();
    for _ in 0..40_000 {
        let mut frame = frames[rng.below(frames.len())].clone();
        rng.mutate(&mut frame);
        walk_frame(&frame);
    }
}

#[test]
fn sound_frames_cut_at_every_length() {
    for frame in frames() {
        for length in 0..=frame.len() {
            walk_frame(&frame[..length]);
            walk_views(&frame[length..]);
        }
    }
}

#[test]
fn walks_read_the_bytes() {
    // A digest that did not depend on its input would let dead code pass for a walk.
    let digests: std::collections::BTreeSet<u64> =
        frames().iter().map(|frame| walk_frame(frame)).collect();
    assert_eq!(digests.len(), frames().len());
}
