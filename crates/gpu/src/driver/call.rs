//! The level of results: what a call of the driver returned, with the call's name.

use std::ffi::CStr;
use std::ptr;

use super::raw::cuda;
use crate::error::{ErrorKind, GpuError};

/// The result of the driver call named `call`.
pub(super) fn check(call: &'static str, result: cuda::CUresult) -> Result<(), GpuError> {
    use cuda::CUresult as Code;
    let kind = match result {
        Code::CUDA_SUCCESS => return Ok(()),
        Code::CUDA_ERROR_NO_DEVICE | Code::CUDA_ERROR_INVALID_DEVICE => ErrorKind::NoCard,
        Code::CUDA_ERROR_OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        Code::CUDA_ERROR_STUB_LIBRARY => ErrorKind::NoDriver,
        Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | Code::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
        | Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        | Code::CUDA_ERROR_NO_BINARY_FOR_GPU => ErrorKind::DriverTooOld,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS
        | Code::CUDA_ERROR_LAUNCH_FAILED
        | Code::CUDA_ERROR_LAUNCH_TIMEOUT
        | Code::CUDA_ERROR_ECC_UNCORRECTABLE
        | Code::CUDA_ERROR_NVLINK_UNCORRECTABLE
        | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
        | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | Code::CUDA_ERROR_MISALIGNED_ADDRESS
        | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | Code::CUDA_ERROR_INVALID_PC
        | Code::CUDA_ERROR_ASSERT
        | Code::CUDA_ERROR_CONTEXT_IS_DESTROYED
        | Code::CUDA_ERROR_DEVICE_UNAVAILABLE
        | Code::CUDA_ERROR_SYSTEM_NOT_READY
        | Code::CUDA_ERROR_UNKNOWN => ErrorKind::CardLost,
        _ => ErrorKind::Call,
    };
    let message = format!("{call} failed: {} (code {})", describe(result), result as u32);
    Err(GpuError::new(kind, message))
}

/// The driver's own words for a code.
fn describe(result: cuda::CUresult) -> String {
    let mut text = ptr::null();
    // SAFETY: the driver writes the address of a text that lives as long as it does.
    let known = unsafe { cuda::cuGetErrorString(result, &raw mut text) };
    if known != cuda::CUresult::CUDA_SUCCESS || text.is_null() {
        return "an error without a description".to_owned();
    }
    // SAFETY: the driver gave the address of a text with a zero at its end.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
