//! From a window to the patterns that have it: a hash table.

/// A pattern with a certain window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its number.
    pub pattern: u32,
    /// Where its bytes begin in the filter's, folded if it is insensitive.
    pub bytes_at: u32,
    /// How far behind its start the window stands.
    back: u16,
    /// Its length, and two flags.
    len_and_flags: u16,
}

/// The pattern is insensitive.
const FOLDED: u16 = 1 << 15;
/// The entry is the last of its group.
const LAST: u16 = 1 << 14;

impl Entry {
    pub(crate) fn new(pattern: u32, back: usize, at: usize, len: usize, is_folded: bool) -> Self {
        const { assert!(crate::PATTERN_BYTES_MAX < LAST as usize) };
        let flags = if is_folded { FOLDED } else { 0 };
        let (back, bytes_at) = (back as u16, at as u32);
        Self { pattern, bytes_at, back, len_and_flags: len as u16 | flags }
    }

    #[inline(always)]
    pub(crate) fn back(&self) -> usize {
        usize::from(self.back)
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len_and_flags & !(FOLDED | LAST))
    }

    #[inline(always)]
    pub(crate) fn is_folded(&self) -> bool {
        self.len_and_flags & FOLDED != 0
    }

    #[inline(always)]
    pub(crate) fn is_last(&self) -> bool {
        self.len_and_flags & LAST != 0
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    /// The first of its entries, or [`EMPTY`]; and whether it is [`FULL`].
    start: u32,
}

const EMPTY: u32 = u32::MAX >> 1;
/// Another window would have had this slot, and is in one behind it.
const FULL: u32 = 1 << 31;

/// Entries by the hash of their window. Two windows may have the same hash: then they share a
/// group, and comparing tells.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// A power of two, at most half of them taken.
    slots: Vec<Slot>,
    shift: u32,
    entries: Vec<Entry>,
}

#[inline(always)]
fn hash(key: u64) -> u32 {
    ((key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

impl Groups {
    /// Groups entries by their keys.
    pub(crate) fn new(keyed: Vec<(u64, Entry)>) -> Self {
        let mut hashed: Vec<(u32, Entry)> =
            keyed.into_iter().map(|(key, entry)| (hash(key), entry)).collect();
        hashed.sort_by_key(|(hash, entry)| (*hash, entry.pattern, entry.back));
        let groups = hashed.chunk_by(|a, b| a.0 == b.0).count();
        let log2 = (2 * groups).max(2).next_power_of_two().ilog2();
        let mut slots = vec![Slot { hash: 0, start: EMPTY }; 1 << log2];
        let mut entries = Vec::with_capacity(hashed.len());
        for same in hashed.chunk_by(|a, b| a.0 == b.0) {
            let (hash, start) = (same[0].0, entries.len() as u32);
            let mut at = (hash >> (32 - log2)) as usize;
            if slots[at].start != EMPTY {
                slots[at].start |= FULL;
            }
            while slots[at].start != EMPTY {
                at = (at + 1) & (slots.len() - 1);
            }
            slots[at] = Slot { hash, start };
            entries.extend(same.iter().map(|(_, entry)| *entry));
            let last = entries.len() - 1;
            entries[last].len_and_flags |= LAST;
        }
        Self { slots, shift: 32 - log2, entries }
    }

    /// The entries with this window, and those behind up to the end of all: they go to the first
    /// that is the last of its group. Nothing if there are none.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> &[Entry] {
        let hash = hash(key);
        let mut at = (hash >> self.shift) as usize;
        loop {
            let slot = self.slots[at];
            if slot.start == EMPTY {
                return &[];
            }
            if slot.hash == hash {
                return &self.entries[(slot.start & !FULL) as usize..];
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Whether there may be entries with this window: by one slot, without a branch.
    #[inline(always)]
    pub(crate) fn may_have(&self, key: u64) -> bool {
        let hash = hash(key);
        let slot = self.slots[(hash >> self.shift) as usize];
        (slot.hash == hash) | (slot.start & FULL != 0)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.entries)
    }
}
