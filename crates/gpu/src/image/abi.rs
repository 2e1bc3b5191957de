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

/// Words of a description behind its mask.
pub const DESC_BOUND: usize = 0;
/// First slot.
pub const DESC_SLOTS: usize = 1;
/// Shift, or slots of a part.
pub const DESC_SIZE: usize = 2;
/// First word of the filter.
pub const DESC_FILTER: usize = 3;
/// 32 less the bits of a place in the filter.
pub const DESC_SHIFT: usize = 4;
/// How many these words are.
pub const DESC_WORDS: usize = 5;

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
pub const FACTS: [(&str, u32); 32] = [
    ("size of a view", 64),
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
    ("WS_DESC_BOUND", DESC_BOUND as u32),
    ("WS_DESC_SLOTS", DESC_SLOTS as u32),
    ("WS_DESC_SIZE", DESC_SIZE as u32),
    ("WS_DESC_FILTER", DESC_FILTER as u32),
    ("WS_DESC_SHIFT", DESC_SHIFT as u32),
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
];
