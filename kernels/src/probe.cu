/* What the card's compiler made of abi.h, for the host to compare with its own numbers: one thread
 * writes them, in the order of `image::abi::FACTS`. */
#include "warpswitch/key.cuh"

extern "C" __global__ void ws_probe_abi(const ws_view view, const ws_u32 *keys, ws_u32 *out,
                                        ws_u64 count) {
    const ws_u32 facts[] = {
        sizeof(ws_view),     sizeof(ws_split),
        WS_IDS,              WS_RULES,        WS_LINEAR_ROWS,  WS_TABLES,
        WS_TABLE_DESCS,      WS_SLOTS,        WS_ENTRIES,      WS_FILTERS,      WS_HASH,
        WS_TILES,            WS_TILES_LEN,    WS_PROBES,       WS_CHUNKS,       WS_LOADS,
        WS_TERM_SLOTS,       WS_DESC_BOUND,   WS_PROBE_TERMS,  WS_PROBE_FILTER, WS_PROBE_SLOTS,
        WS_PROBE_SIZE,       WS_PROBE_WORDS,  WS_CHUNK_FIRST,  WS_CHUNK_LEN,    WS_CHUNK_LOAD,
        WS_CHUNK_LOADS,      WS_CHUNK_WORDS,  WS_TERMS,        WS_TURBO_TABLES, WS_TURBO_DESCS,
        WS_TURBO_UNITS,      WS_TURBO_TAIL,   WS_TURBO_BOUND,  WS_TURBO_HASH,   WS_ROUTE_LEAF,
        WS_ROUTE_INNER,      WS_ROUTE_LINE,   WS_ROUTE_KIND_SHIFT, WS_ENTRY_WORDS,
        WS_TABLE_DESC_WORDS, WS_TURBO_DESC_WORDS, WS_CUT_WORDS, WS_ROW_WORDS,
        WS_SCAN_FILTER,      WS_SCAN_FILTER_SHIFT, WS_SCAN_BUCKETS, WS_SCAN_BUCKET_SHIFT,
        WS_SCAN_ENTRIES,     WS_SCAN_BYTES,   WS_SCAN_TINY,    WS_PAGE_WORDS,   WS_PAGE_MARKS,
        WS_PAGE_PARTS,       WS_PART_WORDS,   WS_TEXTS_FIRST,  WS_TEXT_WORDS,
        view.p[13],
    };
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (ws_u32 i = 0; i < sizeof(facts) / 4; i++) {
            out[i] = i < count ? facts[i] : 0;
        }
        out[0] += keys[0];
    }
}
