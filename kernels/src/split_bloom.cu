/* bloom, rule-parallel: see split.cuh. */
#define WS_CUCKOO 1
#define WS_FILTERED 1
#include "warpswitch/stage_tables.cuh"
#include "warpswitch/split.cuh"
