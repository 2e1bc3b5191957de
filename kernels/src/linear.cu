/* linear on a card.
 *
 * Grid: a block takes WS_KEYS keys for each of its threads at a time, grid-stride. Rules pass
 * through shared memory tile by tile; each thread compares a row with all its keys, so a row is
 * read once for WS_KEYS comparisons, by all threads of a warp at once (a broadcast). A block whose
 * keys have all been answered goes on to the next ones: rows are in order of rank.
 * Bytes a key: the key, 4 of the answer, and its share of one pass over the rows from the cache.
 * CPU reference: `image::linear`.
 */
#include "warpswitch/linear.cuh"

#define WS_THREADS 256
#define WS_KEYS (WS_WORDS == 4 ? 4 : WS_WORDS == 10 ? 2 : 1)
#define WS_TILE_ROWS (48 * 1024 / (4 * WS_ROW_WORDS))

extern "C" __global__ void __launch_bounds__(WS_THREADS)
    ws_classify(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    __shared__ uint4 tile[WS_TILE_ROWS * WS_ROW_WORDS / 4];
    const ws_u32 *rows = view.words + view.p[WS_LINEAR_ROWS];
    const ws_u32 rules = view.p[WS_RULES];
    const ws_u64 step = (ws_u64)WS_THREADS * WS_KEYS;
    for (ws_u64 base = blockIdx.x * step; base < count; base += gridDim.x * step) {
        ws_key key[WS_KEYS];
        ws_u32 best[WS_KEYS];
        int open = 0;
        WS_UNROLL
        for (int j = 0; j < WS_KEYS; j++) {
            const ws_u64 n = base + j * WS_THREADS + threadIdx.x;
            const bool is_key = n < count;
            key[j] = ws_key_at(keys, is_key ? n : count - 1);
            best[j] = is_key ? WS_NONE : 0;
            open += is_key;
        }
        for (ws_u32 first = 0; first < rules; first += WS_TILE_ROWS) {
            /* Nobody reads the former tile any more; and whether anybody still searches. */
            if (!__syncthreads_or(open)) {
                break;
            }
            const ws_u32 len = rules - first < WS_TILE_ROWS ? rules - first : WS_TILE_ROWS;
            const uint4 *from = (const uint4 *)(rows + (ws_u64)first * WS_ROW_WORDS);
            for (ws_u32 i = threadIdx.x; i < len * (WS_ROW_WORDS / 4); i += WS_THREADS) {
                tile[i] = __ldg(from + i);
            }
            __syncthreads();
            for (ws_u32 i = 0; i < len && open != 0; i++) {
                ws_row row;
                WS_UNROLL
                for (int q = 0; q < WS_ROW_WORDS / 4; q++) {
                    const uint4 four = tile[i * (WS_ROW_WORDS / 4) + q];
                    row.w[4 * q] = four.x;
                    row.w[4 * q + 1] = four.y;
                    row.w[4 * q + 2] = four.z;
                    row.w[4 * q + 3] = four.w;
                }
                WS_UNROLL
                for (int j = 0; j < WS_KEYS; j++) {
                    if (best[j] == WS_NONE && ws_row_matches(row, key[j])) {
                        best[j] = first + i;
                        open--;
                    }
                }
            }
        }
        WS_UNROLL
        for (int j = 0; j < WS_KEYS; j++) {
            const ws_u64 n = base + j * WS_THREADS + threadIdx.x;
            if (n < count) {
                out[n] = ws_id(view, best[j]);
            }
        }
    }
}
