//! Programs: a compiled kernel on a card, and how it is launched.

use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use super::call::check;
use super::card::Card;
use super::raw::cuda;
use crate::error::{ErrorKind, GpuError};
use crate::image::VIEW_NUMBERS;
use crate::split::{CardShape, SplitShape};

/// How a kernel is laid over a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Threads of a block.
    pub threads: usize,
    /// Keys that a block takes at once.
    pub keys_per_block: usize,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: usize,
    /// Whether blocks stay for round after round of keys; else there are enough for all keys.
    pub persistent: bool,
}

/// What a kernel is given: where its image lies and the image's numbers; see `abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) words: u64,
    pub(super) numbers: [u32; VIEW_NUMBERS],
}

const _: () = assert!(size_of::<View>() == 64 && align_of::<View>() == 8);

/// `ws_split` of `abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct SplitArgument {
    parts: u32,
    groups: u32,
    staged: u32,
    window: u32,
}

const _: () = assert!(size_of::<SplitArgument>() == 16);

/// A kernel that is loaded on a card.
#[derive(Debug)]
pub struct Program {
    card: Arc<Card>,
    module: cuda::CUmodule,
    pub(super) function: cuda::CUfunction,
    multiprocessors: usize,
}

// SAFETY: handles of the driver, which any thread may use.
unsafe impl Send for Program {}
// SAFETY: see above.
unsafe impl Sync for Program {}

impl Program {
    /// Loads the machine code `code` and finds the kernel called `entry`.
    ///
    /// # Errors
    /// [`ErrorKind::DriverTooOld`] if the driver cannot take such code; the driver's.
    pub fn load(card: &Arc<Card>, code: &[u8], entry: &str) -> Result<Self, GpuError> {
        card.enter()?;
        let multiprocessors = card.multiprocessors()?;
        let mut module = ptr::null_mut();
        // SAFETY: `code` is what the compiler made, whole; the driver checks its format. It is
        // aligned as bytes are, which the driver allows.
        let got = unsafe { cuda::cuModuleLoadData(&raw mut module, code.as_ptr().cast()) };
        check("cuModuleLoadData", got)?;
        let function = ptr::null_mut();
        let mut program = Self { card: card.clone(), module, function, multiprocessors };
        let name = CString::new(entry)
            .map_err(|_| GpuError::new(ErrorKind::Compile, "a kernel's name holds a zero"))?;
        // SAFETY: the module is loaded, the name ends with a zero.
        let got =
            unsafe { cuda::cuModuleGetFunction(&raw mut program.function, module, name.as_ptr()) };
        check("cuModuleGetFunction", got)?;
        Ok(program)
    }

    /// The card that it is loaded on.
    pub fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// Allows blocks so much dynamic shared memory.
    ///
    /// # Errors
    /// The driver's, if a block of this card cannot have that much.
    pub fn allow_shared(&self, bytes: usize) -> Result<(), GpuError> {
        use cuda::CUfunction_attribute as A;
        self.card.enter()?;
        let which = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to a loaded module.
        let got = unsafe { cuda::cuFuncSetAttribute(self.function, which, bytes as c_int) };
        check("cuFuncSetAttribute", got)
    }

