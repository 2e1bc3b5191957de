//! The filter: positions where a pattern may stand, found many at a time, then the patterns
//! themselves.
//!
//! ```text
//! payloads ─► folded, in one piece ─┬─► long ──┐ lists of      ┌─ exact window ─► compare ─► found
//!             (some 16 KB, or one)  ├─► short ─┤ positions  ───┤
//!                                   └─► tiny ──┘               └─ too much work: the automaton
//! ```
//! | class | bytes of a pattern | is looked for at | by |
//! | --- | --- | --- | --- |
//! | tiny | 1 to 3 | each byte | the first byte, and mixes of two neighbours |
//! | short | 4 to 10 | each 2nd byte | 4 bytes, at either of 2 places |
//! | long | 11 and more | each 4th byte | 8 bytes, at each of 4 places |
//!
//! # Invariants
//! - F1: where a pattern occurs, one of its windows stands at a position that is looked at, within
//!   the occurrence; so no occurrence is missed, and none is found twice: a pattern's windows begin
//!   side by side, as many as there are bytes between positions.
//! - F2: what stands between payloads, or behind the last, is never part of what is found: windows
//!   may reach over ends, occurrences are compared within their payload.
//! - F3: a payload costs at most [`WORK_PER_BYTE`] comparisons of 16 bytes for each of its bytes;
//!   then it goes to the automaton.

mod choose;
mod groups;
pub(crate) mod tables;

use crate::arch::Kernel;
use crate::collect::Collect;
use crate::pattern::{Case, PatternId, Patterns};
pub use choose::Common;
use groups::{Entry, Groups};
use tables::{
    BitTable, LONG_BYTES_MIN, LONG_STRIDE, LONG_WINDOW, Mask, SHORT_WINDOW, TINY_BYTES_MAX,
    TinyTable,
};

/// Bytes that go through the kernels before what they found is looked at.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes that kernels treat as one.
pub(crate) const BLOCK: usize = 256;

/// Bytes behind the text that kernels may read, zeros: the rest of a block, and what a window at
/// its end reaches.
pub(crate) const PAD: usize = BLOCK + 128;

/// Comparisons of up to 16 bytes that a payload may cost: for each of its bytes, and whatever its
/// length.
const WORK_PER_BYTE: usize = 8;
const WORK_MIN: usize = 256;

/// A filter over a list of patterns.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    long: Option<(BitTable, Groups)>,
    short: Option<(BitTable, Groups)>,
    tiny: Option<(TinyTable, [Option<Groups>; TINY_BYTES_MAX])>,
    /// The bytes of all patterns, those of insensitive ones folded.
    bytes: Vec<u8>,
}

/// Memory of the filter: the folded text, and positions in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterScratch {
    text: Vec<u8>,
    long: Positions,
    short: Positions,
    tiny: Positions,
    /// Of these, what may begin a pattern of each length.
    tiny_by_len: [Positions; TINY_BYTES_MAX],
}

/// Ascending positions in the text.
#[derive(Clone, Debug, Default)]
struct Positions {
    masks: Vec<Mask>,
    /// The masks that are not empty.
    taken: Vec<u32>,
    list: Vec<u32>,
    len: usize,
    /// Those before were looked at.
    next: usize,
}

/// A payload within the text.
struct Place<'a> {
    text: &'a [u8],
    payload: &'a [u8],
    start: usize,
    /// Only what ends behind so many of its bytes is wanted.
    from: usize,
    work: usize,
}

impl Filter {
    pub(crate) fn new(patterns: &Patterns) -> Self {
        let fold = |bytes: &[u8]| bytes.to_ascii_lowercase();
        let folded: Vec<Vec<u8>> = patterns.iter().map(|(_, one)| fold(one.bytes)).collect();
        let common = Common::new(folded.iter().map(Vec::as_slice));
        let mut bytes = Vec::new();
        let (mut long, mut short, mut tiny) = (Vec::new(), Vec::new(), Vec::new());
        for ((id, pattern), folded) in patterns.iter().zip(&folded) {
            let is_folded = pattern.case == Case::Insensitive;
            let at = bytes.len();
            bytes.extend_from_slice(if is_folded { folded } else { pattern.bytes });
            let entry = |back| Entry::new(id.0, back, at, folded.len(), is_folded);
            if folded.len() >= LONG_BYTES_MIN {
                let first = common.rarest(folded, LONG_WINDOW, LONG_STRIDE);
                let backs = first..first + LONG_STRIDE;
                long.extend(backs.map(|back| (key(folded, back, LONG_WINDOW), entry(back))));
            } else if folded.len() >= SHORT_WINDOW {
                let back = common.rarest(folded, SHORT_WINDOW, 1);
                short.push((key(folded, back, SHORT_WINDOW), entry(back)));
            } else {
                tiny.push((folded.as_slice(), entry(0)));
            }
        }
        let (long, short, tiny) = (long_class(long), short_class(short), tiny_class(tiny));
        Self { long, short, tiny, bytes }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let long = self.long.as_ref().map_or(0, |(table, groups)| table.bytes() + groups.bytes());
        let short = self.short.as_ref().map_or(0, |(table, groups)| table.bytes() + groups.bytes());
        let tiny = self.tiny.iter().flat_map(|(_, by_len)| by_len.iter().flatten());
        let tiny: usize = tiny.map(Groups::bytes).sum();
        long + short + tiny + self.bytes.len()
    }

