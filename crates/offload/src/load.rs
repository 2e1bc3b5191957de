//! Loads of wide batches: slices, results and their layout.
//!
//! A `Batcher` allocates a fixed number of loads for its chain. A load passes the chain with its
//! packets and then returns to the `Batcher`, so the number of loads bounds the batches in flight
//! and their memory.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use warpswitch_elements_support::cached::Clock;
use warpswitch_gpu::Chain;
use warpswitch_gpu::auto::policy::Choice;
use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::work::Work;
use warpswitch_graph::Context;
use warpswitch_packet::{Batch, CACHED_RESULTS, CachedResult};

use super::anno::{Meant, Predicate, Written};
use super::branches::BranchPackets;
use super::place::Offload;
use super::slices::{Family, PacketSlice, Slice, SliceColumn};
use super::texts::BatchTexts;

/// One kernel launch of a wide batch: its element and results.
#[derive(Clone, Debug)]
pub struct Step {
    /// The element.
    pub(crate) element: usize,
    /// What its kernel reads, if that is of another crate.
    pub(crate) slice: Option<&'static PacketSlice>,
    /// Its answers, words of the chain's.
    pub(crate) answers: Range<usize>,
    /// The version of the table that the kernel read.
    pub(crate) version: u32,
    /// The family of the destination annotations that it reads; `None` if it reads none.
    pub(crate) destinations: Option<Family>,
    /// Whether it reads the paint annotation.
    pub(crate) sees_paints: bool,
}

impl Step {
    /// One that has no answers yet.
    pub(crate) fn new(element: usize) -> Self {
        Self {
            element,
            slice: None,
            answers: 0..0,
            version: 0,
            destinations: None,
            sees_paints: false,
        }
    }
}

/// Slices and results of a wide batch.
#[derive(Debug)]
pub struct Load {
    /// `None` if the batch bypasses the device.
    pub(crate) chain: Option<Chain>,
    /// Whether an unbatched batch bypasses the device; elements of the chain only forward it.
    pub(crate) is_passing: bool,
    /// The slices of its packets.
    pub(crate) columns: Vec<SliceColumn>,
    /// Words of slices of a batch that passes by the device.
    pub(crate) kept: Vec<u32>,
    /// Answers that this thread has computed.
    computed: Vec<u32>,
    /// Payloads that the device searches; `None` if no element needs them.
    pub(crate) texts: Option<BatchTexts>,
    /// Words to send to the device.
    pub(crate) words: usize,
    /// Packets without a key, by slice and index.
    pub(crate) keyless: Vec<(Slice, usize)>,
    pub(crate) steps: Vec<Step>,
    /// Packets of each incoming batch, in order.
    pub(crate) lens: Vec<usize>,
    /// Bytes of packets whose batches were not deferred on arrival.
    pub(crate) packet_lens: Vec<u32>,
    /// Results for elements downstream of the chain, by packet.
    pub(crate) results: Vec<[CachedResult; CACHED_RESULTS]>,
    /// Whether packets keep the results that they carry where the chain has none.
    pub(crate) keeps_results: bool,
    /// Keys of these results for frames, by packet.
    pub(crate) frame_keys: Vec<Option<u32>>,
    /// Offsets of IPv6 destinations in the buffers of packets, 0 if missing; the keys of these
    /// results for IPv6.
    pub(crate) places: Vec<u32>,
    /// Destination annotations before members of the chain change them, of a bypassing batch.
    /// Others have them in slices.
    pub(crate) destinations: Vec<u32>,
    /// The same for IPv6.
    pub(crate) destinations6: Vec<u128>,
    /// Paint annotations before members change them, if a later member reads them.
    pub(crate) paints: Vec<u8>,
    /// The packets on the branch of the element whose results are being applied.
    pub(crate) branch: BranchPackets,
    meant: Meant,
    /// The policy's choice of the device, and the cost to the worker so far; `None` without a
    /// policy.
    pub(crate) choice: Option<Choice>,
    pub(crate) began: Duration,
    pub(crate) cost: Duration,
    pub(crate) home: Arc<Home>,
}

impl Load {
    /// A load with the buffers of `chain`, or one that bypasses the device.
    pub(crate) fn new(home: &Arc<Home>, chain: Option<Chain>) -> Self {
        Self {
            chain,
            is_passing: false,
            columns: Vec::new(),
            kept: Vec::new(),
            computed: Vec::new(),
            texts: None,
            words: 0,
            keyless: Vec::new(),
            steps: Vec::new(),
            lens: Vec::new(),
            packet_lens: Vec::new(),
            results: Vec::new(),
            keeps_results: false,
            frame_keys: Vec::new(),
            places: Vec::new(),
            destinations: Vec::new(),
            destinations6: Vec::new(),
            paints: Vec::new(),
            branch: BranchPackets::default(),
            meant: Meant::default(),
            choice: None,
            began: Duration::ZERO,
            cost: Duration::ZERO,
            home: home.clone(),
        }
    }

