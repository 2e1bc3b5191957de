//! A card: what it is, and the context that everything on it belongs to.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call::check;
use super::pool::{Block, MemoryUse, Pool, pool_bytes_max};
use super::raw::{connections, cuda, need_driver};
use crate::error::{ErrorKind, GpuError};

/// The oldest CUDA that a driver may be of: what cards of compute capability 9.0 need.
const DRIVER_VERSION_MIN: (u32, u32) = (12, 0);

/// The version of CUDA that the driver is of.
///
/// # Errors
/// [`ErrorKind::NoDriver`], [`ErrorKind::DriverTooOld`].
pub fn driver_version() -> Result<(u32, u32), GpuError> {
    need_driver()?;
    let mut version: c_int = 0;
    // SAFETY: the driver writes one number.
    check("cuDriverGetVersion", unsafe { cuda::cuDriverGetVersion(&raw mut version) })?;
    let version = (version as u32 / 1000, version as u32 % 1000 / 10);
    if version < DRIVER_VERSION_MIN {
        let (found, need) = (version, DRIVER_VERSION_MIN);
        let message = format!(
            "the driver supports CUDA {}.{}; expected at least {}.{}",
            found.0, found.1, need.0, need.1
        );
        return Err(GpuError::new(ErrorKind::DriverTooOld, message));
    }
    Ok(version)
}

/// How many cards the driver shows.
///
/// # Errors
/// [`ErrorKind::NoDriver`], [`ErrorKind::DriverTooOld`], [`ErrorKind::NoCard`].
pub fn card_count() -> Result<usize, GpuError> {
    driver_version()?;
    // SAFETY: any thread may initialise the driver, any number of times.
    check("cuInit", unsafe { cuda::cuInit(0) })?;
    let mut count: c_int = 0;
    // SAFETY: the driver writes one number.
    check("cuDeviceGetCount", unsafe { cuda::cuDeviceGetCount(&raw mut count) })?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(GpuError::new(ErrorKind::NoCard, "the driver finds no GPU")),
    }
}

/// Open streams of the process, which shares its connections among them.
static STREAMS: AtomicUsize = AtomicUsize::new(0);

/// A card with its primary context. Threads: any.
#[derive(Debug)]
pub struct Card {
    ordinal: usize,
    device: cuda::CUdevice,
    context: cuda::CUcontext,
    memory: Mutex<Pool>,
    /// See [`Card::give_up`].
    is_given_up: AtomicBool,
    /// See [`connections`].
    connections: usize,
}

// SAFETY: the driver's calls on a context may come from any thread; the pointer is its handle.
unsafe impl Send for Card {}
// SAFETY: see above.
unsafe impl Sync for Card {}

impl Card {
    /// Opens card `ordinal`.
    ///
    /// # Errors
    /// What is missing; or the card's refusal.
    pub fn open(ordinal: usize) -> Result<Arc<Self>, GpuError> {
        let count = card_count()?;
        if ordinal >= count {
            let message = format!("no GPU {ordinal}: the driver lists {count}");
            return Err(GpuError::new(ErrorKind::NoCard, message));
        }
        let mut device = 0;
        // SAFETY: the driver was initialised; it writes one handle.
        let got = unsafe { cuda::cuDeviceGet(&raw mut device, ordinal as c_int) };
        check("cuDeviceGet", got)?;
        let mut context = ptr::null_mut();
        // SAFETY: the handle is the driver's; it writes one handle.
        let got = unsafe { cuda::cuDevicePrimaryCtxRetain(&raw mut context, device) };
        check("cuDevicePrimaryCtxRetain", got)?;
        let (memory, is_given_up) = (Mutex::new(Pool::new(0)), AtomicBool::new(false));
        let connections = connections();
        let mut card = Self { ordinal, device, context, memory, is_given_up, connections };
        card.memory = Mutex::new(Pool::new(pool_bytes_max(card.memory_bytes()?)));
        Ok(Arc::new(card))
    }

    /// Its number among the cards that the driver shows.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Makes this card the calling thread's.
    pub(super) fn enter(&self) -> Result<(), GpuError> {
        // SAFETY: the context is retained until `self` is dropped.
        check("cuCtxSetCurrent", unsafe { cuda::cuCtxSetCurrent(self.context) })
    }

