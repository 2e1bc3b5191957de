/* maskhash, resident: see resident.cuh. */
#define WS_COHERENT 1
#define WS_CUCKOO 0
#define WS_FILTERED 0
#include "warpswitch/tables.cuh"
#include "warpswitch/resident.cuh"
