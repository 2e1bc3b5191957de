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

/* Merges a rank into the best one so far of a key. */
WS_FN void ws_lower(ws_u32 *at, ws_u32 rank) {
#ifdef __CUDACC__
    atomicMin(at, rank);
#else
    *at = rank < *at ? rank : *at;
#endif
}

#endif
