/*
 * DPDK's longest-prefix matches on the files that our route benchmark writes.
 *
 * IPv4: rte_lpm (bulk and x4) and rte_fib (DIR24_8; 2, 4 byte entries; scalar and AVX-512).
 * IPv6: rte_fib6 (trie; 4 byte entries; scalar and AVX-512) and rte_lpm6. One line of JSON for
 * every method and list of addresses. What is timed is the lookup call alone, its results going to
 * a buffer of one batch, as in a pipeline. Clock: the thread's CPU time. Method: one pass to warm
 * up, which also yields the digest, then the timed passes; the median counts, the best is printed
 * too.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_lpm6.h>

#define LISTS_MAX 8
#define PASSES_MAX 1000
#define BATCH_MAX 1024
/* Groups for prefixes that the first table cannot hold: enough for a full table. */
#define TBL8_V4 32767
#define TBL8_V6 (1 << 19)
/* Above every next hop; rte_fib with 2-byte entries keeps 15 bits. */
#define NO_HOP 32767

struct route {
	uint8_t addr[16];
	uint32_t depth, hop;
};

/* Addresses as the lookups want them: IPv4 as host integers, IPv6 as 16 bytes each. */
struct list {
	const char *path;
	uint32_t *v4;
	uint8_t (*v6)[16];
	size_t len;
};

struct options {
	const char *routes_path, *core, *only;
	struct list lists[LISTS_MAX];
	size_t lists_len, passes, batch, heap_mib;
};

/* Looks up `n` addresses of `list` from `at` on; a missing route is NO_HOP in `hops`. */
struct method {
	const char *name;
	void *table;
	void (*lookup)(void *table, const struct list *list, size_t at, size_t n);
	double build_ms;
	size_t bytes;
};

/* One batch of results; how wide they are is the method's. */
static union {
	uint32_t u32[BATCH_MAX];
	uint64_t u64[BATCH_MAX];
	int32_t i32[BATCH_MAX];
} results;

static int family;

static void die(const char *what)
{
	fprintf(stderr, "lpm: %s\n", what);
	exit(1);
}

static void *grown(void *block, size_t len, size_t *room, size_t item)
{
	if (len < *room)
		return block;
	*room = *room == 0 ? 1 << 16 : 2 * *room;
	block = realloc(block, *room * item);
	if (block == NULL)
		die("out of memory");
	return block;
}

/* ---- reading ---- */

static FILE *open_text(const char *path)
{
	FILE *file = fopen(path, "r");

	if (file == NULL) {
		perror(path);
		exit(1);
	}
	return file;
}

/* Lines `addr/depth hop`. */
static struct route *routes_read(const char *path, size_t *len)
{
	FILE *file = open_text(path);
	struct route *routes = NULL;
	char line[128], text[64];
	size_t room = 0;

	*len = 0;
	while (fgets(line, sizeof(line), file) != NULL) {
		struct route route = {0};

		if (sscanf(line, "%63[^/]/%u %u", text, &route.depth, &route.hop) != 3)
			die("a line is not `addr/depth hop`");
		if (family == 0)
			family = strchr(text, ':') == NULL ? AF_INET : AF_INET6;
		if (inet_pton(family, text, route.addr) != 1 || route.hop >= NO_HOP)
			die("not an address of the first line's family, or the hop is too large");
		routes = grown(routes, *len, &room, sizeof(*routes));
		routes[(*len)++] = route;
	}
	fclose(file);
	return routes;
}

static void list_read(struct list *list)
{
	FILE *file = open_text(list->path);
	size_t room4 = 0, room6 = 0;
	char text[64];

	while (fscanf(file, "%63s", text) == 1) {
		uint8_t bytes[16] = {0};

		if (inet_pton(family, text, bytes) != 1)
			die("not an address of the routes' family");
		list->v4 = grown(list->v4, list->len, &room4, sizeof(*list->v4));
		list->v6 = grown(list->v6, list->len, &room6, sizeof(*list->v6));
		list->v4[list->len] = ntohl(*(const uint32_t *)bytes);
		memcpy(list->v6[list->len++], bytes, 16);
	}
	fclose(file);
}

