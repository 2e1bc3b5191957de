//! A place to run: a card, or a pool of host threads.
//!
//! A device that fails, or that does not answer by a deadline if it has one
//! ([`Device::set_deadline`]), is *retired*, once and for all, with its first error as the cause.
//! What was under way, and everything that comes later, is answered on the calling thread from the
//! host's copy of the image: slower, never wrong, and nobody above has to know.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use warpswitch_classify::Detail;
use warpswitch_rules::Schema;

use crate::cache::KernelCache;
use crate::chain::{self, Chain, ChainRoom};
use crate::deadline::{Deadline, Watch};
use crate::driver::{
    Card, CardChain, CardSlot, HostMemory, KernelTimer, LoadedImage, MemoryUse, Patcher, Program,
    ResidentKernel, SharedBytes, SplitKernel,
};
use crate::error::{ErrorKind, GpuError};
use crate::host::HostPool;
use crate::image::{Image, Patch, abi};
use crate::kernels::{self, Kernel, KernelShape, Source};
use crate::resident::{HostRunner, Layout, ResidentUse, Runner};
use crate::ring::{Ring, Rings};
use crate::slot::Inner;
pub use crate::slot::{Slot, TransferChoice};
use crate::split::SplitChoice;
use crate::work::{Form, PatchWork, Work};

/// A number that no version of an image in this process has yet.
fn new_serial() -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

/// An image on a device, and the host's copy of it.
#[derive(Debug)]
pub struct Loaded<W: Work = Image> {
    image: Arc<W>,
    card: Option<Arc<LoadedImage>>,
    /// No two of a process have the same, and none has 0.
    serial: u64,
    /// Whether it is on a device, be it a pool of threads.
    is_loaded: bool,
}

impl<W: Work> Loaded<W> {
    fn new(image: Arc<W>, card: Option<Arc<LoadedImage>>, is_loaded: bool) -> Arc<Self> {
        Arc::new(Self { image, card, serial: new_serial(), is_loaded })
    }

    /// Tells it from all others.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether it is on its device.
    pub(crate) fn is_loaded(&self) -> bool {
        self.is_loaded
    }

    /// The host's copy.
    pub fn image(&self) -> &W {
        &self.image
    }

    pub(crate) fn shared_image(&self) -> &Arc<W> {
        &self.image
    }

    /// The card's copy; `None` on a pool of threads, or if the card could not take it.
    pub fn on_card(&self) -> Option<&LoadedImage> {
        self.card.as_deref()
    }

    pub(crate) fn shared_on_card(&self) -> Option<&Arc<LoadedImage>> {
        self.card.as_ref()
    }

    /// Bytes on host and card together.
    pub fn bytes(&self) -> usize {
        self.image.words().len() * 4 + self.card.as_ref().map_or(0, |card| card.bytes())
    }
}

