// Runs the search of a rule-parallel kernel on the host, group by group and part by part: an image
// and keys on the standard input, ids on the standard output, as the words that they are.
//
//   words: number of image words, number of keys, 14 numbers of the view, 4 of the split, the warps
//   of a block, the findings that its queue holds, the image, the keys
//
// Compiled by tests with WS_ALGORITHM, the header that fills stages, and the definitions of abi.h.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include WS_ALGORITHM
#include "warpswitch/split.cuh"

static void read_words(ws_u32 *to, size_t count) {
    if (std::fread(to, sizeof(ws_u32), count, stdin) != count) {
        std::fprintf(stderr, "the input ends early\n");
        std::exit(2);
    }
}

/* What the threads of a block share. */
struct block {
    const ws_view &view;
    const ws_split &split;
    const ws_u32 *keys;
    ws_u64 count, base;
    ws_u32 warps;
    ws_stage stage;
    ws_queue queue;
    ws_block_keys all;
};

/* One thread's search of a round of the units that a block has on its stage. */
static void search_part(const block &block, ws_u32 thread, ws_u32 round, ws_u32 len) {
    const ws_u32 warp = thread / WS_LANES, parts = block.split.parts, part = warp % parts;
    const ws_u32 own = warp / parts * WS_LANES_OF_KEYS + thread % WS_LANES;
    ws_key key[WS_KEYS];
    ws_u32 best[WS_KEYS];
    for (int j = 0; j < WS_KEYS; j++) {
        key[j] = ws_key_of_block(block.all, own + j * WS_LANES);
        best[j] = block.all.lowest[own + j * WS_LANES];
    }
    const ws_u32 behind = round + parts * WS_ROUND;
    ws_search_units<WS_KEYS>(block.view, ws_context_at(block.view), block.stage, round + part,
                             behind < len ? behind : len, parts, block.all, own, key, best,
                             block.queue);
}

/* Ranks of the keys of a block among a group of units. */
static void search_group(block &block, ws_u32 group) {
    const ws_split &split = block.split;
    const ws_u32 threads = block.warps * WS_LANES, units = ws_units(block.view);
    const ws_u32 end = ws_group_start(units, group + 1, split);
    for (ws_u32 from = ws_group_start(units, group, split); from < end; from += split.staged) {
        const ws_u32 len = end - from < split.staged ? end - from : split.staged;
        for (ws_u32 thread = 0; thread < threads; thread++) {
            ws_fill(block.view, split, block.stage, from, len, thread, threads);
        }
        for (ws_u32 round = 0; round < len; round += split.parts * WS_ROUND) {
            *block.queue.count = 0;
            for (ws_u32 thread = 0; thread < threads; thread++) {
                search_part(block, thread, round, len);
            }
            for (ws_u32 i = 0; i < *block.queue.count && i < block.queue.room; i++) {
                ws_settle(block.view, ws_context_at(block.view), block.stage, block.all,
                          block.queue.items + WS_ITEM_WORDS * i);
            }
        }
    }
}

/* Puts the keys of a block where its threads find them. */
static void load_keys(block &block) {
    for (ws_u32 i = 0; i < block.all.span; i++) {
        const ws_u64 n = block.base + i;
        const ws_key key = ws_key_at(block.keys, n < block.count ? n : block.count - 1);
        for (int w = 0; w < WS_WORDS; w++) {
            block.all.words[w * block.all.span + i] = key.w[w];
        }
        block.all.lowest[i] = n < block.count ? WS_NONE : 0;
    }
}

int main() {
    ws_u32 head[2], shape[6];
    read_words(head, 2);
    ws_view view;
    read_words(view.p, 14);
    read_words(shape, 6);
    const ws_split split = {shape[0], shape[1], shape[2], shape[3]};
#if WS_PACKED
    const size_t key_words = ((size_t)head[1] + WS_PACK - 1) / WS_PACK * WS_PACK_WORDS;
#else
    const size_t key_words = (size_t)head[1] * WS_WORDS;
#endif
    std::vector<ws_u32> words(head[0]), keys(key_words), out(head[1]);
    read_words(words.data(), words.size());
    read_words(keys.data(), keys.size());
    view.words = words.data();
    /* Whatever lay there before. */
    const ws_u32 span = WS_LANES_OF_KEYS * (shape[4] / split.parts), old = 0xabababab;
    std::vector<ws_u32> lowest(span, old), of_keys(WS_WORDS * (size_t)span, old);
    std::vector<ws_u32> units((size_t)split.staged * WS_STAGED_WORDS, old);
    std::vector<ws_u32> window(split.window, old), items(WS_ITEM_WORDS * (size_t)shape[5], old);
    ws_u32 found = 0;
    block block = {view, split, keys.data(), head[1], 0, shape[4], {}, {}, {}};
    block.stage = {units.data(), window.data(), 0};
    block.queue = {&found, items.data(), shape[5]};
    block.all = {lowest.data(), of_keys.data(), span};
    for (block.base = 0; block.base < head[1]; block.base += span) {
        load_keys(block);
        for (ws_u32 group = 0; group < split.groups; group++) {
            search_group(block, group);
        }
        for (ws_u32 i = 0; i < span && block.base + i < head[1]; i++) {
            out[block.base + i] = ws_id(view, lowest[i]);
        }
    }
    return std::fwrite(out.data(), sizeof(ws_u32), out.size(), stdout) == out.size() ? 0 : 2;
}
