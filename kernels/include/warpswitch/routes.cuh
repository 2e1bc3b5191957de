/* Routes: the longest prefix that an address lies in, by 16 bits and then byte by byte.
 *
 * entry   31 30   29 ... 0
 * hop      0 0    the answer, 16 bits
 * leaf     0 1    unit of 256 hops of 16 bits, the even one in the lower half
 * inner    1 0    unit of 256 entries
 * line     1 1    unit of 5 starts (bytes), 3 bytes of padding, 6 entries
 *
 * The image begins with an entry for each value of the first 16 bits. A unit is eight words, which
 * is what a card moves at least. Bytes a step: 32 of one unit, of a line's in two loads the second
 * of which finds it in the first-level cache. CPU reference: `routes::image`.
 */
#ifndef WARPSWITCH_ROUTES_CUH
#define WARPSWITCH_ROUTES_CUH

#include "warpswitch/key.cuh"

WS_FN bool ws_route_is_hop(ws_u32 entry) {
    return entry >> WS_ROUTE_KIND_SHIFT == 0;
}

/* Takes KEYS entries one byte further; hops stay what they are. Loads of all come before the first
 * use of one. */
template <int KEYS>
WS_FN void ws_route_step(const ws_u32 *words, ws_u32 *entry, const ws_u32 *byte) {
    const ws_u32 *block[KEYS];
    ws_u32 four[KEYS], fifth[KEYS], word[KEYS];
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        block[j] = words + (ws_u64)(entry[j] & WS_ROUTE_PLACE) * WS_UNIT_WORDS;
        four[j] = fifth[j] = 0;
        if (entry[j] >> WS_ROUTE_KIND_SHIFT == WS_ROUTE_LINE) {
            ws_pair(block[j], &four[j], &fifth[j]);
        }
    }
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        const ws_u32 kind = entry[j] >> WS_ROUTE_KIND_SHIFT;
        ws_u32 at = 2 + (byte[j] >= (four[j] & 0xff)) + (byte[j] >= (four[j] >> 8 & 0xff));
        at += (byte[j] >= (four[j] >> 16 & 0xff)) + (byte[j] >= four[j] >> 24);
        at += byte[j] >= (fifth[j] & 0xff);
        at = kind == WS_ROUTE_LINE ? at : kind == WS_ROUTE_LEAF ? byte[j] / 2 : byte[j];
        word[j] = entry[j];
        if (kind != 0) {
            word[j] = ws_word(block[j] + at);
        }
    }
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        const bool is_leaf = entry[j] >> WS_ROUTE_KIND_SHIFT == WS_ROUTE_LEAF;
        entry[j] = is_leaf ? word[j] >> 16 * (byte[j] & 1) & 0xffff : word[j];
    }
}

/* The hops of KEYS IPv4 addresses. */
template <int KEYS>
WS_FN void ws_route4(const ws_u32 *words, const ws_u32 *addr, ws_u32 *hop) {
    WS_UNROLL
    for (int j = 0; j < KEYS; j++) {
        hop[j] = ws_word(words + (addr[j] >> 16));
    }
    WS_UNROLL
    for (int shift = 8; shift >= 0; shift -= 8) {
        ws_u32 byte[KEYS];
        WS_UNROLL
        for (int j = 0; j < KEYS; j++) {
            byte[j] = addr[j] >> shift & 0xff;
        }
        ws_route_step<KEYS>(words, hop, byte);
    }
}

/* The hop of an IPv6 address, whose first 32 bits are its first word. */
WS_FN ws_u32 ws_route6(const ws_u32 *words, const ws_u32 *addr) {
    ws_u64 first = (ws_u64)addr[0] << 32 | addr[1], second = (ws_u64)addr[2] << 32 | addr[3];
    ws_u32 entry = ws_word(words + (addr[0] >> 16));
    first = first << 16 | second >> 48;
    second <<= 16;
    while (!ws_route_is_hop(entry)) {
        const ws_u32 byte = (ws_u32)(first >> 56);
        ws_route_step<1>(words, &entry, &byte);
        first = first << 8 | second >> 56;
        second <<= 8;
    }
    return entry;
}

#endif
