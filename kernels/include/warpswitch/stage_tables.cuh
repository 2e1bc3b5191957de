/* Tables on a stage: tuple and bloom.
 *
 *   image    descriptions ┐           slots: hash, entry        filters
 *            probes ──────┴─► units        └─► window (tuple)   └─► window (bloom)
 *
 *   key ─ hash ─► window? ─► queue ─┤ barrier ├─► slot, entry of the image ─► rank
 *
 * A unit is what a search reads of a table first: its mask, its bound, and where in the window its
 * hashes (tuple) or its filter (bloom) lie. Nearly every search ends there. A key whose hash the
 * window has is put into a queue, and looked at in the image when the block has searched a round of
 * units: then all findings of the block wait for slots and entries at once, one a thread, whereas
 * each on its own would hold up its warp for two loads of the second-level cache.
 *
 * The window is a copy of what lies side by side in the image, so it needs no list of its own and
 * an image that was patched is read like any other: tables that changes moved out of the window are
 * searched in the image.
 *
 * Hashes are whole ones, also bloom's: a part has too few tables to share terms (terms.cuh).
 */
#ifndef WARPSWITCH_STAGE_TABLES_CUH
#define WARPSWITCH_STAGE_TABLES_CUH

#include "warpswitch/stage.cuh"
#include "warpswitch/tables.cuh"

/* Keys of a thread: those share what is read of a unit. */
#define WS_KEYS (WS_WORDS <= 10 ? 2 : 1)
/* Room for findings; what has none is looked at at once. */
#define WS_ITEMS_PER_THREAD 2
/* Units of a part between two looks at what other parts have found. */
#define WS_ROUND 8

/* Words of a unit behind the mask. */
enum {
    WS_UNIT_BOUND = WS_WORDS,     /* no rank in the table is smaller */
    WS_UNIT_PLACE = WS_WORDS + 1, /* its first word in the window, or WS_NONE */
    WS_UNIT_SLOTS = WS_WORDS + 2, /* its first slot, counted from WS_SLOTS */
    WS_UNIT_SIZE = WS_WORDS + 3   /* slots of a part; bloom: << 5, and the shift of the filter */
};
#define WS_STAGED_WORDS WS_PADDED(WS_WORDS + 4)

/* What a thread keeps of an image. */
typedef ws_hash_keys ws_context;

WS_FN ws_context ws_context_at(const ws_view &view) {
    return ws_hash_keys_at(view);
}

WS_FN ws_u32 ws_units(const ws_view &view) {
    return view.p[WS_TABLES];
}

/* No rank in unit `unit`, nor in those behind it, is smaller. */
WS_FN ws_u32 ws_least_rank(const ws_view &view, ws_u32 unit) {
    return ws_bound(ws_desc_at(view, unit));
}

#if WS_FILTERED
/* The first word of a table's filter, counted from WS_FILTERS. */
WS_FN ws_u32 ws_place(const ws_view &view, ws_u32 table, const ws_probe &probe) {
    ws_u32 start = 0;
    for (ws_u32 tile = 0; tile < view.p[WS_TILES_LEN]; tile++) {
        const ws_u32 *what = view.words + view.p[WS_TILES] + 4 * tile;
        if (ws_word(what + WS_TILE_TABLES) > table) {
            break;
        }
        start = ws_word(what + WS_TILE_FILTERS);
    }
    return start + (probe.w[WS_PROBE_FILTER] & 0xffff);
}

#define WS_SHIFT_BITS 5
WS_FN ws_u32 ws_size(const ws_probe &probe) {
    return probe.w[WS_PROBE_SIZE] << WS_SHIFT_BITS | probe.w[WS_PROBE_FILTER] >> 16;
}

/* Words of the window that a table takes. */
WS_FN ws_u32 ws_extent(ws_u32 size) {
    return 1u << (32 - size % 32);
}

/* Words that a window over the whole image would have. */
WS_FN ws_u32 ws_window_all(const ws_view &view) {
    return view.p[WS_SLOTS] - view.p[WS_FILTERS];
}

/* Four words of the window, from word `at` of all on. */
WS_FN void ws_window_four(const ws_view &view, ws_u32 at, ws_u32 *four) {
    ws_load<4>(view.words + view.p[WS_FILTERS] + at, four);
}

