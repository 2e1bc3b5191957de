/* Whole IPv4 headers: checked, routed and made ready to be sent on, in one pass.
 *
 * A slice is 64 bytes: the first 60 of a packet from its IPv4 header on, zeros where there are
 * fewer, then a word: the packet's bytes on the way in, on the way out the hop (lower half) and
 * what became of the packet (upper half). The header of a packet that is sent on has one less to
 * live and its checksum; others are as they were. Words hold bytes as they lie in memory, the first
 * one lowest; sums of halves are right in either order (RFC 1071, 2 (B)). CPU reference:
 * `routes::headers`.
 */
#ifndef WARPSWITCH_HEADERS_CUH
#define WARPSWITCH_HEADERS_CUH

#include "warpswitch/routes.cuh"

#define WS_SLICE_WORDS 16
#define WS_NO_HOP 0xffffu

/* What became of a packet, in the order in which it is asked. */
enum {
    WS_SENT_ON = 0,
    WS_TINY = 1,
    WS_BAD_VERSION = 2,
    WS_BAD_HEADER_LENGTH = 3,
    WS_BAD_LENGTH = 4,
    WS_BAD_CHECKSUM = 5,
    WS_NO_ROUTE = 6,
    WS_EXPIRED = 7
};

/* A sum of less than 2^22 as one of 16 bits. */
WS_FN ws_u32 ws_fold(ws_u32 sum) {
    sum = (sum >> 16) + (sum & 0xffff);
    return (sum >> 16) + (sum & 0xffff);
}

WS_FN ws_u32 ws_check_header(const ws_u32 *slice) {
    const ws_u32 bytes = slice[15], version = slice[0] >> 4 & 15, words = slice[0] & 15;
    const ws_u32 total = slice[0] >> 24 | (slice[0] >> 8 & 0xff00);
    if (bytes < 20) {
        return WS_TINY;
    }
    if (version != 4) {
        return WS_BAD_VERSION;
    }
    if (words < 5) {
        return WS_BAD_HEADER_LENGTH;
    }
    if (total > bytes || total < 4 * words) {
        return WS_BAD_LENGTH;
    }
    ws_u32 sum = 0;
    WS_UNROLL
    for (ws_u32 i = 0; i < 15; i++) {
        sum += i < words ? (slice[i] & 0xffff) + (slice[i] >> 16) : 0;
    }
    return ws_fold(sum) == 0xffff ? WS_SENT_ON : WS_BAD_CHECKSUM;
}

WS_FN void ws_forward(const ws_u32 *routes, ws_u32 *slice) {
    ws_u32 verdict = ws_check_header(slice), hop = WS_NO_HOP;
    if (verdict == WS_SENT_ON) {
        const ws_u32 dst = slice[4] << 24 | (slice[4] << 8 & 0xff0000) |
                           (slice[4] >> 8 & 0xff00) | slice[4] >> 24;
        ws_route4<1>(routes, &dst, &hop);
        verdict = hop == WS_NO_HOP ? WS_NO_ROUTE : (slice[2] & 0xff) <= 1 ? WS_EXPIRED : WS_SENT_ON;
    }
    if (verdict == WS_SENT_ON) {
        /* RFC 1624, eqn 3. */
        const ws_u32 old = slice[2] & 0xffff, now = old - 1;
        const ws_u32 sum = (~slice[2] >> 16) + (~old & 0xffff) + now;
        slice[2] = now | (~ws_fold(sum) & 0xffff) << 16;
    }
    slice[15] = hop | verdict << 16;
}

#endif