    /// How many of `payloads` go through the kernels together: some, or a long one by itself.
    pub(crate) fn group_len(payloads: &[&[u8]]) -> usize {
        let mut bytes = 0;
        let fits = |payload: &&&[u8]| {
            bytes += payload.len();
            bytes <= PIECE_BYTES
        };
        payloads.iter().take_while(fits).count().max(1).min(payloads.len())
    }

    /// Gives `collect` what occurs in `payloads`, a group by [`group_len`](Self::group_len), and
    /// closes each. One that costs too much, or has too much, is given to `slow` instead.
    pub(crate) fn run<C: Collect>(
        &self,
        kernel: Kernel,
        payloads: &[&[u8]],
        from: usize,
        scratch: &mut FilterScratch,
        collect: &mut C,
        mut slow: impl FnMut(&[u8], &mut C),
    ) {
        let len = scratch.fold(kernel, payloads);
        if let [payload] = payloads {
            let is_done = self.run_pieces(kernel, payload, from, scratch, collect);
            finish(is_done, payload, collect, &mut slow);
            return;
        }
        self.find_positions(kernel, scratch, 0, len);
        let mut start = 0;
        for payload in payloads {
            let work = WORK_MIN + WORK_PER_BYTE * payload.len();
            let text = std::mem::take(&mut scratch.text);
            let mut place = Place { text: &text, payload, start, from, work };
            let is_done = self.confirm(&mut place, start + payload.len(), scratch, collect);
            scratch.text = text;
            finish(is_done, payload, collect, &mut slow);
            start += payload.len();
        }
    }

    /// A payload of any length, piece by piece.
    fn run_pieces<C: Collect>(
        &self,
        kernel: Kernel,
        payload: &[u8],
        from: usize,
        scratch: &mut FilterScratch,
        collect: &mut C,
    ) -> bool {
        let mut work = WORK_MIN + WORK_PER_BYTE * payload.len();
        for start in (0..payload.len()).step_by(PIECE_BYTES) {
            let end = payload.len().min(start + PIECE_BYTES);
            self.find_positions(kernel, scratch, start, end);
            let text = std::mem::take(&mut scratch.text);
            let mut place = Place { text: &text, payload, start: 0, from, work };
            let is_done = self.confirm(&mut place, end, scratch, collect);
            work = place.work;
            scratch.text = text;
            if !is_done {
                return false;
            }
        }
        true
    }

    /// Lists the positions of every class from `start` on, up to `end` and a few behind.
    fn find_positions(
        &self,
        kernel: Kernel,
        scratch: &mut FilterScratch,
        start: usize,
        end: usize,
    ) {
        let FilterScratch { text, long, short, tiny, tiny_by_len } = scratch;
        let range = start..start + (end - start).next_multiple_of(BLOCK);
        if let Some((table, groups)) = &self.long {
            kernel.long(table, text, range.clone(), long.masks(range.len() / LONG_STRIDE));
            long.list::<LONG_STRIDE>(start, |mask| mask);
            long.thin(|at| groups.may_have(window::<LONG_WINDOW>(text, at)));
        }
        if let Some((table, groups)) = &self.short {
            kernel.short(table, text, range.clone(), short.masks(range.len()));
            short.list::<1>(start, tables::short_mask);
            short.thin(|at| groups.may_have(window::<SHORT_WINDOW>(text, at)));
        }
        if let Some((table, by_len)) = &self.tiny {
            kernel.tiny(table, text, range.clone(), tiny.masks(range.len()));
            tiny.list::<1>(start, |mask| mask);
            for (len, groups, kept) in of_each_len(by_len, tiny_by_len) {
                tiny.pick(kept, |at| groups.may_have(tiny_key(text, at, len)));
            }
        }
    }

