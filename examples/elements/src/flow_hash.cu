/* The hash of receive-side scaling on a card.
 *
 * Grid: one flow a thread, grid-stride. A flow is three words; the image is the key, four words.
 * Bytes a flow: 12 in, 4 out. CPU reference: `FlowHash` in `gpu_flow_hash.rs`.
 */
#include "warpswitch/abi.h"

extern "C" __global__ void __launch_bounds__(256)
    flow_hash(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    const ws_u64 step = (ws_u64)gridDim.x * blockDim.x;
    for (ws_u64 n = (ws_u64)blockIdx.x * blockDim.x + threadIdx.x; n < count; n += step) {
        ws_u32 hash = 0;
        for (int word = 0; word < WS_WORDS; word++) {
            const ws_u32 flow = keys[n * WS_WORDS + word];
            const ws_u32 high = view.words[word], low = view.words[word + 1];
            for (int bit = 0; bit < 32; bit++) {
                if (flow << bit >> 31) {
                    hash ^= __funnelshift_l(low, high, bit);
                }
            }
        }
        out[n] = hash;
    }
}
