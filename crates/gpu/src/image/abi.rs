//! The numbers of `abi.h`: what kernels and this side agree on. See there for what they mean.

/// Numbers of a view.
pub const VIEW_NUMBERS: usize = 14;
/// "No rule".
pub const NONE: u32 = u32::MAX;

/// Every image.
pub const IDS: usize = 0;
/// See [`IDS`].
pub const RULES: usize = 1;

/// `linear`.
pub const LINEAR_ROWS: usize = 2;

/// `maskhash`, `tuple`, `bloom`.
pub const TABLES: usize = 2;
/// See [`TABLES`]; so are the next.
pub const TABLE_DESCS: usize = 3;
/// Slots.
pub const SLOTS: usize = 4;
/// Entries.
pub const ENTRIES: usize = 5;
/// Filters.
pub const FILTERS: usize = 6;
/// Keys of the hash.
pub const HASH: usize = 7;
/// Tiles of filters.
pub const TILES: usize = 8;
/// Number of tiles.
pub const TILES_LEN: usize = 9;
/// Probes.
pub const PROBES: usize = 10;
/// Chunks of tables.
pub const CHUNKS: usize = 11;
/// Terms to make.
pub const LOADS: usize = 12;
/// Terms that a key has at a time.
pub const TERM_SLOTS: usize = 13;

/// Words of a description behind its mask.
pub const DESC_BOUND: usize = 0;
/// How many these words are.
pub const DESC_WORDS: usize = 1;

/// Words of a probe: the slots of the table's terms, a byte each,
pub const PROBE_TERMS: usize = 0;
/// first word of the filter, and above 16 bits 32 less the bits of a word's number in it,
pub const PROBE_FILTER: usize = 1;
/// first slot,
pub const PROBE_SLOTS: usize = 2;
/// shift, or slots of a part.
pub const PROBE_SIZE: usize = 3;
/// How many these words are.
pub const PROBE_WORDS: usize = 4;

/// Words of a chunk: its first table,
pub const CHUNK_FIRST: usize = 0;
/// number of tables,
pub const CHUNK_LEN: usize = 1;
/// first term to make,
pub const CHUNK_LOAD: usize = 2;
/// number of these.
pub const CHUNK_LOADS: usize = 3;
/// How many these words are.
pub const CHUNK_WORDS: usize = 4;

/// Terms of a hash.
pub const TERMS: usize = 4;

/// `turbo`.
pub const TURBO_TABLES: usize = 2;
/// Descriptions of tables.
pub const TURBO_DESCS: usize = 3;
/// Where units are counted from.
pub const TURBO_UNITS: usize = 4;
/// Reference of the tail.
pub const TURBO_TAIL: usize = 5;
/// Least rank of the tail.
pub const TURBO_BOUND: usize = 6;
/// Multipliers.
pub const TURBO_HASH: usize = 7;

/// Marks a reference to a cut.
pub const CUT: u32 = 1 << 31;
/// Where a reference has its length.
pub const REF_SHIFT: u32 = 24;
/// The longest length in a reference.
pub const REF_LEN_MAX: usize = 0x7f;
/// The units of a reference.
pub const REF_UNIT: u32 = 0xff_ffff;
/// Words of a unit.
pub const UNIT_WORDS: usize = 8;
/// The largest rank in an entry of turbo's tables.
pub const BOUND_MAX: u32 = 0xff_ffff;

/// Routes: the kinds of entries but hops, which are 0.
pub const ROUTE_LEAF: u32 = 1;
/// See [`ROUTE_LEAF`].
pub const ROUTE_INNER: u32 = 2;
/// See [`ROUTE_LEAF`].
pub const ROUTE_LINE: u32 = 3;
/// Where an entry has its kind.
pub const ROUTE_KIND_SHIFT: u32 = 30;
/// The unit of an entry.
pub const ROUTE_PLACE: u32 = 0x3fff_ffff;

/// Patterns: the filter.
pub const SCAN_FILTER: usize = 0;
/// 32 less the bits of a filter word's number.
pub const SCAN_FILTER_SHIFT: usize = 1;
/// Buckets.
pub const SCAN_BUCKETS: usize = 2;
/// 32 less the bits of a bucket's number.
pub const SCAN_BUCKET_SHIFT: usize = 3;
/// Entries.
pub const SCAN_ENTRIES: usize = 4;
/// The patterns' bytes.
pub const SCAN_BYTES: usize = 5;
/// Tiny patterns, 0 if there is none.
pub const SCAN_TINY: usize = 6;

/// Words of a page of payloads,
pub const PAGE_WORDS: usize = 8192;
/// words in front that mark where payloads begin,
pub const PAGE_MARKS: usize = 64;
/// parts that are searched apart.
pub const PAGE_PARTS: usize = 16;
/// Words of what is found in a part.
pub const PART_WORDS: usize = 128;

/// Texts that wait for their pages: words of the column in front of them.
pub const TEXTS_FIRST: usize = 0;
/// Words of a text.
pub const TEXT_WORDS: usize = 4;

/// `words` padded to whole loads of four.
pub const fn padded(words: usize) -> usize {
    words.div_ceil(4) * 4
}

/// Words of an entry for keys of `words` words.
pub const fn entry_words(words: usize) -> usize {
    padded(words + 1)
}

/// Words of the description of a table.
pub const fn table_desc_words(words: usize) -> usize {
    padded(words + DESC_WORDS)
}

