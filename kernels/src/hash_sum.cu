/* The hash function sum alone, on a card: see hashes.cuh. */
#define WS_HASH_FUNCTION 3
#include "warpswitch/hashes.cuh"
