/* Rule-parallel kernels: few keys and many rules fill a card as well as many keys do.
 *
 *               group 0        group 1            each a block: a group of rules on its stage
 *   keys 0-63   ▒▒▒▒▒▒▒▒ ──┬── ▒▒▒▒▒▒▒▒           each column a warp: a part of that group
 *   keys 64-127 ▒▒▒▒▒▒▒▒   │   ▒▒▒▒▒▒▒▒
 *                          └─► atomicMin by key ─► ids
 *
 * Kernels that divide keys alone leave most of a card idle with a batch of 8K keys: 8192 threads,
 * where an H100 has room for 270,000, each of which searches all tables one after the other. Here a
 * block has few keys, WS_KEYS a lane, and its warps divide the rules: warp `part` of `parts` takes
 * every `parts`th unit (a row or a table) of what the block has on its stage (stage.cuh). They
 * merge ranks in shared memory. Blocks of a cluster have the same keys and a group of the rules
 * each; they merge in the shared memory of the first one, so that nothing has to be initialised
 * before the launch, and nothing merged behind it.
 *
 * Order: units are in order of rank or bound, so a part stops at the first one that cannot have a
 * better rank than those known so far. Every WS_ROUND units it reads what other parts have found.
 *
 * Grid: `groups` blocks a cluster, one cluster for each `WS_KEYS * 32 * (warps / parts)` keys,
 * grid-stride. Parts are not fewer than WS_KEYS, so that each thread has one key at most to load
 * for all. Dynamic shared memory: a word for the rank and those of the key, for each key; the queue
 * of findings (tables); the staged units; the window.
 * Bytes a key: the key for each group, 4 of the answer, its share of the stage from the
 * second-level cache; where a table may have the key 24 of slots and those of an entry.
 * CPU reference: `image::split`.
 */
#ifndef WARPSWITCH_SPLIT_CUH
#define WARPSWITCH_SPLIT_CUH

#define WS_LANES_OF_KEYS (WS_KEYS * WS_LANES)
/* Threads of a block at most: longer keys take more registers. */
#define WS_SPLIT_THREADS (WS_WORDS == 4 ? 1024 : 512)

/* Counters of a queue, and what pads them. */
#define WS_QUEUE_COUNTS 4

/* The units of group `group`: from its first one to that of the next group. */
WS_FN ws_u32 ws_group_start(ws_u32 units, ws_u32 group, const ws_split &split) {
    return (ws_u32)((ws_u64)units * group / split.groups);
}

#ifdef __CUDACC__
extern __shared__ uint4 ws_memory[];

/* Barriers of a cluster in two halves, and the merging of a rank into the first block's. */
#if __CUDA_ARCH__ >= 900
WS_FN void ws_cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release;" : : : "memory");
}

WS_FN void ws_cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
}

WS_FN void ws_lower_first(ws_u32 *at, ws_u32 rank) {
    const ws_u32 own = (ws_u32)__cvta_generic_to_shared(at);
    ws_u32 first;
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(first) : "r"(own));
    asm volatile("red.relaxed.cluster.shared::cluster.min.u32 [%0], %1;"
                 :
                 : "r"(first), "r"(rank)
                 : "memory");
}
#else
/* The host has one group where there are no clusters. */
WS_FN void ws_cluster_arrive() {}
WS_FN void ws_cluster_wait() {}
WS_FN void ws_lower_first(ws_u32 *at, ws_u32 rank) {
    ws_lower(at, rank);
}
#endif

/* What other parts have found by now. */
WS_FN void ws_refresh(const ws_block_keys &all, ws_u32 own, ws_u32 *best) {
    WS_UNROLL
    for (int j = 0; j < WS_KEYS; j++) {
        const ws_u32 other = all.lowest[own + j * WS_LANES];
        best[j] = other < best[j] ? other : best[j];
    }
}

/* Searches what is on the stage, round by round; all threads of the block take part, and all have
 * passed a barrier behind it if there was a round. `turn` is the one of two counters that the queue
 * has at the moment: the other one is set back meanwhile. */
static __device__ __forceinline__ void ws_search_stage(const ws_view &view, const ws_split &split,
                                                       const ws_context &context,
                                                       const ws_stage &stage, ws_u32 len,
                                                       ws_u32 part, const ws_block_keys &all,
                                                       ws_u32 own, const ws_key *key, ws_u32 *best,
                                                       ws_queue &queue, ws_u32 &turn) {
    ws_u32 *counts = queue.count;
    for (ws_u32 round = 0; round < len; round += split.parts * WS_ROUND) {
        if (round != 0) {
            ws_refresh(all, own, best);
            /* Nobody finds more before all have looked. */
            __syncthreads();
        }
        const ws_u32 behind = round + split.parts * WS_ROUND;
        const ws_queue current = {counts + turn, queue.items, queue.room};
        ws_search_units<WS_KEYS>(view, context, stage, round + part, behind < len ? behind : len,
                                 split.parts, all, own, key, best, current);
        __syncthreads();
        if (WS_ITEMS_PER_THREAD != 0) {
            const ws_u32 found = *current.count < queue.room ? *current.count : queue.room;
            turn ^= 1;
            if (threadIdx.x == 0) {
                counts[turn] = 0;
            }
            for (ws_u32 i = threadIdx.x; i < found; i += blockDim.x) {
                ws_settle(view, context, stage, all, queue.items + WS_ITEM_WORDS * i);
            }
            __syncthreads();
        }
    }
}