    /// The load of a wide batch; none if it is an ordinary one.
    pub fn of(batch: &mut Batch) -> Option<&mut Self> {
        batch.attachment_mut()?.downcast_mut()
    }

    /// Detaches the load of a wide batch.
    pub(crate) fn take(batch: &mut Batch) -> Option<Box<Self>> {
        batch.detach()?.downcast().ok()
    }

    /// The slices of a step's element.
    pub(crate) fn column(&self, step: &Step) -> Option<&SliceColumn> {
        match &self.chain {
            Some(_) => self.columns.get(self.home.column_of(step.element)?),
            None => {
                let slice = Slice::Custom(step.slice?);
                self.columns.iter().find(|column| column.slice == slice)
            }
        }
    }

    /// Where the slices of a step's element begin, and how many there are of a batch of so many
    /// packets.
    pub(crate) fn place(&self, step: &Step, packets: usize) -> Option<(usize, usize)> {
        self.column(step).map(|column| (column.at, column.len(packets)))
    }

    /// Cuts the slices that other crates define from a batch that passes by the device, before
    /// elements change its packets.
    pub(crate) fn keep_slices(&mut self, batch: &Batch) {
        for slice in self.steps.iter().filter_map(|step| step.slice) {
            let mut column = SliceColumn::new(Slice::Custom(slice), None);
            if self.columns.iter().any(|known| known.slice == column.slice) {
                continue;
            }
            column.at = self.kept.len();
            self.kept.resize(column.at + column.slice.words() * batch.len(), 0);
            if let Some(holders) = &mut column.holders {
                slice.cut_all(batch, 0, &mut self.kept[column.at..], holders);
            }
            self.columns.push(column);
        }
    }

    /// Launches the kernel of `loaded` on the slices of the element that this context is of, and
    /// adds a step for it. Call it once in [`DeviceElement::launch`](super::DeviceElement::launch).
    /// `loaded` is `None` if the element has joined no device.
    pub fn launch<W: Work>(
        &mut self,
        cx: &Context<'_>,
        slice: &'static PacketSlice,
        loaded: Option<&Arc<Loaded<W>>>,
    ) {
        let mut step = Step::new(cx.element());
        step.slice = Some(slice);
        let place = self.place(&step, 0);
        if let (Some(chain), Some(loaded), Some((at, count))) = (&mut self.chain, loaded, place) {
            step.answers = chain.step(loaded, at, count);
        }
        self.steps.push(step);
    }

    /// Writes the answers of a step that [`Load::launch`] added to `out`, one a packet, in order;
    /// `missing` for packets without a slice. If the device has none, this thread computes them by
    /// `work` from the same slices. Returns how many came from the device, and how many not.
    pub fn answers<W: Work>(
        &mut self,
        step: &Step,
        work: &W,
        missing: W::Answer,
        out: &mut Vec<W::Answer>,
    ) -> (u64, u64) {
        let packets = self.lens.iter().sum();
        out.clear();
        let Some((at, count)) = self.place(step, packets) else {
            out.resize(packets, missing);
            return (0, 0);
        };
        out.resize(count, missing);
        let is_on_device = !step.answers.is_empty();
        match &mut self.chain {
            Some(chain) if is_on_device => W::unpack(&chain.answers()[step.answers.clone()], out),
            chain => {
                let words = match chain {
                    Some(chain) => &*chain.words_mut(),
                    None => &self.kept[..],
                };
                let form = work.form();
                self.computed.clear();
                self.computed.resize(form.answers_len(count), 0);
                work.answer(&words[at..at + form.keys_len(count)], &mut self.computed);
                W::unpack(&self.computed, out);
            }
        }
        if let Some(column) = self.column(step) {
            column.scatter(packets, missing, out);
        }
        if is_on_device { (count as u64, 0) } else { (0, count as u64) }
    }

    /// Adds the results that packets carry where the chain has none, if an element left some out.
    pub(crate) fn keep_results(&mut self, batch: &Batch) {
        if !std::mem::take(&mut self.keeps_results) {
            return;
        }
        for (packet, results) in batch.iter().zip(&mut self.results) {
            for (slot, result) in results.iter_mut().enumerate() {
                if !result.is_some() {
                    *result = packet.cached(slot).unwrap_or_default();
                }
            }
        }
    }

