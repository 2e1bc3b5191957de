/* Patterns in payloads: which of them occur, payload by payload.
 *
 *   page      8192 words: marks │ payloads, each from a border of 16 bytes on │ free │ table
 *   marks     a bit for each 16-byte unit of the page: a payload begins there
 *   table     from the page's last word downwards, a word a payload: first byte << 16 | byte behind
 *   found     128 words for each 2 KB: how many, or WS_NONE if there are more than fit; then
 *             payload of the page << 20 | pattern, or WS_SCAN_ASK | payload << 20: the host has to
 *             search that payload itself
 *
 *   filter    word by the 4 bytes at a position; 2 bits of it for patterns of 4 to 7 bytes, by the
 *             same 4 bytes, and 2 bits for longer ones, by the 8 bytes at the position
 *   bucket    by the hash of such a window: first entry, and above 24 bits how many, or WS_CROWDED
 *   entry     hash │ flags, pattern │ where its bytes lie │ length << 16, place of the window in it
 *
 * All windows are of folded bytes. A pattern has one window, so it is found once for each of its
 * occurrences, at the position of that. Words hold bytes as they lie in memory, the first one
 * lowest. CPU reference: `scan::image`.
 */
#ifndef WARPSWITCH_SCAN_CUH
#define WARPSWITCH_SCAN_CUH

#include "warpswitch/key.cuh"

#define WS_SCAN_ASK 0x80000000u
#define WS_CROWDED 255u
#define WS_ENTRY_FOLDED 0x80000000u
#define WS_PATTERN_ID 0xfffffu
/* So many bytes of a pattern are compared; of a longer one the host looks at the rest. */
#define WS_COMPARED 256u
/* Entries looked at and words compared for the positions of one unit, before the host is asked. */
#define WS_UNIT_WORK 1024u
/* Bits of a filter's word that the first and the second choice take. */
#define WS_BIT_SHIFT 27
#define WS_BIT_SHIFT_2 22
/* Words of a unit, and of what its windows reach into. */
#define WS_UNIT_READ 6

/* Letters A to Z of four bytes in lower case, all other bytes as they are. */
WS_FN ws_u32 ws_lower(ws_u32 four) {
    const ws_u32 low = four & 0x7f7f7f7fu;
    const ws_u32 upper = (low + 0x3f3f3f3fu) & ~(low + 0x25252525u) & ~four & 0x80808080u;
    return four | upper >> 2;
}

/* Four of the eight bytes in `low`, `high`, from byte `at` % 4 on. */
WS_FN ws_u32 ws_four(ws_u32 low, ws_u32 high, ws_u32 at) {
#ifdef __CUDACC__
    return __funnelshift_r(low, high, 8 * at);
#else
    return at % 4 ? low >> 8 * (at % 4) | high << (32 - 8 * (at % 4)) : low;
#endif
}

/* The hash of a window of `bytes` bytes. */
WS_FN ws_u32 ws_window_hash(ws_u32 low, ws_u32 high, ws_u32 bytes) {
    ws_u32 hash = (low ^ bytes << 28) * 0x9e3779b1u;
    hash = (hash ^ hash >> 15) + high;
    hash *= 0x85ebca77u;
    hash = (hash ^ hash >> 13) * 0xc2b2ae3du;
    return hash ^ hash >> 16;
}

/* Whether both bits that `choice` takes are set. */
WS_FN ws_u32 ws_both(ws_u32 word, ws_u32 choice) {
    return word >> (choice >> WS_BIT_SHIFT) & word >> (choice >> WS_BIT_SHIFT_2 & 31) & 1;
}

/* Which positions of a unit may have a window: of 4 bytes in the lower half, of 8 in the upper. */
WS_FN ws_u32 ws_filter_unit(const ws_u32 *filter, ws_u32 shift, const ws_u32 *text) {
    ws_u32 hits = 0;
    WS_UNROLL
    for (int i = 0; i < 16; i++) {
        const ws_u32 low = ws_four(text[i / 4], text[i / 4 + 1], i % 4);
        const ws_u32 high = ws_four(text[i / 4 + 1], text[i / 4 + 2], i % 4);
        const ws_u32 word = filter[low * 0x9e3779b1u >> shift];
        hits |= ws_both(word, low * 0x85ebca6bu) << i;
        hits |= ws_both(word, low * 0xc2b2ae35u + high * 0x27d4eb2fu) << (16 + i);
    }
    return hits;
}

/* Which positions of a unit may begin a pattern of one to three bytes: eight groups of these, by
 * the first, the second and the third byte. */
WS_FN ws_u32 ws_tiny_unit(const ws_u32 *tiny, const ws_u32 *text) {
    ws_u32 hits = 0;
    WS_UNROLL
    for (int i = 0; i < 16; i++) {
        const ws_u32 four = ws_four(text[i / 4], text[i / 4 + 1], i % 4);
        const ws_u32 groups = tiny[four & 255] & tiny[four >> 8 & 255] >> 8 &
                              tiny[four >> 16 & 255] >> 16 & 255;
        hits |= (groups ? 1u : 0u) << i;
    }
    return hits;
}

