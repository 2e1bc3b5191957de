//! The two kinds of figures, and the answers before them.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use warpswitch_gpu::device::{Loaded, TransferChoice};
use warpswitch_gpu::driver::Transfer;
use warpswitch_gpu::packed::{PackedImage, put};
use warpswitch_gpu::ring::Ring;
use warpswitch_gpu::work::{Form, Work};
use warpswitch_gpu::{Device, GpuError};
use warpswitch_rules::KeyBuf;

use super::report::Mode;
use crate::threads;

/// Bytes of keys on the card that kernels go through in turn: more than its cache holds.
const KERNEL_KEYS_BYTES: usize = 192 << 20;
/// Key sets at most.
const KERNEL_SETS_MAX: usize = 64;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Keys of a batch.
    pub batch: usize,
    /// Batches under way.
    pub slots: usize,
    /// Threads that they are shared by.
    pub threads: usize,
    /// Counted runs.
    pub runs: usize,
    /// How long each lasts.
    pub run_time: Duration,
}

impl Mode {
    /// The ways between host and device.
    pub fn ways(device: &Device) -> Vec<Mode> {
        if device.is_card() { vec![Mode::Copies, Mode::Direct] } else { vec![Mode::Threads] }
    }

    fn transfer(self) -> TransferChoice {
        match self {
            Mode::Direct => TransferChoice::Always(Transfer::Direct),
            _ => TransferChoice::Always(Transfer::Copies),
        }
    }
}

/// The words of keys, one key after the other.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    words: &'a [u32],
    form: Form,
}

impl<'a> Words<'a> {
    /// Whole keys of a form.
    pub fn new(words: &'a [u32], form: Form) -> Self {
        Self { words, form }
    }

    /// How wide they are.
    pub fn form(&self) -> Form {
        self.form
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.words.len() / self.form.key_words
    }

    /// The same keys, to be packed on their way.
    pub fn packed(self) -> Self {
        Self { form: PackedImage::FORM, ..self }
    }

    /// Copies `len` keys from place `start` on, beginning again at the end.
    pub fn fill(&self, room: &mut [u32], start: usize, len: usize) {
        if self.form.packed {
            let (keys, _) = self.words.as_chunks::<4>();
            return (0..len).for_each(|at| put(room, at, &keys[(start + at) % keys.len()]));
        }
        let mut filled = 0;
        while filled < len {
            let at = (start + filled) % self.len();
            let more = (len - filled).min(self.len() - at);
            let place = |key: usize| self.form.keys_len(key);
            let piece = &self.words[place(at)..place(at + more)];
            room[place(filled)..place(filled + more)].copy_from_slice(piece);
            filled += more;
        }
    }
}

impl<'a> From<&'a KeyBuf> for Words<'a> {
    fn from(keys: &'a KeyBuf) -> Self {
        Self::new(keys.as_batch().words(), keys.schema().into())
    }
}

/// Answers of a device to all keys, through a ring, into `answers`.
///
/// # Errors
/// If the device has no room for a ring.
pub fn check_answers<W: Work>(
    device: &Device,
    loaded: &Arc<Loaded<W>>,
    keys: Words<'_>,
    mode: Mode,
    answers: &mut [W::Answer],
) -> Result<(), GpuError> {
    // An odd length, so that last blocks and pieces are short.
    const BATCH: usize = 65_521;
    let mut ring: Ring<W> = Ring::new(device, keys.form, BATCH, 4)?;
    ring.set_transfer(mode.transfer());
    let (mut sent, mut answered) = (0, 0);
    while answered < keys.len() {
        while sent < keys.len()
            && let Some(room) = ring.keys_mut()
        {
            let len = (keys.len() - sent).min(BATCH);
            keys.fill(room, sent, len);
            ring.submit(loaded, len);
            sent += len;
        }
        let len = ring.oldest_len().unwrap_or(0);
        ring.take(&mut answers[answered..answered + len]);
        answered += len;
    }
    Ok(())
}

