/* The keyed hash of a masked key,
 *
 *   s = (add + sum over i of a[i] * word[i]) mod 2^64      h = (s * times mod 2^64) div 2^32
 *
 * with random odd 32-bit `a` and random `add`, `times` of 64 bits, the latter odd. Two keys have
 * one `s` for at most one `a[i]` in 2^31, and two different `s` one `h` with probability 2^-31: as
 * good as universal. One multiplication with a 64-bit sum a word, none of which waits for a load.
 * Source: Dietzfelbinger, Hagerup, Katajainen, Penttonen, "A reliable randomized algorithm for the
 * closest-pair problem", 1997 (multiply and shift).
 */
#ifndef WARPSWITCH_HASH_CUH
#define WARPSWITCH_HASH_CUH

#include "warpswitch/key.cuh"

struct ws_hash_keys {
    ws_u32 a[WS_WORDS];
    ws_u64 add, times;
    /* Odd; the first three choose the slot in each part of a cuckoo table, the last the second
     * place in a filter. */
    ws_u32 by[4];
};

WS_FN ws_u64 ws_long(const ws_u32 *at) {
    ws_u32 low, high;
    ws_pair(at, &low, &high);
    return (ws_u64)high << 32 | low;
}

WS_FN ws_hash_keys ws_hash_keys_at(const ws_view &view) {
    const ws_u32 *from = view.words + view.p[WS_HASH];
    ws_hash_keys keys;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        keys.a[i] = ws_word(from + i);
    }
    keys.add = ws_long(from + WS_WORDS);
    keys.times = ws_long(from + WS_WORDS + 2);
    WS_UNROLL
    for (int i = 0; i < 4; i++) {
        keys.by[i] = ws_word(from + WS_WORDS + 4 + i);
    }
    return keys;
}

/* The hash of the bits of `key` under `mask`. */
WS_FN ws_u32 ws_hash(const ws_hash_keys &keys, const ws_key &key, const ws_u32 *mask) {
    ws_u64 sum = keys.add;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        sum += (ws_u64)keys.a[i] * (key.w[i] & mask[i]);
    }
    return (ws_u32)(sum * keys.times >> 32);
}

#endif
