/* Routes to IPv4 addresses on a card.
 *
 * Grid: WS_ROUTE_KEYS addresses that lie side by side a thread, grid-stride, so that a warp reads
 * 512 bytes and writes 256, also where these lie in the host's memory, and has four lookups under
 * way a thread. Loads of one address wait for each other: first entry, block, and for 1 in 50 of
 * a full table a second block. Bytes an address: 4, 32 of the second-level cache for each block,
 * 2 of the answer. CPU reference: `routes::image`.
 */
#include "warpswitch/routes.cuh"

#define WS_ROUTE_KEYS 4

extern "C" __global__ void __launch_bounds__(256, 8)
    ws_route(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    const ws_u64 step = (ws_u64)gridDim.x * blockDim.x * WS_ROUTE_KEYS;
    const ws_u64 thread = (ws_u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (ws_u64 n = thread * WS_ROUTE_KEYS; n < count; n += step) {
        ws_u32 addr[WS_ROUTE_KEYS], hop[WS_ROUTE_KEYS];
        const bool is_whole = n + WS_ROUTE_KEYS <= count;
        if (is_whole) {
            const uint4 four = __ldcs((const uint4 *)(keys + n));
            addr[0] = four.x;
            addr[1] = four.y;
            addr[2] = four.z;
            addr[3] = four.w;
        } else {
            WS_UNROLL
            for (int j = 0; j < WS_ROUTE_KEYS; j++) {
                addr[j] = keys[n + j < count ? n + j : n];
            }
        }
        ws_route4<WS_ROUTE_KEYS>(view.words, addr, hop);
        if (is_whole) {
            const uint2 two = make_uint2(hop[0] | hop[1] << 16, hop[2] | hop[3] << 16);
            __stcs((uint2 *)(out + n / 2), two);
        } else {
            WS_UNROLL
            for (int j = 0; j < WS_ROUTE_KEYS; j++) {
                if (n + j < count) {
                    ((unsigned short *)out)[n + j] = (unsigned short)hop[j];
                }
            }
        }
    }
}
