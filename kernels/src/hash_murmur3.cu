/* The hash function murmur3 alone, on a card: see hashes.cuh. */
#define WS_HASH_FUNCTION 1
#include "warpswitch/hashes.cuh"
