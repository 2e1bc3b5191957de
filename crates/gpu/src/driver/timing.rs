//! Kernels alone, timed by the card's own clock: keys lie on the card already.

use std::sync::Arc;

use super::card::Card;
use super::memory::DeviceWords;
use super::slot::{Event, LoadedImage, Stream};
use crate::error::GpuError;
use crate::work::Form;

/// Key sets on a card, and two marks in a stream. Several sets, so that repeated launches do not
/// find their keys in a cache.
#[derive(Debug)]
pub struct KernelTimer {
    stream: Stream,
    start: Event,
    stop: Event,
    sets: Vec<(DeviceWords, usize)>,
    out: DeviceWords,
    form: Form,
}

impl KernelTimer {
    /// Copies `sets` of keys to the card.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub fn new(card: &Arc<Card>, form: Form, sets: &[&[u32]]) -> Result<Self, GpuError> {
        let load = |keys: &&[u32]| {
            DeviceWords::from_words(card, keys).map(|words| (words, form.keys_in(keys.len())))
        };
        let sets: Vec<_> = sets.iter().map(load).collect::<Result<_, _>>()?;
        let len_max = sets.iter().map(|&(_, len)| len).max().unwrap_or(0);
        Ok(Self {
            stream: Stream::open(card)?,
            start: Event::new(card, true)?,
            stop: Event::new(card, true)?,
            sets,
            out: DeviceWords::with_len(card, form.answers_len(len_max))?,
            form,
        })
    }

    /// Launches the kernel over each set in turn, `rounds` times; gives the milliseconds that
    /// passed on the card and the keys that were looked up.
    ///
    /// # Errors
    /// The driver's.
    pub fn run(&self, image: &LoadedImage, rounds: usize) -> Result<(f32, u64), GpuError> {
        let mut keys = 0;
        self.start.record(&self.stream)?;
        for _ in 0..rounds {
            for (set, len) in &self.sets {
                self.launch(image, set, *len)?;
                keys += *len as u64;
            }
        }
        self.stop.record(&self.stream)?;
        self.stop.wait()?;
        Ok((self.stop.since(&self.start)?, keys))
    }

    fn launch(&self, image: &LoadedImage, keys: &DeviceWords, len: usize) -> Result<(), GpuError> {
        let places = (keys.address(), self.out.address(), len);
        // SAFETY: the image is borrowed until `run` has waited; the buffers hold `len` keys and
        // answers; all are of one card.
        unsafe { image.launch(self.stream.handle, places) }
    }

    /// Answers of set `set`, by one launch, as words.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If there is no such set: a caller bug.
    pub fn answers(&self, image: &LoadedImage, set: usize) -> Result<Vec<u32>, GpuError> {
        let (keys, len) = &self.sets[set];
        self.launch(image, keys, *len)?;
        self.stream.wait()?;
        let mut words = vec![0; self.out.len()];
        self.out.read(&mut words)?;
        words.truncate(self.form.answers_len(*len));
        Ok(words)
    }
}
