/* Writes a patch over an image: units of eight words, each to where it belongs.
 *
 * Grid: half a unit a thread. `patch` is the numbers of `count` units, padded to whole 16-byte
 * loads, then their words; it may lie in the host's memory. No unit is there twice, so no two
 * threads write one word. Nothing else may read or write the image meanwhile. Bytes a unit: 36 over
 * the link, 32 to the card's memory. CPU reference: `Image::patch`.
 */
#include "warpswitch/key.cuh"

extern "C" __global__ void __launch_bounds__(256)
    ws_patch(const ws_view view, const ws_u32 *patch, ws_u32 *image, ws_u64 count) {
    (void)view;
    const uint4 *words = (const uint4 *)(patch + WS_PADDED(count));
    const ws_u64 step = (ws_u64)gridDim.x * blockDim.x;
    for (ws_u64 n = (ws_u64)blockIdx.x * blockDim.x + threadIdx.x; n < 2 * count; n += step) {
        ((uint4 *)image)[2 * (ws_u64)patch[n / 2] + n % 2] = words[n];
    }
}
