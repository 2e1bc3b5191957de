/*
 * Scans payloads for patterns with Hyperscan, on the files that `cargo xtask bench scan` writes,
 * and prints one line of JSON for each file of payloads. See README.md.
 */
#include "peer.h"

#include <getopt.h>
#include <hs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 16
#define PASSES_MAX 1000
#define LINE_MAX_BYTES 40000

struct options {
	const char *patterns_path;
	const char *payloads[FILES_MAX];
	size_t payloads_len;
	size_t passes;
	int caseless;
};

struct patterns {
	char **bytes;
	size_t *lens;
	unsigned *flags;
	unsigned *ids;
	size_t len;
};

struct payload {
	const char *bytes;
	uint32_t len;
};

struct traffic {
	struct payload *payloads;
	size_t len;
	size_t bytes;
};

/* What a scan found so far. */
struct found {
	uint64_t payload_idx;
	uint64_t count;
	uint64_t digest;
};

static void die(const char *what)
{
	fprintf(stderr, "scan: %s\n", what);
	exit(1);
}

static void *must(void *memory)
{
	if (memory == NULL)
		die("out of memory");
	return memory;
}

/* ---- files ---- */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	die("a pattern is no hexadecimal number");
	return 0;
}

static void pattern_add(struct patterns *patterns, const char *line, int caseless)
{
	size_t at = patterns->len++, len = strcspn(line + 2, "\n") / 2;
	char *bytes = must(malloc(len + 1));

	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)(digit(line[2 + 2 * i]) << 4 | digit(line[3 + 2 * i]));
	patterns->bytes = must(realloc(patterns->bytes, patterns->len * sizeof(char *)));
	patterns->lens = must(realloc(patterns->lens, patterns->len * sizeof(size_t)));
	patterns->flags = must(realloc(patterns->flags, patterns->len * sizeof(unsigned)));
	patterns->ids = must(realloc(patterns->ids, patterns->len * sizeof(unsigned)));
	patterns->bytes[at] = bytes;
	patterns->lens[at] = len;
	patterns->flags[at] = caseless || line[0] == 'i' ? HS_FLAG_CASELESS : 0;
	patterns->ids[at] = (unsigned)at;
}

static struct patterns patterns_read(const struct options *options)
{
	static char line[LINE_MAX_BYTES];
	struct patterns patterns = {0};
	FILE *file = fopen(options->patterns_path, "r");

	if (file == NULL)
		die("the patterns cannot be read");
	while (fgets(line, sizeof(line), file) != NULL)
		if (strlen(line) > 3)
			pattern_add(&patterns, line, options->caseless);
	fclose(file);
	return patterns;
}

static struct traffic traffic_read(const char *path)
{
	struct traffic traffic = {0};
	FILE *file = fopen(path, "rb");
	unsigned char head[4];

	if (file == NULL)
		die("the payloads cannot be read");
	while (fread(head, 1, sizeof(head), file) == sizeof(head)) {
		uint32_t len = head[0] | head[1] << 8 | head[2] << 16 | (uint32_t)head[3] << 24;
		char *bytes = must(malloc(len + 1));

		if (fread(bytes, 1, len, file) != len)
			die("the payloads end early");
		traffic.payloads = must(realloc(traffic.payloads,
			(traffic.len + 1) * sizeof(struct payload)));
		traffic.payloads[traffic.len].bytes = bytes;
		traffic.payloads[traffic.len++].len = len;
		traffic.bytes += len;
	}
	fclose(file);
	return traffic;
}

/* ---- scanning ---- */

/* The step of the generator that the digest of our own benchmark is made of. */
static uint64_t mixed(uint64_t *state)
{
	uint64_t x;

	*state += 0x9e3779b97f4a7c15;
	x = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9;
	return x ^ (x >> 27);
}

static int digest_one(unsigned id, unsigned long long from, unsigned long long to,
	unsigned flags, void *context)
{
	struct found *found = context;
	uint64_t state = found->payload_idx << 32 | (uint32_t)to;

	(void)from, (void)flags;
	state = mixed(&state) ^ id;
	found->digest += mixed(&state);
	found->count++;
	return 0;
}

static int count_one(unsigned id, unsigned long long from, unsigned long long to,
	unsigned flags, void *context)
{
	(void)id, (void)from, (void)to, (void)flags;
	++*(uint64_t *)context;
	return 0;
}

