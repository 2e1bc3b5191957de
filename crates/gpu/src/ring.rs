//! Slots in turn: batches are sent off one after the other and come back in that order, whatever
//! order the device works in.
//!
//! ```text
//!          oldest ─► take, answers            next ─► keys_mut, submit
//!   │ free │ under way │ under way │ under way │ free │ free │
//! ```

use std::sync::{Arc, Mutex};

use crate::device::{Device, Loaded, Slot, TransferChoice};
use crate::error::GpuError;
use crate::image::Image;
use crate::work::{Form, Work};

/// A ring of slots, used by one thread at a time.
#[derive(Debug)]
pub struct Ring<W: Work = Image> {
    form: Form,
    slots: Vec<Slot<W>>,
    keys_max: usize,
    /// The slot of the oldest batch.
    oldest: usize,
    under_way: usize,
    /// Keys of each batch under way, by slot.
    lens: Vec<usize>,
}

impl<W: Work> Ring<W> {
    /// A ring of `slots` slots for batches of up to `keys_max` keys.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the card's.
    ///
    /// # Panics
    /// If it would have no slot: a caller bug.
    pub fn new(
        device: &Device,
        form: impl Into<Form>,
        keys_max: usize,
        slots: usize,
    ) -> Result<Self, GpuError> {
        assert!(slots > 0, "a ring without slots");
        let form = form.into();
        let made = (0..slots).map(|_| device.slot(form, keys_max));
        Ok(Self {
            form,
            slots: made.collect::<Result<_, _>>()?,
            keys_max,
            oldest: 0,
            under_way: 0,
            lens: vec![0; slots],
        })
    }

    /// How wide its keys and answers are.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Keys that a slot holds.
    pub fn keys_max(&self) -> usize {
        self.keys_max
    }

    /// How many slots it has.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Batches under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Sets how keys and answers pass in all slots.
    pub fn set_transfer(&mut self, transfer: TransferChoice) {
        self.slots.iter_mut().for_each(|slot| slot.set_transfer(transfer));
    }

    fn next(&self) -> usize {
        (self.oldest + self.under_way) % self.slots.len()
    }

    /// Room for the keys of the next batch, or `None` if every slot is in use. Keys that were left
    /// in a slot are still there when its turn comes again.
    pub fn keys_mut(&mut self) -> Option<&mut [u32]> {
        let next = self.next();
        (self.under_way < self.slots.len()).then(|| self.slots[next].keys_mut())
    }

    /// Sends the next batch off: the first `len` keys in its room.
    ///
    /// # Panics
    /// If every slot is in use, or `len` is more than a slot holds: caller bugs.
    pub fn submit(&mut self, loaded: &Arc<Loaded<W>>, len: usize) {
        assert!(self.under_way < self.slots.len(), "every slot is in use");
        let next = self.next();
        self.lens[next] = len;
        self.slots[next].start(loaded, len);
        self.under_way += 1;
    }

    /// Whether the oldest batch has its answers. `None` if there is none.
    pub fn poll(&mut self) -> Option<bool> {
        (self.under_way > 0).then(|| self.slots[self.oldest].poll())
    }

    /// Keys of the oldest batch. `None` if there is none.
    pub fn oldest_len(&self) -> Option<usize> {
        (self.under_way > 0).then(|| self.lens[self.oldest])
    }

    /// Waits for the oldest batch and frees its slot; its answers are copied to `out`, which has
    /// room for just these. Gives the number of keys.
    ///
    /// # Panics
    /// If no batch is under way, or `out` is of another length: caller bugs.
    pub fn take(&mut self, out: &mut [W::Answer]) -> usize {
        let len = self.finish();
        let slot = (self.oldest + self.slots.len() - 1) % self.slots.len();
        self.slots[slot].copy_answers(out);
        len
    }

    /// The same, for those who read the words themselves: `with` is given those of the keys and of
    /// the answers.
    ///
    /// # Panics
    /// If no batch is under way: a caller bug.
    pub(crate) fn finish_with(&mut self, with: impl FnOnce(&[u32], &[u32])) -> usize {
        let len = self.finish();
        let slot = (self.oldest + self.slots.len() - 1) % self.slots.len();
        let (keys, answers) = self.slots[slot].words();
        with(&keys[..self.form.keys_len(len)], answers);
        len
    }

    /// The same without looking at the answers.
    ///
    /// # Panics
    /// If no batch is under way: a caller bug.
    pub fn finish(&mut self) -> usize {
        assert!(self.under_way > 0, "no batch is under way");
        let oldest = self.oldest;
        self.slots[oldest].wait();
        self.oldest = (oldest + 1) % self.slots.len();
        self.under_way -= 1;
        self.lens[oldest]
    }
}

/// Rings that no thread uses at the moment.
#[derive(Debug)]
pub(crate) struct Rings<W: Work>(Mutex<Vec<Ring<W>>>);

impl<W: Work> Rings<W> {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Runs `with` with a ring of `device` that no other thread uses meanwhile; `None` if there is
    /// none and none can be made.
    pub(crate) fn with<R>(
        &self,
        device: &Device,
        form: Form,
        with: impl FnOnce(&mut Ring<W>) -> R,
    ) -> Option<R> {
        let rings = || self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut free = rings();
        let known = free.iter().position(|ring| ring.form() == form);
        let known = known.map(|at| free.swap_remove(at));
        drop(free);
        let mut ring = match known {
            Some(ring) => ring,
            None => {
                let (keys_max, slots) = device.ring_shape();
                Ring::new(device, form, keys_max, slots).ok()?
            }
        };
        let result = with(&mut ring);
        rings().push(ring);
        Some(result)
    }
}
