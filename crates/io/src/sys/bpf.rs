//! Programs of the kernel (`bpf(2)`) that redirect or drop received frames, and their attachments.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

// Commands and types of `include/uapi/linux/bpf.h`.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const ATTACH_TCX_INGRESS: u32 = 46;

/// Sockets of the map: the queues that a program can serve.
const QUEUES_MAX: u32 = 64;

/// `union bpf_attr`, as far as these commands use it. Unused bytes are zero.
#[repr(C, align(8))]
struct Attributes([u8; 128]);

impl Attributes {
    /// Attributes with 32-bit and 64-bit values at these places.
    fn new(words: &[(usize, u32)], longs: &[(usize, u64)]) -> Self {
        let mut bytes = [0; 128];
        for (at, word) in words {
            bytes[*at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        for (at, long) in longs {
            bytes[*at..at + 8].copy_from_slice(&long.to_ne_bytes());
        }
        Self(bytes)
    }

    /// Runs a command; returns its result.
    ///
    /// # Safety
    /// - Values that are addresses point to what `command` reads there.
    unsafe fn run(&self, command: libc::c_int) -> io::Result<i32> {
        let (attributes, bytes) = (std::ptr::from_ref(self), size_of::<Self>());
        // SAFETY: the pointer is to `bytes` readable bytes; the caller answers for addresses in
        // them.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, bytes) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
    }

    /// Runs a command that returns a new descriptor.
    ///
    /// # Safety
    /// - As of [`Attributes::run`], and `command` returns a descriptor.
    unsafe fn open(&self, command: libc::c_int) -> io::Result<OwnedFd> {
        // SAFETY: the caller answers for addresses.
        let fd = unsafe { self.run(command) }?;
        // SAFETY: the kernel made the descriptor for this call, so nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// An instruction: operation, registers (destination in the low half), offset, immediate value.
fn instruction(code: u8, registers: u8, offset: i16, value: i32) -> u64 {
    let [a, b] = offset.to_le_bytes();
    let [c, d, e, f] = value.to_le_bytes();
    u64::from_le_bytes([code, registers, a, b, c, d, e, f])
}

/// The program: `return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS)`.
fn redirect(map: i32) -> [u64; 6] {
    [
        // r2 = context->rx_queue_index
        instruction(0x61, 0x12, 16, 0),
        // r1 = the map, in two halves
        instruction(0x18, 0x11, 0, map),
        0,
        // r3 = XDP_PASS: frames of queues without socket go to the kernel
        instruction(0xb7, 0x03, 0, 2),
        // r0 = bpf_redirect_map(r1, r2, r3)
        instruction(0x85, 0x00, 0, 51),
        instruction(0x95, 0x00, 0, 0),
    ]
}

/// The program: `return TC_ACT_SHOT`.
const DROP: [u64; 2] = [
    // r0 = TC_ACT_SHOT
    0x0000_0002_0000_00b7,
    0x0000_0000_0000_0095,
];

/// Loads `program`.
fn load(kind: u32, program: &[u64]) -> io::Result<OwnedFd> {
    let licence = c"Dual MIT/GPL";
    let load = Attributes::new(
        &[(0, kind), (4, program.len() as u32)],
        &[
            (8, program.as_ptr().expose_provenance() as u64),
            (16, licence.as_ptr().expose_provenance() as u64),
        ],
    );
    // SAFETY: the addresses are of a program of the given length and of a string that ends with
    // a zero, both alive; the command returns a descriptor.
    unsafe { load.open(PROG_LOAD) }
}

/// Attaches `program` to interface `index` until the result is dropped.
fn attach(program: &OwnedFd, index: u32, point: u32) -> io::Result<OwnedFd> {
    let link = Attributes::new(&[(0, program.as_raw_fd() as u32), (4, index), (8, point)], &[]);
    // SAFETY: no addresses are among the values, and the command returns a descriptor.
    unsafe { link.open(LINK_CREATE) }
}

/// An attached program that drops received frames behind packet sockets, which get them, and
/// before the kernel handles them. It is detached when this is dropped, also when the process is
/// killed.
#[derive(Debug)]
pub(crate) struct IngressDrop {
    _link: OwnedFd,
}

impl IngressDrop {
    /// Attaches the program to interface `index`. Requires Linux 6.6.
    pub(crate) fn attach(index: u32) -> io::Result<Self> {
        let program = load(PROG_TYPE_SCHED_CLS, &DROP)?;
        Ok(Self { _link: attach(&program, index, ATTACH_TCX_INGRESS)? })
    }
}

/// An attached program. It is detached when this is dropped, also when the process is killed.
#[derive(Debug)]
pub(crate) struct Redirect {
    map: OwnedFd,
    _link: OwnedFd,
}

impl Redirect {
    /// Attaches a program to interface `index` that passes frames to the kernel until a socket is
    /// added. Natively where the driver has support, else in the generic path.
    pub(crate) fn attach(index: u32) -> io::Result<Self> {
        let map = Attributes::new(&[(0, MAP_TYPE_XSKMAP), (4, 4), (8, 4), (12, QUEUES_MAX)], &[]);
        // SAFETY: no addresses are among the values, and the command returns a descriptor.
        let map = unsafe { map.open(MAP_CREATE) }?;
        let program = load(PROG_TYPE_XDP, &redirect(map.as_raw_fd()))?;
        let link = attach(&program, index, ATTACH_XDP)?;
        Ok(Self { map, _link: link })
    }

    /// Redirects frames of `queue` to `socket`.
    pub(crate) fn add(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let (key_at, value_at) = ((&raw const queue), (&raw const value));
        let update = Attributes::new(
            &[(0, self.map.as_raw_fd() as u32)],
            &[(8, key_at.expose_provenance() as u64), (16, value_at.expose_provenance() as u64)],
        );
        // SAFETY: the addresses are of a key and a value of four bytes each, as the map has them,
        // both alive.
        unsafe { update.run(MAP_UPDATE) }.map(|_| ())
    }
}
