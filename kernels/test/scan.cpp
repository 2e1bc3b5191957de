// Searches pages of payloads on the host: an image and pages on the standard input, what was found
// on the standard output, as the words that they are.
//
//   words: number of image words, number of pages, 14 numbers of the view, the image, the pages
//
// Compiled by tests with the definitions of abi.h.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "warpswitch/scan.cuh"

static void read_words(ws_u32 *to, size_t count) {
    if (std::fread(to, sizeof(ws_u32), count, stdin) != count) {
        std::fprintf(stderr, "the input ends early\n");
        std::exit(2);
    }
}

/* What is found in a part, each once. */
struct found_words {
    ws_u32 *words, count;

    bool is_full() const { return count >= WS_PART_WORDS; }

    bool has(ws_u32 what) const {
        for (ws_u32 i = 1; i <= count && i < WS_PART_WORDS; i++) {
            if (words[i] == what) {
                return true;
            }
        }
        return false;
    }

    void take(ws_u32 what) {
        if (has(what)) {
            return;
        }
        count++;
        if (count < WS_PART_WORDS) {
            words[count] = what;
        }
    }
};

static void search_page(const ws_view &view, const ws_u32 *page, ws_u32 *out) {
    const ws_u32 units = WS_PAGE_WORDS / 4, per_part = units / WS_PAGE_PARTS;
    const ws_u32 *tiny = view.p[WS_SCAN_TINY] ? view.words + view.p[WS_SCAN_TINY] : nullptr;
    ws_u32 begun = 0;
    found_words found = {out, 0};
    for (ws_u32 unit = 0; unit < units; unit++) {
        begun += page[unit / 32] >> unit % 32 & 1;
        if (begun > 0 && unit + 1 < units) {
            ws_u32 text[WS_UNIT_READ];
            for (int i = 0; i < WS_UNIT_READ; i++) {
                text[i] = ws_lower(page[4 * unit + i]);
            }
            ws_search_unit(view, view.words + view.p[WS_SCAN_FILTER], tiny, page, unit, begun - 1,
                           text, found);
        }
        if ((unit + 1) % per_part == 0) {
            *found.words = found.count < WS_PART_WORDS ? found.count : WS_NONE;
            found = {found.words + WS_PART_WORDS, 0};
        }
    }
}

int main() {
    ws_u32 head[2];
    read_words(head, 2);
    ws_view view;
    read_words(view.p, 14);
    std::vector<ws_u32> words(head[0]), pages((size_t)head[1] * WS_PAGE_WORDS);
    std::vector<ws_u32> out((size_t)head[1] * WS_PAGE_PARTS * WS_PART_WORDS);
    read_words(words.data(), words.size());
    read_words(pages.data(), pages.size());
    view.words = words.data();
    for (size_t n = 0; n < head[1]; n++) {
        search_page(view, &pages[n * WS_PAGE_WORDS], &out[n * WS_PAGE_PARTS * WS_PART_WORDS]);
    }
    return std::fwrite(out.data(), sizeof(ws_u32), out.size(), stdout) == out.size() ? 0 : 2;
}
