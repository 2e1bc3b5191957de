/* bloom, resident: see resident.cuh. */
#define WS_COHERENT 1
#define WS_CUCKOO 1
#define WS_FILTERED 1
#include "warpswitch/tables.cuh"
#include "warpswitch/resident.cuh"
