/* One hash table a mask, searched in order of their bounds: maskhash, tuple and bloom.
 *
 *   key & mask ─ hash ─┬─ bloom: three bits of one word of the filter, all set?
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

/* The mask, then the bound. */
struct ws_desc {
    ws_u32 w[WS_TABLE_DESC_WORDS];
};

struct ws_probe {
    ws_u32 w[WS_PROBE_WORDS];
};

WS_FN ws_u32 ws_bound(const ws_desc &desc) {
    return desc.w[WS_WORDS + WS_DESC_BOUND];
}

WS_FN ws_desc ws_desc_at(const ws_view &view, ws_u32 table) {
    ws_desc desc;
    const ws_u32 *descs = view.words + view.p[WS_TABLE_DESCS];
    ws_load<WS_TABLE_DESC_WORDS>(descs + (ws_u64)table * WS_TABLE_DESC_WORDS, desc.w);
    return desc;
}

WS_FN ws_probe ws_probe_at(const ws_view &view, ws_u32 table) {
    ws_probe probe;
    const ws_u32 *probes = view.words + view.p[WS_PROBES];
    ws_load<WS_PROBE_WORDS>(probes + (ws_u64)table * WS_PROBE_WORDS, probe.w);
    return probe;
}

/* The rank of entry `entry` if its value is the key's under the mask, else WS_NONE. */
WS_FN ws_u32 ws_entry(const ws_view &view, const ws_desc &desc, ws_u32 entry, const ws_key &key) {
    ws_u32 w[WS_ENTRY_WORDS];
    ws_load<WS_ENTRY_WORDS>(view.words + view.p[WS_ENTRIES] + (ws_u64)entry * WS_ENTRY_WORDS, w);
    ws_u32 differing = 0;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        differing |= w[i] ^ (key.w[i] & desc.w[i]);
    }
    return differing == 0 ? w[WS_WORDS] : WS_NONE;
}

/* The slots that a hash is looked for in first: three, or the start of a run. */
#define WS_FIRST_SLOTS (WS_CUCKOO ? 3 : 1)

struct ws_found {
    ws_u32 tag[WS_FIRST_SLOTS], entry[WS_FIRST_SLOTS];
};

WS_FN const ws_u32 *ws_slots(const ws_view &view, const ws_probe &probe) {
    return view.words + view.p[WS_SLOTS] + (ws_u64)probe.w[WS_PROBE_SLOTS] * 2;
}

/* Loads the first slots; apart from what is done with them, so that loads of several keys
 * overlap. */
WS_FN ws_found ws_first(const ws_view &view, const ws_probe &probe, const ws_hash_keys &keys,
                        ws_u32 hash) {
    const ws_u32 *slots = ws_slots(view, probe);
    const ws_u32 size = probe.w[WS_PROBE_SIZE];
    ws_found found;
#if WS_CUCKOO
    WS_UNROLL
    for (int part = 0; part < 3; part++) {
        const ws_u32 slot = part * size + ws_high(hash * keys.by[part], size);
        ws_pair(slots + (ws_u64)slot * 2, &found.tag[part], &found.entry[part]);
    }
#else
    (void)keys;
    ws_pair(slots + (ws_u64)(hash >> size) * 2, &found.tag[0], &found.entry[0]);
#endif
    return found;
}

/* The rank that the table has for a key, given its first slots, or WS_NONE. */
WS_FN ws_u32 ws_rank(const ws_view &view, const ws_desc &desc, const ws_probe &probe,
                     ws_found found, ws_u32 hash, const ws_key &key) {
#if WS_CUCKOO
    (void)probe;
    WS_UNROLL
    for (int part = 0; part < 3; part++) {
        if (found.tag[part] == hash && found.entry[part] != 0) {
            const ws_u32 rank = ws_entry(view, desc, found.entry[part] - 1, key);
            if (rank != WS_NONE) {
                return rank;
            }
        }
    }
    return WS_NONE;
#else
    const ws_u32 *slots = ws_slots(view, probe);
    const ws_u32 size = probe.w[WS_PROBE_SIZE], wrap = 0xffffffffu >> size;
    ws_u32 slot = hash >> size;
    while (found.entry[0] != 0) {
        if (found.tag[0] == hash) {
            const ws_u32 rank = ws_entry(view, desc, found.entry[0] - 1, key);
            if (rank != WS_NONE) {
                return rank;
            }
        }
        slot = (slot + 1) & wrap;
        ws_pair(slots + (ws_u64)slot * 2, &found.tag[0], &found.entry[0]);
    }
    return WS_NONE;
#endif
}