/* A payload of a page, by its number from 0. */
struct ws_payload {
    const ws_u32 *page;
    ws_u32 start, end, number;
};

WS_FN ws_payload ws_payload_at(const ws_u32 *page, ws_u32 number) {
    const ws_u32 place = page[WS_PAGE_WORDS - 1 - number];
    return {page, place >> 16, place & 0xffff, number << 20};
}

/* Compares up to WS_COMPARED bytes of a pattern with those from `at` on; adds what it took. */
WS_FN bool ws_same(const ws_u32 *page, ws_u32 at, const ws_u32 *bytes, ws_u32 len, bool folded,
                   ws_u32 *work) {
    len = len < WS_COMPARED ? len : WS_COMPARED;
    const ws_u32 *from = page + at / 4;
    ws_u32 low = *from;
    for (ws_u32 i = 0; i < len; i += 4) {
        const ws_u32 high = *++from;
        const ws_u32 four = ws_four(low, high, at);
        ws_u32 differ = (folded ? ws_lower(four) : four) ^ bytes[i / 4];
        differ = len - i < 4 ? differ << (32 - 8 * (len - i)) : differ;
        *work += 1;
        if (differ) {
            return false;
        }
        low = high;
    }
    return true;
}

/* Gives `out` the patterns whose window is the one of `window` bytes at `at`, `low` and `high`. */
template <class Out>
WS_FN void ws_search_bucket(const ws_view &view, const ws_payload &payload, ws_u32 at, ws_u32 low,
                            ws_u32 high, ws_u32 window, ws_u32 *work, Out &out) {
    if (at + window > payload.end) {
        return;
    }
    const ws_u32 hash = ws_window_hash(low, high, window);
    const ws_u32 number = hash >> view.p[WS_SCAN_BUCKET_SHIFT];
    const ws_u32 bucket = view.words[view.p[WS_SCAN_BUCKETS] + number];
    const ws_u32 len = bucket >> 24;
    if (len == WS_CROWDED) {
        out.take(WS_SCAN_ASK | payload.number);
        return;
    }
    const ws_u32 *entry = view.words + view.p[WS_SCAN_ENTRIES] + 4 * (bucket & 0xffffff);
    for (ws_u32 i = 0; i < len; i++, entry += 4) {
        ws_u32 w[4];
        ws_load<4>(entry, w);
        *work += 1;
        const ws_u32 back = w[3] & 0xffff, bytes = w[3] >> 16;
        if (w[0] != hash || at < payload.start + back || at - back + bytes > payload.end) {
            continue;
        }
        const ws_u32 which = bytes > WS_COMPARED ? WS_SCAN_ASK : w[1] & WS_PATTERN_ID;
        const ws_u32 found = which | payload.number;
        const ws_u32 *pattern = view.words + view.p[WS_SCAN_BYTES] + w[2];
        /* Where bytes repeat, patterns do: what was told of late is not compared again. */
        if (!out.has(found) &&
            ws_same(payload.page, at - back, pattern, bytes, w[1] & WS_ENTRY_FOLDED, work)) {
            out.take(found);
        }
    }
}

/* Gives `out` the patterns whose window stands in a unit, which has `text`, folded, and the next 8
 * bytes. `number` is its payload's. */
template <class Out>
WS_FN void ws_search_unit(const ws_view &view, const ws_u32 *filter, const ws_u32 *tiny,
                          const ws_u32 *page, ws_u32 unit, ws_u32 number, const ws_u32 *text,
                          Out &out) {
    ws_u32 hits = ws_filter_unit(filter, view.p[WS_SCAN_FILTER_SHIFT], text);
    ws_u32 tinies = tiny ? ws_tiny_unit(tiny, text) : 0;
    if (!(hits | tinies)) {
        return;
    }
    const ws_payload payload = ws_payload_at(page, number);
    ws_u32 work = 0;
    /* Of a payload that the host searches anyway nothing more is worth finding. */
    while (hits | tinies && !out.is_full() && !out.has(WS_SCAN_ASK | payload.number)) {
        /* Of a tiny one the three lengths come after each other: 1, 2, 3. */
        const bool is_tiny = !hits;
        const ws_u32 bit = ws_lowest(is_tiny ? tinies : hits);
        const ws_u32 at = 16 * unit + bit % 16;
        const ws_u32 *from = page + at / 4;
        const ws_u32 low = ws_lower(ws_four(from[0], from[1], at));
        if (is_tiny) {
            tinies &= tinies - 1;
            for (ws_u32 len = 1; len <= 3; len++) {
                const ws_u32 own = low << (32 - 8 * len) >> (32 - 8 * len);
                ws_search_bucket(view, payload, at, own, 0, len, &work, out);
            }
        } else {
            hits &= hits - 1;
            const bool is_long = bit >= 16;
            const ws_u32 high = is_long ? ws_lower(ws_four(from[1], from[2], at)) : 0;
            ws_search_bucket(view, payload, at, low, high, is_long ? 8 : 4, &work, out);
        }
        if (work > WS_UNIT_WORK) {
            out.take(WS_SCAN_ASK | payload.number);
            return;
        }
    }
}

#endif