    /// Counts a stream that was opened.
    pub(super) fn add_stream() {
        STREAMS.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a stream that was closed.
    pub(super) fn remove_stream() {
        STREAMS.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether each stream of the process and `more` further ones reach the card on their own.
    /// Otherwise a launch may wait for a kernel that stays.
    pub fn has_connections(&self, more: usize) -> bool {
        STREAMS.load(Ordering::Relaxed) + more <= self.connections
    }

    /// Never waits for the card again, which hangs. What it may still reach (memory, kernels,
    /// streams) stays as it is until the process ends, and the system ends what hangs.
    pub fn give_up(&self) {
        // Nothing else is handed over with it.
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether it hangs.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of the card's memory; see [`super::pool`].
    pub(super) fn take_memory(&self, bytes: usize) -> Result<Block, GpuError> {
        self.enter()?;
        self.pool().take(bytes)
    }

    /// Takes a block back that no work of the card can reach any more.
    pub(super) fn give_memory(&self, block: &Block) {
        if self.is_given_up() {
            return;
        }
        self.pool().give(block);
    }

    /// How its memory is used by this process.
    pub fn memory_use(&self) -> MemoryUse {
        self.pool().memory_use()
    }

    /// Its name.
    ///
    /// # Errors
    /// The driver's.
    pub fn name(&self) -> Result<String, GpuError> {
        self.text("cuDeviceGetName", |text, len, device| {
            // SAFETY: the driver writes at most `len` bytes, the last of them zero.
            unsafe { cuda::cuDeviceGetName(text, len, device) }
        })
    }

    /// Its address on the PCI bus, as `0000:1b:00.0`.
    ///
    /// # Errors
    /// The driver's.
    pub fn pci_address(&self) -> Result<String, GpuError> {
        let text = self.text("cuDeviceGetPCIBusId", |text, len, device| {
            // SAFETY: the driver writes at most `len` bytes, the last of them zero.
            unsafe { cuda::cuDeviceGetPCIBusId(text, len, device) }
        })?;
        Ok(text.to_lowercase())
    }

    fn text(
        &self,
        call: &'static str,
        read: impl Fn(*mut std::ffi::c_char, c_int, cuda::CUdevice) -> cuda::CUresult,
    ) -> Result<String, GpuError> {
        let mut text = [0u8; 256];
        check(call, read(text.as_mut_ptr().cast(), text.len() as c_int, self.device))?;
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// Bytes of its memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn memory_bytes(&self) -> Result<usize, GpuError> {
        let mut bytes = 0;
        // SAFETY: the handle is the driver's; it writes one number.
        let got = unsafe { cuda::cuDeviceTotalMem_v2(&raw mut bytes, self.device) };
        check("cuDeviceTotalMem", got)?;
        Ok(bytes)
    }

    fn attribute(&self, which: cuda::CUdevice_attribute) -> Result<usize, GpuError> {
        let mut value: c_int = 0;
        // SAFETY: the handle is the driver's; it writes one number.
        let got = unsafe { cuda::cuDeviceGetAttribute(&raw mut value, which, self.device) };
        check("cuDeviceGetAttribute", got)?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// Its compute capability: major, minor.
    ///
    /// # Errors
    /// The driver's; the same holds for the figures below.
    pub fn compute_capability(&self) -> Result<(u32, u32), GpuError> {
        use cuda::CUdevice_attribute as A;
        let major = self.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok((major as u32, minor as u32))
    }

    /// Whether streams can write a value to pinned memory.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn has_stream_writes(&self) -> Result<bool, GpuError> {
        use cuda::CUdevice_attribute as A;
        Ok(self.attribute(A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)? > 0)
    }

    /// Its multiprocessors.
    ///
    /// # Errors
    /// The driver's.
    pub fn multiprocessors(&self) -> Result<usize, GpuError> {
        self.attribute(cuda::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    }

    /// Bytes of its second-level cache.
    ///
    /// # Errors
    /// The driver's.
    pub fn l2_bytes(&self) -> Result<usize, GpuError> {
        self.attribute(cuda::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
    }

    /// Bytes of shared memory that one block may take.
    ///
    /// # Errors
    /// The driver's.
    pub fn shared_bytes(&self) -> Result<usize, GpuError> {
        use cuda::CUdevice_attribute as A;
        self.attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if self.is_given_up() {
            return;
        }
        if self.enter().is_ok() {
            self.pool().release();
        }
        // SAFETY: retained once, in `open`. A failure leaves nothing that could be done.
        _ = unsafe { cuda::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
