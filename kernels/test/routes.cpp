// Runs the lookups of routes.cuh on the host: an image and addresses on the standard input, hops on
// the standard output, a word each.
//
//   words: number of image words, number of addresses, the image, the addresses
//
// Compiled by tests with the definitions of abi.h, WS_WORDS being the words of an address; 16 are
// slices of IPv4 packets, which come back whole.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "warpswitch/headers.cuh"

static void read_words(ws_u32 *to, size_t count) {
    if (std::fread(to, sizeof(ws_u32), count, stdin) != count) {
        std::fprintf(stderr, "the input ends early\n");
        std::exit(2);
    }
}

int main() {
    ws_u32 head[2];
    read_words(head, 2);
    std::vector<ws_u32> words(head[0]), addrs((size_t)head[1] * WS_WORDS), hops(head[1]);
    read_words(words.data(), words.size());
    read_words(addrs.data(), addrs.size());
#if WS_WORDS == 1
    // Four at a time, as the kernel does; those behind the last four one by one.
    size_t n = 0;
    for (; n + 4 <= hops.size(); n += 4) {
        ws_route4<4>(words.data(), &addrs[n], &hops[n]);
    }
    for (; n < hops.size(); n++) {
        ws_route4<1>(words.data(), &addrs[n], &hops[n]);
    }
#elif WS_WORDS == WS_SLICE_WORDS
    for (size_t n = 0; n < hops.size(); n++) {
        ws_forward(words.data(), &addrs[n * WS_SLICE_WORDS]);
    }
    hops = addrs;
#else
    for (size_t n = 0; n < hops.size(); n++) {
        hops[n] = ws_route6(words.data(), &addrs[4 * n]);
    }
#endif
    return std::fwrite(hops.data(), sizeof(ws_u32), hops.size(), stdout) == hops.size() ? 0 : 2;
}
