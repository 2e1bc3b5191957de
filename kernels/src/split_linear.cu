/* linear, rule-parallel: see split.cuh. */
#include "warpswitch/stage_rows.cuh"
#include "warpswitch/split.cuh"
