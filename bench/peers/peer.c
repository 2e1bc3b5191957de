/* What the programs over DPDK share. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_version.h>

size_t number(const char *text, size_t max)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != '\0' || value > max)
		usage();
	return value;
}

double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

size_t heap_bytes(void)
{
	struct rte_malloc_socket_stats stats;

	return rte_malloc_get_socket_stats(0, &stats) == 0 ? stats.heap_allocsz_bytes : 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void seconds_sort(double *seconds, size_t count)
{
	qsort(seconds, count, sizeof(*seconds), by_value);
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