/* ---- the methods ---- */

static uint32_t v4_of(const struct route *route)
{
	return ntohl(*(const uint32_t *)route->addr);
}

static void lpm_bulk(void *table, const struct list *list, size_t at, size_t n)
{
	rte_lpm_lookup_bulk(table, list->v4 + at, results.u32, n);
}

static void lpm_x4(void *table, const struct list *list, size_t at, size_t n)
{
	size_t i = 0;

	for (; i + 4 <= n; i += 4) {
		xmm_t four = _mm_loadu_si128((const xmm_t *)(list->v4 + at + i));

		rte_lpm_lookupx4(table, four, results.u32 + i, NO_HOP);
	}
	for (; i < n; i++)
		if (rte_lpm_lookup(table, list->v4[at + i], results.u32 + i) != 0)
			results.u32[i] = NO_HOP;
}

static void fib(void *table, const struct list *list, size_t at, size_t n)
{
	rte_fib_lookup_bulk(table, list->v4 + at, results.u64, n);
}

static void fib6(void *table, const struct list *list, size_t at, size_t n)
{
	rte_fib6_lookup_bulk(table, list->v6 + at, results.u64, n);
}

static void lpm6(void *table, const struct list *list, size_t at, size_t n)
{
	rte_lpm6_lookup_bulk_func(table, list->v6 + at, results.i32, n);
}

static int32_t answer(const struct method *method, size_t i)
{
	if (method->lookup == lpm_bulk)
		return results.u32[i] & RTE_LPM_LOOKUP_SUCCESS ? results.i32[i] & 0xffffff : -1;
	if (method->lookup == lpm6)
		return results.i32[i];
	if (method->lookup == lpm_x4)
		return results.u32[i] == NO_HOP ? -1 : (int32_t)results.u32[i];
	return results.u64[i] == NO_HOP ? -1 : (int32_t)results.u64[i];
}

/* ---- measuring ---- */

/* FNV-1a over the hops as little-endian 32-bit integers, -1 for none. */
static uint64_t digest_batch(uint64_t hash, const struct method *method, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t value = (uint32_t)answer(method, i);

		for (int byte = 0; byte < 4; byte++) {
			hash ^= (value >> (8 * byte)) & 0xff;
			hash *= 0x100000001b3;
		}
	}
	return hash;
}

static void measure(const struct options *options, const struct method *method,
	const struct list *list)
{
	static double seconds[PASSES_MAX];
	const char *base = strrchr(list->path, '/');
	uint64_t digest = 0xcbf29ce484222325;

	for (size_t pass = 0; pass <= options->passes; pass++) {
		double start = cpu_seconds();

		for (size_t at = 0; at < list->len; at += options->batch) {
			size_t left = list->len - at;
			size_t n = left < options->batch ? left : options->batch;

			method->lookup(method->table, list, at, n);
			if (pass == 0)
				digest = digest_batch(digest, method, n);
		}
		if (pass > 0)
			seconds[pass - 1] = cpu_seconds() - start;
	}
	seconds_sort(seconds, options->passes);
	printf("{\"name\":\"%s\",\"addrs\":\"%s\",\"mpps\":%.3f,\"mpps_best\":%.3f,"
	       "\"build_ms\":%.2f,\"bytes\":%zu,\"digest\":\"0x%016" PRIx64 "\"}\n",
		method->name, base == NULL ? list->path : base + 1,
		list->len / seconds[options->passes / 2] * 1e-6,
		list->len / seconds[0] * 1e-6, method->build_ms, method->bytes, digest);
	fflush(stdout);
}

static int wanted(const struct options *options, const char *name)
{
	return options->only == NULL || strstr(name, options->only) != NULL;
}

static void measure_all(const struct options *options, struct method method)
{
	for (size_t i = 0; wanted(options, method.name) && i < options->lists_len; i++)
		measure(options, &method, &options->lists[i]);
}

/* ---- the tables, one at a time ---- */