/* A word moved down by the lowest five bits of `size`. */
WS_FN ws_u32 ws_shift(ws_u32 word, ws_u32 size) {
#ifdef __CUDACC__
    return __funnelshift_r(word, 0, size);
#else
    return word >> size % 32;
#endif
}

/* Whether a filter that begins at `words` lets a hash pass. */
WS_FN bool ws_may_have(const ws_u32 *words, ws_u32 size, const ws_hash_keys &keys, ws_u32 hash) {
    (void)keys;
    const ws_u32 word = words[ws_shift(hash, size)];
    return (ws_bit(word, hash) & ws_bit(word, hash >> 5) & ws_bit(word, hash >> 10) & 1) != 0;
}
#else
/* The first slot of a table, counted from WS_SLOTS. */
WS_FN ws_u32 ws_place(const ws_view &view, ws_u32 table, const ws_probe &probe) {
    (void)view;
    (void)table;
    return probe.w[WS_PROBE_SLOTS];
}

#define WS_SHIFT_BITS 0
WS_FN ws_u32 ws_size(const ws_probe &probe) {
    return probe.w[WS_PROBE_SIZE];
}

/* Words of the window that a table takes: one a slot. */
WS_FN ws_u32 ws_extent(ws_u32 size) {
    return 3 * size;
}

/* Words that a window over the whole image would have: entries follow the slots. */
WS_FN ws_u32 ws_window_all(const ws_view &view) {
    return (view.p[WS_ENTRIES] - view.p[WS_SLOTS]) / 2;
}

/* Four words of the window, from word `at` of all on. */
WS_FN void ws_window_four(const ws_view &view, ws_u32 at, ws_u32 *four) {
    ws_u32 slots[8];
    ws_load<8>(view.words + view.p[WS_SLOTS] + 2 * (ws_u64)at, slots);
    WS_UNROLL
    for (int i = 0; i < 4; i++) {
        four[i] = slots[2 * i];
    }
}

/* Whether one of the three slots of a hash has it, of a table whose hashes begin at `words`. A free
 * slot has hash 0, so a missing hash 0 passes; a present one always does. */
WS_FN bool ws_may_have(const ws_u32 *words, ws_u32 size, const ws_hash_keys &keys, ws_u32 hash) {
    bool has = false;
    WS_UNROLL
    for (int part = 0; part < 3; part++) {
        has |= words[part * size + ws_high(hash * keys.by[part], size)] == hash;
    }
    return has;
}
#endif

/* Thread `thread` of `threads` does its share of putting `count` tables from `first` on on the
 * stage. The window begins at the first of them, or with the image if that is its first one, which
 * saves waiting for where that lies. */
WS_FN void ws_fill(const ws_view &view, const ws_split &split, ws_stage &stage, ws_u32 first,
                   ws_u32 count, ws_u32 thread, ws_u32 threads) {
    stage.first = first;
    const ws_u32 all = ws_window_all(view);
    ws_u32 base = 0;
    if (first != 0 && count != 0) {
        base = ws_place(view, first, ws_probe_at(view, first)) / 4 * 4;
    }
    const ws_u32 held = all - base < split.window ? all - base : split.window;
    for (ws_u32 n = thread; n < count; n += threads) {
        const ws_desc desc = ws_desc_at(view, first + n);
        const ws_probe probe = ws_probe_at(view, first + n);
        const ws_u32 place = ws_place(view, first + n, probe) - base, size = ws_size(probe);
        const bool is_held = place <= held && ws_extent(size) <= held - place;
        ws_u32 unit[WS_STAGED_WORDS] = {};
        WS_UNROLL
        for (int i = 0; i < WS_WORDS; i++) {
            unit[i] = desc.w[i];
        }
        unit[WS_UNIT_BOUND] = ws_bound(desc);
        unit[WS_UNIT_PLACE] = is_held ? place : WS_NONE;
        unit[WS_UNIT_SLOTS] = probe.w[WS_PROBE_SLOTS];
        unit[WS_UNIT_SIZE] = size;
        ws_store<WS_STAGED_WORDS>(stage.units + n * WS_STAGED_WORDS, unit);
    }
    WS_UNROLL_BY(4)
    for (ws_u32 at = 4 * thread; at < held; at += 4 * threads) {
        ws_u32 four[4];
        ws_window_four(view, base + at, four);
        ws_store<4>(stage.window + at, four);
    }
}

