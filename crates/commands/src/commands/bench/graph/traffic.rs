//! Frames to replay: 64 bytes each on the wire, which is 60 in memory.

use std::path::Path;

use warpswitch_io::{CaptureFormat, CaptureWriter};
use warpswitch_rules::generate::{FRAME_BYTES_MIN, FrameMaker, Prng};
use warpswitch_rules::schema::IPV4_5TUPLE;

/// Headers that skewed traffic draws from.
const POPULAR_HEADERS: usize = 4096;

/// How often headers come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Traffic {
    /// Each frame's headers are drawn anew.
    Uniform,
    /// Frames are drawn from 4,096 headers; the k-th comes 1/k times as often as the first.
    Skewed,
}

impl Traffic {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Traffic::Uniform => "uniform",
            Traffic::Skewed => "skewed",
        }
    }

    /// Headers to make for `frames` frames.
    fn headers(self, frames: usize) -> usize {
        match self {
            Traffic::Uniform => frames,
            Traffic::Skewed => frames.min(POPULAR_HEADERS),
        }
    }

    /// `frames` frames with headers that `next` makes.
    pub fn frames(self, frames: usize, mut next: impl FnMut() -> [u32; 4]) -> Frames {
        let maker = FrameMaker::new(&IPV4_5TUPLE);
        let mut kinds = Vec::with_capacity(self.headers(frames));
        let mut keys = Vec::with_capacity(self.headers(frames));
        for _ in 0..self.headers(frames) {
            let (key, mut frame) = (next(), Vec::new());
            maker.frame(&key, FRAME_BYTES_MIN, &mut frame);
            kinds.push(frame);
            keys.push(key);
        }
        let order = match self {
            Traffic::Uniform => (0..frames as u32).collect(),
            Traffic::Skewed => by_popularity(kinds.len(), frames),
        };
        Frames { kinds, keys, order }
    }
}

/// Frames in the order in which they are played.
#[derive(Debug)]
pub struct Frames {
    /// Those that differ.
    pub kinds: Vec<Vec<u8>>,
    /// The key of each, as requested.
    pub keys: Vec<[u32; 4]>,
    /// Places in `kinds`.
    pub order: Vec<u32>,
}

impl Frames {
    /// Writes them as a capture.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut writer = CaptureWriter::create(path, CaptureFormat::Pcap, false)?;
        for (number, &kind) in self.order.iter().enumerate() {
            writer.write_frame(1_000_000_000 + number as u64, &self.kinds[kind as usize])?;
        }
        Ok(writer.finish()?)
    }
}

/// `count` numbers below `kinds`; the k-th has a share in proportion to 1/k.
fn by_popularity(kinds: usize, count: usize) -> Vec<u32> {
    // Whole numbers: the same on every machine.
    const SCALE: u64 = 1 << 40;
    let mut total = 0;
    let ends: Vec<u64> = (0..kinds as u64)
        .map(|kind| {
            total += SCALE / (kind + 1);
            total
        })
        .collect();
    let mut prng = Prng::new(1);
    let mut draw = || {
        let point = prng.below(total);
        ends.partition_point(|&end| end <= point) as u32
    };
    (0..count).map(|_| draw()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_headers_come_more_often() {
        let mut counts = vec![0u32; POPULAR_HEADERS];
        by_popularity(POPULAR_HEADERS, 100_000).iter().for_each(|&kind| counts[kind as usize] += 1);
        // The first has 1/H of all, where H is the sum of 1/k: 8.9 for 4096.
        assert!((10_000..12_500).contains(&counts[0]), "{}", counts[0]);
        assert!((4_500..6_500).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[1000..].iter().all(|&count| count < 60));
    }

    #[test]
    fn uniform_frames_all_differ() {
        let mut number = 0;
        let frames = Traffic::Uniform.frames(100, || {
            number += 1;
            [number, 1, 0x0001_0002, 17 << 24]
        });
        assert_eq!((frames.kinds.len(), frames.order.len()), (100, 100));
        assert!(frames.kinds.iter().all(|frame| frame.len() == 60));
        assert!(frames.kinds.windows(2).all(|two| two[0] != two[1]));
    }
}
