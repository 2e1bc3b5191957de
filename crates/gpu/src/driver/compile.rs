//! NVRTC: CUDA C++ to machine code of one kind of card, in this process.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use super::raw::{need_compiler, nvrtc};
use crate::error::{ErrorKind, GpuError};

/// The compiler's version.
///
/// # Errors
/// [`ErrorKind::NoCompiler`].
pub fn compiler_version() -> Result<(u32, u32), GpuError> {
    need_compiler()?;
    let (mut major, mut minor): (c_int, c_int) = (0, 0);
    // SAFETY: two numbers are written.
    check("nvrtcVersion", unsafe { nvrtc::nvrtcVersion(&raw mut major, &raw mut minor) })?;
    Ok((major as u32, minor as u32))
}

fn check(call: &str, result: nvrtc::nvrtcResult) -> Result<(), GpuError> {
    match result {
        nvrtc::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        other => Err(GpuError::new(ErrorKind::Compile, format!("{call} failed: {other:?}"))),
    }
}

/// Compiles `source`, called `name` in messages. Gives the machine code and what the compiler had
/// to say.
///
/// # Errors
/// [`ErrorKind::NoCompiler`]; [`ErrorKind::Compile`] with the compiler's messages.
pub fn compile(
    name: &str,
    source: &str,
    options: &[String],
) -> Result<(Vec<u8>, String), GpuError> {
    need_compiler()?;
    let text = |text: &str| {
        CString::new(text).map_err(|_| GpuError::new(ErrorKind::Compile, "a zero in a source"))
    };
    let (source, title) = (text(source)?, text(name)?);
    let options = options.iter().map(|o| text(o)).collect::<Result<Vec<_>, _>>()?;
    let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
    let program = Source::new(&source, &title)?;
    // SAFETY: the program is open; the options are texts with zeros at their ends.
    let compiled =
        unsafe { nvrtc::nvrtcCompileProgram(program.0, options.len() as c_int, options.as_ptr()) };
    let log = program.log();
    if compiled != nvrtc::nvrtcResult::NVRTC_SUCCESS {
        let message = format!("NVRTC cannot compile {name} ({compiled:?}):\n{log}");
        return Err(GpuError::new(ErrorKind::Compile, message));
    }
    Ok((program.code()?, log))
}

/// A program in the compiler.
struct Source(nvrtc::nvrtcProgram);

impl Source {
    fn new(source: &CString, name: &CString) -> Result<Self, GpuError> {
        let mut program = ptr::null_mut();
        // SAFETY: both texts end with zeros; no headers are given; one handle is written.
        let got = unsafe {
            nvrtc::nvrtcCreateProgram(
                &raw mut program,
                source.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        check("nvrtcCreateProgram", got)?;
        Ok(Self(program))
    }

    fn log(&self) -> String {
        let mut bytes = 0;
        // SAFETY: the program is open; one number is written.
        let got = unsafe { nvrtc::nvrtcGetProgramLogSize(self.0, &raw mut bytes) };
        if got != nvrtc::nvrtcResult::NVRTC_SUCCESS {
            return String::new();
        }
        let mut log = vec![0u8; bytes];
        // SAFETY: the log takes as many bytes as the compiler said.
        let got = unsafe { nvrtc::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) };
        match got {
            nvrtc::nvrtcResult::NVRTC_SUCCESS => {
                String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned()
            }
            _ => String::new(),
        }
    }

    fn code(&self) -> Result<Vec<u8>, GpuError> {
        let mut bytes = 0;
        // SAFETY: the program is open; one number is written.
        let got = unsafe { nvrtc::nvrtcGetCUBINSize(self.0, &raw mut bytes) };
        check("nvrtcGetCUBINSize", got)?;
        let mut code = vec![0u8; bytes];
        // SAFETY: the code takes as many bytes as the compiler said.
        let got = unsafe { nvrtc::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()) };
        check("nvrtcGetCUBIN", got)?;
        Ok(code)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once.
        _ = unsafe { nvrtc::nvrtcDestroyProgram(&raw mut self.0) };
    }
}