/// A kernel's source, its name there, and the shape that it is compiled for.
type ProgramKey = (Source, &'static str, KernelShape);

/// A card and what was compiled for it.
#[derive(Debug)]
struct CardPlace {
    card: Arc<Card>,
    capability: (u32, u32),
    cache: Option<KernelCache>,
    programs: Mutex<HashMap<ProgramKey, Arc<Program>>>,
    /// For images that are loaded from now on.
    split: Mutex<SplitChoice>,
    /// Made when the first image is to be patched.
    patcher: Mutex<Option<Patcher>>,
}

#[derive(Debug)]
enum Place {
    Card(Box<CardPlace>),
    Host(HostPool),
}

/// What a device and its slots share.
#[derive(Debug)]
pub(crate) struct Core {
    place: Place,
    name: String,
    retired: OnceLock<GpuError>,
    watch: OnceLock<Watch>,
    resident_use: OnceLock<ResidentUse>,
    /// Lanes in use.
    lanes: AtomicUsize,
}

/// Lanes of a card: the kernel of each takes up to a quarter of it.
const CARD_LANES_MAX: usize = 4;

/// One of the lanes that a device has.
#[derive(Debug)]
pub(crate) struct LaneToken(Arc<Core>);

impl LaneToken {
    /// Whether a resident kernel may stay without delaying launches: streams that were opened since
    /// may share its connection.
    pub(crate) fn may_stay(&self) -> bool {
        match &self.0.place {
            Place::Card(place) => place.card.has_connections(0),
            Place::Host(_) => true,
        }
    }
}

impl Drop for LaneToken {
    fn drop(&mut self) {
        self.0.lanes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A card or a pool of threads. Threads: any number may use it.
#[derive(Debug)]
pub struct Device {
    core: Arc<Core>,
    /// Rings that no thread uses at the moment.
    rings: Rings<Image>,
}

impl Core {
    /// Stops using it; the first cause stays.
    pub(crate) fn retire(&self, cause: GpuError) {
        if let (ErrorKind::Hung, Place::Card(place)) = (cause.kind(), &self.place) {
            place.card.give_up();
        }
        _ = self.retired.set(cause);
    }

    pub(crate) fn retired(&self) -> Option<&GpuError> {
        self.retired.get()
    }

    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.watch.get()
    }
}

impl Device {
    /// Opens card `ordinal`, compiling kernels as they are needed and keeping them in `cache`. A
    /// probe kernel makes sure that the card's compiler reads images as the host writes them.
    ///
    /// # Errors
    /// What is missing, or what the card refused.
    pub fn open_card(ordinal: usize, cache: Option<KernelCache>) -> Result<Arc<Self>, GpuError> {
        let card = Card::open(ordinal)?;
        let capability = card.compute_capability()?;
        let name = card.name()?;
        let (programs, split, patcher) = Default::default();
        let place = CardPlace { card, capability, cache, programs, split, patcher };
        place.probe()?;
        Ok(Arc::new(Self::new(Place::Card(Box::new(place)), name)))
    }

    /// A pool of threads as a device.
    pub fn from_pool(pool: HostPool) -> Arc<Self> {
        let name = format!("host, {} threads", pool.threads());
        Arc::new(Self::new(Place::Host(pool), name))
    }

    fn new(place: Place, name: String) -> Self {
        let core = Arc::new(Core {
            place,
            name,
            retired: OnceLock::new(),
            watch: OnceLock::new(),
            resident_use: OnceLock::new(),
            lanes: AtomicUsize::new(0),
        });
        Self { core, rings: Rings::new() }
    }

    /// The card's name, or that of the pool.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Whether it is a card.
    pub fn is_card(&self) -> bool {
        matches!(self.core.place, Place::Card(_))
    }

    /// How a card's memory is used; `None` on a pool of threads.
    pub fn memory_use(&self) -> Option<MemoryUse> {
        match &self.core.place {
            Place::Host(_) => None,
            Place::Card(place) => Some(place.card.memory_use()),
        }
    }

    /// The same as figures.
    pub(crate) fn memory_details(&self) -> Vec<Detail> {
        let Some(memory) = self.memory_use() else { return Vec::new() };
        let figures = [
            ("card_used_bytes", memory.used_bytes),
            ("card_taken_bytes", memory.taken_bytes),
            ("card_taken_bytes_max", memory.bytes_max),
        ];
        figures.map(|(name, value)| Detail { name, value: value as f64 }).into()
    }

    /// From when on a batch that is not answered retires it; can be set once. Without a deadline it
    /// is waited for.
    pub fn set_deadline(&self, deadline: Deadline) {
        _ = self.core.watch.set(Watch::new(deadline));
    }

    /// Has engines use resident kernels for small batches; can be set once. Without it they launch
    /// a kernel for each.
    pub fn set_resident_use(&self, resident_use: ResidentUse) {
        _ = self.core.resident_use.set(resident_use);
    }

    pub(crate) fn resident_use(&self) -> Option<ResidentUse> {
        self.core.resident_use.get().copied()
    }

    /// One more lane, if the device has one. A resident kernel takes a thread of a pool, and one
    /// must be left for launches; on a card its stream must not share a connection.
    pub(crate) fn take_lane(&self) -> Option<LaneToken> {
        let lanes_max = match &self.core.place {
            Place::Card(place) if !place.card.has_connections(1) => 0,
            Place::Card(_) => CARD_LANES_MAX,
            Place::Host(pool) => pool.threads() - 1,
        };
        let lanes = &self.core.lanes;
        let more = |taken: usize| (taken < lanes_max).then_some(taken + 1);
        let taken = lanes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| LaneToken(self.core.clone()))
    }

    /// Sets which batches take kernels that divide rules, of images that are loaded from now on.
    /// Without effect on a pool of threads.
    pub fn set_split(&self, choice: SplitChoice) {
        if let Place::Card(place) = &self.core.place {
            *place.split.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = choice;
        }
    }

    /// Why it is not used any more, if so.
    pub fn retired(&self) -> Option<&GpuError> {
        self.core.retired.get()
    }

    /// Stops using it; the first cause stays.
    pub fn retire(&self, cause: GpuError) {
        self.core.retire(cause);
    }

    /// Loads an image.
    ///
    /// # Errors
    /// The compiler's; [`ErrorKind::OutOfMemory`]; the card's.
    pub fn load<W: Work>(&self, image: Arc<W>) -> Result<Arc<Loaded<W>>, GpuError> {
        let card = match &self.core.place {
            Place::Host(_) => None,
            Place::Card(place) => {
                let program = place.batches(image.kernel(), &image.shape())?;
                let shape = image.launch_shape(program.card().shared_bytes()?);
                let numbers = image.numbers();
                let mut loaded = LoadedImage::load(&program, shape, image.words(), numbers)?;
                if let Some(split) = place.split(image.as_ref())? {
                    loaded = loaded.with_split(split);
                }
                Some(Arc::new(loaded))
            }
        };
        Ok(Loaded::new(image, card, true))
    }

    /// Loads an image; a card that cannot take it is retired, and the host answers from it.
    pub fn load_or_retire<W: Work>(&self, image: Arc<W>) -> Arc<Loaded<W>> {
        if self.retired().is_none() {
            match self.load(image.clone()) {
                Ok(loaded) => return loaded,
                Err(cause) => self.retire(cause),
            }
        }
        Loaded::new(image, None, false)
    }

    /// Makes ready what patches need, so that the first one does not wait for a compiler.
    pub(crate) fn prepare_patches(&self) {
        if let (Place::Card(place), None) = (&self.core.place, self.retired())
            && let Err(cause) = place.with_patcher(|_| Ok(()))
        {
            self.retire(cause);
        }
    }

    /// Brings an image that nobody else holds up to date, and tells whether it could: if not, it
    /// has to be loaded anew. A card that fails is retired, and its copy given up.
    pub(crate) fn patch<W: PatchWork>(&self, loaded: &mut Loaded<W>, patch: &Patch) -> bool {
        let Some(image) = Arc::get_mut(&mut loaded.image) else { return false };
        image.patch(patch);
        loaded.serial = new_serial();
        let Some(card) = &mut loaded.card else { return true };
        let Place::Card(place) = &self.core.place else { return true };
        let Some(image) = Arc::get_mut(card) else { return false };
        if self.retired().is_none() {
            let timer = self.core.watch.get().map(|watch| (watch, watch.begin_call()));
            let is_late = || {
                let is_late = timer.is_some_and(|(watch, due)| watch.is_late(due));
                is_late || self.retired().is_some_and(|cause| cause.kind() == ErrorKind::Hung)
            };
            match place.patch(image, patch, &is_late) {
                Ok(()) => return true,
                Err(cause) => self.retire(cause),
            }
        }
        (loaded.card, loaded.is_loaded) = (None, false);
        true
    }

    /// A slot for batches of up to `keys_max` keys of this form.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`]; the card's.
    pub fn slot<W: Work>(
        &self,
        form: impl Into<Form>,
        keys_max: usize,
    ) -> Result<Slot<W>, GpuError> {
        let form = form.into();
        let inner = match &self.core.place {
            Place::Host(pool) => Inner::Host(pool.slot(form, keys_max)),
            Place::Card(place) => {
                Inner::Card(Box::new(CardSlot::new(&place.card, form, keys_max)?))
            }
        };
        Ok(Slot::new(self.core.clone(), form, inner))
    }

    /// A chain with so much room.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`]; the compiler's; the card's.
    pub fn chain(&self, room: ChainRoom) -> Result<Chain, GpuError> {
        let inner = match &self.core.place {
            Place::Host(pool) => {
                let words = (room.words + room.texts).max(room.answers);
                chain::Inner::Host(pool.slot(Chain::HOST_FORM, words))
            }
            Place::Card(place) => {
                let shape = KernelShape { words: 4, ports_word: 0, compact: false, packed: false };
                let gather = place.program(kernels::GATHER, &shape, kernels::GATHER_ENTRY)?;
                chain::Inner::Card(Box::new(CardChain::new(&gather, room)?))
            }
        };
        Ok(Chain::new(self.core.clone(), inner, room))
    }

    /// Lets a card read memory of the host where it is: for texts of [`Chain::gather`]. `None` on
    /// a pool of threads.
    ///
    /// # Errors
    /// The card's: there may be a bound on such memory, or a part of it is lent to it already.
    pub fn reach(&self, owner: Arc<dyn SharedBytes>) -> Result<Option<HostMemory>, GpuError> {
        match &self.core.place {
            Place::Host(_) => Ok(None),
            Place::Card(place) => HostMemory::reach(&place.card, owner).map(Some),
        }
    }

    /// What answers frames of this layout.
    pub(crate) fn runner(
        &self,
        schema: &'static Schema,
        layout: &Layout,
    ) -> Result<Runner, GpuError> {
        Ok(match &self.core.place {
            Place::Host(pool) => Runner::Host(HostRunner::new(layout, schema, pool.runs())),
            Place::Card(place) => {
                let stops = layout.controls().collect();
                Runner::Card(Box::new(ResidentKernel::new(&place.card, layout.len(), stops)?))
            }
        })
    }

    /// The kernel that stays, for images like this one; `None` on a pool.
    pub(crate) fn resident_program(&self, image: &Image) -> Result<Option<Arc<Program>>, GpuError> {
        let source = Source::resident(image.algorithm());
        match &self.core.place {
            Place::Host(_) => Ok(None),
            Place::Card(place) => {
                place.program(source, image.shape(), kernels::RESIDENT_ENTRY).map(Some)
            }
        }
    }

    /// A timer of kernels alone over key sets of this form; `None` on a pool.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`]; the card's.
    pub fn kernel_timer(
        &self,
        form: impl Into<Form>,
        sets: &[&[u32]],
    ) -> Result<Option<KernelTimer>, GpuError> {
        match &self.core.place {
            Place::Host(_) => Ok(None),
            Place::Card(place) => KernelTimer::new(&place.card, form.into(), sets).map(Some),
        }
    }

    /// Registers a thread of this image's kernel takes, and bytes that it spills.
    ///
    /// # Errors
    /// The compiler's; the card's.
    pub fn kernel_registers(&self, image: &impl Work) -> Result<Option<(usize, usize)>, GpuError> {
        match &self.core.place {
            Place::Host(_) => Ok(None),
            Place::Card(place) => {
                place.batches(image.kernel(), &image.shape())?.registers().map(Some)
            }
        }
    }

    /// Keys of a slot and slots of a ring, for batches that come one after the other.
    pub(crate) fn ring_shape(&self) -> (usize, usize) {
        match &self.core.place {
            Place::Host(pool) => (1024, 2 * pool.threads() + 2),
            Place::Card(_) => (64 << 10, 4),
        }
    }

    /// Runs `with` with a ring for keys of `schema` that no other thread uses meanwhile; `None` if
    /// there is none and none can be made.
    pub(crate) fn with_ring<R>(
        &self,
        schema: &'static Schema,
        with: impl FnOnce(&mut Ring) -> R,
    ) -> Option<R> {
        self.rings.with(self, schema.into(), with)
    }
}

impl CardPlace {
    fn compile(
        &self,
        source: Source,
        shape: &KernelShape,
        entry: &str,
    ) -> Result<Program, GpuError> {
        let code = kernels::machine_code(source, shape, self.capability, self.cache.as_ref())?;
        Program::load(&self.card, &code, entry)
    }

    /// The kernel of batches.
    fn batches(&self, kernel: Kernel, shape: &KernelShape) -> Result<Arc<Program>, GpuError> {
        self.program(kernel.source(), shape, kernel.entry())
    }

    /// The kernel of an image that divides rules; `None` if there is none or it is not wanted.
    fn split<W: Work>(&self, image: &W) -> Result<Option<SplitKernel>, GpuError> {
        let choice = *self.split.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some((divisible, source)) = image.divisible() else { return Ok(None) };
        if choice == SplitChoice::Never {
            return Ok(None);
        }
        let program = self.program(source, &image.shape(), kernels::SPLIT_ENTRY)?;
        SplitKernel::new(&program, divisible, choice).map(Some)
    }

    fn program(
        &self,
        source: Source,
        shape: &KernelShape,
        entry: &'static str,
    ) -> Result<Arc<Program>, GpuError> {
        let mut programs = self.programs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(program) = programs.get(&(source, entry, *shape)) {
            return Ok(program.clone());
        }
        let program = Arc::new(self.compile(source, shape, entry)?);
        programs.insert((source, entry, *shape), program.clone());
        Ok(program)
    }

    fn patch(
        &self,
        image: &mut LoadedImage,
        patch: &Patch,
        is_late: &dyn Fn() -> bool,
    ) -> Result<(), GpuError> {
        self.with_patcher(|patcher| {
            patcher.apply(image, &patch.units, (&patch.words, patch.numbers), is_late)
        })
    }

    fn with_patcher(
        &self,
        with: impl FnOnce(&mut Patcher) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let mut patcher = self.patcher.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if patcher.is_none() {
            let shape = KernelShape { words: 4, ports_word: 2, compact: false, packed: false };
            let program = self.compile(kernels::PATCH, &shape, kernels::PATCH_ENTRY)?;
            *patcher = Some(Patcher::new(&self.card, program)?);
        }
        with(patcher.as_mut().expect("it was made above"))
    }

    /// Compares what the card's compiler made of `abi.h` with the host's numbers.
    fn probe(&self) -> Result<(), GpuError> {
        let shape = KernelShape { words: 4, ports_word: 2, compact: false, packed: false };
        let program = Arc::new(self.compile(kernels::PROBE, &shape, kernels::PROBE_ENTRY)?);
        let launch = crate::driver::LaunchShape {
            threads: 32,
            keys_per_block: 32,
            shared_bytes: 0,
            persistent: false,
        };
        let mut numbers = [0; abi::VIEW_NUMBERS];
        numbers[abi::VIEW_NUMBERS - 1] = 0x7770;
        let image = LoadedImage::load(&program, launch, &[0; 8], numbers)?;
        let keys = vec![0; 4 * (abi::FACTS.len() + 1)];
        let form = Form { key_words: 4, answer_bytes: 4, packed: false };
        let timer = KernelTimer::new(&self.card, form, &[&keys])?;
        let answers = timer.answers(&image, 0)?;
        let want = abi::FACTS.iter().map(|&(_, value)| value).chain([0x7770]);
        match want.zip(&answers).position(|(want, &got)| want != got) {
            None => Ok(()),
            Some(at) => {
                let what = abi::FACTS.get(at).map_or("the last number of a view", |fact| fact.0);
                let message = format!("image layout differs between GPU and host: {what}");
                Err(GpuError::new(ErrorKind::Compile, message))
            }
        }
    }
}
