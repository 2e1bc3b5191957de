//! The crate's one error type: what is missing or failed, and what to do about it.

use std::fmt;

/// What is missing, or what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The CUDA driver's library is not there.
    NoDriver,
    /// The driver is older than the compiler's code needs, or than this program does.
    DriverTooOld,
    /// NVRTC, which compiles kernels, is not there.
    NoCompiler,
    /// The driver finds no card.
    NoCard,
    /// The card, or the driver's connection to it, failed and is not used any more.
    CardLost,
    /// A batch was not answered by its deadline.
    Hung,
    /// The card's memory, or memory that it can reach, does not suffice.
    OutOfMemory,
    /// The compiler refused a kernel.
    Compile,
    /// A call of the driver failed.
    Call,
}

impl ErrorKind {
    /// A name for programs to compare.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::NoDriver => "no_driver",
            ErrorKind::DriverTooOld => "driver_too_old",
            ErrorKind::NoCompiler => "no_compiler",
            ErrorKind::NoCard => "no_card",
            ErrorKind::CardLost => "card_lost",
            ErrorKind::Hung => "hung",
            ErrorKind::OutOfMemory => "out_of_memory",
            ErrorKind::Compile => "compile",
            ErrorKind::Call => "call",
        }
    }

    /// What to do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            ErrorKind::NoDriver => {
                "install NVIDIA's driver (libcuda.so.1 comes with it); in a container, start it \
                 with the driver mounted (--gpus all)"
            }
            ErrorKind::DriverTooOld => {
                "install a newer driver, or an NVRTC of the same major version as the driver's CUDA"
            }
            ErrorKind::NoCompiler => {
                "install the CUDA toolkit, or 'pip install nvidia-cuda-nvrtc' and add its lib \
                 directory to LD_LIBRARY_PATH"
            }
            ErrorKind::NoCard => {
                "check with nvidia-smi that the GPU is listed, and that CUDA_VISIBLE_DEVICES \
                    includes it"
            }
            ErrorKind::Hung => {
                "see the system log (dmesg) for the cause; increase the deadline if the GPU was \
                 busy with other work"
            }
            ErrorKind::CardLost => "see the system log (dmesg) for the cause, then restart",
            ErrorKind::OutOfMemory => "use fewer rules, a smaller batch, or another engine",
            ErrorKind::Compile | ErrorKind::Call => {
                "report this bug with the output of 'warpswitch devices --json'"
            }
        }
    }
}

/// Why a card cannot be used, or what it failed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuError {
    kind: ErrorKind,
    message: String,
}

impl GpuError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for GpuError {}
