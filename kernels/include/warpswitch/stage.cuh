/* What a block of a rule-parallel kernel keeps in shared memory: the *stage*.
 *
 * Units of a block's group of rules (rows or tables), and a window of the words that tables read at
 * random. What lies outside the window is read where the image lies: slower, with the same result.
 * stage_rows.cuh and stage_tables.cuh fill a stage and search it; split.cuh has the kernel.
 */
#ifndef WARPSWITCH_STAGE_CUH
#define WARPSWITCH_STAGE_CUH

#include "warpswitch/key.cuh"

static_assert(sizeof(ws_split) == 16, "what the host passes");

struct ws_stage {
    ws_u32 *units;  /* WS_STAGED_WORDS each */
    ws_u32 *window; /* tables: hashes of slots, or filters */
    ws_u32 first;   /* the number of the first unit */
};

/* The keys of a block, and what is known of them. */
struct ws_block_keys {
    ws_u32 *lowest; /* the best rank of each so far */
    ws_u32 *words;  /* first words of all, second words of all, … */
    ws_u32 span;    /* how many they are */
};

/* What was found that has to be looked at in the image: a word of unit and key, and the hash. */
struct ws_queue {
    ws_u32 *count; /* may be more than there is room for */
    ws_u32 *items;
    ws_u32 room;
};

/* A block has fewer keys. */
#define WS_ITEM_KEY_BITS 10
#define WS_ITEM_WORDS 2

/* Reads and writes shared memory, on borders of 16 bytes, 16 bytes at a time. */
template <int WORDS>
WS_FN void ws_fetch(const ws_u32 *from, ws_u32 *to) {
    static_assert(WORDS % 4 == 0, "whole 16-byte reads");
#ifdef __CUDACC__
    WS_UNROLL
    for (int i = 0; i < WORDS / 4; i++) {
        const uint4 four = ((const uint4 *)from)[i];
        to[4 * i] = four.x;
        to[4 * i + 1] = four.y;
        to[4 * i + 2] = four.z;
        to[4 * i + 3] = four.w;
    }
#else
    for (int i = 0; i < WORDS; i++) {
        to[i] = from[i];
    }
#endif
}

template <int WORDS>
WS_FN void ws_store(ws_u32 *to, const ws_u32 *from) {
    static_assert(WORDS % 4 == 0, "whole 16-byte writes");
#ifdef __CUDACC__
    WS_UNROLL
    for (int i = 0; i < WORDS / 4; i++) {
        ((uint4 *)to)[i] =
            make_uint4(from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]);
    }
#else
    for (int i = 0; i < WORDS; i++) {
        to[i] = from[i];
    }
#endif
}

/* Adds to a word; gives what it was. */
WS_FN ws_u32 ws_add(ws_u32 *at, ws_u32 more) {
#ifdef __CUDACC__
    return atomicAdd(at, more);
#else
    const ws_u32 before = *at;
    *at += more;
    return before;
#endif
}

/* Puts a finding into the queue; whether there was room. */
WS_FN bool ws_enqueue(const ws_queue &queue, ws_u32 unit, ws_u32 n, ws_u32 hash) {
    const ws_u32 at = ws_add(queue.count, 1);
    if (at >= queue.room) {
        return false;
    }
    queue.items[WS_ITEM_WORDS * at] = unit << WS_ITEM_KEY_BITS | n;
    queue.items[WS_ITEM_WORDS * at + 1] = hash;
    return true;
}

WS_FN ws_key ws_key_of_block(const ws_block_keys &all, ws_u32 n) {
    ws_key key;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        key.w[i] = all.words[i * all.span + n];
    }
    return key;
}

/* Merges a rank into the best one so far of a key. */
WS_FN void ws_lower(ws_u32 *at, ws_u32 rank) {
#ifdef __CUDACC__
    atomicMin(at, rank);
#else
    *at = rank < *at ? rank : *at;
#endif
}

#endif
