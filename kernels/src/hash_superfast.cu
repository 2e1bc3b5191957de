/* The hash function superfast alone, on a card: see hashes.cuh. */
#define WS_HASH_FUNCTION 2
#include "warpswitch/hashes.cuh"
