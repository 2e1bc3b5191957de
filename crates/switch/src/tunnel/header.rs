//! Headers of tunnels, between the outer UDP or IP header and the inner frame.
//!
//! ```text
//! VXLAN   I flag(8) 0(24) │ VNI(24) 0(8)
//! Geneve  version(2) options length(6) O C 0(6) type(16) │ VNI(24) 0(8) │ options
//! GRE     C 0 K S 0(9) version(3) type(16) │ checksum(16) 0(16)? │ key(32)? │ sequence(32)?
//! ```
//! # Source
//! RFC 7348 (VXLAN), RFC 8926 (Geneve), RFC 2784 and 2890 (GRE).

use warpswitch_wire::checksum;

use super::{TunnelDrop, TunnelKind};

/// The EtherType of Ethernet frames as payload.
const ETHERNET: u16 = 0x6558;
/// Bytes of an Ethernet header: the shortest inner frame.
const FRAME_BYTES_MIN: usize = 14;

/// VXLAN: the VNI is valid.
const VXLAN_VNI: u8 = 0x08;
/// Geneve: a control packet; there are options that the receiver must process.
const GENEVE_CONTROL: u8 = 0x80;
/// Geneve, in the type of an option: a receiver that does not process it drops the packet.
const OPTION_CRITICAL: u8 = 0x80;
/// GRE: a checksum, a key, a sequence number.
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
/// GRE: bits that a receiver rejects, and the version.
const GRE_RESERVED: u16 = 0x4c00;
const GRE_VERSION: u16 = 0x0007;

/// What a tunnel header states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelHeader {
    /// The protocol.
    pub kind: TunnelKind,
    /// The VNI, or the key of GRE. VXLAN and Geneve always have one.
    pub key: Option<u32>,
    /// Whether a GRE header has a checksum. UDP checksums belong to the outer header.
    pub has_checksum: bool,
}

impl TunnelHeader {
    /// Replaces the content of `out` by this header and the frame behind it. Bits of the key beyond
    /// [`TunnelKind::key_max`] are ignored.
    pub fn encapsulate(&self, frame: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let key = self.key.unwrap_or(0);
        match self.kind {
            TunnelKind::Vxlan => {
                out.extend([VXLAN_VNI, 0, 0, 0]);
                out.extend((key << 8).to_be_bytes());
            }
            TunnelKind::Geneve => {
                out.extend([0, 0]);
                out.extend(ETHERNET.to_be_bytes());
                out.extend((key << 8).to_be_bytes());
            }
            TunnelKind::Gre => self.push_gre(out),
        }
        out.extend_from_slice(frame);
        if self.kind == TunnelKind::Gre && self.has_checksum {
            let sum = checksum::checksum(out);
            out[4..6].copy_from_slice(&sum.to_be_bytes());
        }
    }

    fn push_gre(&self, out: &mut Vec<u8>) {
        let key_flag = if self.key.is_some() { GRE_KEY } else { 0 };
        let checksum_flag = if self.has_checksum { GRE_CHECKSUM } else { 0 };
        out.extend((key_flag | checksum_flag).to_be_bytes());
        out.extend(ETHERNET.to_be_bytes());
        if self.has_checksum {
            out.extend([0; 4]);
        }
        out.extend(self.key.into_iter().flat_map(u32::to_be_bytes));
    }

    /// Reads a header; returns it and the inner frame.
    ///
    /// # Errors
    /// The reason to drop the packet.
    pub fn decapsulate(kind: TunnelKind, bytes: &[u8]) -> Result<(Self, &[u8]), TunnelDrop> {
        let (header, frame) = match kind {
            TunnelKind::Vxlan => vxlan(bytes)?,
            TunnelKind::Geneve => geneve(bytes)?,
            TunnelKind::Gre => gre(bytes)?,
        };
        match frame.len() {
            FRAME_BYTES_MIN.. => Ok((header, frame)),
            _ => Err(TunnelDrop::ShortFrame),
        }
    }
}

fn vxlan(bytes: &[u8]) -> Result<(TunnelHeader, &[u8]), TunnelDrop> {
    let (flags, frame) = take::<4>(bytes)?;
    let (vni, frame) = take::<4>(frame)?;
    // The other flags and reserved bits are ignored.
    if flags[0] & VXLAN_VNI == 0 {
        return Err(TunnelDrop::BadFlags);
    }
    Ok((with_vni(TunnelKind::Vxlan, vni), frame))
}

