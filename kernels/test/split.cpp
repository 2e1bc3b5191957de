// Runs the search of a rule-parallel kernel on the host, group by group and part by part: an image
// and keys on the standard input, ids on the standard output, as the words that they are.
//
//   words: number of image words, number of keys, 14 numbers of the view, 4 of the split, the warps
//   of a block, the image, the keys
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
    std::vector<ws_u32> lowest;

    ws_u32 span() const {
        return WS_LANES_OF_KEYS * (warps / split.parts);
    }
};

/* One thread's search of the units that a block has on its stage, a round after the other. */
static void search_part(block &block, ws_u32 thread, ws_u32 len) {
    const ws_u32 warp = thread / WS_LANES, parts = block.split.parts, part = warp % parts;
    const ws_u32 own = warp / parts * WS_LANES_OF_KEYS + thread % WS_LANES;
    ws_key key[WS_KEYS];
    ws_u32 best[WS_KEYS];
    for (int j = 0; j < WS_KEYS; j++) {
        const ws_u64 n = block.base + own + j * WS_LANES;
        key[j] = ws_key_at(block.keys, n < block.count ? n : block.count - 1);
        best[j] = n < block.count ? WS_NONE : 0;
    }
    const ws_context context = ws_context_at(block.view);
    for (ws_u32 round = 0; round < len; round += parts * WS_ROUND) {
        for (int j = 0; j < WS_KEYS; j++) {
            const ws_u32 other = block.lowest[own + j * WS_LANES];
            best[j] = other < best[j] ? other : best[j];
        }
        const ws_u32 behind = round + parts * WS_ROUND;
        ws_search_units<WS_KEYS>(block.view, context, block.stage, round + part,
                                 behind < len ? behind : len, parts, key, best,
                                 &block.lowest[own], WS_LANES);
    }
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
        for (ws_u32 thread = 0; thread < threads; thread++) {
            search_part(block, thread, len);
        }
    }
}

int main() {
    ws_u32 head[2], shape[5];
    read_words(head, 2);
    ws_view view;
    read_words(view.p, 14);
    read_words(shape, 5);
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
    std::vector<ws_u32> units((size_t)split.staged * WS_STAGED_WORDS, 0xabababab);
    std::vector<ws_u32> window(split.window, 0xabababab);
    block block = {view, split, keys.data(), head[1], 0, shape[4], {}, {}};
    block.stage = {units.data(), window.data(), 0};
    for (block.base = 0; block.base < head[1]; block.base += block.span()) {
        block.lowest.assign(block.span(), WS_NONE);
        for (ws_u32 group = 0; group < split.groups; group++) {
            search_group(block, group);
        }
        for (ws_u32 i = 0; i < block.span() && block.base + i < head[1]; i++) {
            out[block.base + i] = ws_id(view, block.lowest[i]);
        }
    }
    return std::fwrite(out.data(), sizeof(ws_u32), out.size(), stdout) == out.size() ? 0 : 2;
}
