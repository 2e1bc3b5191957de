// Shifts units of texts on the host: how far and two units on the standard input, again and again,
// the unit that comes of each on the standard output, as the words that they are.
//
//   words: how many there are; of each, how many bytes, and eight words
//
// Compiled by tests with the definitions of abi.h.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "warpswitch/gather.cuh"

int main() {
    ws_u32 count;
    if (std::fread(&count, sizeof count, 1, stdin) != 1) {
        return 2;
    }
    std::vector<ws_u32> in(9 * (size_t)count), out(4 * (size_t)count);
    if (std::fread(in.data(), sizeof(ws_u32), in.size(), stdin) != in.size()) {
        std::fprintf(stderr, "the input ends early\n");
        return 2;
    }
    for (ws_u32 n = 0; n < count; n++) {
        ws_shift_unit(&in[9 * n + 1], in[9 * n], &out[4 * n]);
    }
    std::fwrite(out.data(), sizeof(ws_u32), out.size(), stdout);
    return 0;
}