fn geneve(bytes: &[u8]) -> Result<(TunnelHeader, &[u8]), TunnelDrop> {
    let ([start, flags, type_high, type_low], rest) = take::<4>(bytes)?;
    let (vni, rest) = take::<4>(rest)?;
    if start >> 6 != 0 {
        return Err(TunnelDrop::BadVersion);
    }
    let options_bytes = usize::from(start & 0x3f) * 4;
    let (options, frame) = rest.split_at_checked(options_bytes).ok_or(TunnelDrop::Truncated)?;
    if flags & GENEVE_CONTROL != 0 {
        return Err(TunnelDrop::Control);
    }
    check_options(options)?;
    if u16::from_be_bytes([type_high, type_low]) != ETHERNET {
        return Err(TunnelDrop::UnknownProtocol);
    }
    Ok((with_vni(TunnelKind::Geneve, vni), frame))
}

/// Checks the lengths of Geneve options. No option is processed, so critical ones are an error.
fn check_options(mut options: &[u8]) -> Result<(), TunnelDrop> {
    while !options.is_empty() {
        let Ok(([_, _, kind, len], rest)) = take::<4>(options) else {
            return Err(TunnelDrop::BadOptions);
        };
        if kind & OPTION_CRITICAL != 0 {
            return Err(TunnelDrop::CriticalOption);
        }
        let data_bytes = usize::from(len & 0x1f) * 4;
        options = rest.get(data_bytes..).ok_or(TunnelDrop::BadOptions)?;
    }
    Ok(())
}

fn gre(bytes: &[u8]) -> Result<(TunnelHeader, &[u8]), TunnelDrop> {
    let ([high, low, type_high, type_low], mut rest) = take::<4>(bytes)?;
    let flags = u16::from_be_bytes([high, low]);
    if flags & GRE_VERSION != 0 {
        return Err(TunnelDrop::BadVersion);
    }
    if flags & GRE_RESERVED != 0 {
        return Err(TunnelDrop::BadFlags);
    }
    let has_checksum = flags & GRE_CHECKSUM != 0;
    if has_checksum {
        (_, rest) = take::<4>(rest)?;
        // Over header and payload; the checksum is part of both, so the sum is zero.
        if !checksum::is_intact(bytes) {
            return Err(TunnelDrop::BadChecksum);
        }
    }
    let mut key = None;
    if flags & GRE_KEY != 0 {
        let (bytes, behind) = take::<4>(rest)?;
        (key, rest) = (Some(u32::from_be_bytes(bytes)), behind);
    }
    if flags & GRE_SEQUENCE != 0 {
        // Frames are passed on in the order of their arrival.
        (_, rest) = take::<4>(rest)?;
    }
    if u16::from_be_bytes([type_high, type_low]) != ETHERNET {
        return Err(TunnelDrop::UnknownProtocol);
    }
    Ok((TunnelHeader { kind: TunnelKind::Gre, key, has_checksum }, rest))
}

fn with_vni(kind: TunnelKind, word: [u8; 4]) -> TunnelHeader {
    TunnelHeader { kind, key: Some(u32::from_be_bytes(word) >> 8), has_checksum: false }
}

