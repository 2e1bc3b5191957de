//! The raw level: `cudarc`'s bindings, and whether their libraries are there.

use std::env;
use std::sync::OnceLock;

pub(super) use cudarc::driver::sys as cuda;
pub(super) use cudarc::nvrtc::sys as nvrtc;

use crate::error::{ErrorKind, GpuError};

/// How many streams of a process reach the card side by side. The driver reads the variable when it
/// is initialised; its default is 8, and further streams wait for one another: sixteen workers that
/// search payloads do 67 Mpps with 8 and 107 with 32 on an H100.
const CONNECTIONS: (&str, &str) = ("CUDA_DEVICE_MAX_CONNECTIONS", "32");

/// Sets [`CONNECTIONS`], unless the user did.
fn request_connections() {
    let (name, count) = CONNECTIONS;
    if env::var_os(name).is_none() {
        // SAFETY: `std` serialises its own accesses; the one foreign reader, the driver, is loaded
        // after this call, and no other library that reads the environment is called while a
        // device is opened.
        unsafe { env::set_var(name, count) };
    }
}

/// The number of hardware queues of this process. More streams than that share queues, so work in
/// one stream may wait for work in another.
pub(super) fn connections() -> usize {
    let count = env::var(CONNECTIONS.0).ok().and_then(|count| count.parse().ok());
    // What the driver assumes without the variable.
    count.unwrap_or(8)
}

/// Whether the driver's library can be loaded.
///
/// # Errors
/// [`ErrorKind::NoDriver`].
pub(super) fn need_driver() -> Result<(), GpuError> {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    let present = *PRESENT.get_or_init(|| {
        request_connections();
        // SAFETY: loading a library runs its initialisers; NVIDIA's have no demands on the caller.
        unsafe { cuda::is_culib_present() }
    });
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
