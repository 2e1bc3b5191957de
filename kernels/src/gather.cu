/* Lays texts out on pages: reads them where they lie, be it in the memory of the host.
 *
 * Grid: a block takes a page at a time, grid-stride, a warp a text. A warp loads 32 units of 16
 * bytes at a time, as the host's memory has them, so that the link carries whole lines, and 31 come
 * out of it, shifted to where the page has them; three such loads are under way, which is an
 * Ethernet frame. So 16 blocks have 190 KB under way, all that the link takes; more of them would
 * only keep others from the multiprocessors. Bytes a text byte: one of the link, one of the card's
 * memory. CPU reference: `scan::texts`.
 */
#include "warpswitch/gather.cuh"

#define WS_THREADS 256
#define WS_WARPS (WS_THREADS / WS_LANES)
#define WS_ALL_LANES 0xffffffffu
/* Units that a load of a warp gives. */
#define WS_STEP (WS_LANES - 1)
#define WS_STEPS 3

/* Copies a text to the units of a page from `out` on. */
static __device__ void ws_gather_text(const unsigned char *text, ws_u32 bytes, uint4 *out) {
    const ws_u32 lane = threadIdx.x % WS_LANES;
    const ws_u32 shift = (ws_u32)((ws_u64)text % WS_UNIT_BYTES);
    const uint4 *from = (const uint4 *)(text - shift);
    const ws_u32 units = WS_UNITS_OF(bytes), behind = WS_UNITS_OF(bytes + shift);
    for (ws_u32 first = 0; first < units; first += WS_STEP * WS_STEPS) {
        uint4 own[WS_STEPS];
        WS_UNROLL
        for (int i = 0; i < WS_STEPS; i++) {
            const ws_u32 unit = first + i * WS_STEP + lane;
            /* Others write there between launches: no load may be older than this one. */
            own[i] = unit < behind ? __ldcv(from + unit) : make_uint4(0, 0, 0, 0);
        }
        WS_UNROLL
        for (int i = 0; i < WS_STEPS; i++) {
            const ws_u32 unit = first + i * WS_STEP + lane;
            const ws_u32 two[8] = {
                own[i].x,
                own[i].y,
                own[i].z,
                own[i].w,
                __shfl_down_sync(WS_ALL_LANES, own[i].x, 1),
                __shfl_down_sync(WS_ALL_LANES, own[i].y, 1),
                __shfl_down_sync(WS_ALL_LANES, own[i].z, 1),
                __shfl_down_sync(WS_ALL_LANES, own[i].w, 1),
            };
            ws_u32 shifted[4];
            ws_shift_unit(two, shift, shifted);
            if (lane < WS_STEP && unit < units) {
                out[unit] = make_uint4(shifted[0], shifted[1], shifted[2], shifted[3]);
            }
        }
    }
}

/* Lays the texts from number `first` to the one before `behind` out on a page. */
static __device__ void ws_gather_page(const ws_view &view, const uint4 *texts, ws_u32 first,
                                      ws_u32 behind, ws_u32 *marks, ws_u32 *page) {
    const ws_u32 start = first + threadIdx.x / WS_LANES;
    uint4 next = start < behind ? texts[start] : make_uint4(0, 0, 0, 0);
    for (ws_u32 i = start; i < behind; i += WS_WARPS) {
        const uint4 text = next;
        if (i + WS_WARPS < behind) {
            next = texts[i + WS_WARPS];
        }
        const ws_u32 begin = text.z >> 16, end = text.z & 0xffff, unit = begin / WS_UNIT_BYTES;
        /* Nobody writes beyond a page, whatever the column says. */
        if (begin >= end || end > 4 * WS_PAGE_WORDS || i - first >= WS_PAGE_WORDS) {
            continue;
        }
        const unsigned char *place = ws_text_place(view, text.x, text.y);
        ws_gather_text(place, end - begin, (uint4 *)page + unit);
        if (threadIdx.x % WS_LANES == 0) {
            atomicOr(marks + unit / 32, 1u << unit % 32);
            page[WS_PAGE_WORDS - 1 - (i - first)] = text.z;
        }
    }
}

extern "C" __global__ void __launch_bounds__(WS_THREADS)
    ws_gather(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    __shared__ ws_u32 marks[WS_PAGE_MARKS];
    const uint4 *texts = (const uint4 *)(keys + view.p[WS_TEXTS_FIRST]);
    for (ws_u64 n = blockIdx.x; n < count; n += gridDim.x) {
        if (threadIdx.x < WS_PAGE_MARKS) {
            marks[threadIdx.x] = 0;
        }
        __syncthreads();
        ws_u32 *page = out + n * WS_PAGE_WORDS;
        ws_gather_page(view, texts, keys[n], keys[n + 1], marks, page);
        __syncthreads();
        if (threadIdx.x < WS_PAGE_MARKS) {
            page[threadIdx.x] = marks[threadIdx.x];
        }
    }
}