fn take<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), TunnelDrop> {
    let (head, rest) = bytes.split_first_chunk().ok_or(TunnelDrop::Truncated)?;
    Ok((*head, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(kind: TunnelKind, key: Option<u32>, has_checksum: bool) -> TunnelHeader {
        TunnelHeader { kind, key, has_checksum }
    }

    #[test]
    fn writes_the_bytes_of_the_standards() {
        for (header, expected) in [
            (
                header(TunnelKind::Vxlan, Some(0x12_3456), false),
                &[8, 0, 0, 0, 0x12, 0x34, 0x56, 0][..],
            ),
            (
                header(TunnelKind::Geneve, Some(0x12_3456), false),
                &[0, 0, 0x65, 0x58, 0x12, 0x34, 0x56, 0],
            ),
            (header(TunnelKind::Gre, None, false), &[0, 0, 0x65, 0x58]),
            (header(TunnelKind::Gre, Some(7), false), &[0x20, 0, 0x65, 0x58, 0, 0, 0, 7]),
            // 0xffff - (0xa000 + 0x6558 + 0x0007), folded, with a payload of zeros.
            (
                header(TunnelKind::Gre, Some(7), true),
                &[0xa0, 0, 0x65, 0x58, 0xfa, 0x9f, 0, 0, 0, 0, 0, 7],
            ),
        ] {
            let mut out = vec![9; 3];
            header.encapsulate(&[0; 14], &mut out);
            assert_eq!(out[..out.len() - 14], *expected, "{header:?}");
        }
    }

    #[test]
    fn reports_why_a_header_is_rejected() {
        use TunnelDrop as D;
        use TunnelKind::{Geneve, Gre, Vxlan};
        for (kind, bytes, reason) in [
            (Vxlan, &[8, 0, 0, 0, 0, 0, 1][..], D::Truncated),
            (Vxlan, &[0, 0, 0, 0, 0, 0, 1, 0], D::BadFlags),
            (Vxlan, &[8, 0, 0, 0, 0, 0, 1, 0, 1], D::ShortFrame),
            (Geneve, &[0, 0, 0x65, 0x58, 0, 0, 1], D::Truncated),
            (Geneve, &[0x40, 0, 0x65, 0x58, 0, 0, 1, 0], D::BadVersion),
            (Geneve, &[0, 0x80, 0x65, 0x58, 0, 0, 1, 0], D::Control),
            (Geneve, &[0, 0, 8, 0, 0, 0, 1, 0], D::UnknownProtocol),
            (Geneve, &[1, 0, 0x65, 0x58, 0, 0, 1, 0], D::Truncated),
            // An option of four bytes of data in a list of four bytes.
            (Geneve, &[1, 0, 0x65, 0x58, 0, 0, 1, 0, 0, 0, 1, 1], D::BadOptions),
            (Geneve, &[1, 0x40, 0x65, 0x58, 0, 0, 1, 0, 0, 0, 0x81, 0], D::CriticalOption),
            (Gre, &[0, 0, 0x65], D::Truncated),
            (Gre, &[0, 1, 0x65, 0x58], D::BadVersion),
            (Gre, &[0x40, 0, 0x65, 0x58], D::BadFlags),
            (Gre, &[0x08, 0, 0x65, 0x58], D::BadFlags),
            (Gre, &[0x20, 0, 0x65, 0x58, 0, 0, 0], D::Truncated),
            (Gre, &[0x10, 0, 0x65, 0x58, 0, 0, 0], D::Truncated),
            (Gre, &[0x80, 0, 0x65, 0x58, 0, 0], D::Truncated),
            (Gre, &[0x80, 0, 0x65, 0x58, 0, 0, 0, 0], D::BadChecksum),
            (Gre, &[0, 0, 8, 0], D::UnknownProtocol),
            (Gre, &[0, 0, 0x65, 0x58, 1, 2], D::ShortFrame),
        ] {
            assert_eq!(TunnelHeader::decapsulate(kind, bytes), Err(reason), "{kind:?} {bytes:?}");
        }
    }

    #[test]
    fn skips_options_and_sequence_numbers() {
        let geneve = [&[2, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 1, 9, 9, 9, 9][..], &[7; 14]];
        let (header, frame) =
            TunnelHeader::decapsulate(TunnelKind::Geneve, &geneve.concat()).map(owned).unwrap();
        assert_eq!((header.key, frame), (Some(5), vec![7; 14]));
        let gre = [&[0x30, 0, 0x65, 0x58, 0, 0, 0, 6, 1, 1, 1, 1][..], &[7; 14]];
        let (header, frame) =
            TunnelHeader::decapsulate(TunnelKind::Gre, &gre.concat()).map(owned).unwrap();
        assert_eq!((header.key, frame), (Some(6), vec![7; 14]));
    }

    fn owned((header, frame): (TunnelHeader, &[u8])) -> (TunnelHeader, Vec<u8>) {
        (header, frame.to_vec())
    }

    proptest! {
        #[test]
        fn returns_the_frame_and_the_key_that_it_wrote(
            kind in prop::sample::select(TunnelKind::ALL.to_vec()),
            key in prop::option::of(any::<u32>()),
            has_checksum: bool,
            frame in prop::collection::vec(any::<u8>(), FRAME_BYTES_MIN..200),
        ) {
            let key = match kind {
                TunnelKind::Gre => key,
                _ => Some(key.unwrap_or(0) & kind.key_max()),
            };
            let has_checksum = has_checksum && kind == TunnelKind::Gre;
            let header = header(kind, key, has_checksum);
            let mut bytes = Vec::new();
            header.encapsulate(&frame, &mut bytes);
            prop_assert_eq!(TunnelHeader::decapsulate(kind, &bytes), Ok((header, &frame[..])));
            if has_checksum {
                bytes[20 % frame.len() + 4] ^= 0x10;
                prop_assert!(TunnelHeader::decapsulate(kind, &bytes).is_err());
            }
        }
    }
}
