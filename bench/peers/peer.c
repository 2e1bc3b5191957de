/* What the peers share. */
#include "peer.h"

#include <stdlib.h>
#include <time.h>

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

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void seconds_sort(double *seconds, size_t count)
{
	qsort(seconds, count, sizeof(*seconds), by_value);
}
