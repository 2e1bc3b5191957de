//! What a device found in a payload, as an answer that travels with its packet.
//!
//! ```text
//! answer   0: no pattern occurs        n + 1: pattern n does, and no other
//! proof    group, 2 bits │ where the payload begins in the packet's buffer, 14 │ its bytes, 16
//!
//! answer   1 │ of which chain, 10 │ a place, 21  ─┐ several do: there the chain has left
//! proof    the rest of the place, 32             ─┘ a list of them, and the proof
//! ```
//! Where a number does not fit, or a list was overwritten by later ones, there is no answer, and
//! the worker searches.

use std::ops::Range;
use std::sync::Arc;

use warpswitch_ids::{Found, GROUPS, PayloadPlace};
use warpswitch_packet::sync::{ListWriter, Lists};
use warpswitch_packet::{AheadAnswer, Packet};
use warpswitch_scan::PatternId;

const START_BITS: u32 = 14;
const BYTES_BITS: u32 = 16;

const _: () = assert!(GROUPS <= 1 << (u32::BITS - START_BITS - BYTES_BITS));

/// The answer is a list's place.
const LIST: u32 = 1 << 31;
/// Bits of a place that are with the answer.
const PLACE_BITS: u32 = 21;
/// The most chains that leave lists for one element.
const CHAINS_MAX: usize = 1 << (31 - PLACE_BITS);

/// Words of a chain's lists: those of some wide batches, 4 bytes each.
const LISTS_WORDS: usize = 1 << 17;

/// Who reads answers: one element.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    /// What each chain leaves.
    chains: Vec<Arc<Lists>>,
    /// What is known of a batch's payloads.
    told: Vec<Option<Told>>,
    patterns: Vec<PatternId>,
    /// The list at hand.
    list: Vec<u32>,
}

/// What is known of a packet's payload.
#[derive(Clone, Debug)]
struct Told {
    patterns: Range<usize>,
    place: PayloadPlace,
}

/// Who leaves answers: one chain.
#[derive(Debug)]
pub(crate) struct Teller {
    lists: ListWriter,
    /// Which of its listener's chains it is; none if these are too many.
    chain: Option<u32>,
}

impl Listener {
    /// One who is heard by this element.
    pub(crate) fn teller(&mut self) -> Teller {
        let chain = (self.chains.len() < CHAINS_MAX).then_some(self.chains.len() as u32);
        // A chain without a number never writes.
        let lists = ListWriter::new(if chain.is_some() { LISTS_WORDS } else { 1 });
        if chain.is_some() {
            self.chains.push(lists.lists().clone());
        }
        Teller { lists, chain }
    }

    /// Reads the answer of each packet of a batch; none where it has none. Gives how many hold, of
    /// how many the lists are gone, and how many are about what is no part of their packet.
    pub(crate) fn read<'p>(
        &mut self,
        answers: impl Iterator<Item = Option<(&'p Packet, AheadAnswer)>>,
    ) -> (usize, usize, usize) {
        self.told.clear();
        self.patterns.clear();
        let (mut gone, mut others) = (0, 0);
        for answer in answers {
            let told = answer.and_then(|(packet, said)| {
                let from = self.patterns.len();
                let Some(proof) = self.open(said) else {
                    gone += 1;
                    return None;
                };
                let Some(place) = place(proof, packet) else {
                    others += 1;
                    return None;
                };
                Some(Told { patterns: from..self.patterns.len(), place })
            });
            self.told.push(told);
        }
        (self.told.iter().flatten().count(), gone, others)
    }

    /// Adds the patterns of an answer; gives the proof that goes with them.
    fn open(&mut self, said: AheadAnswer) -> Option<u32> {
        if said.answer & LIST == 0 {
            self.patterns.extend(said.answer.checked_sub(1).map(PatternId));
            return Some(said.proof);
        }
        let chain = (said.answer & !LIST) >> PLACE_BITS;
        let upper = u64::from(said.answer & ((1 << PLACE_BITS) - 1));
        self.list.clear();
        let lists = self.chains.get(chain as usize)?;
        let proof = lists.read(upper << 32 | u64::from(said.proof), &mut self.list)?;
        self.patterns.extend(self.list.iter().map(|&pattern| PatternId(pattern)));
        Some(proof)
    }

    /// What is known of the payload of the packet at a place of the batch.
    pub(crate) fn of(&self, place: usize) -> Option<Found<'_>> {
        let told = self.told[place].as_ref()?;
        Some(Found { patterns: &self.patterns[told.patterns.clone()], place: Some(told.place) })
    }
}