/* Whether a slot has the hash: the mask of a table is read only if so. */
WS_FN bool ws_has(const ws_found &found, ws_u32 hash) {
    bool has = false;
    WS_UNROLL
    for (int part = 0; part < WS_FIRST_SLOTS; part++) {
        has |= found.tag[part] == hash && found.entry[part] != 0;
    }
    return has;
}

#if WS_FILTERED
/* Whether a filter lets the hash pass, in the lowest bit: the upper bits choose a word, the lower
 * ones three bits of it. `filters` is the first word of the table's tile, in whichever memory. */
WS_FN ws_u32 ws_passes(const ws_u32 *filters, const ws_probe &probe, ws_u32 hash) {
    const ws_u32 filter = probe.w[WS_PROBE_FILTER];
    const ws_u32 word = filters[(filter & 0xffff) + (hash >> (filter >> 16))];
    return ws_bit(word, hash) & ws_bit(word, hash >> 5) & ws_bit(word, hash >> 10);
}
#endif

/* Searches a table for the KEYS keys of a thread, whose best ranks so far are `best`. One
 * description serves them all, and their loads overlap. */
template <int KEYS>
WS_FN void ws_search(const ws_view &view, ws_u32 table, const ws_desc &desc,
                     const ws_probe &probe, const ws_hash_keys &keys, const ws_u32 *filters,
                     const ws_key *key, ws_u32 *best) {
    ws_u32 hash[KEYS];
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        hash[j] = ws_hash(keys, key[j], desc.w);
    }
#if WS_FILTERED
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        if ((ws_passes(filters, probe, hash[j]) & 1) != 0) {
            const ws_found found = ws_first(view, probe, keys, hash[j]);
            if (ws_has(found, hash[j])) {
                /* Read once more rather than kept in registers. */
                const ws_desc again = ws_desc_at(view, table);
                const ws_u32 rank = ws_rank(view, again, probe, found, hash[j], key[j]);
                best[j] = rank < best[j] ? rank : best[j];
            }
        }
    }
#else
    (void)filters;
    (void)table;
    ws_found found[KEYS];
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        found[j] = ws_first(view, probe, keys, hash[j]);
    }
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        const ws_u32 rank = ws_rank(view, desc, probe, found[j], hash[j], key[j]);
        best[j] = rank < best[j] ? rank : best[j];
    }
#endif
}

/* Searches every `step`th of the tables `first..end` until no best rank can get better; gives
 * whether more tables could still matter. A best rank of 0 takes a key out. */
template <int KEYS>
WS_FN bool ws_search_all(const ws_view &view, const ws_hash_keys &keys, const ws_u32 *filters,
                         ws_u32 first, ws_u32 end, const ws_key *key, ws_u32 *best,
                         ws_u32 step = 1) {
    for (ws_u32 table = first; table < end; table += step) {
        const ws_desc desc = ws_desc_at(view, table);
        const ws_probe probe = ws_probe_at(view, table);
        bool open = false;
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            open |= ws_bound(desc) < best[j];
        }
        if (!open) {
            return false;
        }
        ws_search<KEYS>(view, table, desc, probe, keys, filters, key, best);
    }
    return true;
}

/* The rank of the winner in part `part` of `parts`, which take every `parts`th table each. For
 * bloom this is the way of one key alone, with whole hashes and filters where the image lies:
 * kernels that stay take it, so that they keep nothing of an image from one frame to the next. */
WS_FN ws_u32 ws_lookup_part(const ws_view &view, const ws_key &key, ws_u32 part, ws_u32 parts) {
    const ws_hash_keys keys = ws_hash_keys_at(view);
    ws_u32 best = WS_NONE;
#if WS_FILTERED
    for (ws_u32 tile = 0; tile < view.p[WS_TILES_LEN]; tile++) {
        ws_u32 what[WS_TILE_WORDS + 1];
        ws_load<WS_TILE_WORDS + 1>(view.words + view.p[WS_TILES] + 4 * tile, what);
        const ws_u32 *filters = view.words + view.p[WS_FILTERS] + what[WS_TILE_FILTERS];
        const ws_u32 first = what[WS_TILE_TABLES], end = first + what[WS_TILE_LEN];
        if (!ws_search_all<1>(view, keys, filters, first + part, end, &key, &best, parts)) {
            break;
        }
    }
#else
    ws_search_all<1>(view, keys, view.words, part, view.p[WS_TABLES], &key, &best, parts);
#endif
    return best;
}

/* The rank of the winner, as one thread finds it alone. */
WS_FN ws_u32 ws_lookup(const ws_view &view, const ws_key &key) {
    return ws_lookup_part(view, key, 0, 1);
}

#endif
