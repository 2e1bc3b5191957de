/* maskhash on a card: open addressing for each mask; see masks.cuh. */
#define WS_CUCKOO 0
#include "warpswitch/masks.cuh"
