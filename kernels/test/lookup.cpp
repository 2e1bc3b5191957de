// Runs the per-packet function of one algorithm on the host: an image and keys on the standard
// input, ids on the standard output, as the words that they are.
//
//   words: number of image words, number of keys, 14 numbers of the view, the image, the keys
//
// bloom goes the way of a batch as well, two keys at a time, and fails if that finds another rule.
//
// Compiled by tests with WS_ALGORITHM and the definitions of abi.h.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include WS_ALGORITHM
#if WS_FILTERED
#include "warpswitch/terms.cuh"
#endif

static void read_words(ws_u32 *to, size_t count) {
    if (std::fread(to, sizeof(ws_u32), count, stdin) != count) {
        std::fprintf(stderr, "the input ends early\n");
        std::exit(2);
    }
}

#if WS_FILTERED
/* Compares the ranks of keys `n` and `n + 1` by shared terms with those found alone. Slots have
 * what the keys before left in them, as on a card. */
static void check_terms(const ws_view &view, const ws_u32 *keys, ws_u32 n, std::vector<ws_u32> &at) {
    const ws_hash_keys hash_keys = ws_hash_keys_at(view);
    const ws_key key[2] = {ws_key_at(keys, n), ws_key_at(keys, n + 1)};
    ws_u32 best[2] = {WS_NONE, WS_NONE}, chunk = 0;
    const ws_terms terms = {at.data(), 2};
    bool open = true;
    for (ws_u32 tile = 0; tile < view.p[WS_TILES_LEN] && open; tile++) {
        const ws_u32 *what = view.words + view.p[WS_TILES] + 4 * tile;
        const ws_u32 *filters = view.words + view.p[WS_FILTERS] + what[WS_TILE_FILTERS];
        const ws_u32 end = what[WS_TILE_TABLES] + what[WS_TILE_LEN];
        open = ws_search_chunks<2>(view, hash_keys, filters, &chunk, end, terms, key, best);
    }
    for (int j = 0; j < 2; j++) {
        if (best[j] != ws_lookup(view, key[j])) {
            std::fprintf(stderr, "key %u: rank %u by terms\n", n + j, best[j]);
            std::exit(3);
        }
    }
}
#endif

int main() {
    ws_u32 head[2];
    read_words(head, 2);
    ws_view view;
    read_words(view.p, 14);
#if WS_PACKED
    const size_t key_words = ((size_t)head[1] + WS_PACK - 1) / WS_PACK * WS_PACK_WORDS;
#else
    const size_t key_words = (size_t)head[1] * WS_WORDS;
#endif
    std::vector<ws_u32> words(head[0]), keys(key_words), out(head[1]);
    read_words(words.data(), words.size());
    read_words(keys.data(), keys.size());
    view.words = words.data();
    for (ws_u32 n = 0; n < head[1]; n++) {
        out[n] = ws_id(view, ws_lookup(view, ws_key_at(keys.data(), n)));
    }
#if WS_FILTERED
    std::vector<ws_u32> at(2 * (size_t)view.p[WS_TERM_SLOTS], 0xabababab);
    for (ws_u32 n = 0; n + 1 < head[1]; n += 2) {
        check_terms(view, keys.data(), n, at);
    }
#endif
    return std::fwrite(out.data(), sizeof(ws_u32), out.size(), stdout) == out.size() ? 0 : 2;
}