extern "C" __global__ void __launch_bounds__(WS_SPLIT_THREADS, 1)
    ws_classify_split(const ws_view view, const ws_u32 *keys, ws_u32 *out, ws_u64 count,
                      const ws_split split) {
    const ws_u32 warps = blockDim.x / WS_LANES, warp = threadIdx.x / WS_LANES;
    const ws_u32 span = WS_LANES_OF_KEYS * (warps / split.parts), part = warp % split.parts;
    const ws_u32 own = warp / split.parts * WS_LANES_OF_KEYS + threadIdx.x % WS_LANES;
    const ws_u32 group = blockIdx.x % split.groups;
    ws_u32 *memory = (ws_u32 *)ws_memory;
    const ws_block_keys all = {memory, memory + span, span};
    ws_u32 *counts = all.words + WS_WORDS * span;
    ws_queue queue = {counts, counts + WS_QUEUE_COUNTS, WS_ITEMS_PER_THREAD * blockDim.x};
    ws_stage stage;
    stage.units = queue.items + WS_ITEM_WORDS * queue.room;
    stage.window = stage.units + split.staged * WS_STAGED_WORDS;
    const ws_u32 units = ws_units(view);
    const ws_u32 first = ws_group_start(units, group, split);
    const ws_u32 end = ws_group_start(units, group + 1, split);
    const ws_context context = ws_context_at(view);
    bool is_filled = false;
    ws_u32 turn = 0;
    if (threadIdx.x == 0) {
        counts[0] = 0;
    }
    const ws_u64 stride = (ws_u64)(gridDim.x / split.groups) * span;
    for (ws_u64 base = (ws_u64)(blockIdx.x / split.groups) * span; base < count; base += stride) {
        /* Each key is read once a block: it may lie in the host's memory. */
        const ws_u64 mine = base + threadIdx.x;
        const bool loads = threadIdx.x < span;
        ws_key loaded;
        if (loads) {
            loaded = ws_key_at(keys, mine < count ? mine : count - 1);
        }
        ws_key key[WS_KEYS];
        ws_u32 best[WS_KEYS];
        ws_u32 from = first;
        do {
            const ws_u32 len = end - from < split.staged ? end - from : split.staged;
            if (from != first) {
                /* Nobody reads the former units any more; and whether anybody still searches. */
                ws_refresh(all, own, best);
                int open = 0;
                WS_UNROLL
                for (int j = 0; j < WS_KEYS; j++) {
                    open |= ws_least_rank(view, from) < best[j];
                }
                if (!__syncthreads_or(open)) {
                    break;
                }
            }
            if (!is_filled) {
                ws_fill(view, split, stage, from, len, threadIdx.x, blockDim.x);
                is_filled = end - first <= split.staged;
            }
            if (from == first && loads) {
                WS_UNROLL
                for (int i = 0; i < WS_WORDS; i++) {
                    all.words[i * span + threadIdx.x] = loaded.w[i];
                }
                all.lowest[threadIdx.x] = mine < count ? WS_NONE : 0;
            }
            __syncthreads();
            if (from == first) {
                if (split.groups > 1) {
                    ws_cluster_arrive();
                }
                WS_UNROLL
                for (int j = 0; j < WS_KEYS; j++) {
                    const ws_u32 n = own + j * WS_LANES;
                    key[j] = ws_key_of_block(all, n);
                    best[j] = base + n < count ? WS_NONE : 0;
                }
            }
            ws_search_stage(view, split, context, stage, len, part, all, own, key, best, queue,
                            turn);
            from += split.staged;
        } while (from < end);
        if (split.groups > 1) {
            /* The first block has initialised its ranks. It may still search: then it finds ranks
             * of other groups there as it does those of other parts. */
            ws_cluster_wait();
            if (group != 0 && loads && all.lowest[threadIdx.x] != WS_NONE) {
                ws_lower_first(all.lowest + threadIdx.x, all.lowest[threadIdx.x]);
            }
            ws_cluster_arrive();
            ws_cluster_wait();
        }
        if (group == 0 && loads && mine < count) {
            out[mine] = ws_id(view, all.lowest[threadIdx.x]);
        }
    }
}
#endif

#endif
