/* Starting DPDK, and its heap. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_version.h>

size_t heap_bytes(void)
{
	struct rte_malloc_socket_stats stats;

	return rte_malloc_get_socket_stats(0, &stats) == 0 ? stats.heap_allocsz_bytes : 0;
}

static size_t huge_pages_free(void)
{
	const char *path = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
	FILE *file = fopen(path, "r");
	size_t pages = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%zu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages;
}

void start_eal(const char *name, const char *core, size_t heap_mib)
{
	char heap[32];
	int huge = huge_pages_free() * 2 >= heap_mib;
	char *args[] = {(char *)name, "-l", (char *)core, "--no-pci", "--no-telemetry",
		"--force-max-simd-bitwidth=512", "--log-level=*:error",
		huge ? "--in-memory" : "--no-huge", "-m", heap, huge ? NULL : "--no-shconf", NULL};

	snprintf(heap, sizeof(heap), "%zu", heap_mib);
	if (rte_eal_init(huge ? 10 : 11, args) < 0) {
		fprintf(stderr, "EAL does not start: %s\n", rte_strerror(rte_errno));
		exit(1);
	}
	fprintf(stderr, "%s: %s, core %s, %zu MiB of %s pages\n", name, rte_version(), core,
		heap_mib, huge ? "2 MiB" : "ordinary");
}
