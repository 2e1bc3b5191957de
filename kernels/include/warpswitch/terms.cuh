/* bloom with shared terms: the way of a batch.
 *
 *   terms of a key    slot 0 1 2 3 4 5 …        made once, when a chunk's loads say so
 *                            \  |  | /
 *   table t           h = sum of four ─► filter ─► pending bit t ─► slots, entry
 *
 * The hash of a key in a table is a sum of terms that depend on the mask of a unit each, a word or
 * a port (hash.cuh). The builder parts units into four groups such that few different masks occur
 * in each: GSwitch's 512 masks of twelve fields are 29 of groups. A *term* is the sum over a
 * group's units under one of these masks. A thread keeps the terms of its keys in shared memory,
 * and a table costs four reads and additions instead of a multiplication a word.
 *
 * Tables are searched in chunks of up to 32. First the chunk's loads put terms that it needs and
 * that are not there into slots, where they stay until another load takes the slot. Then all its
 * filters are asked, and what passes is a bit in a word. Then what is pending is looked for in
 * slots and entries, so that a thread that has found something holds up its warp once a chunk and
 * not once a table.
 *
 * A key's terms are written and read by its own thread only, so that they need no barrier; those
 * of a round of keys are gone with it, as the first chunk makes what it needs anew. A thread that
 * takes no further chunk, as its ranks cannot get better, takes none before the next round.
 */
#ifndef WARPSWITCH_TERMS_CUH
#define WARPSWITCH_TERMS_CUH

#include "warpswitch/tables.cuh"

/* The terms of a thread's keys: those of one slot lie beside each other, and `stride` words further
 * those of the next one. */
struct ws_terms {
    ws_u32 *words;
    ws_u32 stride;
};

/* KEYS words that start on a border of as many: two are one read. */
template <int KEYS>
WS_FN void ws_get(const ws_u32 *from, ws_u32 *to) {
#ifdef __CUDACC__
    if constexpr (KEYS == 2) {
        const uint2 two = *(const uint2 *)from;
        to[0] = two.x;
        to[1] = two.y;
    } else
#endif
    {
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            to[j] = from[j];
        }
    }
}

/* Makes the terms of a chunk that are not there. */
template <int KEYS>
WS_FN void ws_make_terms(const ws_view &view, const ws_u32 *chunk, const ws_key *key,
                         const ws_terms &terms) {
    const ws_u32 *multipliers = view.words + view.p[WS_HASH];
    const ws_u32 *loads = view.words + view.p[WS_LOADS];
    for (ws_u32 n = 0; n < chunk[WS_CHUNK_LOADS]; n++) {
        ws_desc load;
        const ws_u64 at = (ws_u64)(chunk[WS_CHUNK_LOAD] + n) * WS_TABLE_DESC_WORDS;
        ws_load<WS_TABLE_DESC_WORDS>(loads + at, load.w);
        ws_u32 term[KEYS] = {};
        WS_UNROLL
        for (int i = 0; i < WS_WORDS; i++) {
            /* The same for all threads, and true for few words. */
            if (load.w[i] != 0) {
                const ws_u64 a = ws_long(multipliers + 2 * i);
                const ws_u64 a_of_lower =
                    i == WS_PORTS_WORD ? ws_long(multipliers + 2 * WS_WORDS) : 0;
                WS_UNROLL
                for (int j = 0; j < KEYS; j++) {
                    term[j] += ws_term(i, a, a_of_lower, key[j].w[i] & load.w[i]);
                }
            }
        }
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            terms.words[load.w[WS_WORDS] * terms.stride + j] = term[j];
        }
    }
}

/* The slot of a table's term, as words from those of the first one. */
WS_FN ws_u32 ws_term_at(const ws_probe &probe, const ws_terms &terms, int i) {
    return (probe.w[WS_PROBE_TERMS] >> 8 * i & 0xff) * terms.stride;
}

/* The hashes of a thread's keys in a table. */
template <int KEYS>
WS_FN void ws_sum_terms(const ws_probe &probe, const ws_terms &terms, ws_u32 *hash) {
    ws_u32 term[WS_TERMS][KEYS];
    WS_UNROLL
    for (int i = 0; i < WS_TERMS; i++) {
        ws_get<KEYS>(terms.words + ws_term_at(probe, terms, i), term[i]);
    }
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        hash[j] = term[0][j] + term[1][j] + (term[2][j] + term[3][j]);
    }
}

