/* turbo on a card: hash tables, cuts and leaves.
 *
 * Grid: one key a thread, grid-stride. Loads of a key wait for each other (key, entry, leaf), those
 * of different threads overlap. Bytes a key: see turbo.cuh. CPU reference: `image::turbo`.
 */
#include "warpswitch/turbo.cuh"

extern "C" __global__ void __launch_bounds__(256)
    ws_classify(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    const ws_u64 step = (ws_u64)gridDim.x * blockDim.x;
    for (ws_u64 n = (ws_u64)blockIdx.x * blockDim.x + threadIdx.x; n < count; n += step) {
        out[n] = ws_id(view, ws_lookup(view, ws_key_at(keys, n)));
    }
}