/// Lookups per second from pinned memory to pinned memory, all threads together, ascending.
///
/// # Errors
/// If the device has no room for the rings.
pub fn end_to_end<W: Work>(
    device: &Device,
    loaded: &Arc<Loaded<W>>,
    keys: Words<'_>,
    setting: &Setting,
    mode: Mode,
) -> Result<Vec<f64>, GpuError> {
    let count = setting.threads.min(setting.slots);
    let mut rings = Vec::new();
    for idx in 0..count {
        let slots = setting.slots / count + usize::from(idx < setting.slots % count);
        let mut ring: Ring<W> = Ring::new(device, keys.form, setting.batch, slots)?;
        ring.set_transfer(mode.transfer());
        rings.push(ring);
    }
    let barrier = Barrier::new(count);
    let per_thread: Vec<Vec<f64>> = thread::scope(|scope| {
        let spawn = |(idx, mut ring): (usize, Ring<W>)| {
            let barrier = &barrier;
            scope.spawn(move || {
                threads::pin(idx);
                start(&mut ring, loaded, keys, setting, idx);
                barrier.wait();
                lap(&mut ring, loaded, setting, setting.run_time / 2);
                let run = |_| {
                    barrier.wait();
                    lap(&mut ring, loaded, setting, setting.run_time)
                };
                let rates = (0..setting.runs).map(run).collect();
                while ring.under_way() > 0 {
                    ring.finish();
                }
                rates
            })
        };
        let handles: Vec<_> = rings.into_iter().enumerate().map(spawn).collect();
        handles.into_iter().map(|h| h.join().expect("a measuring thread panicked")).collect()
    });
    let mut rates: Vec<f64> =
        (0..setting.runs).map(|run| per_thread.iter().map(|rates| rates[run]).sum()).collect();
    rates.sort_by(f64::total_cmp);
    Ok(rates)
}

/// Fills every slot of a ring with keys of its own, which stay there, and sends all off.
fn start<W: Work>(
    ring: &mut Ring<W>,
    loaded: &Arc<Loaded<W>>,
    keys: Words<'_>,
    setting: &Setting,
    idx: usize,
) {
    let mut place = idx * setting.slots * setting.batch;
    while let Some(room) = ring.keys_mut() {
        keys.fill(room, place, setting.batch);
        ring.submit(loaded, setting.batch);
        place += setting.batch;
    }
}

/// Lookups per second of one thread: the oldest batch is taken back and sent off again for `time`.
fn lap<W: Work>(
    ring: &mut Ring<W>,
    loaded: &Arc<Loaded<W>>,
    setting: &Setting,
    time: Duration,
) -> f64 {
    let start = Instant::now();
    let mut done = 0u64;
    loop {
        done += ring.finish() as u64;
        let elapsed = start.elapsed();
        ring.submit(loaded, setting.batch);
        if elapsed >= time {
            return done as f64 / elapsed.as_secs_f64();
        }
    }
}

/// Lookups per second of the kernel alone, ascending; `None` where there is no kernel.
///
/// # Errors
/// If the card has no room for the keys, or fails.
pub fn kernel_only<W: Work>(
    device: &Device,
    loaded: &Loaded<W>,
    keys: Words<'_>,
    setting: &Setting,
) -> Result<Option<Vec<f64>>, GpuError> {
    let Some(image) = loaded.on_card() else { return Ok(None) };
    let words = keys.form.keys_len(setting.batch);
    let batch_bytes = words * 4;
    let sets = KERNEL_KEYS_BYTES.div_ceil(batch_bytes).clamp(2, KERNEL_SETS_MAX);
    let mut lists = vec![vec![0; words]; sets];
    for (number, list) in lists.iter_mut().enumerate() {
        keys.fill(list, number * setting.batch + number * 97, setting.batch);
    }
    let lists: Vec<&[u32]> = lists.iter().map(Vec::as_slice).collect();
    let Some(timer) = device.kernel_timer(keys.form, &lists)? else { return Ok(None) };
    // How many rounds a run takes, from one that warms up.
    timer.run(image, 1)?;
    let (ms, _) = timer.run(image, 1)?;
    let rounds = (setting.run_time.as_secs_f32() * 1e3 / ms.max(1e-3)).ceil().clamp(1.0, 1e5);
    let mut rates = Vec::new();
    for _ in 0..setting.runs {
        let (ms, lookups) = timer.run(image, rounds as usize)?;
        rates.push(lookups as f64 / (f64::from(ms) / 1e3));
    }
    rates.sort_by(f64::total_cmp);
    Ok(Some(rates))
}
