/* What the host and a card agree on: the view of an image, and what its numbers mean.
 *
 * Plain C with fixed widths. The Rust side has the same numbers in `crates/gpu/src/image/abi.rs`;
 * the probe kernel reports what the card's compiler made of this file, and the host refuses to go
 * on if they differ.
 *
 * Shapes are definitions of the compilation:
 *   WS_WORDS       words of a key: 4, 10 or 16; of an address: 1 or 4
 *   WS_PORTS_WORD  the word of a key that holds both transport ports
 *   WS_COMPACT     1: rows of eight words (see rows.cuh), 0: rows of values and masks
 *   WS_PACKED      1: keys of 13 bytes, 32 together (see key.cuh), 0: keys of whole words
 */
#ifndef WARPSWITCH_ABI_H
#define WARPSWITCH_ABI_H

typedef unsigned int ws_u32;
typedef unsigned long long ws_u64;

/* "No rule": larger than every rank and every id. */
#define WS_NONE 0xffffffffu

/* An image in the memory of a card: its words, and 14 numbers that say where in them what lies.
 * Passed to kernels by value. */
typedef struct ws_view {
    const ws_u32 *words;
    ws_u32 p[14];
} ws_view;

/* What the resident kernel is given: where its frames lie in the host's memory, see resident.cuh,
 * and when it leaves. A piece is four words; a block takes one chunk of one frame. */
typedef struct ws_frames {
    const ws_u32 *rows;  /* pieces of keys: chunk, piece of the key, lane */
    ws_u32 *answers;     /* a word each: chunk, lane */
    const ws_u32 *heads; /* WS_HEAD_WORDS a chunk: the view of its image, what follows */
    ws_u64 idle_ns;      /* leave when there was no beat for so long */
    ws_u64 lease_ns;     /* leave after so long whatever happens */
    ws_u32 hot_polls;    /* after so many polls in vain a block sleeps between them, */
    ws_u32 cold_ns;      /* so long */
} ws_frames;

/* How a rule-parallel kernel is laid over a card; see split.cuh. Passed by value. */
typedef struct ws_split {
    ws_u32 parts;  /* warps that have the same keys, each of which searches its part of the rules */
    ws_u32 groups; /* blocks that have the same keys, each of which searches its group of rules */
    ws_u32 staged; /* units (rows or tables) that a block keeps in shared memory at a time */
    ws_u32 window; /* words of slots or filters that it keeps beside them, a multiple of 4 */
} ws_split;

/* In a head, behind the view. */
#define WS_HEAD_SEEN 16    /* the tag answered last for the chunk */
#define WS_HEAD_CONTROL 18 /* two words: the lowest bit to leave, beats in the others */
#define WS_LANES 32
#define WS_HEAD_WORDS 32
/* Pieces of a key: four words of which none is spare, or three and a tag. */
#define WS_PIECES (WS_WORDS == 4 ? 1 : (WS_WORDS + 2) / 3)
/* The tag in the last word of each piece, where keys of all schemas have zeros: a number that
 * counts the frames of a chunk, and whether the frame's view has to be read again. */
#define WS_TAG 0x00fff000u
#define WS_TAG_NUMBER 0x007ff000u
#define WS_TAG_ONE 0x00001000u
#define WS_TAG_RELOAD 0x00800000u
/* From the tag's lowest bit to the one of an answer that tells this frame's from the last one's. */
#define WS_ANSWER_SHIFT 19

/* Every image. */
enum {
    WS_IDS = 0,   /* first of the ids by rank, or WS_NONE if ranks are ids */
    WS_RULES = 1  /* number of rules */
};

/* linear */
enum { WS_LINEAR_ROWS = 2 };

/* maskhash, tuple, bloom */
enum {
    WS_TABLES = 2,       /* number of tables, in order of their bounds */
    WS_TABLE_DESCS = 3,  /* their descriptions: the mask, the bound */
    WS_SLOTS = 4,        /* slots of all tables: two words, hash and entry number + 1 (0: free) */
    WS_ENTRIES = 5,      /* entries: the words of the value, the rank, padding */
    WS_FILTERS = 6,      /* filters of all tables */
    WS_HASH = 7,         /* keys of the hash, see hash.cuh, then four odd multipliers */
    WS_TILES = 8,        /* descriptions of tiles of filters */
    WS_TILES_LEN = 9,    /* their number */
    WS_PROBES = 10,      /* what else there is to a table, apart: filters let few keys further */
    WS_CHUNKS = 11,      /* bloom: descriptions of chunks of tables */
    WS_LOADS = 12,       /* bloom: terms to make: as a table, a mask and the term's slot */
    WS_TERM_SLOTS = 13   /* bloom: terms that a key has at a time */
};

/* Words of a description behind the mask. */
enum {
    WS_DESC_BOUND = 0,   /* no rank in the table is smaller */
    WS_DESC_WORDS = 1
};

