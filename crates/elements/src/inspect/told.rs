//! What a device found in a payload, as an answer that travels with its packet.
//!
//! ```text
//! answer   0: no pattern occurs        n + 1: pattern n does, and no other
//! proof    group, 2 bits │ where the payload begins in the packet's buffer, 14 │ its bytes, 16
//! ```
//! Of most payloads there is nothing to tell, or one pattern: where more occur, or where a number
//! does not fit, there is no answer, and the worker searches.

use warpswitch_ids::{Found, GROUPS, PayloadPlace};
use warpswitch_packet::{AheadAnswer, Packet};
use warpswitch_scan::PatternId;

const START_BITS: u32 = 14;
const BYTES_BITS: u32 = 16;

const _: () = assert!(GROUPS <= 1 << (u32::BITS - START_BITS - BYTES_BITS));

/// What is known of a packet's payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pattern: Option<PatternId>,
    place: PayloadPlace,
}

impl Told {
    /// What an answer says to the packet that has it now; none where that is behind its bytes.
    pub(crate) fn read((packet, said): (&Packet, AheadAnswer)) -> Option<Self> {
        let at = (said.proof >> BYTES_BITS) as usize & ((1 << START_BITS) - 1);
        let place = PayloadPlace {
            group: (said.proof >> (START_BITS + BYTES_BITS)) as usize,
            start: at.checked_sub(packet.headroom())?,
            bytes: said.proof as usize & ((1 << BYTES_BITS) - 1),
        };
        Some(Self { pattern: said.answer.checked_sub(1).map(PatternId), place })
    }

    /// The same for who inspects.
    pub(crate) fn found(&self) -> Found<'_> {
        Found { patterns: self.pattern.as_slice(), place: Some(self.place) }
    }
}

/// The proof of what was found in a payload, which begins so far into its packet's buffer.
pub(crate) fn proof(group: usize, start: usize, bytes: usize) -> Option<u32> {
    let fits = start < 1 << START_BITS && bytes < 1 << BYTES_BITS && group < GROUPS;
    let proof = group << (START_BITS + BYTES_BITS) | start << BYTES_BITS | bytes;
    fits.then_some(proof as u32)
}

/// Whether the payload of a proof has bytes, and a group that is searched.
pub(crate) fn is_of(proof: u32, is_searched: impl Fn(usize) -> bool) -> bool {
    let bytes = proof & ((1 << BYTES_BITS) - 1);
    bytes > 0 && is_searched((proof >> (START_BITS + BYTES_BITS)) as usize)
}

/// The answer that says that these patterns occur, if there is one.
pub(crate) fn answer(patterns: &[PatternId]) -> Option<u32> {
    match *patterns {
        [] => Some(0),
        [PatternId(number)] => number.checked_add(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What was written is what is read, wherever the packet begins by then.
        #[test]
        fn an_answer_says_what_was_found(
            group in 0..GROUPS, start in 0usize..1 << 15, bytes in 0usize..1 << 17,
            patterns in prop::collection::vec(any::<u32>().prop_map(PatternId), ..3),
            pulled in 0usize..64,
        ) {
            let mut packet = Packet::new();
            packet.set_data(&[0; 64]);
            packet.pull(pulled);
            let fits = start < 1 << 14 && bytes < 1 << 16;
            prop_assert_eq!(proof(group, start, bytes).is_some(), fits);
            let known = patterns.len() < 2 && patterns.iter().all(|id| id.0 != u32::MAX);
            prop_assert_eq!(answer(&patterns).is_some(), known);
            if let (Some(proof), Some(answer)) = (proof(group, start, bytes), answer(&patterns)) {
                let told = Told::read((&packet, AheadAnswer { answer, proof, owner: 1 }));
                prop_assert_eq!(told.is_some(), start >= packet.headroom());
                let Some(told) = told else { return Ok(()) };
                let found = told.found();
                prop_assert_eq!(found.patterns, &patterns[..]);
                let start = start - packet.headroom();
                prop_assert_eq!(found.place, Some(PayloadPlace { group, start, bytes }));
            }
        }
    }
}