static void failed(const char *name, const char *what, int error)
{
	fprintf(stderr, "lpm: %s: %s: %s\n", name, what, rte_strerror(error));
}

static void run_lpm(const struct options *options, const struct route *routes, size_t len)
{
	struct rte_lpm_config config = {.max_rules = len + 1024, .number_tbl8s = TBL8_V4};
	size_t heap = heap_bytes();
	struct rte_lpm *lpm = rte_lpm_create("lpm", 0, &config);
	double start = cpu_seconds();
	struct method method = {.table = lpm};

	if (lpm == NULL) {
		failed("rte_lpm", "create", rte_errno);
		return;
	}
	for (size_t i = 0; i < len; i++)
		if (rte_lpm_add(lpm, v4_of(&routes[i]), routes[i].depth, routes[i].hop) != 0)
			die("rte_lpm: a route was not added");
	method.build_ms = (cpu_seconds() - start) * 1e3;
	method.bytes = heap_bytes() - heap;
	method.name = "rte_lpm bulk";
	method.lookup = lpm_bulk;
	measure_all(options, method);
	method.name = "rte_lpm x4";
	method.lookup = lpm_x4;
	measure_all(options, method);
	rte_lpm_free(lpm);
}

static void run_fib(const struct options *options, const struct route *routes, size_t len,
	enum rte_fib_dir24_8_nh_sz size, const char *names[2])
{
	struct rte_fib_conf config = {.type = RTE_FIB_DIR24_8, .default_nh = NO_HOP,
		.max_routes = len + len / 2, .dir24_8 = {.nh_sz = size, .num_tbl8 = TBL8_V4}};
	size_t heap = heap_bytes();
	struct rte_fib *table = rte_fib_create("fib", 0, &config);
	double start = cpu_seconds();
	struct method method = {.table = table, .lookup = fib};

	if (table == NULL) {
		failed(names[0], "create", rte_errno);
		return;
	}
	for (size_t i = 0; i < len; i++)
		if (rte_fib_add(table, v4_of(&routes[i]), routes[i].depth, routes[i].hop) != 0)
			die("rte_fib: a route was not added");
	method.build_ms = (cpu_seconds() - start) * 1e3;
	method.bytes = heap_bytes() - heap;
	method.name = names[0];
	if (rte_fib_select_lookup(table, RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO) == 0)
		measure_all(options, method);
	method.name = names[1];
	if (rte_fib_select_lookup(table, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512) == 0)
		measure_all(options, method);
	rte_fib_free(table);
}

static void run_fib6(const struct options *options, const struct route *routes, size_t len)
{
	struct rte_fib6_conf config = {.type = RTE_FIB6_TRIE, .default_nh = NO_HOP,
		.max_routes = len + len / 2,
		.trie = {.nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = TBL8_V6}};
	size_t heap = heap_bytes();
	struct rte_fib6 *table = rte_fib6_create("fib6", 0, &config);
	double start = cpu_seconds();
	struct method method = {.table = table, .lookup = fib6};

	if (table == NULL) {
		failed("rte_fib6", "create", rte_errno);
		return;
	}
	for (size_t i = 0; i < len; i++)
		if (rte_fib6_add(table, routes[i].addr, routes[i].depth, routes[i].hop) != 0)
			die("rte_fib6: a route was not added");
	method.build_ms = (cpu_seconds() - start) * 1e3;
	method.bytes = heap_bytes() - heap;
	method.name = "rte_fib6 trie 4B scalar";
	if (rte_fib6_select_lookup(table, RTE_FIB6_LOOKUP_TRIE_SCALAR) == 0)
		measure_all(options, method);
	method.name = "rte_fib6 trie 4B avx512";
	if (rte_fib6_select_lookup(table, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512) == 0)
		measure_all(options, method);
	rte_fib6_free(table);
}

