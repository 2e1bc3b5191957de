//! Annotation offsets as arguments: by name or by number.

use warpswitch_graph::language::args::{ArgError, FromArg, Names};
use warpswitch_packet::packet::{ANNOTATION_BYTES, annotation};

/// Annotations with names: their place and their bytes.
const NAMED: &[(&str, usize, usize)] = &[
    ("AGGREGATE", 20, 4),
    ("DST_IP", annotation::DST, 4),
    ("DST_IP6", annotation::DST, 16),
    ("EXTRA_LENGTH", annotation::EXTRA_LEN, 4),
    ("EXTRA_PACKETS", 24, 4),
    ("FIRST_TIMESTAMP", annotation::FIRST_TIMESTAMP, 8),
    ("FIX_IP_SRC", annotation::FIX_SRC, 1),
    ("ICMP_PARAMPROB", annotation::ICMP_POINTER, 1),
    ("PACKET_NUMBER", 40, 4),
    ("PAINT", annotation::PAINT, 1),
    ("SEQUENCE_NUMBER", 40, 4),
    ("VLAN", annotation::VLAN_TCI, 2),
    ("VLAN_TCI", annotation::VLAN_TCI, 2),
];

/// The place of an annotation of `BYTES` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anno<const BYTES: usize>(pub usize);

/// A name of an annotation of that many bytes, or the number of its first byte.
impl<const BYTES: usize> FromArg for Anno<BYTES> {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let named = NAMED.iter().find(|(name, ..)| *name == text);
        let place = match named {
            Some((_, place, bytes)) if *bytes == BYTES => *place,
            Some(_) => return Err(ArgError::Parse),
            None => usize::from_arg(text, names).map_err(|_| ArgError::Parse)?,
        };
        let fits = place.checked_add(BYTES).is_some_and(|end| end <= ANNOTATION_BYTES);
        if fits { Ok(Self(place)) } else { Err(ArgError::Parse) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_graph::language::args::NoNames;

    #[test]
    fn places_have_names_and_bounds() {
        let byte = |text: &str| Anno::<1>::from_arg(text, &NoNames).ok().map(|anno| anno.0);
        let word = |text: &str| Anno::<4>::from_arg(text, &NoNames).ok().map(|anno| anno.0);
        assert_eq!(
            ["PAINT", "47", "48", "VLAN", "-1"].map(byte),
            [Some(16), Some(47), None, None, None]
        );
        assert_eq!(
            ["44", "45", "AGGREGATE", "PAINT", "18446744073709551615"].map(word),
            [Some(44), None, Some(20), None, None]
        );
    }
}
