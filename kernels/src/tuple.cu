/* tuple on a card: a cuckoo table for each mask; see masks.cuh. */
#define WS_CUCKOO 1
#include "warpswitch/masks.cuh"
