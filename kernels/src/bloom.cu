/* bloom on a card: a filter in front of a cuckoo table for each mask.
 *
 * Grid: a block takes WS_KEYS keys for each of its threads at a time, grid-stride. Filters of as
 * many tables as fit lie in shared memory, a tile; if one tile holds them all it is loaded once,
 * else each in turn for each round of keys. A block searches all tables for its keys, so nothing
 * is merged between blocks. Dynamic shared memory: WS_TERM_SLOTS words a key, then the words of the
 * largest tile; where a card has less than that, blocks of fewer threads do.
 * Bytes a key: the key, 4 of the answer, 20 of shared memory a table; behind a filter that passes
 * 24 of slots and those of an entry. CPU reference: `image::tables`.
 */
#define WS_CUCKOO 1
#define WS_FILTERED 1
#include "warpswitch/terms.cuh"

#define WS_THREADS 512
/* Two keys share what is read of a table, and their terms one read of 8 bytes. */
#define WS_KEYS 2

extern __shared__ uint4 ws_memory[];

/* Loads a tile of filters; all threads of the block take part. */
static __device__ void ws_load_tile(const ws_view &view, const ws_u32 *what, uint4 *to) {
    const ws_u32 *filters = view.words + view.p[WS_FILTERS] + what[WS_TILE_FILTERS];
    __syncthreads();
    for (ws_u32 i = threadIdx.x; i < what[WS_TILE_WORDS] / 4; i += blockDim.x) {
        to[i] = __ldg((const uint4 *)filters + i);
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(WS_THREADS, 1)
    ws_classify(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    const ws_hash_keys hash_keys = ws_hash_keys_at(view);
    const ws_u32 tiles = view.p[WS_TILES_LEN];
    const ws_u32 *descs = view.words + view.p[WS_TILES];
    const ws_u32 round = blockDim.x * WS_KEYS;
    const ws_terms terms = {(ws_u32 *)ws_memory + threadIdx.x * WS_KEYS, round};
    uint4 *tile_at = ws_memory + view.p[WS_TERM_SLOTS] * round / 4;
    const ws_u32 *filters = (const ws_u32 *)tile_at;
    if (tiles == 1) {
        ws_load_tile(view, descs, tile_at);
    }
    const ws_u64 step = (ws_u64)gridDim.x * round;
    for (ws_u64 base = (ws_u64)blockIdx.x * round; base < count; base += step) {
        ws_key key[WS_KEYS];
        ws_u32 best[WS_KEYS];
        WS_UNROLL
        for (int j = 0; j < WS_KEYS; j++) {
            const ws_u64 n = base + j * blockDim.x + threadIdx.x;
            key[j] = ws_key_at(keys, n < count ? n : count - 1);
            best[j] = n < count ? WS_NONE : 0;
        }
        bool open = true;
        ws_u32 chunk = 0;
        for (ws_u32 tile = 0; tile < tiles; tile++) {
            const ws_u32 *what = descs + 4 * tile;
            if (tiles > 1) {
                if (!__syncthreads_or(open)) {
                    break;
                }
                ws_load_tile(view, what, tile_at);
            }
            const ws_u32 end = what[WS_TILE_TABLES] + what[WS_TILE_LEN];
            open = open && ws_search_chunks<WS_KEYS>(view, hash_keys, filters, &chunk, end, terms,
                                                     key, best);
        }
        WS_UNROLL
        for (int j = 0; j < WS_KEYS; j++) {
            const ws_u64 n = base + j * blockDim.x + threadIdx.x;
            if (n < count) {
                out[n] = ws_id(view, best[j]);
            }
        }
    }
}
