//! System calls of ports that no safe crate wraps, and structures of the kernel. All `unsafe` code
//! of the crate is here.

pub(crate) mod block_ring;
pub(crate) mod bpf;
pub(crate) mod frame_ring;
pub(crate) mod interface;
pub(crate) mod mapping;
pub(crate) mod netdev;
pub(crate) mod option;
pub(crate) mod packet_socket;
pub(crate) mod tap;
pub(crate) mod vnet;
pub(crate) mod xsk;
