/* Whole IPv4 headers on a card.
 *
 * Grid: one slice a thread, 32 a warp, grid-stride. Slices pass through shared memory, so that a
 * warp reads and writes 512 bytes side by side, also where these lie in the host's memory; rows of
 * 80 bytes there keep threads out of each other's banks. Nothing is shared between warps. Bytes a
 * packet: 64 in, 64 out, those of its lookup (route4.cu). CPU reference: `routes::headers`.
 */
#include "warpswitch/headers.cuh"

#define WS_THREADS 256
#define WS_ROW 5

extern "C" __global__ void __launch_bounds__(WS_THREADS, 6)
    ws_route(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    __shared__ uint4 tiles[WS_THREADS * WS_ROW];
    const ws_u32 lane = threadIdx.x % WS_LANES;
    uint4 *tile = tiles + (threadIdx.x - lane) * WS_ROW;
    const ws_u64 first = (ws_u64)blockIdx.x * WS_THREADS + threadIdx.x - lane;
    const ws_u64 step = (ws_u64)gridDim.x * WS_THREADS;
    for (ws_u64 base = first; base < count; base += step) {
        const ws_u32 len = count - base < WS_LANES ? (ws_u32)(count - base) : WS_LANES;
        const uint4 *from = (const uint4 *)keys + 4 * base;
        for (ws_u32 i = lane; i < 4 * len; i += WS_LANES) {
            tile[i / 4 * WS_ROW + i % 4] = __ldcs(from + i);
        }
        __syncwarp();
        if (lane < len) {
            ws_u32 slice[WS_SLICE_WORDS];
            WS_UNROLL
            for (int i = 0; i < 4; i++) {
                const uint4 four = tile[lane * WS_ROW + i];
                slice[4 * i] = four.x;
                slice[4 * i + 1] = four.y;
                slice[4 * i + 2] = four.z;
                slice[4 * i + 3] = four.w;
            }
            ws_forward(view.words, slice);
            tile[lane * WS_ROW].z = slice[2];
            tile[lane * WS_ROW + 3].w = slice[15];
        }
        __syncwarp();
        uint4 *to = (uint4 *)out + 4 * base;
        for (ws_u32 i = lane; i < 4 * len; i += WS_LANES) {
            __stcs(to + i, tile[i / 4 * WS_ROW + i % 4]);
        }
        __syncwarp();
    }
}