/* Words of a probe. */
enum {
    WS_PROBE_TERMS = 0,  /* slots of the terms that make the table's hash, a byte each */
    WS_PROBE_FILTER = 1, /* the first word of its filter, in its tile; shift << 16, which is 32 less
                          * the bits of a word's number in the filter */
    WS_PROBE_SLOTS = 2,  /* its first slot, counted from WS_SLOTS */
    WS_PROBE_SIZE = 3,   /* maskhash: 32 less the bits of a slot number; else: slots of a part */
    WS_PROBE_WORDS = 4
};

/* Words of the description of a chunk: tables that are searched together. No chunk has tables of
 * two tiles, and chunks have all tables in turn. */
enum {
    WS_CHUNK_FIRST = 0,  /* its first table */
    WS_CHUNK_LEN = 1,    /* how many they are, at most 32 */
    WS_CHUNK_LOAD = 2,   /* its first term to make, counted in terms */
    WS_CHUNK_LOADS = 3,  /* how many they are */
    WS_CHUNK_WORDS = 4
};

/* Terms of a hash, and so bytes of WS_PROBE_TERMS. */
#define WS_TERMS 4

/* Words of the description of a tile. */
enum {
    WS_TILE_TABLES = 0,  /* its first table */
    WS_TILE_LEN = 1,     /* how many they are */
    WS_TILE_FILTERS = 2, /* its first word, counted from WS_FILTERS */
    WS_TILE_WORDS = 3    /* how many they are */
};

/* turbo */
enum {
    WS_TURBO_TABLES = 2, /* number of tables */
    WS_TURBO_DESCS = 3,  /* their descriptions: the mask, 32 less index bits, first entry */
    WS_TURBO_UNITS = 4,  /* where units are counted from */
    WS_TURBO_TAIL = 5,   /* the reference of the tail */
    WS_TURBO_BOUND = 6,  /* no rank in the tail is smaller */
    WS_TURBO_HASH = 7    /* multipliers of the words, then the last one */
};

/* A reference: where a leaf or a cut lies, in units of eight words. 0 refers to nothing. */
#define WS_CUT 0x80000000u
#define WS_REF_SHIFT 24
#define WS_REF_UNIT 0xffffffu
#define WS_UNIT_WORDS 8
/* Ranks in the entries of turbo's tables. */
#define WS_BOUND_MAX 0xffffffu

/* Routes: the kind of an entry, in its upper two bits; 0 is a hop. See routes.cuh. */
enum {
    WS_ROUTE_LEAF = 1,
    WS_ROUTE_INNER = 2,
    WS_ROUTE_LINE = 3,
    WS_ROUTE_KIND_SHIFT = 30
};
#define WS_ROUTE_PLACE 0x3fffffffu

/* Patterns; see scan.cuh. */
enum {
    WS_SCAN_FILTER = 0,       /* words of the filter: first of all, so that they lie at 0 */
    WS_SCAN_FILTER_SHIFT = 1, /* 32 less the bits of a word's number */
    WS_SCAN_BUCKETS = 2,      /* buckets: a word each */
    WS_SCAN_BUCKET_SHIFT = 3, /* 32 less the bits of a bucket's number */
    WS_SCAN_ENTRIES = 4,      /* entries: four words each */
    WS_SCAN_BYTES = 5,        /* the patterns' bytes; each begins with a word */
    WS_SCAN_TINY = 6          /* 256 words of tiny patterns, or 0 if there is none */
};

/* A page of payloads, and what is found in it. */
enum {
    WS_PAGE_WORDS = 8192,     /* words of a page */
    WS_PAGE_MARKS = 64,       /* words in front: a bit for each unit of 16 bytes that begins one */
    WS_PAGE_PARTS = 16,       /* parts of a page that are searched apart */
    WS_PART_WORDS = 128       /* words of what is found in a part: how many, then these */
};

/* Texts that wait to be laid out on pages; see gather.cuh. */
enum {
    WS_TEXTS_FIRST = 0,       /* words of the column in front of its texts */
    WS_TEXT_WORDS = 4         /* words of a text */
};

/* Words of an array padded to whole 16-byte loads. */
#define WS_PADDED(words) (((words) + 3) / 4 * 4)
#define WS_ENTRY_WORDS WS_PADDED(WS_WORDS + 1)
#define WS_TABLE_DESC_WORDS WS_PADDED(WS_WORDS + WS_DESC_WORDS)
#define WS_TURBO_DESC_WORDS WS_PADDED(WS_WORDS + 2)
#define WS_CUT_WORDS ((WS_WORDS + 7) / 8 * 8)
#if WS_COMPACT
#define WS_ROW_WORDS 8
#else
#define WS_ROW_WORDS WS_PADDED(2 * WS_WORDS + 3)
#endif

#endif
