//! Packets that the tests of this area share.

use std::net::Ipv4Addr;

use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{Ipv4, Ipv4Repr};

pub(super) use crate::testing::{Shown, errors, hex, registry, run, source, through, unhex};

/// An IPv4 packet from 18.26.4.44 to 10.0.0.4.
pub(super) fn ipv4<'a>(payload: &[u8], edit: impl FnOnce(&mut Ipv4Repr<'a>)) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(18, 26, 4, 44), Ipv4Addr::new(10, 0, 0, 4));
    let mut repr = Ipv4Repr::new(src, dst, IpProto::UDP, payload.len());
    edit(&mut repr);
    let mut bytes = vec![0; repr.header_bytes()];
    repr.emit(&mut Ipv4::new_unchecked(&mut bytes[..]));
    bytes.extend_from_slice(payload);
    bytes
}
