/* The kernel of engines that search a table for each mask, one after the other: maskhash and tuple,
 * which differ in what a table is (WS_CUCKOO).
 *
 * Grid: WS_KEYS keys a thread, those of a block side by side, grid-stride. All threads of a warp
 * search the same table at a time, so its description is one broadcast; slots and entries are
 * random reads of the second-level cache.
 * Bytes a key: the key, 4 of the answer, for each table 8 of a slot (cuckoo: three), and those of
 * an entry where its value is found. CPU reference: `image::tables`.
 */
#ifndef WARPSWITCH_MASKS_CUH
#define WARPSWITCH_MASKS_CUH

#define WS_FILTERED 0
#include "warpswitch/tables.cuh"

#define WS_THREADS 256
/* More keys share a description and overlap their loads, but a thread stops only when all of them
 * may. H200, 2026-11-20: with short keys one is up to 1.3 times as fast as four; with keys of ten
 * words two are 1.4 to 1.7 times as fast as one. */
#define WS_KEYS (WS_WORDS == 10 ? 2 : 1)

extern "C" __global__ void __launch_bounds__(WS_THREADS)
    ws_classify(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    const ws_hash_keys hash_keys = ws_hash_keys_at(view);
    const ws_u64 step = (ws_u64)WS_THREADS * WS_KEYS;
    for (ws_u64 base = blockIdx.x * step; base < count; base += gridDim.x * step) {
        ws_key key[WS_KEYS];
        ws_u32 best[WS_KEYS];
        WS_UNROLL
        for (int j = 0; j < WS_KEYS; j++) {
            const ws_u64 n = base + j * WS_THREADS + threadIdx.x;
            key[j] = ws_key_at(keys, n < count ? n : count - 1);
            best[j] = n < count ? WS_NONE : 0;
        }
        ws_search_all<WS_KEYS>(view, hash_keys, view.words, 0, view.p[WS_TABLES], key, best);
        WS_UNROLL
        for (int j = 0; j < WS_KEYS; j++) {
            const ws_u64 n = base + j * WS_THREADS + threadIdx.x;
            if (n < count) {
                out[n] = ws_id(view, best[j]);
            }
        }
    }
}

#endif
