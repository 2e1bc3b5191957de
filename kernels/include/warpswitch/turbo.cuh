/* turbo: the tables, cuts and leaves of the CPU's engine of this name, laid out for threads.
 *
 *   key ─► table under mask 0 ─► … ─► tail
 *            │ bucket                   │
 *            └─► leaf, or cut ─► leaf   └─► leaf, cut, cut of a cell
 *
 * A table's entry is a reference and `filter(8) | bound(24)`; a cut is the masks of the bits that
 * it tests and then a reference for each cell, whose number is these bits, packed, the first
 * word's lowest bit last; a leaf is rows in order of rank. A leaf of more than 127 rows has their
 * number in a unit before them.
 *
 * Bytes a key: the key, 4 of each cut, 8 of each table, 32 of each compact row compared.
 */
#ifndef WARPSWITCH_TURBO_CUH
#define WARPSWITCH_TURBO_CUH

#include "warpswitch/rows.cuh"

/* Bits set in a word, and the number of its lowest one. */
WS_FN ws_u32 ws_ones(ws_u32 word) {
#ifdef __CUDACC__
    return __popc(word);
#else
    return __builtin_popcount(word);
#endif
}

/* The cell that a key falls into: its bits under the masks, packed, run by run of set bits. */
WS_FN ws_u32 ws_cell(const ws_u32 *cut, const ws_key &key) {
    ws_u32 masks[WS_PADDED(WS_WORDS)];
    ws_load<WS_PADDED(WS_WORDS)>(cut, masks);
    ws_u32 cell = 0, at = 0;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        ws_u32 left = masks[i];
        while (left != 0) {
            const ws_u32 lowest = ws_lowest(left);
            const ws_u32 run = left & ~(left + (1u << lowest));
            cell |= (key.w[i] & run) >> lowest << at;
            at += ws_ones(run);
            left ^= run;
        }
    }
    return cell;
}

/* Follows a reference for a key whose best rank so far is `best`, and gives the better one. */
WS_FN ws_u32 ws_follow(const ws_view &view, ws_u32 reference, const ws_key &key, ws_u32 best) {
    const ws_u32 *units = view.words + view.p[WS_TURBO_UNITS];
    while (reference & WS_CUT) {
        const ws_u32 *cut = units + (ws_u64)(reference & WS_REF_UNIT) * WS_UNIT_WORDS;
        reference = ws_word(cut + WS_CUT_WORDS + ws_cell(cut, key));
    }
    if (reference == 0) {
        return best;
    }
    const ws_u32 *rows = units + (ws_u64)(reference & WS_REF_UNIT) * WS_UNIT_WORDS;
    ws_u32 len = reference >> WS_REF_SHIFT;
    if (len == 0) {
        len = ws_word(rows);
        rows += WS_UNIT_WORDS;
    }
    for (ws_u32 i = 0; i < len; i++) {
        const ws_row row = ws_row_at(rows + (ws_u64)i * WS_ROW_WORDS);
        if (ws_row_rank(row) >= best) {
            return best;
        }
        if (ws_row_matches(row, key)) {
            return ws_row_rank(row);
        }
    }
    return best;
}

/* The rank of the winner in part `part` of `parts`, which take every `parts`th table each; the last
 * takes the tail. */
WS_FN ws_u32 ws_lookup_part(const ws_view &view, const ws_key &key, ws_u32 part, ws_u32 parts) {
    const ws_u32 *by = view.words + view.p[WS_TURBO_HASH];
    const ws_u32 *descs = view.words + view.p[WS_TURBO_DESCS];
    ws_u32 best = WS_NONE;
    for (ws_u32 table = part; table < view.p[WS_TURBO_TABLES]; table += parts) {
        ws_u32 desc[WS_TURBO_DESC_WORDS];
        ws_load<WS_TURBO_DESC_WORDS>(descs + table * WS_TURBO_DESC_WORDS, desc);
        ws_u32 sum = 0;
        WS_UNROLL
        for (int i = 0; i < WS_WORDS; i++) {
            sum += (key.w[i] & desc[i]) * ws_word(by + i);
        }
        const ws_u32 hash = (sum ^ sum >> 15) * ws_word(by + 16);
        const ws_u32 entry = desc[WS_WORDS + 1] + 2 * (hash >> desc[WS_WORDS]);
        ws_u32 reference, tag;
        ws_pair(view.words + entry, &reference, &tag);
        if ((tag >> (24 + (hash & 7)) & 1) != 0 && (tag & WS_BOUND_MAX) < best) {
            best = ws_follow(view, reference, key, best);
        }
    }
    if (part == parts - 1 && view.p[WS_TURBO_BOUND] < best) {
        best = ws_follow(view, view.p[WS_TURBO_TAIL], key, best);
    }
    return best;
}

/* The rank of the winner. */
WS_FN ws_u32 ws_lookup(const ws_view &view, const ws_key &key) {
    return ws_lookup_part(view, key, 0, 1);
}

#endif
