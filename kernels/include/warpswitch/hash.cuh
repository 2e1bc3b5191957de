/* The keyed hashes of a masked key.
 *
 * maskhash and tuple:
 *
 *   s = (add + sum over i of a[i] * word[i]) mod 2^64      h = (s * times mod 2^64) div 2^32
 *
 * with random odd 32-bit `a` and random `add`, `times` of 64 bits, the latter odd. Two keys have
 * one `s` for at most one `a[i]` in 2^31, and two different `s` one `h` with probability 2^-31: as
 * good as universal. One multiplication with a 64-bit sum a word, none of which waits for a load.
 *
 * bloom, with random `a` of 64 bits, where a *unit* is a word, but each port is one of its own:
 *
 *   h = (sum over i of (a[i] * unit[i] mod 2^64) div 2^32) mod 2^32
 *
 * Two keys that differ in unit i have one `h` if two products of `a[i]` differ by a given number in
 * their upper halves, which has probability 2^-31 as well. It costs a second multiplication a unit,
 * but is a sum of 32-bit terms, one a unit, each of which depends on that unit's mask alone: tables
 * whose masks agree in some units share those terms (terms.cuh). Ranges of ports become prefixes,
 * so that masks of both ports together are many.
 *
 * Source: Dietzfelbinger, Hagerup, Katajainen, Penttonen, "A reliable randomized algorithm for the
 * closest-pair problem", 1997 (multiply and shift); the sum of such hashes is ours.
 */
#ifndef WARPSWITCH_HASH_CUH
#define WARPSWITCH_HASH_CUH

#include "warpswitch/key.cuh"

WS_FN ws_u64 ws_long(const ws_u32 *at) {
    ws_u32 low, high;
    ws_pair(at, &low, &high);
    return (ws_u64)high << 32 | low;
}

/* What the hash is drawn from; each `by` is odd and chooses the slot in a part of a table. */
#if WS_FILTERED
/* The word of ports is two units: the upper half in its place, the lower one behind all words. */
#define WS_UNITS (WS_WORDS + 1)
/* Those of the longest keys are read anew for each hash: registers cannot hold them and a key. */
#define WS_HOLDS_MULTIPLIERS (WS_WORDS <= 10)
struct ws_hash_keys {
#if WS_HOLDS_MULTIPLIERS
    ws_u64 a[WS_UNITS];
#else
    const ws_u32 *a;
#endif
    ws_u32 by[4];
};
#define WS_HASH_BY (2 * WS_UNITS)
#else
struct ws_hash_keys {
    ws_u32 a[WS_WORDS];
    ws_u64 add, times;
    ws_u32 by[4];
};
#define WS_HASH_BY (WS_WORDS + 4)
#endif

WS_FN ws_hash_keys ws_hash_keys_at(const ws_view &view) {
    const ws_u32 *from = view.words + view.p[WS_HASH];
    ws_hash_keys keys;
#if WS_FILTERED && WS_HOLDS_MULTIPLIERS
    WS_UNROLL
    for (int i = 0; i < WS_UNITS; i++) {
        keys.a[i] = ws_long(from + 2 * i);
    }
#elif WS_FILTERED
    keys.a = from;
#else
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        keys.a[i] = ws_word(from + i);
    }
    keys.add = ws_long(from + WS_WORDS);
    keys.times = ws_long(from + WS_WORDS + 2);
#endif
    WS_UNROLL
    for (int i = 0; i < 4; i++) {
        keys.by[i] = ws_word(from + WS_HASH_BY + i);
    }
    return keys;
}

#if WS_FILTERED
/* Multiplier `i`. */
WS_FN ws_u64 ws_multiplier(const ws_hash_keys &keys, int i) {
#if WS_HOLDS_MULTIPLIERS
    return keys.a[i];
#else
    return ws_long(keys.a + 2 * i);
#endif
}

/* The term of word `i` under its mask; `a` has the multipliers that are wanted. */
WS_FN ws_u32 ws_term(int i, ws_u64 a, ws_u64 a_of_lower, ws_u32 masked) {
    if (i == WS_PORTS_WORD) {
        return (ws_u32)(a * (masked & 0xffff0000u) >> 32) +
               (ws_u32)(a_of_lower * (masked & 0xffffu) >> 32);
    }
    return (ws_u32)(a * masked >> 32);
}
#endif

/* The hash of the bits of `key` under `mask`. */
WS_FN ws_u32 ws_hash(const ws_hash_keys &keys, const ws_key &key, const ws_u32 *mask) {
#if WS_FILTERED
    ws_u32 sum = 0;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        const ws_u64 a_of_lower = i == WS_PORTS_WORD ? ws_multiplier(keys, WS_WORDS) : 0;
        sum += ws_term(i, ws_multiplier(keys, i), a_of_lower, key.w[i] & mask[i]);
    }
    return sum;
#else
    ws_u64 sum = keys.add;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        sum += (ws_u64)keys.a[i] * (key.w[i] & mask[i]);
    }
    return (ws_u32)(sum * keys.times >> 32);
#endif
}

#endif
