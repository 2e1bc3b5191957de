//! Features of the driver of an interface, read by generic netlink (`netdev`, Linux 6.3).
//!
//! ```text
//! message    │ length type flags sequence port │ command version │ attribute │ attribute …
//! attribute                                                        length kind │ value, padded
//! ```
//! # Source
//! Linux, `Documentation/netlink/specs/netdev.yaml`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// Bytes of the headers of a message.
const HEADERS_BYTES: usize = 16 + 4;
/// Bytes of the header of an attribute.
const ATTRIBUTE_BYTES: usize = 4;
/// The most bytes of an answer.
const ANSWER_BYTES: usize = 8192;
/// The kind of message of an error.
const ERROR: u16 = 2;

/// The family that has the numbers of all others: its own number, its command and attributes.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Command and attributes of the family `netdev`.
const GET_DEVICE: u8 = 1;
const INDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;
/// Bits of the features.
const REDIRECT: u64 = 2;
const ZERO_COPY: u64 = 8;

/// What a driver supports of XDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct XdpFeatures {
    /// Redirecting frames by a program at the driver: native XDP.
    pub(crate) redirects: bool,
    /// Sockets of `AF_XDP` without copies.
    pub(crate) has_zero_copy: bool,
}

impl XdpFeatures {
    /// Those of interface number `index`. An error if the kernel does not report them.
    pub(crate) fn of(index: u32) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let protocol = Some(netlink::GENERIC);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        let answer = ask(&socket, CONTROL, GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
        let family = find(&answer, FAMILY_ID).and_then(<[u8]>::first_chunk);
        let family = u16::from_ne_bytes(*family.ok_or(io::ErrorKind::InvalidData)?);
        let answer = ask(&socket, family, GET_DEVICE, INDEX, &index.to_ne_bytes())?;
        let bits = find(&answer, XDP_FEATURES).and_then(<[u8]>::first_chunk);
        let bits = u64::from_ne_bytes(*bits.ok_or(io::ErrorKind::InvalidData)?);
        Ok(Self { redirects: bits & REDIRECT != 0, has_zero_copy: bits & ZERO_COPY != 0 })
    }
}

/// A message with one attribute.
fn message(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    const REQUEST: u16 = 1;
    let attribute_bytes = ATTRIBUTE_BYTES + value.len();
    let bytes = HEADERS_BYTES + attribute_bytes.next_multiple_of(4);
    let mut message = Vec::with_capacity(bytes);
    message.extend((bytes as u32).to_ne_bytes());
    message.extend([family.to_ne_bytes(), REQUEST.to_ne_bytes()].as_flattened());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message
        .extend([(attribute_bytes as u16).to_ne_bytes(), attribute.to_ne_bytes()].as_flattened());
    message.extend(value);
    message.resize(bytes, 0);
    message
}

/// Sends a message; returns the answer.
fn ask(
    socket: &OwnedFd,
    family: u16,
    command: u8,
    attribute: u16,
    value: &[u8],
) -> io::Result<Vec<u8>> {
    rustix::net::send(socket, &message(family, command, attribute, value), SendFlags::empty())?;
    let mut answer = vec![0; ANSWER_BYTES];
    // The kernel has answered when the call that sends returns.
    let (_, bytes) = rustix::net::recv(socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    answer.truncate(bytes);
    let kind = answer.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    if kind == Some(ERROR) {
        let code = answer.get(16..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        return Err(io::Error::from_raw_os_error(-i32::from_ne_bytes(code)));
    }
    Ok(answer)
}

/// The value of the first attribute of this kind in an answer.
fn find(answer: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = answer.get(HEADERS_BYTES..)?;
    loop {
        let header = rest.first_chunk::<ATTRIBUTE_BYTES>()?;
        let bytes = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        // The highest bits say how the value is encoded.
        let found = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = rest.get(ATTRIBUTE_BYTES..bytes)?;
        if found == kind {
            return Some(value);
        }
        rest = rest.get(bytes.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_attributes() {
        let mut answer = message(7, GET_DEVICE, INDEX, &5u32.to_ne_bytes());
        answer.extend([5u16.to_ne_bytes(), 9u16.to_ne_bytes()].as_flattened());
        answer.extend([1, 0, 0, 0]);
        answer.extend([12u16.to_ne_bytes(), XDP_FEATURES.to_ne_bytes()].as_flattened());
        answer.extend(11u64.to_ne_bytes());
        assert_eq!(find(&answer, INDEX), Some(&5u32.to_ne_bytes()[..]));
        assert_eq!(find(&answer, 9), Some(&[1][..]));
        assert_eq!(find(&answer, XDP_FEATURES), Some(&11u64.to_ne_bytes()[..]));
        assert_eq!(find(&answer, 4), None);
        for bytes in 0..answer.len() {
            assert_eq!(find(&answer[..bytes], XDP_FEATURES), None, "{bytes} bytes");
        }
        // Attributes that are too short for their header.
        answer[HEADERS_BYTES..HEADERS_BYTES + 2].fill(0);
        assert_eq!(find(&answer, 4), None);
    }

    #[test]
    fn loopback_has_no_native_xdp() {
        // Old kernels have no such family.
        if let Ok(features) = XdpFeatures::of(1) {
            assert_eq!(features, XdpFeatures::default());
        }
    }
}