    /// Looks at the positions before `end`, which belong to `place`; `false` if that is too much.
    fn confirm<C: Collect>(
        &self,
        place: &mut Place<'_>,
        end: usize,
        scratch: &mut FilterScratch,
        collect: &mut C,
    ) -> bool {
        let mut is_done = true;
        if let Some((_, groups)) = &self.short {
            let key = |text: &[u8], at| window::<SHORT_WINDOW>(text, at);
            is_done &= self.confirm_class(groups, key, place, end, &mut scratch.short, collect);
        }
        if let Some((_, groups)) = &self.long {
            let key = |text: &[u8], at| window::<LONG_WINDOW>(text, at);
            is_done &= self.confirm_class(groups, key, place, end, &mut scratch.long, collect);
        }
        if let Some((_, by_len)) = &self.tiny {
            for (len, groups, positions) in of_each_len(by_len, &mut scratch.tiny_by_len) {
                let key = |text: &[u8], at: usize| tiny_key(text, at, len);
                is_done &= self.confirm_class(groups, key, place, end, positions, collect);
            }
        }
        is_done
    }

    #[inline]
    fn confirm_class<C: Collect>(
        &self,
        groups: &Groups,
        key: impl Fn(&[u8], usize) -> u64,
        place: &mut Place<'_>,
        end: usize,
        positions: &mut Positions,
        collect: &mut C,
    ) -> bool {
        while let Some(at) = positions.next_before(end) {
            for entry in groups.find(key(place.text, at)) {
                let cost = 1 + entry.len() / 16;
                if place.work < cost {
                    positions.skip_to(end);
                    return false;
                }
                place.work -= cost;
                if let Some(occurrence) = self.occurs(entry, place, at)
                    && !collect.offer(occurrence as u32, PatternId(entry.pattern))
                {
                    positions.skip_to(end);
                    return false;
                }
                if entry.is_last() {
                    break;
                }
            }
        }
        true
    }

    /// Where the pattern ends in the payload, if it stands around the window at `at` of the text.
    #[inline(always)]
    fn occurs(&self, entry: &Entry, place: &Place<'_>, at: usize) -> Option<usize> {
        let start = at.checked_sub(place.start + entry.back())?;
        let end = start + entry.len();
        if end > place.payload.len() || end <= place.from {
            return None;
        }
        let bytes = &self.bytes[entry.bytes_at as usize..][..entry.len()];
        let there = if entry.is_folded() {
            &place.text[place.start + start..place.start + end]
        } else {
            &place.payload[start..end]
        };
        same(bytes, there).then_some(end)
    }
}

/// Ends a payload: as it is, or by `slow`.
fn finish<C: Collect>(
    is_done: bool,
    payload: &[u8],
    collect: &mut C,
    slow: &mut impl FnMut(&[u8], &mut C),
) {
    if !is_done {
        collect.restart();
        slow(payload, collect);
    }
    collect.close();
}

impl FilterScratch {
    /// Puts the payloads together, folded, with zeros behind them. Returns their bytes.
    fn fold(&mut self, kernel: Kernel, payloads: &[&[u8]]) -> usize {
        let len: usize = payloads.iter().map(|payload| payload.len()).sum();
        if self.text.len() < len + PAD {
            self.text.resize(len + PAD, 0);
        }
        let mut rest = &mut self.text[..];
        for payload in payloads {
            let (folded, behind) = rest.split_at_mut(payload.len());
            kernel.fold(payload, folded);
            rest = behind;
        }
        rest[..PAD].fill(0);
        len
    }
}

impl Positions {
    /// Masks for so many positions, to be written by a kernel.
    fn masks(&mut self, positions: usize) -> &mut [Mask] {
        let len = positions / 64;
        if self.masks.len() < len {
            self.masks.resize(len, [0; 4]);
            self.taken.resize(len, 0);
        }
        self.len = len;
        &mut self.masks[..len]
    }

    /// Lists the positions that the masks have, in ascending order.
    fn list<const STRIDE: usize>(&mut self, start: usize, ascending: impl Fn(u64) -> u64) {
        // First which masks have any, without a branch to foretell: most have none.
        let mut taken = 0;
        for (idx, mask) in self.masks[..self.len].iter().enumerate() {
            self.taken[taken] = idx as u32;
            taken += usize::from(whole(*mask) != 0);
        }
        if self.list.len() < 64 * taken {
            self.list.resize(64 * taken, 0);
        }
        let mut len = 0;
        for &idx in &self.taken[..taken] {
            let mut mask = ascending(whole(self.masks[idx as usize]));
            while mask != 0 {
                let position = 64 * idx as usize + mask.trailing_zeros() as usize;
                self.list[len] = (start + STRIDE * position) as u32;
                len += 1;
                mask &= mask - 1;
            }
        }
        (self.len, self.next) = (len, 0);
    }

    /// Leaves out those that are not kept, again without a branch: their loads overlap.
    fn thin(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut kept = 0;
        for idx in 0..self.len {
            let at = self.list[idx];
            self.list[kept] = at;
            kept += usize::from(is_kept(at as usize));
        }
        self.len = kept;
    }

