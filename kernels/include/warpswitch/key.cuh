/* Keys, and the words that make these headers compile for a card and for a host.
 *
 * A per-packet function is written once: `WS_FN` makes it a device function under a CUDA compiler
 * and a plain inline function under any other C++ compiler, so that tests without a card run the
 * very same source against the reference.
 */
#ifndef WARPSWITCH_KEY_CUH
#define WARPSWITCH_KEY_CUH

#include "warpswitch/abi.h"

/* 1 in kernels that outlive an image: words of images are then read through caches that a fence
 * empties. Else they never change while a kernel runs, and any cache will do. */
#ifndef WS_COHERENT
#define WS_COHERENT 0
#endif

#ifdef __CUDACC__
#define WS_FN static __device__ __forceinline__
#define WS_UNROLL _Pragma("unroll")
#define WS_PRAGMA(words) _Pragma(#words)
#define WS_UNROLL_BY(times) WS_PRAGMA(unroll times)
#if WS_COHERENT
#define WS_READ(at) (*(at))
#else
#define WS_READ(at) __ldg(at)
#endif
#else
#define WS_FN static inline
#define WS_UNROLL
#define WS_UNROLL_BY(times)
#endif

static_assert(sizeof(ws_view) == 64, "a view is 64 bytes");
static_assert(sizeof(ws_u32) == 4 && sizeof(ws_u64) == 8, "fixed widths");

struct ws_key {
    ws_u32 w[WS_WORDS];
};

/* Copies `WORDS` words that start on a 16-byte border of the card's memory, 16 bytes at a time. */
template <int WORDS>
WS_FN void ws_load(const ws_u32 *from, ws_u32 *to) {
    static_assert(WORDS % 4 == 0, "whole 16-byte loads");
#ifdef __CUDACC__
    WS_UNROLL
    for (int i = 0; i < WORDS / 4; i++) {
        const uint4 four = WS_READ((const uint4 *)from + i);
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

WS_FN ws_u32 ws_word(const ws_u32 *at) {
#ifdef __CUDACC__
    return WS_READ(at);
#else
    return *at;
#endif
}

/* Two words that start on an 8-byte border. */
WS_FN void ws_pair(const ws_u32 *at, ws_u32 *first, ws_u32 *second) {
#ifdef __CUDACC__
    const uint2 two = WS_READ((const uint2 *)at);
    *first = two.x;
    *second = two.y;
#else
    *first = at[0];
    *second = at[1];
#endif
}

#if WS_PACKED
static_assert(WS_WORDS == 4, "keys of 13 bytes have four words");

/* 32 keys: all first words, all second ones, all third ones, the highest bytes of the
 * fourth. */
#define WS_PACK 32
#define WS_PACK_WORDS (3 * WS_PACK + WS_PACK / 4)

/* Key `n` of a batch whose keys are packed. A warp reads 416 bytes that lie side by side. */
WS_FN ws_key ws_key_at(const ws_u32 *keys, ws_u64 n) {
    ws_key key;
    const ws_u32 *from = keys + n / WS_PACK * WS_PACK_WORDS;
    const ws_u32 lane = (ws_u32)(n % WS_PACK);
    const unsigned char *last = (const unsigned char *)(from + 3 * WS_PACK) + lane;
#ifdef __CUDACC__
    WS_UNROLL
    for (int i = 0; i < 3; i++) {
        key.w[i] = __ldcs(from + i * WS_PACK + lane);
    }
    key.w[3] = (ws_u32)__ldcs(last) << 24;
#else
    for (int i = 0; i < 3; i++) {
        key.w[i] = from[i * WS_PACK + lane];
    }
    key.w[3] = (ws_u32)*last << 24;
#endif
    return key;
}
#else
/* Key `n` of a batch. Every byte of it is read once and not again: no cache should keep it. */
WS_FN ws_key ws_key_at(const ws_u32 *keys, ws_u64 n) {
    ws_key key;
    const ws_u32 *from = keys + n * WS_WORDS;
#ifdef __CUDACC__
#if WS_WORDS % 4 == 0
    WS_UNROLL
    for (int i = 0; i < WS_WORDS / 4; i++) {
        const uint4 four = __ldcs((const uint4 *)from + i);
        key.w[4 * i] = four.x;
        key.w[4 * i + 1] = four.y;
        key.w[4 * i + 2] = four.z;
        key.w[4 * i + 3] = four.w;
    }
#else
    WS_UNROLL
    for (int i = 0; i < WS_WORDS / 2; i++) {
        const uint2 two = __ldg((const uint2 *)from + i);
        key.w[2 * i] = two.x;
        key.w[2 * i + 1] = two.y;
    }
#endif
#else
    for (int i = 0; i < WS_WORDS; i++) {
        key.w[i] = from[i];
    }
#endif
    return key;
}
#endif

/* The id of the rule of this rank. */
WS_FN ws_u32 ws_id(const ws_view &view, ws_u32 rank) {
    if (rank == WS_NONE || view.p[WS_IDS] == WS_NONE) {
        return rank;
    }
    return ws_word(view.words + view.p[WS_IDS] + rank);
}

/* A word whose lowest bit is bit `at` mod 32 of `word`; the others are of no use. */
WS_FN ws_u32 ws_bit(ws_u32 word, ws_u32 at) {
#ifdef __CUDACC__
    return __funnelshift_r(word, word, at);
#else
    return word >> (at & 31);
#endif
}

/* `bits` moved down by one place, and the lowest bit of `next` on top. */
WS_FN ws_u32 ws_push(ws_u32 bits, ws_u32 next) {
#ifdef __CUDACC__
    return __funnelshift_r(bits, next, 1);
#else
    return bits >> 1 | next << 31;
#endif
}

/* The number of the lowest bit that is set; there has to be one. */
WS_FN ws_u32 ws_lowest(ws_u32 bits) {
#ifdef __CUDACC__
    return __ffs(bits) - 1;
#else
    return (ws_u32)__builtin_ctz(bits);
#endif
}

/* The upper half of a product. */
WS_FN ws_u32 ws_high(ws_u32 a, ws_u32 b) {
    return (ws_u32)((ws_u64)a * b >> 32);
}

#endif