    /// Registers a thread takes, and bytes of memory where these did not suffice.
    ///
    /// # Errors
    /// The driver's.
    pub fn registers(&self) -> Result<(usize, usize), GpuError> {
        use cuda::CUfunction_attribute as A;
        let get = |which| {
            let mut value: c_int = 0;
            // SAFETY: the function belongs to a loaded module; one number is written.
            let got = unsafe { cuda::cuFuncGetAttribute(&raw mut value, which, self.function) };
            check("cuFuncGetAttribute", got).map(|()| usize::try_from(value).unwrap_or(0))
        };
        Ok((get(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?, get(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?))
    }

    /// What its card has for kernels.
    ///
    /// # Errors
    /// The driver's.
    pub fn card_shape(&self) -> Result<CardShape, GpuError> {
        Ok(CardShape {
            multiprocessors: self.multiprocessors,
            shared_bytes: self.card.shared_bytes()?,
            has_clusters: self.card.compute_capability()?.0 >= 9,
        })
    }

    /// Blocks that fill the card.
    ///
    /// # Errors
    /// The driver's.
    pub fn resident_blocks(&self, shape: &LaunchShape) -> Result<usize, GpuError> {
        self.card.enter()?;
        let mut blocks: c_int = 0;
        // SAFETY: the function belongs to a loaded module; one number is written.
        let got = unsafe {
            cuda::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.function,
                shape.threads as c_int,
                shape.shared_bytes,
            )
        };
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", got)?;
        Ok(usize::try_from(blocks).unwrap_or(0).max(1) * self.multiprocessors)
    }

    /// Puts a launch over `count` keys into `stream`; `blocks_max` blocks at most.
    ///
    /// # Safety
    /// - `view` is of an image made for this kernel, and lives until the launch has run.
    /// - `keys` and `out` are addresses, for this card, of `count` keys and as many words, alive
    ///   until then.
    /// - `stream` is a stream of this card, and `self` is not dropped before the launch has run.
    pub(super) unsafe fn launch(
        &self,
        stream: cuda::CUstream,
        shape: &LaunchShape,
        blocks_max: usize,
        view: &View,
        (mut keys, mut out, count): (u64, u64, usize),
    ) -> Result<(), GpuError> {
        if count == 0 {
            return Ok(());
        }
        let needed = count.div_ceil(shape.keys_per_block);
        let blocks = if shape.persistent { needed.min(blocks_max) } else { needed };
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX >> 1);
        let (mut view, mut count) = (*view, count as u64);
        let mut arguments: [*mut c_void; 4] = [
            (&raw mut view).cast(),
            (&raw mut keys).cast(),
            (&raw mut out).cast(),
            (&raw mut count).cast(),
        ];
        // SAFETY: four arguments of the types that every kernel takes (`abi.h`), copied by the
        // call; the rest is the caller's promise.
        let got = unsafe {
            cuda::cuLaunchKernel(
                self.function,
                blocks,
                1,
                1,
                shape.threads as u32,
                1,
                1,
                shape.shared_bytes as u32,
                stream,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", got)
    }

    /// Puts a launch of a rule-parallel kernel over `count` keys into `stream`.
    ///
    /// # Safety
    /// As for [`Program::launch`].
    pub(super) unsafe fn launch_split(
        &self,
        stream: cuda::CUstream,
        shape: &SplitShape,
        view: &View,
        (mut keys, mut out, count): (u64, u64, usize),
    ) -> Result<(), GpuError> {
        if count == 0 {
            return Ok(());
        }
        let needed = count.div_ceil(shape.keys_per_block);
        let room = self.multiprocessors * shape.blocks_per_multiprocessor / shape.groups;
        let blocks = needed.min(room.max(1)) * shape.groups;
        let mut split = SplitArgument {
            parts: shape.parts as u32,
            groups: shape.groups as u32,
            staged: shape.staged as u32,
            window: shape.window_words as u32,
        };
        let (mut view, mut count) = (*view, count as u64);
        let mut arguments: [*mut c_void; 5] = [
            (&raw mut view).cast(),
            (&raw mut keys).cast(),
            (&raw mut out).cast(),
            (&raw mut count).cast(),
            (&raw mut split).cast(),
        ];
        let mut cluster = cluster_of(shape.groups);
        let config = cuda::CUlaunchConfig {
            gridDimX: blocks as u32,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.threads as u32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shape.shared_bytes as u32,
            hStream: stream,
            attrs: &raw mut cluster,
            numAttrs: u32::from(shape.groups > 1),
        };
        // SAFETY: five arguments of the types that rule-parallel kernels take (`split.cuh`), copied
        // by the call, as is the configuration; blocks are whole clusters; the rest is the caller's
        // promise.
        let got = unsafe {
            let arguments = arguments.as_mut_ptr();
            cuda::cuLaunchKernelEx(&raw const config, self.function, arguments, ptr::null_mut())
        };
        check("cuLaunchKernelEx", got)
    }
}

/// The attribute of a launch whose clusters have so many blocks.
fn cluster_of(blocks: usize) -> cuda::CUlaunchAttribute {
    cuda::CUlaunchAttribute {
        id: cuda::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: cuda::CUlaunchAttributeValue {
            clusterDim: cuda::CUlaunchAttributeValue_union__bindgen_ty_1 {
                x: blocks as u32,
                y: 1,
                z: 1,
            },
        },
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.card.is_given_up() {
            return;
        }
        _ = self.card.enter();
        // SAFETY: loaded in `load`, unloaded once; slots keep programs that they use.
        _ = unsafe { cuda::cuModuleUnload(self.module) };
    }
}