static void pass(const hs_database_t *database, hs_scratch_t *scratch,
	const struct traffic *traffic, uint64_t *count)
{
	for (size_t i = 0; i < traffic->len; i++)
		if (hs_scan(database, traffic->payloads[i].bytes, traffic->payloads[i].len, 0,
			scratch, count_one, count) != HS_SUCCESS)
			die("a scan failed");
}

static void measure(const struct options *options, const char *path,
	const hs_database_t *database, hs_scratch_t *scratch, double build_ms)
{
	struct traffic traffic = traffic_read(path);
	struct found found = {0};
	double seconds[PASSES_MAX], median;
	const char *name = strrchr(path, '/');
	size_t bytes = 0;
	uint64_t count = 0;

	for (; found.payload_idx < traffic.len; found.payload_idx++)
		hs_scan(database, traffic.payloads[found.payload_idx].bytes,
			traffic.payloads[found.payload_idx].len, 0, scratch, digest_one, &found);
	pass(database, scratch, &traffic, &count);
	for (size_t i = 0; i < options->passes; i++) {
		double start = cpu_seconds();

		pass(database, scratch, &traffic, &count);
		seconds[i] = cpu_seconds() - start;
	}
	if (count != found.count * (options->passes + 1))
		die("passes differ");
	seconds_sort(seconds, options->passes);
	median = seconds[options->passes / 2];
	hs_database_size(database, &bytes);
	name = name == NULL ? path : name + 1;
	printf("{\"name\":\"Hyperscan %.*s\",\"payloads\":\"%.*s\",\"gbps\":%.3f,"
	       "\"gbps_best\":%.3f,\"mpps\":%.4f,\"p50_ns\":%.1f,\"build_ms\":%.2f,\"bytes\":%zu,"
	       "\"found\":%" PRIu64 ",\"digest\":\"0x%016" PRIx64 "\"}\n",
		(int)strcspn(hs_version(), " "), hs_version(), (int)strcspn(name, "."), name,
		8e-9 * traffic.bytes / median, 8e-9 * traffic.bytes / seconds[0],
		1e-6 * traffic.len / median, 1e9 * median / traffic.len, build_ms, bytes,
		found.count, found.digest);
}

/* ---- start ---- */

void usage(void)
{
	fputs("usage: scan --patterns FILE --payloads FILE [--payloads FILE]... [--passes N]\n"
	      "            [--case flagged|caseless]\n",
		stderr);
	exit(2);
}

static struct options parse_options(int argc, char **argv)
{
	static const struct option LONG[] = {{"patterns", 1, NULL, 'p'}, {"payloads", 1, NULL, 'l'},
		{"passes", 1, NULL, 'n'}, {"case", 1, NULL, 'c'}, {NULL, 0, NULL, 0}};
	struct options options = {.passes = 9, .caseless = 1};
	int letter;

	while ((letter = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
		switch (letter) {
		case 'p': options.patterns_path = optarg; break;
		case 'n': options.passes = number(optarg, PASSES_MAX); break;
		case 'c': options.caseless = strcmp(optarg, "caseless") == 0; break;
		case 'l':
			if (options.payloads_len == FILES_MAX)
				usage();
			options.payloads[options.payloads_len++] = optarg;
			break;
		default: usage();
		}
	}
	if (optind != argc || options.patterns_path == NULL || options.payloads_len == 0 ||
	    options.passes == 0)
		usage();
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv);
	struct patterns patterns = patterns_read(&options);
	hs_database_t *database;
	hs_compile_error_t *error;
	hs_scratch_t *scratch = NULL;
	double start = cpu_seconds(), build_ms;

	if (hs_compile_lit_multi((const char *const *)patterns.bytes, patterns.flags, patterns.ids,
		patterns.lens, (unsigned)patterns.len, HS_MODE_BLOCK, NULL, &database, &error) !=
	    HS_SUCCESS)
		die(error->message);
	build_ms = (cpu_seconds() - start) * 1e3;
	if (hs_alloc_scratch(database, &scratch) != HS_SUCCESS)
		die("no scratch memory");
	for (size_t i = 0; i < options.payloads_len; i++)
		measure(&options, options.payloads[i], database, scratch, build_ms);
	return 0;
}
