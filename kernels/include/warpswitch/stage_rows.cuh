/* Rows on a stage: linear.
 *
 * A unit is a row. A part of the block takes every `step`th one, so its first match is its best.
 */
#ifndef WARPSWITCH_STAGE_ROWS_CUH
#define WARPSWITCH_STAGE_ROWS_CUH

#include "warpswitch/rows.cuh"
#include "warpswitch/stage.cuh"

/* Keys of a thread: those share what is read of a row. */
#define WS_KEYS (WS_WORDS <= 10 ? 2 : 1)
#define WS_STAGED_WORDS WS_ROW_WORDS
/* A row is a whole rule: nothing is left to be looked at in the image. */
#define WS_ITEMS_PER_THREAD 0
/* Units of a part between two looks at what other parts have found. */
#define WS_ROUND 32

/* What a thread keeps of an image: nothing. */
struct ws_context {};

WS_FN ws_context ws_context_at(const ws_view &view) {
    (void)view;
    return {};
}

WS_FN ws_u32 ws_units(const ws_view &view) {
    return view.p[WS_RULES];
}

/* No rank in unit `unit`, nor in those behind it, is smaller. */
WS_FN ws_u32 ws_least_rank(const ws_view &view, ws_u32 unit) {
    (void)view;
    return unit;
}

/* Thread `thread` of `threads` does its share of putting units from `first` on on the stage. */
WS_FN void ws_fill(const ws_view &view, const ws_split &split, ws_stage &stage, ws_u32 first,
                   ws_u32 count, ws_u32 thread, ws_u32 threads) {
    (void)split;
    stage.first = first;
    const ws_u32 *rows = view.words + view.p[WS_LINEAR_ROWS] + (ws_u64)first * WS_ROW_WORDS;
    WS_UNROLL_BY(4)
    for (ws_u32 at = 4 * thread; at < count * WS_ROW_WORDS; at += 4 * threads) {
        ws_u32 four[4];
        ws_load<4>(rows + at, four);
        ws_store<4>(stage.units + at, four);
    }
}

/* Searches every `step`th of the units `from..end` of the stage for the keys of a thread, unless no
 * rank can get better: `own` is
 * the first of them in the block, the others follow WS_LANES behind each other. Ranks that are
 * better than `best` are merged into the block's. */
template <int KEYS>
WS_FN void ws_search_units(const ws_view &view, const ws_context &context, const ws_stage &stage,
                           ws_u32 from, ws_u32 end, ws_u32 step, const ws_block_keys &all,
                           ws_u32 own, const ws_key *key, ws_u32 *best, const ws_queue &queue) {
    (void)view;
    (void)context;
    (void)queue;
    bool open = false;
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        open |= stage.first + from < best[j];
    }
    if (!open) {
        return;
    }
    for (ws_u32 n = from; n < end; n += step) {
        ws_row row;
        ws_fetch<WS_ROW_WORDS>(stage.units + n * WS_ROW_WORDS, row.w);
        const ws_u32 rank = stage.first + n;
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            if (ws_row_matches(row, key[j]) && rank < best[j]) {
                best[j] = rank;
                ws_lower(all.lowest + own + j * WS_LANES, rank);
            }
        }
    }
}

WS_FN void ws_settle(const ws_view &view, const ws_context &context, const ws_stage &stage,
                     const ws_block_keys &all, const ws_u32 *item) {
    (void)view;
    (void)context;
    (void)stage;
    (void)all;
    (void)item;
}

#endif