/* Asks the filters of a chunk: bit t of `pending[j]` says that table t lets key j
 * pass. A chunk has one table at least. */
template <int KEYS>
WS_FN void ws_ask_filters(const ws_view &view, const ws_u32 *chunk, const ws_u32 *filters,
                          const ws_terms &terms, ws_u32 *pending) {
    const ws_u32 first = chunk[WS_CHUNK_FIRST], len = chunk[WS_CHUNK_LEN];
    WS_UNROLL_BY(8)
    for (ws_u32 t = 0; t < len; t++) {
        const ws_probe probe = ws_probe_at(view, first + t);
        ws_u32 hash[KEYS];
        ws_sum_terms<KEYS>(probe, terms, hash);
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            pending[j] = ws_push(pending[j], ws_passes(filters, probe, hash[j]));
        }
    }
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        pending[j] >>= 32 - len;
    }
}

/* Looks for the keys in what is pending, a table of one key at a time: threads of a warp wait for
 * the one that has most, of both keys together and not of each. */
template <int KEYS>
WS_FN void ws_look(const ws_view &view, const ws_hash_keys &keys, ws_u32 first,
                   const ws_terms &terms, const ws_key *key, ws_u32 *pending, ws_u32 *best) {
    while (true) {
        int which = 0;
        ws_u32 bits = pending[0];
        WS_UNROLL
        for (int j = 1; j < KEYS; j++) {
            which = bits == 0 ? j : which;
            bits = bits == 0 ? pending[j] : bits;
        }
        if (bits == 0) {
            return;
        }
        const ws_u32 table = first + ws_lowest(bits);
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            pending[j] = which == j ? bits & (bits - 1) : pending[j];
        }
        const ws_probe probe = ws_probe_at(view, table);
        ws_u32 hash = 0;
        WS_UNROLL
        for (int i = 0; i < WS_TERMS; i++) {
            hash += terms.words[ws_term_at(probe, terms, i) + which];
        }
        const ws_found found = ws_first(view, probe, keys, hash);
        if (ws_has(found, hash)) {
            ws_key one = key[0];
            WS_UNROLL
            for (int i = 0; i < KEYS * WS_WORDS; i++) {
                const int j = i / WS_WORDS, word = i % WS_WORDS;
                one.w[word] = which == j ? key[j].w[word] : one.w[word];
            }
            const ws_desc desc = ws_desc_at(view, table);
            const ws_u32 rank = ws_rank(view, desc, probe, found, hash, one);
            WS_UNROLL
            for (int j = 0; j < KEYS; j++) {
                best[j] = which == j && rank < best[j] ? rank : best[j];
            }
        }
    }
}

/* Searches the tables before `end`, chunk by chunk from `chunk` on, until no best rank can get
 * better; gives whether more tables could still matter. `filters` is the first word of the tile
 * that they are in. A best rank of 0 takes a key out. */
template <int KEYS>
WS_FN bool ws_search_chunks(const ws_view &view, const ws_hash_keys &keys, const ws_u32 *filters,
                            ws_u32 *chunk, ws_u32 end, const ws_terms &terms, const ws_key *key,
                            ws_u32 *best) {
    const ws_u32 *chunks = view.words + view.p[WS_CHUNKS];
    for (ws_u32 next = 0; next < end; ++*chunk) {
        ws_u32 what[WS_CHUNK_WORDS];
        ws_load<WS_CHUNK_WORDS>(chunks + (ws_u64)*chunk * WS_CHUNK_WORDS, what);
        next = what[WS_CHUNK_FIRST] + what[WS_CHUNK_LEN];
        /* Bounds rise from table to table. */
        const ws_u32 *desc = view.words + view.p[WS_TABLE_DESCS] +
                             (ws_u64)what[WS_CHUNK_FIRST] * WS_TABLE_DESC_WORDS;
        const ws_u32 bound = ws_word(desc + WS_WORDS + WS_DESC_BOUND);
        bool open = false;
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            open |= bound < best[j];
        }
        if (!open) {
            return false;
        }
        ws_make_terms<KEYS>(view, what, key, terms);
        ws_u32 pending[KEYS] = {};
        ws_ask_filters<KEYS>(view, what, filters, terms, pending);
        ws_look<KEYS>(view, keys, what[WS_CHUNK_FIRST], terms, key, pending, best);
    }
    return true;
}

#endif
