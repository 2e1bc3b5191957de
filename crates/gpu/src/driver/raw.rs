//! The raw level: `cudarc`'s bindings, and whether their libraries are there.

use std::sync::OnceLock;

pub(super) use cudarc::driver::sys as cuda;
pub(super) use cudarc::nvrtc::sys as nvrtc;

use crate::error::{ErrorKind, GpuError};

/// Whether the driver's library can be loaded.
///
/// # Errors
/// [`ErrorKind::NoDriver`].
pub(super) fn need_driver() -> Result<(), GpuError> {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: loading a library runs its initialisers; NVIDIA's have no demands on the caller.
    let present = *PRESENT.get_or_init(|| unsafe { cuda::is_culib_present() });
    let message = "the CUDA driver is not installed (libcuda.so.1 was not found)";
    present.then_some(()).ok_or_else(|| GpuError::new(ErrorKind::NoDriver, message))
}

/// Whether the compiler's library can be loaded.
///
/// # Errors
/// [`ErrorKind::NoCompiler`].
pub(super) fn need_compiler() -> Result<(), GpuError> {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: as for the driver.
    let present = *PRESENT.get_or_init(|| unsafe { nvrtc::is_culib_present() });
    let message = "NVRTC, CUDA's run-time compiler, is not installed (libnvrtc.so was not found)";
    present.then_some(()).ok_or_else(|| GpuError::new(ErrorKind::NoCompiler, message))
}
