/* linear: every rule in turn, in order of rank, so the first that matches wins. */
#ifndef WARPSWITCH_LINEAR_CUH
#define WARPSWITCH_LINEAR_CUH

#include "warpswitch/rows.cuh"

/* The rank of the winner among every `parts`th rule from `part` on. */
WS_FN ws_u32 ws_lookup_part(const ws_view &view, const ws_key &key, ws_u32 part, ws_u32 parts) {
    const ws_u32 *rows = view.words + view.p[WS_LINEAR_ROWS];
    for (ws_u32 rank = part; rank < view.p[WS_RULES]; rank += parts) {
        if (ws_row_matches(ws_row_at(rows + (ws_u64)rank * WS_ROW_WORDS), key)) {
            return rank;
        }
    }
    return WS_NONE;
}

/* The same among all rules, as one thread finds it alone. */
WS_FN ws_u32 ws_lookup(const ws_view &view, const ws_key &key) {
    return ws_lookup_part(view, key, 0, 1);
}

#endif
