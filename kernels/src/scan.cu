/* Patterns in payloads on a card.
 *
 * Grid: a warp takes a part of a page at a time, grid-stride; in four steps each lane takes a unit
 * of 16 bytes. Nothing is shared between warps but the filter, which each block copies to shared
 * memory once, so blocks stay. Two of them take all registers of a multiprocessor, and one leaves
 * room for blocks of gather.cu, which wait for the link. Dynamic shared memory: the filter, 256
 * words if there are tiny patterns, and for each warp a count and what it found of late, so that a
 * pattern that occurs often in a payload is told once or twice. What a warp found stands in any
 * order.
 * Bytes a payload byte: one of text from the card's memory, four of shared memory; a window that
 * passes the filter takes 4 of a bucket, 16 of an entry and the pattern's. CPU reference:
 * `scan::image`.
 */
#include "warpswitch/scan.cuh"

#define WS_THREADS 512
#define WS_WARPS (WS_THREADS / WS_LANES)
/* Of late: so many, and how far up in a product their place stands. */
#define WS_SEEN 64
#define WS_SEEN_SHIFT 26
#define WS_ALL_LANES 0xffffffffu
#define WS_STEPS (WS_PAGE_WORDS / WS_PAGE_PARTS / 4 / WS_LANES)

extern __shared__ uint4 ws_memory[];

/* What a warp found in a part. */
struct ws_found {
    ws_u32 *words, *count, *seen;

    static __device__ __forceinline__ ws_u32 place(ws_u32 what) {
        return what * 0x9e3779b1u >> WS_SEEN_SHIFT;
    }

    /* Whether there is more than fits; other lanes may take something at this moment. */
    __device__ __forceinline__ bool is_full() const {
        return *(volatile ws_u32 *)count >= WS_PART_WORDS;
    }

    /* Whether it was taken of late. Other lanes may take it at this moment. */
    __device__ __forceinline__ bool has(ws_u32 what) const {
        return *(volatile ws_u32 *)(seen + place(what)) == what;
    }

    __device__ __forceinline__ void take(ws_u32 what) {
        if (atomicExch(seen + place(what), what) == what) {
            return;
        }
        const ws_u32 at = atomicAdd(count, 1u) + 1;
        if (at < WS_PART_WORDS) {
            words[at] = what;
        }
    }
};

/* The words of a unit and the 8 bytes behind it, folded; the last unit of a page has no text. */
static __device__ __forceinline__ void ws_load_unit(const ws_u32 *page, ws_u32 unit, ws_u32 *text) {
    if (unit + 1 < WS_PAGE_WORDS / 4) {
        const uint4 four = __ldg((const uint4 *)page + unit);
        const uint2 more = __ldg((const uint2 *)page + 2 * unit + 2);
        text[0] = four.x;
        text[1] = four.y;
        text[2] = four.z;
        text[3] = four.w;
        text[4] = more.x;
        text[5] = more.y;
    }
}

static __device__ void ws_search_part(const ws_view &view, const ws_u32 *filter,
                                      const ws_u32 *tiny, const ws_u32 *page, ws_u32 part,
                                      ws_found &found) {
    const ws_u32 lane = threadIdx.x % WS_LANES, first = part * WS_STEPS;
    ws_u32 next[WS_UNIT_READ] = {};
    ws_load_unit(page, first * WS_LANES + lane, next);
    const ws_u32 marks[2] = {__ldg(page + lane), __ldg(page + WS_LANES + lane)};
    const ws_u32 before = (lane < first ? __popc(marks[0]) : 0) +
                          (lane + WS_LANES < first ? __popc(marks[1]) : 0);
    ws_u32 begun = __reduce_add_sync(WS_ALL_LANES, before);
    for (ws_u32 step = first; step < first + WS_STEPS; step++) {
        const ws_u32 unit = step * WS_LANES + lane;
        ws_u32 text[WS_UNIT_READ];
        WS_UNROLL
        for (int i = 0; i < WS_UNIT_READ; i++) {
            text[i] = ws_lower(next[i]);
        }
        if (step + 1 < first + WS_STEPS) {
            ws_load_unit(page, unit + WS_LANES, next);
        }
        const ws_u32 own = step < WS_LANES ? marks[0] : marks[1];
        const ws_u32 word = __shfl_sync(WS_ALL_LANES, own, step % WS_LANES);
        const ws_u32 number = begun + __popc(word & ((2u << lane) - 1));
        begun += __popc(word);
        if (number > 0 && unit + 1 < WS_PAGE_WORDS / 4) {
            ws_search_unit(view, filter, tiny, page, unit, number - 1, text, found);
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(WS_THREADS, 2)
    ws_scan(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count) {
    const ws_u32 filter_words = 1u << (32 - view.p[WS_SCAN_FILTER_SHIFT]);
    ws_u32 *filter = (ws_u32 *)ws_memory, *rest = filter + filter_words;
    for (ws_u32 i = threadIdx.x; i < filter_words / 4; i += WS_THREADS) {
        ws_memory[i] = __ldg((const uint4 *)(view.words + view.p[WS_SCAN_FILTER]) + i);
    }
    const ws_u32 *tiny = nullptr;
    if (view.p[WS_SCAN_TINY]) {
        if (threadIdx.x < 256) {
            rest[threadIdx.x] = __ldg(view.words + view.p[WS_SCAN_TINY] + threadIdx.x);
        }
        tiny = rest;
        rest += 256;
    }
    __syncthreads();
    const ws_u32 warp = threadIdx.x / WS_LANES, lane = threadIdx.x % WS_LANES;
    ws_found found = {nullptr, rest + warp, rest + WS_WARPS + warp * WS_SEEN};
    const ws_u64 step = (ws_u64)gridDim.x * WS_WARPS;
    /* Parts of a page go to warps of different blocks: there may be fewer pages than blocks. */
    const ws_u64 start = (ws_u64)warp * gridDim.x + blockIdx.x;
    for (ws_u64 item = start; item < count * WS_PAGE_PARTS; item += step) {
        for (ws_u32 i = lane; i < WS_SEEN; i += WS_LANES) {
            found.seen[i] = WS_NONE;
        }
        if (lane == 0) {
            *found.count = 0;
        }
        __syncwarp();
        found.words = out + item * WS_PART_WORDS;
        const ws_u32 *page = keys + item / WS_PAGE_PARTS * WS_PAGE_WORDS;
        ws_search_part(view, filter, tiny, page, item % WS_PAGE_PARTS, found);
        __syncwarp();
        if (lane == 0) {
            *found.words = *found.count < WS_PART_WORDS ? *found.count : WS_NONE;
        }
        __syncwarp();
    }
}
