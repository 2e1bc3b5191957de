//! Outer headers from the options of a port and the inner frame, and ECN between both.
//!
//! # Source
//! RFC 6040, section 4.2: a receiver copies congestion marks of the outer header into the frame.
//! A sender copies the ECN bits of the frame, and starts with ECT(0) for a marked one, as Open
//! vSwitch does.

use std::hash::{DefaultHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use warpswitch_pipeline::{Egress, frame};
use warpswitch_rules::openflow::{FLOW_WORDS, FlowKey};

use super::options::{DSCP, TTL};
use super::{OuterHeader, TunnelDrop, TunnelOptions, TunnelValue};

/// Words of a flow key that distinguish inner flows: addresses, EtherType, protocol.
const FLOW_HASH_WORDS: [Range<usize>; 2] = [25..29, 31..39];
/// Ports, unless the frame is a fragment.
const PORT_WORD: usize = 39;
/// Protocol, type of service.
const PROTOCOL_WORD: usize = 40;
/// Whether it is a fragment.
const FRAGMENT_WORD: usize = 30;
/// EtherType, VLAN tag.
const ETHER_TYPE_WORD: usize = 28;
/// TTL in the low byte.
const TTL_WORD: usize = 29;

/// ECN: no support, ECT(0), congestion experienced.
const ECN_NONE: u8 = 0;
const ECN_ECT0: u8 = 2;
const ECN_CONGESTION: u8 = 3;

impl TunnelOptions {
    /// The key in the tunnel header, and the outer header, of a frame with these header fields.
    pub(crate) fn outer(
        &self,
        egress: &Egress,
        frame: &FlowKey,
    ) -> Result<(Option<u32>, OuterHeader), TunnelDrop> {
        let key = match self.out_key {
            None => None,
            Some(TunnelValue::Fixed(key)) => Some(key),
            Some(TunnelValue::Flow) => {
                let key = u32::try_from(egress.tun_id).ok();
                let key = key.filter(|key| *key <= self.kind.key_max());
                Some(key.ok_or(TunnelDrop::KeyTooLarge)?)
            }
        };
        let dst = self.remote.fixed().or(address(egress.tun_dst));
        let inner = is_ip(frame).then(|| (tos(frame), frame[TTL_WORD] as u8));
        let (inner_tos, inner_ttl) = inner.unwrap_or((0, TTL));
        let ecn = match inner_tos & !DSCP {
            ECN_CONGESTION => ECN_ECT0,
            ecn => ecn,
        };
        let outer = OuterHeader {
            kind: self.kind,
            dst_port: self.dst_port,
            src: self.local.and_then(|local| local.fixed().or(address(egress.tun_src))),
            dst: dst.ok_or(TunnelDrop::NoRemote)?,
            flow_hash: flow_hash(frame),
            tos: self.tos.unwrap_or(inner_tos & DSCP) | ecn,
            ttl: self.ttl.unwrap_or(inner_ttl).max(1),
            has_df: self.has_df,
            has_checksum: self.has_checksum,
        };
        Ok((key, outer))
    }
}

/// The header fields of a frame.
pub(crate) fn key_of(bytes: &[u8]) -> FlowKey {
    let mut key = [0; FLOW_WORDS];
    frame::extract(bytes, &mut key);
    key
}

/// Copies a congestion mark of the outer header into the inner frame.
pub(super) fn copy_congestion(outer_tos: u8, inner: &mut [u8]) -> Result<(), TunnelDrop> {
    if outer_tos & !DSCP != ECN_CONGESTION {
        return Ok(());
    }
    let key = key_of(inner);
    match tos(&key) & !DSCP {
        _ if !is_ip(&key) => Ok(()),
        ECN_NONE => Err(TunnelDrop::Congestion),
        ECN_CONGESTION => Ok(()),
        _ => {
            frame::set_ecn(inner, ECN_CONGESTION);
            Ok(())
        }
    }
}

fn is_ip(key: &FlowKey) -> bool {
    matches!(key[ETHER_TYPE_WORD] >> 16, 0x0800 | 0x86dd)
}

fn tos(key: &FlowKey) -> u8 {
    (key[PROTOCOL_WORD] >> 16) as u8
}

/// The address in a word of a flow key, if it is set.
fn address(word: u32) -> Option<IpAddr> {
    (word != 0).then(|| Ipv4Addr::from(word).into())
}

/// A hash over addresses, protocol and ports.
fn flow_hash(key: &FlowKey) -> u16 {
    let mut hasher = DefaultHasher::new();
    let words = FLOW_HASH_WORDS.into_iter().flat_map(|words| &key[words]);
    words.for_each(|word| hasher.write_u32(*word));
    hasher.write_u32(key[PROTOCOL_WORD] >> 24);
    let is_fragment = key[FRAGMENT_WORD] & 3 != 0;
    if !is_fragment {
        hasher.write_u32(key[PORT_WORD]);
    }
    hasher.finish() as u16
}
