/* maskhash on a card: open addressing for each mask.
 *
 * Grid: one key a thread, grid-stride. All threads of a warp search the same table at a time, so
 * its description is one broadcast; slots and entries are random reads of the second-level cache.
 * Bytes a key: the key, 4 of the answer, for each table 8 of a slot (tuple: three), and those of
 * an entry where its value is found. CPU reference: `image::tables`.
 */
#define WS_CUCKOO 0
#define WS_FILTERED 0
#include "warpswitch/tables.cuh"

extern "C" __global__ void __launch_bounds__(256)
    ws_classify(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    const ws_u64 step = (ws_u64)gridDim.x * blockDim.x;
    for (ws_u64 n = (ws_u64)blockIdx.x * blockDim.x + threadIdx.x; n < count; n += step) {
        out[n] = ws_id(view, ws_lookup(view, ws_key_at(keys, n)));
    }
}