    /// Writes `numbers`, one per packet, to the annotation of the packets that are on the branch of
    /// the current element and meet its predicate. Call it in
    /// [`DeviceElement::apply`](super::DeviceElement::apply).
    pub fn write(&mut self, batch: &mut Batch, to: Written, numbers: &mut [u32]) {
        self.meant.read(to.predicate, &self.branch, batch);
        self.meant.write(batch, to.place, numbers);
    }

    /// Forgets the batch that it was for.
    pub(crate) fn clear(&mut self) {
        match &self.chain {
            Some(_) => {
                let holders = self.columns.iter_mut().filter_map(|column| column.holders.as_mut());
                holders.for_each(Vec::clear);
            }
            None => self.columns.clear(),
        }
        self.kept.clear();
        self.keyless.clear();
        self.steps.clear();
        self.lens.clear();
        self.packet_lens.clear();
        self.results.clear();
        self.frame_keys.clear();
        self.places.clear();
        self.destinations.clear();
        self.destinations6.clear();
        self.paints.clear();
        self.branch.clear();
        (self.words, self.choice, self.is_passing) = (0, None, false);
        self.cost = Duration::ZERO;
    }
}

/// Limit of free loads without a chain; only few are in flight at a time.
const WITHOUT_MAX: usize = 16;

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave the list inconsistent.
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State shared by the elements of a chain: free loads, policy and packet counts.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// The policy that chooses the path of wide batches; unset if all use the device.
    chooser: OnceLock<Arc<Offload>>,
    /// By element, the number of the column of its slices.
    columns: OnceLock<Vec<(usize, usize)>>,
    /// The elements on branches, with their branches.
    branches: OnceLock<Vec<(usize, Predicate)>>,
    #[expect(clippy::vec_box, reason = "loads travel in boxes, and come back in them")]
    free: Mutex<Vec<Box<Load>>>,
    /// Free loads without a chain.
    #[expect(clippy::vec_box, reason = "as above")]
    without: Mutex<Vec<Box<Load>>>,
    /// Packets that left the chain.
    left: AtomicU64,
    /// Whether packets wait for full queues downstream of the chain and none has left for a second.
    is_stuck: AtomicBool,
}

impl Home {
    /// Takes a free load.
    pub(crate) fn get(&self) -> Option<Box<Load>> {
        lock(&self.free).pop()
    }

    /// Takes a load for a batch that bypasses the device.
    pub(crate) fn get_without(self: &Arc<Self>) -> Box<Load> {
        let used = lock(&self.without).pop();
        used.unwrap_or_else(|| Box::new(Load::new(self, None)))
    }

    /// Returns a load.
    pub(crate) fn put(&self, mut load: Box<Load>) {
        load.clear();
        if load.chain.is_some() {
            return lock(&self.free).push(load);
        }
        let mut without = lock(&self.without);
        if without.len() < WITHOUT_MAX {
            without.push(load);
        }
    }

    /// Sets, by element, the number of the column of its slices.
    pub(crate) fn set_columns(&self, columns: Vec<(usize, usize)>) {
        _ = self.columns.set(columns);
    }

    /// The number of the column of an element's slices.
    fn column_of(&self, element: usize) -> Option<usize> {
        let columns = self.columns.get()?;
        columns.iter().find(|(known, _)| *known == element).map(|&(_, column)| column)
    }

    /// Sets the elements on branches, with their branches.
    pub(crate) fn set_branches(&self, branches: Vec<(usize, Predicate)>) {
        _ = self.branches.set(branches);
    }

    /// The elements on branches, with their branches.
    pub(crate) fn branches(&self) -> &[(usize, Predicate)] {
        self.branches.get().map_or(&[], Vec::as_slice)
    }

    /// The branch that an element is on.
    pub(crate) fn branch_of(&self, element: usize) -> Option<Predicate> {
        self.branches().iter().find(|(known, _)| *known == element).map(|&(_, branch)| branch)
    }

    /// Has the way of wide batches be chosen.
    pub(crate) fn choose_by(&self, offload: &Arc<Offload>) {
        _ = self.chooser.set(offload.clone());
    }

    /// The policy's owner and the clock; `None` without a policy.
    pub(crate) fn chooser(&self) -> Option<(&Offload, Clock)> {
        let offload = self.chooser.get()?;
        Some((offload, offload.costs().clock()?))
    }

    /// Counts packets that leave the chain.
    pub(crate) fn count_left(&self, packets: u64) {
        self.left.fetch_add(packets, Ordering::Relaxed);
    }

    /// Sets whether packets of the chain are stuck at full queues.
    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    /// Whether packets of the chain are stuck.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    /// Packets that left the chain.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }
}
