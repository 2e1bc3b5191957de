/* Routes to IPv6 addresses on a card.
 *
 * Grid: one address a thread, grid-stride. Loads of one address wait for each other: first entry,
 * then a block for each byte, four in most cases of a full table; those of different threads
 * overlap. Bytes an address: 16, 32 of the second-level cache for each block, 2 of the answer.
 * CPU reference: `routes::image`.
 */
#include "warpswitch/routes.cuh"

extern "C" __global__ void __launch_bounds__(256, 8)
    ws_route(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    const ws_u64 step = (ws_u64)gridDim.x * blockDim.x;
    for (ws_u64 n = (ws_u64)blockIdx.x * blockDim.x + threadIdx.x; n < count; n += step) {
        const ws_key addr = ws_key_at(keys, n);
        ((unsigned short *)out)[n] = (unsigned short)ws_route6(view.words, addr.w);
    }
}
