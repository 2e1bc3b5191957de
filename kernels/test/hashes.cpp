// Folds the hashes of keys under all masks on the host: an image and keys on the standard input, a
// word a key on the standard output, as the words that they are.
//
//   words: number of image words, number of keys, 14 numbers of the view, the image, the keys
//
// Compiled by tests with WS_HASH_FUNCTION and the definitions of abi.h.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "warpswitch/hashes.cuh"

static void read_words(ws_u32 *to, size_t count) {
    if (std::fread(to, sizeof(ws_u32), count, stdin) != count) {
        std::fprintf(stderr, "the input ends early\n");
        std::exit(2);
    }
}

int main() {
    ws_u32 head[2];
    read_words(head, 2);
    ws_view view;
    read_words(view.p, 14);
    std::vector<ws_u32> words(head[0]), keys((size_t)head[1] * WS_WORDS), out(head[1]);
    read_words(words.data(), words.size());
    read_words(keys.data(), keys.size());
    view.words = words.data();
    const ws_function_keys function_keys = ws_function_keys_at(view);
    for (ws_u32 n = 0; n < head[1]; n++) {
        const ws_key key = ws_key_at(keys.data(), n);
        ws_fold<1>(view, function_keys, &key, &out[n]);
    }
    return std::fwrite(out.data(), sizeof(ws_u32), out.size(), stdout) == out.size() ? 0 : 2;
}
