//! Cached results for payloads: which patterns of the rules occur in them.
//!
//! ```text
//! answer   0: no pattern occurs        n + 1: pattern n does, and no other
//! key      group, 2 bits │ offset of the payload in the packet's buffer, 14 │ its length, 16
//!
//! answer   1 │ writer, 10 │ an offset, 21  ─┐ several patterns occur: at this offset the writer
//! key      the rest of the offset, 32      ─┘ has a list of them, and the key
//! ```
//! If a number does not fit, or later lists have overwritten a list, there is no result, and the
//! element searches the payload itself.

use std::ops::Range;
use std::sync::Arc;

use warpswitch_ids::{Found, GROUPS, PayloadPlace};
use warpswitch_packet::sync::{ListWriter, Lists};
use warpswitch_packet::{CachedResult, Packet};
use warpswitch_scan::PatternId;

const START_BITS: u32 = 14;
const BYTES_BITS: u32 = 16;

const _: () = assert!(GROUPS <= 1 << (u32::BITS - START_BITS - BYTES_BITS));

/// Flag of answers that refer to a list.
const LIST: u32 = 1 << 31;
/// Bits of a list's offset in the answer.
const PLACE_BITS: u32 = 21;
/// Maximum number of writers with lists per element.
const WRITERS_MAX: usize = 1 << (31 - PLACE_BITS);

/// 4-byte words of a writer's lists: enough for several large batches.
const LISTS_WORDS: usize = 1 << 17;

/// Reads the results of an element's packets.
#[derive(Debug, Default)]
pub struct ResultReader {
    /// Lists by writer.
    writers: Vec<Arc<Lists>>,
    /// Valid results of the current batch, by packet.
    known: Vec<Option<Known>>,
    patterns: Vec<PatternId>,
    /// Buffer for the list that is being read.
    list: Vec<u32>,
}

/// The valid result of a packet: a range of `patterns`, and the place of the payload.
#[derive(Clone, Debug)]
struct Known {
    patterns: Range<usize>,
    place: PayloadPlace,
}

/// Writes results for one element.
#[derive(Debug)]
pub struct ResultWriter {
    lists: ListWriter,
    /// Number among the writers of the element; `None` beyond [`WRITERS_MAX`].
    chain: Option<u32>,
}

impl ResultReader {
    /// Returns a new writer for this reader. Memory: 512 KB of lists.
    pub fn writer(&mut self) -> ResultWriter {
        let chain = (self.writers.len() < WRITERS_MAX).then_some(self.writers.len() as u32);
        // A writer without a number has no lists.
        let lists = ListWriter::new(if chain.is_some() { LISTS_WORDS } else { 1 });
        if chain.is_some() {
            self.writers.push(lists.lists().clone());
        }
        ResultWriter { lists, chain }
    }

    /// Reads the results of a batch. Returns the number of valid results, of results whose list was
    /// overwritten, and of results whose key is outside the bytes of the packet.
    pub fn read<'p>(
        &mut self,
        answers: impl Iterator<Item = Option<(&'p Packet, CachedResult)>>,
    ) -> (usize, usize, usize) {
        self.known.clear();
        self.patterns.clear();
        let (mut gone, mut others) = (0, 0);
        for answer in answers {
            let known = answer.and_then(|(packet, result)| {
                let from = self.patterns.len();
                let Some(key) = self.open(result) else {
                    gone += 1;
                    return None;
                };
                let Some(place) = place(key, packet) else {
                    others += 1;
                    return None;
                };
                Some(Known { patterns: from..self.patterns.len(), place })
            });
            self.known.push(known);
        }
        (self.known.iter().flatten().count(), gone, others)
    }

    /// Appends the patterns of a result and returns its key; `None` if the list was overwritten.
    fn open(&mut self, result: CachedResult) -> Option<u32> {
        if result.answer & LIST == 0 {
            self.patterns.extend(result.answer.checked_sub(1).map(PatternId));
            return Some(result.key);
        }
        let chain = (result.answer & !LIST) >> PLACE_BITS;
        let upper = u64::from(result.answer & ((1 << PLACE_BITS) - 1));
        self.list.clear();
        let lists = self.writers.get(chain as usize)?;
        let key = lists.read(upper << 32 | u64::from(result.key), &mut self.list)?;
        self.patterns.extend(self.list.iter().map(|&pattern| PatternId(pattern)));
        Some(key)
    }

    /// The valid result of packet `place` of the batch.
    pub fn of(&self, place: usize) -> Option<Found<'_>> {
        let known = self.known[place].as_ref()?;
        Some(Found { patterns: &self.patterns[known.patterns.clone()], place: Some(known.place) })
    }
}

impl ResultWriter {
    /// Returns answer and key of the result that exactly `patterns` occur in the payload of `key`.
    /// `None` if there is no room.
    pub fn answer(&mut self, patterns: &[PatternId], key: u32) -> Option<(u32, u32)> {
        match *patterns {
            [] => return Some((0, key)),
            [PatternId(number)] if number < LIST - 1 => return Some((number + 1, key)),
            _ => {}
        }
        let chain = self.chain?;
        let place = self.lists.push(key, patterns.iter().map(|pattern| pattern.0))?;
        let upper = u32::try_from(place >> 32).ok().filter(|upper| upper >> PLACE_BITS == 0)?;
        Some((LIST | chain << PLACE_BITS | upper, place as u32))
    }
}

