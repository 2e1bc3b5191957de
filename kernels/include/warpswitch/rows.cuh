/* Rows: one rule, as leaves and tiles keep it.
 *
 * compact   src  src_mask  dst  dst_mask  lo_src|lo_dst  span_src|span_dst  mask(8)|proto(8)  rank
 * full      value (WS_WORDS)  mask (WS_WORDS)  lo_src|lo_dst  span_src|span_dst  rank  padding
 *
 * Compact rows hold rules over ipv4_5tuple keys that leave TCP flags open and whose ports are
 * ranges, prefixes or open: 32 bytes, one sector. A span is the highest port less the lowest.
 */
#ifndef WARPSWITCH_ROWS_CUH
#define WARPSWITCH_ROWS_CUH

#include "warpswitch/key.cuh"

struct ws_row {
    ws_u32 w[WS_ROW_WORDS];
};

WS_FN bool ws_ports_match(ws_u32 ports, ws_u32 lo, ws_u32 span) {
    const ws_u32 src = (ports >> 16) - (lo >> 16);
    const ws_u32 dst = (ports & 0xffff) - (lo & 0xffff);
    return src <= span >> 16 && dst <= (span & 0xffff);
}

WS_FN bool ws_row_matches(const ws_row &row, const ws_key &key) {
#if WS_COMPACT
    ws_u32 differing = (key.w[0] ^ row.w[0]) & row.w[1];
    differing |= (key.w[1] ^ row.w[2]) & row.w[3];
    differing |= (key.w[3] >> 24 ^ row.w[6]) & row.w[6] >> 8;
    return (differing == 0) & ws_ports_match(key.w[2], row.w[4], row.w[5]);
#else
    ws_u32 differing = 0;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        differing |= (key.w[i] ^ row.w[i]) & row.w[WS_WORDS + i];
    }
    const ws_u32 lo = row.w[2 * WS_WORDS], span = row.w[2 * WS_WORDS + 1];
    return (differing == 0) & ws_ports_match(key.w[WS_PORTS_WORD], lo, span);
#endif
}

WS_FN ws_u32 ws_row_rank(const ws_row &row) {
#if WS_COMPACT
    return row.w[7];
#else
    return row.w[2 * WS_WORDS + 2];
#endif
}

WS_FN ws_row ws_row_at(const ws_u32 *from) {
    ws_row row;
    ws_load<WS_ROW_WORDS>(from, row.w);
    return row;
}

#endif
