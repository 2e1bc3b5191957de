/* Texts of a batch, wherever they lie in the host's memory, on their way to pages of scan.cuh.
 *
 *   column    firsts │ texts
 *   firsts    of each page the number of its first text, then one more: how many there are
 *   text      WS_TEXT_WORDS: where it lies, two words; its word in the page's table; 0
 *   place     an address of the card, or with WS_IN_ROOM set how many bytes behind the view's words
 *
 * Texts of a page have their places in it already: whoever reads what is found knows them. CPU
 * reference: `scan::texts`.
 */
#ifndef WARPSWITCH_GATHER_CUH
#define WARPSWITCH_GATHER_CUH

#include "warpswitch/key.cuh"

#define WS_IN_ROOM 0x8000000000000000ull
#define WS_UNIT_BYTES 16
#define WS_UNITS_OF(bytes) (((bytes) + WS_UNIT_BYTES - 1) / WS_UNIT_BYTES)

/* Where a text begins. */
WS_FN const unsigned char *ws_text_place(const ws_view &view, ws_u32 low, ws_u32 high) {
    const ws_u64 place = (ws_u64)high << 32 | low;
    const unsigned char *room = (const unsigned char *)view.words;
    return place & WS_IN_ROOM ? room + (place & ~WS_IN_ROOM) : (const unsigned char *)place;
}

/* A unit of a text out of the two that it lies in, from byte `at` of the first one on. */
WS_FN void ws_shift_unit(const ws_u32 *two, ws_u32 at, ws_u32 *unit) {
    ws_u32 words[5];
    WS_UNROLL
    for (int i = 0; i < 5; i++) {
        /* Registers have no index: one of four, by the same choice in all lanes. */
        const ws_u32 low = at & 4 ? two[i + 1 < 8 ? i + 1 : 7] : two[i];
        const ws_u32 high = at & 4 ? two[i + 3 < 8 ? i + 3 : 7] : two[i + 2 < 8 ? i + 2 : 7];
        words[i] = at & 8 ? high : low;
    }
    WS_UNROLL
    for (int i = 0; i < 4; i++) {
#ifdef __CUDACC__
        unit[i] = __funnelshift_r(words[i], words[i + 1], 8 * at);
#else
        unit[i] = at % 4 ? words[i] >> 8 * (at % 4) | words[i + 1] << (32 - 8 * (at % 4))
                         : words[i];
#endif
    }
}

#endif