static void run_lpm6(const struct options *options, const struct route *routes, size_t len)
{
	struct rte_lpm6_config config = {.max_rules = len + 1024, .number_tbl8s = TBL8_V6};
	size_t heap = heap_bytes();
	struct rte_lpm6 *table = rte_lpm6_create("lpm6", 0, &config);
	double start = cpu_seconds();
	struct method method = {.name = "rte_lpm6 bulk", .table = table, .lookup = lpm6};

	if (table == NULL) {
		failed("rte_lpm6", "create", rte_errno);
		return;
	}
	for (size_t i = 0; i < len; i++)
		if (rte_lpm6_add(table, routes[i].addr, routes[i].depth, routes[i].hop) != 0)
			die("rte_lpm6: a route was not added");
	method.build_ms = (cpu_seconds() - start) * 1e3;
	method.bytes = heap_bytes() - heap;
	measure_all(options, method);
	rte_lpm6_free(table);
}

static void run_v4(const struct options *options, const struct route *routes, size_t len)
{
	static const char *TWO[] = {"rte_fib 2B scalar", "rte_fib 2B avx512"};
	static const char *FOUR[] = {"rte_fib 4B scalar", "rte_fib 4B avx512"};

	if (wanted(options, TWO[0]) || wanted(options, TWO[1]))
		run_fib(options, routes, len, RTE_FIB_DIR24_8_2B, TWO);
	if (wanted(options, FOUR[0]) || wanted(options, FOUR[1]))
		run_fib(options, routes, len, RTE_FIB_DIR24_8_4B, FOUR);
	if (wanted(options, "rte_lpm bulk") || wanted(options, "rte_lpm x4"))
		run_lpm(options, routes, len);
}

/* ---- start ---- */

void usage(void)
{
	fputs("usage: lpm --routes FILE --addrs FILE [--addrs FILE]... [--only TEXT]\n"
	      "           [--passes N] [--batch N] [--core N] [--heap MIB]\n"
	      "Routes are lines `addr/depth hop` of one family, addresses one a line. --only\n"
	      "keeps the methods whose name contains TEXT (rte_lpm takes minutes to fill).\n"
	      "--heap is what EAL takes (default 3072); 2 MiB pages are used if so many are\n"
	      "free.\n",
		stderr);
	exit(2);
}

static struct options parse_options(int argc, char **argv)
{
	static const struct option LONG[] = {
		{"routes", 1, NULL, 'r'}, {"addrs", 1, NULL, 'a'}, {"only", 1, NULL, 'o'},
		{"passes", 1, NULL, 'p'}, {"batch", 1, NULL, 'b'}, {"core", 1, NULL, 'c'},
		{"heap", 1, NULL, 'h'}, {NULL, 0, NULL, 0},
	};
	struct options options = {.core = "0", .passes = 9, .batch = 256, .heap_mib = 3072};
	int letter;

	while ((letter = getopt_long(argc, argv, "", LONG, NULL)) != -1) {
		switch (letter) {
		case 'r': options.routes_path = optarg; break;
		case 'o': options.only = optarg; break;
		case 'p': options.passes = number(optarg, PASSES_MAX); break;
		case 'b': options.batch = number(optarg, BATCH_MAX); break;
		case 'h': options.heap_mib = number(optarg, 1 << 20); break;
		case 'c': options.core = optarg; break;
		case 'a':
			if (options.lists_len == LISTS_MAX)
				usage();
			options.lists[options.lists_len++].path = optarg;
			break;
		default: usage();
		}
	}
	if (optind != argc || options.routes_path == NULL || options.lists_len == 0 ||
	    options.passes == 0 || options.batch == 0 || options.heap_mib == 0)
		usage();
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv);
	size_t len;
	struct route *routes = routes_read(options.routes_path, &len);

	for (size_t i = 0; i < options.lists_len; i++)
		list_read(&options.lists[i]);
	start_eal("lpm", options.core, options.heap_mib);
	if (family == AF_INET) {
		run_v4(&options, routes, len);
		return 0;
	}
	if (wanted(&options, "rte_fib6 trie 4B scalar") ||
	    wanted(&options, "rte_fib6 trie 4B avx512"))
		run_fib6(&options, routes, len);
	if (wanted(&options, "rte_lpm6 bulk"))
		run_lpm6(&options, routes, len);
	return 0;
}
