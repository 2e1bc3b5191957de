/* turbo, resident: see resident.cuh. */
#define WS_COHERENT 1
#include "warpswitch/turbo.cuh"
#include "warpswitch/resident.cuh"