impl Teller {
    /// The answer that says that these patterns occur in a payload with this proof, with the proof
    /// that goes with it, if there is one.
    pub(crate) fn answer(&mut self, patterns: &[PatternId], proof: u32) -> Option<(u32, u32)> {
        match *patterns {
            [] => return Some((0, proof)),
            [PatternId(number)] if number < LIST - 1 => return Some((number + 1, proof)),
            _ => {}
        }
        let chain = self.chain?;
        let place = self.lists.push(proof, patterns.iter().map(|pattern| pattern.0))?;
        let upper = u32::try_from(place >> 32).ok().filter(|upper| upper >> PLACE_BITS == 0)?;
        Some((LIST | chain << PLACE_BITS | upper, place as u32))
    }
}

/// Where a payload is by its proof, in the packet that has it now; none where that is behind its
/// bytes.
fn place(proof: u32, packet: &Packet) -> Option<PayloadPlace> {
    let at = (proof >> BYTES_BITS) as usize & ((1 << START_BITS) - 1);
    Some(PayloadPlace {
        group: (proof >> (START_BITS + BYTES_BITS)) as usize,
        start: at.checked_sub(packet.headroom())?,
        bytes: proof as usize & ((1 << BYTES_BITS) - 1),
    })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a listener makes of an answer: the patterns, and where the payload is.
    fn hear(
        listener: &mut Listener,
        packet: &Packet,
        (answer, proof): (u32, u32),
    ) -> Option<(Vec<PatternId>, PayloadPlace)> {
        let said = AheadAnswer { answer, proof, owner: 1 };
        let (held, gone, others) = listener.read([None, Some((packet, said))].into_iter());
        assert!(listener.of(0).is_none());
        assert_eq!(held + gone + others, 1);
        let found = listener.of(1);
        assert_eq!(found.is_some(), held == 1);
        found.map(|found| (found.patterns.to_vec(), found.place.expect("a proof has one")))
    }

    proptest! {
        /// What was written is what is read, wherever the packet begins by then, whoever wrote.
        #[test]
        fn an_answer_says_what_was_found(
            group in 0..GROUPS, start in 0usize..1 << 15, bytes in 0usize..1 << 17,
            patterns in prop::collection::vec((0..u32::MAX).prop_map(PatternId), ..5),
            pulled in 0usize..64, teller in 0usize..3,
        ) {
            let mut packet = Packet::new();
            packet.set_data(&[0; 64]);
            packet.pull(pulled);
            let mut listener = Listener::default();
            let mut tellers: Vec<Teller> = (0..3).map(|_| listener.teller()).collect();
            let fits = start < 1 << 14 && bytes < 1 << 16;
            prop_assert_eq!(proof(group, start, bytes).is_some(), fits);
            let Some(proof) = proof(group, start, bytes) else { return Ok(()) };
            for other in &mut tellers {
                other.answer(&[PatternId(1), PatternId(2)], 5).expect("there is room");
            }
            let answer = tellers[teller].answer(&patterns, proof).expect("there is room");
            let heard = hear(&mut listener, &packet, answer);
            prop_assert_eq!(heard.is_some(), start >= packet.headroom());
            if let Some(heard) = heard {
                let start = start - packet.headroom();
                prop_assert_eq!(heard, (patterns, PayloadPlace { group, start, bytes }));
            }
        }
    }

    #[test]
    fn lists_that_were_overwritten_are_gone_and_counted() {
        let mut listener = Listener::default();
        let mut teller = listener.teller();
        let packet = Packet::new();
        let several: Vec<PatternId> = (0..100).map(PatternId).collect();
        let proof = proof(1, packet.headroom(), 9).expect("it fits");
        let old = teller.answer(&several, proof).expect("there is room");
        assert_eq!(hear(&mut listener, &packet, old).map(|heard| heard.0), Some(several.clone()));
        for _ in 0..LISTS_WORDS / several.len() {
            teller.answer(&several, proof).expect("there is room");
        }
        assert_eq!(hear(&mut listener, &packet, old), None);
        let said = AheadAnswer { answer: old.0, proof: old.1, owner: 1 };
        assert_eq!(listener.read([Some((&packet, said)), None].into_iter()), (0, 1, 0));
        let too_many: Vec<PatternId> = (0..LISTS_WORDS as u32 / 8).map(PatternId).collect();
        assert_eq!(teller.answer(&too_many, proof), None, "others would be put out");
    }

    #[test]
    fn too_many_chains_tell_of_one_pattern_only() {
        let chains = vec![ListWriter::new(1).lists().clone(); CHAINS_MAX - 1];
        let mut listener = Listener { chains, ..Listener::default() };
        let (mut last, mut beyond) = (listener.teller(), listener.teller());
        let two = [PatternId(1), PatternId(2)];
        let answer = last.answer(&two, 0).expect("the last number");
        let mut packet = Packet::new();
        packet.set_data(&[0; 64]);
        let said = AheadAnswer { answer: answer.0, proof: answer.1, owner: 1 };
        assert_eq!(listener.open(said), Some(0));
        assert_eq!(beyond.answer(&two, 0), None);
        assert_eq!(beyond.answer(&two[..1], 7), Some((2, 7)));
    }
}
