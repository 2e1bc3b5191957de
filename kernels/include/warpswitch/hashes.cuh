/* Hash functions of masked keys, one beside the other: what each costs on a card.
 *
 * For each key the hashes of what it has under every mask of a rule set become one word:
 *
 *   fold = 0; for each mask: fold = rotate_left(fold, 1) ^ hash(key & mask)
 *
 * so that nothing is read but the key and the masks, and no hash can be left out. Masks lie as the
 * engines' do (`ws_desc`). WS_HASH_FUNCTION:
 *
 *   0  universal: ((b + sum of a[i] * word[i]) mod (2^61 - 1)) mod 2^32, a and b random
 *   1  MurmurHash3, x86 of 32 bits, with a random seed
 *   2  SuperFastHash, which has no seed
 *   3  that of maskhash and tuple, see hash.cuh
 *   4  that of bloom, whole: no terms are shared
 *
 * Grid: WS_KEYS keys a thread, which share a mask; grid-stride. CPU reference: `image::hashes`.
 *
 * Source: Carter, Wegman, "Universal classes of hash functions", 1979; Appleby, MurmurHash3, 2011,
 * and Hsieh, SuperFastHash, 2004, as published; masked keys are whole words, so that neither has a
 * tail.
 */
#ifndef WARPSWITCH_HASHES_CUH
#define WARPSWITCH_HASHES_CUH

#define WS_CUCKOO 0
#if WS_HASH_FUNCTION == 4
#define WS_FILTERED 1
#else
#define WS_FILTERED 0
#endif

#include "warpswitch/tables.cuh"

WS_FN ws_u32 ws_rotate_left(ws_u32 word, int by) {
    return word << by | word >> (32 - by);
}

#if WS_HASH_FUNCTION == 0
#define WS_PRIME 0x1fffffffffffffffull

struct ws_function_keys {
    ws_u64 a[WS_WORDS], b;
};

WS_FN ws_function_keys ws_function_keys_at(const ws_view &view) {
    const ws_u32 *from = view.words + view.p[WS_HASH];
    ws_function_keys keys;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        keys.a[i] = ws_long(from + 2 * i);
    }
    keys.b = ws_long(from + 2 * WS_WORDS);
    return keys;
}

/* One that is the same modulo the prime, below 2^61 + 8. */
WS_FN ws_u64 ws_reduce(ws_u64 number) {
    return (number & WS_PRIME) + (number >> 61);
}

WS_FN ws_u32 ws_function(const ws_function_keys &keys, const ws_key &key, const ws_u32 *mask) {
    ws_u64 sum = keys.b;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        const ws_u32 word = key.w[i] & mask[i];
        /* a * word = low + upper * 2^32, and 2^61 is 1. */
        const ws_u64 low = (ws_u64)(ws_u32)keys.a[i] * word;
        const ws_u64 upper = (keys.a[i] >> 32) * word;
        sum += ws_reduce(low) + (upper >> 29) + ((upper & 0x1fffffff) << 32);
        sum = ws_reduce(sum);
    }
    sum = ws_reduce(sum);
    return (ws_u32)(sum >= WS_PRIME ? sum - WS_PRIME : sum);
}

#elif WS_HASH_FUNCTION == 1
typedef ws_u32 ws_function_keys;

WS_FN ws_function_keys ws_function_keys_at(const ws_view &view) {
    return ws_word(view.words + view.p[WS_HASH]);
}

WS_FN ws_u32 ws_function(const ws_function_keys &seed, const ws_key &key, const ws_u32 *mask) {
    ws_u32 hash = seed;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        const ws_u32 word = (key.w[i] & mask[i]) * 0xcc9e2d51u;
        hash ^= ws_rotate_left(word, 15) * 0x1b873593u;
        hash = ws_rotate_left(hash, 13) * 5 + 0xe6546b64u;
    }
    hash ^= 4 * WS_WORDS;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

#elif WS_HASH_FUNCTION == 2
typedef int ws_function_keys;

WS_FN ws_function_keys ws_function_keys_at(const ws_view &) {
    return 0;
}

WS_FN ws_u32 ws_function(const ws_function_keys &, const ws_key &key, const ws_u32 *mask) {
    ws_u32 hash = 4 * WS_WORDS;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        const ws_u32 word = key.w[i] & mask[i];
        hash += word & 0xffff;
        hash = hash << 16 ^ (word >> 16) << 11 ^ hash;
        hash += hash >> 11;
    }
    hash ^= hash << 3;
    hash += hash >> 5;
    hash ^= hash << 4;
    hash += hash >> 17;
    hash ^= hash << 25;
    return hash + (hash >> 6);
}

#else
typedef ws_hash_keys ws_function_keys;

WS_FN ws_function_keys ws_function_keys_at(const ws_view &view) {
    return ws_hash_keys_at(view);
}

WS_FN ws_u32 ws_function(const ws_function_keys &keys, const ws_key &key, const ws_u32 *mask) {
    return ws_hash(keys, key, mask);
}
#endif

/* The folds of KEYS keys over all masks. */
template <int KEYS>
WS_FN void ws_fold(const ws_view &view, const ws_function_keys &keys, const ws_key *key,
                   ws_u32 *fold) {
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        fold[j] = 0;
    }
    for (ws_u32 table = 0; table < view.p[WS_TABLES]; table++) {
        const ws_desc desc = ws_desc_at(view, table);
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            fold[j] = ws_rotate_left(fold[j], 1) ^ ws_function(keys, key[j], desc.w);
        }
    }
}

#ifdef __CUDACC__
#define WS_THREADS 256
#define WS_KEYS (WS_WORDS <= 10 ? 2 : 1)

extern "C" __global__ void __launch_bounds__(WS_THREADS)
    ws_hashes(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    const ws_function_keys function_keys = ws_function_keys_at(view);
    const ws_u64 step = (ws_u64)WS_THREADS * WS_KEYS;
    for (ws_u64 base = blockIdx.x * step; base < count; base += gridDim.x * step) {
        ws_key key[WS_KEYS];
        ws_u32 fold[WS_KEYS];
        WS_UNROLL
        for (int j = 0; j < WS_KEYS; j++) {
            const ws_u64 n = base + j * WS_THREADS + threadIdx.x;
            key[j] = ws_key_at(keys, n < count ? n : count - 1);
        }
        ws_fold<WS_KEYS>(view, function_keys, key, fold);
        WS_UNROLL
        for (int j = 0; j < WS_KEYS; j++) {
            const ws_u64 n = base + j * WS_THREADS + threadIdx.x;
            if (n < count) {
                out[n] = fold[j];
            }
        }
    }
}
#endif

#endif