/* Whether table `table`, which is not in the window, may have a hash. */
WS_FN bool ws_may_have_outside(const ws_view &view, ws_u32 table, const ws_hash_keys &keys,
                               ws_u32 hash) {
    const ws_probe probe = ws_probe_at(view, table);
#if WS_FILTERED
    const ws_u32 *filter = view.words + view.p[WS_FILTERS] + ws_place(view, table, probe);
    return ws_may_have(filter, ws_size(probe), keys, hash);
#else
    return ws_has(ws_first(view, probe, keys, hash), hash);
#endif
}

/* Looks for a key of the block in slots and entries of a staged table, and merges what is found. */
WS_FN void ws_look_at(const ws_view &view, const ws_hash_keys &keys, const ws_stage &stage,
                      const ws_block_keys &all, ws_u32 n, ws_u32 own, ws_u32 hash) {
    ws_u32 unit[WS_STAGED_WORDS];
    ws_fetch<WS_STAGED_WORDS>(stage.units + n * WS_STAGED_WORDS, unit);
    ws_probe probe = {};
    probe.w[WS_PROBE_SLOTS] = unit[WS_UNIT_SLOTS];
    probe.w[WS_PROBE_SIZE] = unit[WS_UNIT_SIZE] >> WS_SHIFT_BITS;
    const ws_found found = ws_first(view, probe, keys, hash);
    if (ws_has(found, hash)) {
        ws_desc desc = {};
        WS_UNROLL
        for (int i = 0; i < WS_WORDS; i++) {
            desc.w[i] = unit[i];
        }
        const ws_key key = ws_key_of_block(all, own);
        const ws_u32 rank = ws_rank(view, desc, probe, found, hash, key);
        if (rank != WS_NONE) {
            ws_lower(all.lowest + own, rank);
        }
    }
}

/* Looks at a finding of the queue. */
WS_FN void ws_settle(const ws_view &view, const ws_context &context, const ws_stage &stage,
                     const ws_block_keys &all, const ws_u32 *item) {
    const ws_u32 n = item[0] >> WS_ITEM_KEY_BITS, own = item[0] % (1u << WS_ITEM_KEY_BITS);
    ws_look_at(view, context, stage, all, n, own, item[1]);
}

/* Searches every `step`th of the units `from..end` of the stage for the keys of a thread, until no
 * rank can get better: `own` is the first of them in the block, the others follow WS_LANES behind
 * each other. What may be found goes into the queue. */
template <int KEYS>
WS_FN void ws_search_units(const ws_view &view, const ws_context &context, const ws_stage &stage,
                           ws_u32 from, ws_u32 end, ws_u32 step, const ws_block_keys &all,
                           ws_u32 own, const ws_key *key, ws_u32 *best, const ws_queue &queue) {
    for (ws_u32 n = from; n < end; n += step) {
        ws_u32 unit[WS_STAGED_WORDS];
        ws_fetch<WS_STAGED_WORDS>(stage.units + n * WS_STAGED_WORDS, unit);
        ws_u32 hash[KEYS];
        bool may[KEYS], open = false;
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            may[j] = unit[WS_UNIT_BOUND] < best[j];
            open |= may[j];
        }
        if (!open) {
            return;
        }
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            hash[j] = ws_hash(context, key[j], unit);
        }
        const ws_u32 place = unit[WS_UNIT_PLACE], size = unit[WS_UNIT_SIZE];
        if (place != WS_NONE) {
            WS_UNROLL
            for (int j = 0; j < KEYS; j++) {
                may[j] &= ws_may_have(stage.window + place, size, context, hash[j]);
            }
        } else {
            WS_UNROLL
            for (int j = 0; j < KEYS; j++) {
                may[j] &= ws_may_have_outside(view, stage.first + n, context, hash[j]);
            }
        }
        ws_u32 left = 0;
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            if (may[j] && !ws_enqueue(queue, n, own + j * WS_LANES, hash[j])) {
                left |= 1u << j;
            }
        }
        while (left != 0) {
            const ws_u32 which = ws_lowest(left);
            ws_u32 its = hash[0];
            WS_UNROLL
            for (int j = 1; j < KEYS; j++) {
                its = which == (ws_u32)j ? hash[j] : its;
            }
            left &= left - 1;
            ws_look_at(view, context, stage, all, n, own + which * WS_LANES, its);
        }
    }
}

#endif