    /// Lists those that are picked, as [`thin`](Self::thin) does, elsewhere.
    fn pick(&self, to: &mut Self, is_picked: impl Fn(usize) -> bool) {
        if to.list.len() < self.len {
            to.list.resize(self.len, 0);
        }
        (to.len, to.next) = (0, 0);
        for &at in &self.list[..self.len] {
            to.list[to.len] = at;
            to.len += usize::from(is_picked(at as usize));
        }
    }

    /// The next one, if it is before `end`.
    #[inline(always)]
    fn next_before(&mut self, end: usize) -> Option<usize> {
        let at = *self.list[..self.len].get(self.next)? as usize;
        (at < end).then(|| {
            self.next += 1;
            at
        })
    }

    fn skip_to(&mut self, end: usize) {
        while self.next_before(end).is_some() {}
    }
}

/// The positions of a mask as bits.
#[inline(always)]
fn whole(mask: Mask) -> u64 {
    let [a, b, c, d] = mask.map(u64::from);
    a | b << 16 | c << 32 | d << 48
}

/// The window of `len` bytes at `at`, as a number.
fn key(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut window = [0; 8];
    window[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(window)
}

/// The same, of a text with bytes behind it.
#[inline(always)]
fn window<const LEN: usize>(text: &[u8], at: usize) -> u64 {
    let bytes: [u8; 8] = text[at..at + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(bytes) & (u64::MAX >> (64 - 8 * LEN))
}

/// One to three bytes as a number.
#[inline(always)]
fn tiny_key(text: &[u8], at: usize, len: usize) -> u64 {
    let bytes = u32::from_le_bytes(text[at..at + 4].try_into().expect("four bytes"));
    u64::from(bytes & (u32::MAX >> (32 - 8 * len)))
}

/// The lengths that tiny patterns have, the groups of each, and what goes with it.
fn of_each_len<'a, T>(
    by_len: &'a [Option<Groups>; TINY_BYTES_MAX],
    others: &'a mut [T; TINY_BYTES_MAX],
) -> impl Iterator<Item = (usize, &'a Groups, &'a mut T)> {
    let all = (1..).zip(by_len).zip(others);
    all.filter_map(|((len, groups), other)| Some((len, groups.as_ref()?, other)))
}

/// Whether two slices of the same length have the same bytes. Few bytes are compared here, without
/// a call.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
        let mut number = [0; 8];
        number[..N].copy_from_slice(&bytes[at..at + N]);
        u64::from_le_bytes(number)
    }
    let len = a.len();
    match len {
        0..4 => a == b,
        4..8 => {
            let differ = number::<4>(a, 0) ^ number::<4>(b, 0);
            differ | (number::<4>(a, len - 4) ^ number::<4>(b, len - 4)) == 0
        }
        8..=16 => {
            let differ = number::<8>(a, 0) ^ number::<8>(b, 0);
            differ | (number::<8>(a, len - 8) ^ number::<8>(b, len - 8)) == 0
        }
        _ => number::<8>(a, 0) == number::<8>(b, 0) && a == b,
    }
}

fn long_class(entries: Vec<(u64, Entry)>) -> Option<(BitTable, Groups)> {
    let mut table = BitTable::new(entries.len());
    entries.iter().for_each(|(key, _)| table.add_long(*key));
    (!entries.is_empty()).then(|| (table, Groups::new(entries)))
}

fn short_class(entries: Vec<(u64, Entry)>) -> Option<(BitTable, Groups)> {
    let mut table = BitTable::new(entries.len());
    entries.iter().for_each(|(key, _)| table.add_short(*key as u32));
    (!entries.is_empty()).then(|| (table, Groups::new(entries)))
}

fn tiny_class(
    patterns: Vec<(&[u8], Entry)>,
) -> Option<(TinyTable, [Option<Groups>; TINY_BYTES_MAX])> {
    let mut texts: Vec<&[u8]> = patterns.iter().map(|(bytes, _)| *bytes).collect();
    // Neighbours in the table share groups.
    texts.sort_unstable();
    texts.dedup();
    let by_len = [1, 2, 3].map(|len| {
        let of_len = patterns.iter().filter(|(bytes, _)| bytes.len() == len);
        let padded = |bytes: &[u8]| [bytes, &[0; 4]].concat();
        let keyed: Vec<(u64, Entry)> =
            of_len.map(|(bytes, entry)| (tiny_key(&padded(bytes), 0, len), *entry)).collect();
        (!keyed.is_empty()).then(|| Groups::new(keyed))
    });
    (!patterns.is_empty()).then(|| (TinyTable::new(&texts), by_len))
}
