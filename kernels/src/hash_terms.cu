/* The hash function terms alone, on a card: see hashes.cuh. */
#define WS_HASH_FUNCTION 4
#include "warpswitch/hashes.cuh"