/// The place of the payload of `key` in a packet with its current headroom; `None` if the payload
/// begins before the packet data.
fn place(key: u32, packet: &Packet) -> Option<PayloadPlace> {
    let at = (key >> BYTES_BITS) as usize & ((1 << START_BITS) - 1);
    Some(PayloadPlace {
        group: (key >> (START_BITS + BYTES_BITS)) as usize,
        start: at.checked_sub(packet.headroom())?,
        bytes: key as usize & ((1 << BYTES_BITS) - 1),
    })
}

/// The key of a payload of `bytes` bytes at offset `start` of its packet's buffer; `None` if a
/// number does not fit.
pub fn key(group: usize, start: usize, bytes: usize) -> Option<u32> {
    let fits = start < 1 << START_BITS && bytes < 1 << BYTES_BITS && group < GROUPS;
    let key = group << (START_BITS + BYTES_BITS) | start << BYTES_BITS | bytes;
    fits.then_some(key as u32)
}

/// Whether the payload of a key is not empty and its group is searched.
pub fn has_text(key: u32, is_searched: impl Fn(usize) -> bool) -> bool {
    let bytes = key & ((1 << BYTES_BITS) - 1);
    bytes > 0 && is_searched((key >> (START_BITS + BYTES_BITS)) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads one result: patterns and place of the payload.
    fn read_one(
        reader: &mut ResultReader,
        packet: &Packet,
        (answer, key): (u32, u32),
    ) -> Option<(Vec<PatternId>, PayloadPlace)> {
        let result = CachedResult { version: 1, answer, key, owner: 1 };
        let (valid, gone, others) = reader.read([None, Some((packet, result))].into_iter());
        assert!(reader.of(0).is_none());
        assert_eq!(valid + gone + others, 1);
        let found = reader.of(1);
        assert_eq!(found.is_some(), valid == 1);
        found.map(|found| (found.patterns.to_vec(), found.place.expect("a key has one")))
    }

    proptest! {
        /// Results of all writers are read unchanged, also after the headroom of a packet changed.
        #[test]
        fn results_are_read_as_they_were_written(
            group in 0..GROUPS, start in 0usize..1 << 15, bytes in 0usize..1 << 17,
            patterns in prop::collection::vec((0..u32::MAX).prop_map(PatternId), ..5),
            pulled in 0usize..64, writer in 0usize..3,
        ) {
            let mut packet = Packet::new();
            packet.set_data(&[0; 64]);
            packet.pull(pulled);
            let mut reader = ResultReader::default();
            let mut writers: Vec<ResultWriter> = (0..3).map(|_| reader.writer()).collect();
            let fits = start < 1 << 14 && bytes < 1 << 16;
            prop_assert_eq!(key(group, start, bytes).is_some(), fits);
            let Some(key) = key(group, start, bytes) else { return Ok(()) };
            for other in &mut writers {
                other.answer(&[PatternId(1), PatternId(2)], 5).expect("there is room");
            }
            let answer = writers[writer].answer(&patterns, key).expect("there is room");
            let read = read_one(&mut reader, &packet, answer);
            prop_assert_eq!(read.is_some(), start >= packet.headroom());
            if let Some(read) = read {
                let start = start - packet.headroom();
                prop_assert_eq!(read, (patterns, PayloadPlace { group, start, bytes }));
            }
        }
    }

    #[test]
    fn overwritten_lists_are_counted() {
        let mut reader = ResultReader::default();
        let mut writer = reader.writer();
        let packet = Packet::new();
        let several: Vec<PatternId> = (0..100).map(PatternId).collect();
        let key = key(1, packet.headroom(), 9).expect("it fits");
        let old = writer.answer(&several, key).expect("there is room");
        assert_eq!(read_one(&mut reader, &packet, old).map(|found| found.0), Some(several.clone()));
        for _ in 0..LISTS_WORDS / several.len() {
            writer.answer(&several, key).expect("there is room");
        }
        assert_eq!(read_one(&mut reader, &packet, old), None);
        let result = CachedResult { version: 1, answer: old.0, key: old.1, owner: 1 };
        assert_eq!(reader.read([Some((&packet, result)), None].into_iter()), (0, 1, 0));
        let too_many: Vec<PatternId> = (0..LISTS_WORDS as u32 / 8).map(PatternId).collect();
        assert_eq!(writer.answer(&too_many, key), None, "it would overwrite too many others");
    }

    #[test]
    fn writers_beyond_the_limit_write_single_patterns_only() {
        let writers = vec![ListWriter::new(1).lists().clone(); WRITERS_MAX - 1];
        let mut reader = ResultReader { writers, ..ResultReader::default() };
        let (mut last, mut beyond) = (reader.writer(), reader.writer());
        let two = [PatternId(1), PatternId(2)];
        let answer = last.answer(&two, 0).expect("the last number");
        let mut packet = Packet::new();
        packet.set_data(&[0; 64]);
        let result = CachedResult { version: 1, answer: answer.0, key: answer.1, owner: 1 };
        assert_eq!(reader.open(result), Some(0));
        assert_eq!(beyond.answer(&two, 0), None);
        assert_eq!(beyond.answer(&two[..1], 7), Some((2, 7)));
    }
}
