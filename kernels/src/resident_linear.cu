/* linear, resident: see resident.cuh. */
#define WS_COHERENT 1
#include "warpswitch/linear.cuh"
#include "warpswitch/resident.cuh"
