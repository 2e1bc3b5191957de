/* The keyed hash of a masked key: multilinear, with 64-bit keys,
 *
 *   h = ((k[W] + sum over i of k[i] * word[i]) mod 2^64) div 2^32
 *
 * strongly universal. Two multiplications a word, none of which waits for another.
 * Source: Lemire, Kaser, "Strongly universal string hashing is fast", 2014.
 */
#ifndef WARPSWITCH_HASH_CUH
#define WARPSWITCH_HASH_CUH

#include "warpswitch/key.cuh"

struct ws_hash_keys {
    ws_u64 k[WS_WORDS + 1];
    /* Odd; the first three choose the slot in each part of a cuckoo table, the last the second
     * place in a filter. */
    ws_u32 by[4];
};

WS_FN ws_hash_keys ws_hash_keys_at(const ws_view &view) {
    const ws_u32 *from = view.words + view.p[WS_HASH];
    ws_hash_keys keys;
    WS_UNROLL
    for (int i = 0; i <= WS_WORDS; i++) {
        ws_u32 low, high;
        ws_pair(from + 2 * i, &low, &high);
        keys.k[i] = (ws_u64)high << 32 | low;
    }
    WS_UNROLL
    for (int i = 0; i < 4; i++) {
        keys.by[i] = ws_word(from + 2 * (WS_WORDS + 1) + i);
    }
    return keys;
}

WS_FN ws_u32 ws_hash(const ws_hash_keys &keys, const ws_key &masked) {
    ws_u64 sum = keys.k[WS_WORDS];
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        sum += keys.k[i] * masked.w[i];
    }
    return (ws_u32)(sum >> 32);
}

#endif
