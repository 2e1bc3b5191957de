/* The hash function universal alone, on a card: see hashes.cuh. */
#define WS_HASH_FUNCTION 0
#include "warpswitch/hashes.cuh"
