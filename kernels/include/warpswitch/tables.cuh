/* One hash table a mask, searched in order of their bounds: maskhash, tuple and bloom.
 *
 *   key & mask ─ hash ─┬─ bloom: two places of the filter, both set?
 *                      ├─ maskhash: slot, slot + 1, … until the value or a free slot
 *                      └─ tuple, bloom: one slot in each of three parts
 *
 * A slot holds 32 bits of hash and the number of an entry, so that a search reads an entry only
 * where it is all but sure to find its value there. The search ends at the first table whose bound
 * is not below the best rank so far.
 *
 * WS_CUCKOO 1: slots in three parts; 0: open addressing. WS_FILTERED 1: filters in front.
 *
 * Source: Srinivasan, Suri, Varghese, "Packet classification using tuple space search", 1999;
 * Varvello, Laufer, Zhang, Lakshman, "Multi-layer packet classification with graphics processing
 * units", 2014. The order and the early stop are ours.
 */
#ifndef WARPSWITCH_TABLES_CUH
#define WARPSWITCH_TABLES_CUH

#include "warpswitch/hash.cuh"

struct ws_desc {
    ws_u32 w[WS_TABLE_DESC_WORDS];
};

WS_FN ws_u32 ws_desc_word(const ws_desc &desc, int which) {
    return desc.w[WS_WORDS + which];
}

WS_FN ws_desc ws_desc_at(const ws_view &view, ws_u32 table) {
    ws_desc desc;
    const ws_u32 *descs = view.words + view.p[WS_TABLE_DESCS];
    ws_load<WS_TABLE_DESC_WORDS>(descs + (ws_u64)table * WS_TABLE_DESC_WORDS, desc.w);
    return desc;
}

/* The rank of entry `entry` if it has this value, else WS_NONE. */
WS_FN ws_u32 ws_entry(const ws_view &view, ws_u32 entry, const ws_key &masked) {
    ws_u32 w[WS_ENTRY_WORDS];
    ws_load<WS_ENTRY_WORDS>(view.words + view.p[WS_ENTRIES] + (ws_u64)entry * WS_ENTRY_WORDS, w);
    ws_u32 differing = 0;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        differing |= w[i] ^ masked.w[i];
    }
    return differing == 0 ? w[WS_WORDS] : WS_NONE;
}

/* The rank that the table has for a masked key, or WS_NONE. */
WS_FN ws_u32 ws_probe(const ws_view &view, const ws_desc &desc, const ws_hash_keys &keys,
                      ws_u32 hash, const ws_key &masked) {
    const ws_u32 *slots = view.words + view.p[WS_SLOTS];
    slots += (ws_u64)ws_desc_word(desc, WS_DESC_SLOTS) * 2;
    const ws_u32 size = ws_desc_word(desc, WS_DESC_SIZE);
#if WS_CUCKOO
    ws_u32 tags[3], entries[3];
    WS_UNROLL
    for (int part = 0; part < 3; part++) {
        const ws_u32 slot = part * size + ws_high(hash * keys.by[part], size);
        ws_pair(slots + (ws_u64)slot * 2, &tags[part], &entries[part]);
    }
    WS_UNROLL
    for (int part = 0; part < 3; part++) {
        if (tags[part] == hash && entries[part] != 0) {
            const ws_u32 rank = ws_entry(view, entries[part] - 1, masked);
            if (rank != WS_NONE) {
                return rank;
            }
        }
    }
    return WS_NONE;
#else
    (void)keys;
    const ws_u32 wrap = 0xffffffffu >> size;
    for (ws_u32 slot = hash >> size;; slot = (slot + 1) & wrap) {
        ws_u32 tag, entry;
        ws_pair(slots + (ws_u64)slot * 2, &tag, &entry);
        if (entry == 0) {
            return WS_NONE;
        }
        if (tag == hash) {
            const ws_u32 rank = ws_entry(view, entry - 1, masked);
            if (rank != WS_NONE) {
                return rank;
            }
        }
    }
#endif
}

/* Whether a filter lets the hash pass. `filters` is the first word of the table's tile. */
WS_FN bool ws_passes(const ws_u32 *filters, const ws_desc &desc, const ws_hash_keys &keys,
                     ws_u32 hash) {
    const ws_u32 *filter = filters + ws_desc_word(desc, WS_DESC_FILTER);
    const ws_u32 shift = ws_desc_word(desc, WS_DESC_SHIFT);
    const ws_u32 first = hash >> shift, second = hash * keys.by[3] >> shift;
    return (filter[first >> 5] >> (first & 31) & filter[second >> 5] >> (second & 31) & 1) != 0;
}

/* Searches the table for a key whose best rank so far is `best`, and gives the better one. */
WS_FN ws_u32 ws_search(const ws_view &view, const ws_desc &desc, const ws_hash_keys &keys,
                       const ws_u32 *filters, const ws_key &key, ws_u32 best) {
    ws_key masked;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        masked.w[i] = key.w[i] & desc.w[i];
    }
    const ws_u32 hash = ws_hash(keys, masked);
#if WS_FILTERED
    if (!ws_passes(filters, desc, keys, hash)) {
        return best;
    }
#else
    (void)filters;
#endif
    const ws_u32 rank = ws_probe(view, desc, keys, hash, masked);
    return rank < best ? rank : best;
}

/* The rank of the winner, as one thread finds it alone. */
WS_FN ws_u32 ws_lookup(const ws_view &view, const ws_key &key) {
    const ws_hash_keys keys = ws_hash_keys_at(view);
    ws_u32 best = WS_NONE;
#if WS_FILTERED
    for (ws_u32 tile = 0; tile < view.p[WS_TILES_LEN]; tile++) {
        const ws_u32 *what = view.words + view.p[WS_TILES] + 4 * tile;
        const ws_u32 *filters = view.words + view.p[WS_FILTERS] + what[WS_TILE_FILTERS];
        const ws_u32 first = what[WS_TILE_TABLES], end = first + what[WS_TILE_LEN];
#else
    {
        const ws_u32 *filters = view.words;
        const ws_u32 first = 0, end = view.p[WS_TABLES];
#endif
        for (ws_u32 table = first; table < end; table++) {
            const ws_desc desc = ws_desc_at(view, table);
            if (ws_desc_word(desc, WS_DESC_BOUND) >= best) {
                return best;
            }
            best = ws_search(view, desc, keys, filters, key, best);
        }
    }
    return best;
}

#endif