/// The description of a table: the first `words` words of its mask, its bound, and what pads it.
pub fn desc<'a>(words: usize, mask: &'a [u32], bound: u32) -> impl Iterator<Item = u32> + use<'a> {
    let len = table_desc_words(words);
    let pad = std::iter::repeat_n(0, len - words - DESC_WORDS);
    mask[..words].iter().copied().chain([bound]).chain(pad)
}

/// [`PROBE_FILTER`] of a probe.
pub const fn probe_filter(first: u32, shift: u32) -> u32 {
    assert!(first <= 0xffff, "a tile has fewer words");
    shift << 16 | first
}

/// The filter of a probe: its first word, and 32 less the bits of a word's number in it.
pub const fn filter_of(probe: &[u32]) -> (u32, u32) {
    (probe[PROBE_FILTER] & 0xffff, probe[PROBE_FILTER] >> 16)
}

/// Words of the description of one of turbo's tables.
pub const fn turbo_desc_words(words: usize) -> usize {
    padded(words + 2)
}

/// Words of a cut before its cells.
pub const fn cut_words(words: usize) -> usize {
    words.next_multiple_of(UNIT_WORDS)
}

/// Words of a row.
pub const fn row_words(words: usize, compact: bool) -> usize {
    if compact { 8 } else { padded(2 * words + 3) }
}

/// What the probe kernel reports, in its order; compiled for full rows of four-word keys.
pub const FACTS: [(&str, u32); 57] = [
    ("size of a view", 64),
    ("size of a split", 16),
    ("WS_IDS", IDS as u32),
    ("WS_RULES", RULES as u32),
    ("WS_LINEAR_ROWS", LINEAR_ROWS as u32),
    ("WS_TABLES", TABLES as u32),
    ("WS_TABLE_DESCS", TABLE_DESCS as u32),
    ("WS_SLOTS", SLOTS as u32),
    ("WS_ENTRIES", ENTRIES as u32),
    ("WS_FILTERS", FILTERS as u32),
    ("WS_HASH", HASH as u32),
    ("WS_TILES", TILES as u32),
    ("WS_TILES_LEN", TILES_LEN as u32),
    ("WS_PROBES", PROBES as u32),
    ("WS_CHUNKS", CHUNKS as u32),
    ("WS_LOADS", LOADS as u32),
    ("WS_TERM_SLOTS", TERM_SLOTS as u32),
    ("WS_DESC_BOUND", DESC_BOUND as u32),
    ("WS_PROBE_TERMS", PROBE_TERMS as u32),
    ("WS_PROBE_FILTER", PROBE_FILTER as u32),
    ("WS_PROBE_SLOTS", PROBE_SLOTS as u32),
    ("WS_PROBE_SIZE", PROBE_SIZE as u32),
    ("WS_PROBE_WORDS", PROBE_WORDS as u32),
    ("WS_CHUNK_FIRST", CHUNK_FIRST as u32),
    ("WS_CHUNK_LEN", CHUNK_LEN as u32),
    ("WS_CHUNK_LOAD", CHUNK_LOAD as u32),
    ("WS_CHUNK_LOADS", CHUNK_LOADS as u32),
    ("WS_CHUNK_WORDS", CHUNK_WORDS as u32),
    ("WS_TERMS", TERMS as u32),
    ("WS_TURBO_TABLES", TURBO_TABLES as u32),
    ("WS_TURBO_DESCS", TURBO_DESCS as u32),
    ("WS_TURBO_UNITS", TURBO_UNITS as u32),
    ("WS_TURBO_TAIL", TURBO_TAIL as u32),
    ("WS_TURBO_BOUND", TURBO_BOUND as u32),
    ("WS_TURBO_HASH", TURBO_HASH as u32),
    ("WS_ROUTE_LEAF", ROUTE_LEAF),
    ("WS_ROUTE_INNER", ROUTE_INNER),
    ("WS_ROUTE_LINE", ROUTE_LINE),
    ("WS_ROUTE_KIND_SHIFT", ROUTE_KIND_SHIFT),
    ("words of an entry", entry_words(4) as u32),
    ("words of a description", table_desc_words(4) as u32),
    ("words of a description of turbo", turbo_desc_words(4) as u32),
    ("words of a cut", cut_words(4) as u32),
    ("words of a row", row_words(4, false) as u32),
    ("WS_SCAN_FILTER", SCAN_FILTER as u32),
    ("WS_SCAN_FILTER_SHIFT", SCAN_FILTER_SHIFT as u32),
    ("WS_SCAN_BUCKETS", SCAN_BUCKETS as u32),
    ("WS_SCAN_BUCKET_SHIFT", SCAN_BUCKET_SHIFT as u32),
    ("WS_SCAN_ENTRIES", SCAN_ENTRIES as u32),
    ("WS_SCAN_BYTES", SCAN_BYTES as u32),
    ("WS_SCAN_TINY", SCAN_TINY as u32),
    ("WS_PAGE_WORDS", PAGE_WORDS as u32),
    ("WS_PAGE_MARKS", PAGE_MARKS as u32),
    ("WS_PAGE_PARTS", PAGE_PARTS as u32),
    ("WS_PART_WORDS", PART_WORDS as u32),
    ("WS_TEXTS_FIRST", TEXTS_FIRST as u32),
    ("WS_TEXT_WORDS", TEXT_WORDS as u32),
];
