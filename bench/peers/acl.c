/*
 * DPDK's rte_acl on the files that `warpswitch bench classify` reads, tuned as well as we can.
 *
 * Categories 1, five fields, batches of 256. One line of JSON for every build (`max_size` 0, which
 * is its default, and each bound that is asked for) and method. What is timed is the classify call
 * alone: keys are parsed, and the pointers to them made, before. Clock: the thread's CPU time.
 * Method: one pass to warm up, which also yields the digest, then the timed passes; the median
 * counts, the best is printed too.
 */
#include "classbench.h"
#include "peer.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_acl.h>
#include <rte_errno.h>

#define FIELDS 5
#define LIST_MAX 8
#define PASSES_MAX 1000

RTE_ACL_RULE_DEF(acl_rule, FIELDS);

struct options {
	const char *rules_path, *trace_path, *answers_path, *core;
	size_t max_size_mib[LIST_MAX], max_sizes;
	const struct method *methods[LIST_MAX];
	size_t methods_len, passes, batch, verify, heap_mib;
};

struct method {
	const char *name;
	enum rte_acl_classify_alg alg;
};

static const struct method METHODS[] = {
	{"scalar", RTE_ACL_CLASSIFY_SCALAR}, {"sse", RTE_ACL_CLASSIFY_SSE},
	{"avx2", RTE_ACL_CLASSIFY_AVX2}, {"x16", RTE_ACL_CLASSIFY_AVX512X16},
	{"x32", RTE_ACL_CLASSIFY_AVX512X32},
};

/* What is classified, and where the answers go. */
struct work {
	const struct rule *rules;
	size_t rules_len;
	const struct key *keys;
	const uint8_t **key_ptrs;
	uint32_t *results;
	int32_t *answers;
	size_t keys_len;
};

/* One build of the tables. */
struct build {
	struct rte_acl_ctx *ctx;
	size_t max_size_mib;
	double build_ms;
	size_t bytes, rules_bytes;
	int error;
};

static void *allocate(size_t bytes)
{
	void *block = NULL;

	if (posix_memalign(&block, 64, bytes) != 0) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	return block;
}

/* ---- building ---- */

static const struct rte_acl_field_def FIELD_DEFS[FIELDS] = {
	{RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, offsetof(struct key, proto)},
	{RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, offsetof(struct key, src)},
	{RTE_ACL_FIELD_TYPE_MASK, 4, 2, 2, offsetof(struct key, dst)},
	{RTE_ACL_FIELD_TYPE_RANGE, 2, 3, 3, offsetof(struct key, l4_src)},
	{RTE_ACL_FIELD_TYPE_RANGE, 2, 4, 3, offsetof(struct key, l4_dst)},
};

/* Result 0 means "none", so rules are numbered from 1; the first line gets the best priority. */
static struct acl_rule acl_rule_from(const struct rule *rule, size_t idx)
{
	struct acl_rule acl = {0};

	acl.data.category_mask = 1;
	acl.data.priority = RTE_ACL_MAX_PRIORITY - (int32_t)idx;
	acl.data.userdata = idx + 1;
	acl.field[0].value.u8 = rule->proto;
	acl.field[0].mask_range.u8 = rule->proto_mask;
	acl.field[1].value.u32 = rule->src;
	acl.field[1].mask_range.u32 = rule->src_len;
	acl.field[2].value.u32 = rule->dst;
	acl.field[2].mask_range.u32 = rule->dst_len;
	acl.field[3].value.u16 = rule->src_lo;
	acl.field[3].mask_range.u16 = rule->src_hi;
	acl.field[4].value.u16 = rule->dst_lo;
	acl.field[4].mask_range.u16 = rule->dst_hi;
	return acl;
}

static int add_rules(struct rte_acl_ctx *ctx, const struct work *work)
{
	int error = 0;

	for (size_t i = 0; i < work->rules_len && error == 0; i++) {
		struct acl_rule rule = acl_rule_from(&work->rules[i], i);

		error = rte_acl_add_rules(ctx, (struct rte_acl_rule *)&rule, 1);
	}
	return error;
}

static struct build build_tables(const struct work *work, size_t max_size_mib)
{
	struct build build = {.max_size_mib = max_size_mib};
	struct rte_acl_config config = {.num_categories = 1, .num_fields = FIELDS};
	char name[RTE_ACL_NAMESIZE];
	struct rte_acl_param param = {.name = name, .socket_id = 0,
		.rule_size = RTE_ACL_RULE_SZ(FIELDS), .max_rule_num = work->rules_len};
	size_t heap_before = heap_bytes(), heap_rules;
	double start;

	snprintf(name, sizeof(name), "acl-%zu", max_size_mib);
	build.ctx = rte_acl_create(&param);
	if (build.ctx == NULL) {
		build.error = rte_errno;
		return build;
	}
	heap_rules = heap_bytes();
	memcpy(config.defs, FIELD_DEFS, sizeof(FIELD_DEFS));
	config.max_size = max_size_mib << 20;
	start = cpu_seconds();
	build.error = -add_rules(build.ctx, work);
	if (build.error == 0)
		build.error = -rte_acl_build(build.ctx, &config);
	build.build_ms = (cpu_seconds() - start) * 1e3;
	build.bytes = heap_bytes() - heap_rules;
	build.rules_bytes = heap_rules - heap_before;
	return build;
}

/* ---- measuring ---- */

static void classify_all(struct rte_acl_ctx *ctx, const struct work *work, size_t batch)
{
	for (size_t i = 0; i < work->keys_len; i += batch) {
		size_t n = work->keys_len - i < batch ? work->keys_len - i : batch;

		rte_acl_classify(ctx, work->key_ptrs + i, work->results + i, n, 1);
	}
}

/* The first `verify` answers against a linear search; the index of the first that differs. */
static size_t first_wrong(const struct work *work, size_t verify)
{
	size_t end = verify < work->keys_len ? verify : work->keys_len;

	for (size_t i = 0; i < end; i++) {
		int32_t expected = -1;

		for (size_t r = 0; r < work->rules_len && expected < 0; r++)
			if (rule_matches(&work->rules[r], &work->keys[i]))
				expected = r;
		if (expected != work->answers[i])
			return i;
	}
	return SIZE_MAX;
}

static void print_name(const struct build *build, const char *method)
{
	printf("{\"name\":\"rte_acl %s", method);
	if (build->max_size_mib != 0)
		printf(" max_size=%zuMiB", build->max_size_mib);
	printf("\",");
}

static void measure(const struct options *options, const struct work *work,
	const struct build *build, const struct method *method)
{
	static double seconds[PASSES_MAX];
	size_t wrong;

	print_name(build, method->name);
	if (rte_acl_set_ctx_classify(build->ctx, method->alg) != 0) {
		printf("\"error\":\"this CPU or EAL does not offer the method\"}\n");
		return;
	}
	classify_all(build->ctx, work, options->batch);
	for (size_t i = 0; i < work->keys_len; i++)
		work->answers[i] = (int32_t)work->results[i] - 1;
	wrong = first_wrong(work, options->verify);
	if (wrong != SIZE_MAX) {
		printf("\"error\":\"key %zu: answer %d is wrong\"}\n", wrong, work->answers[wrong]);
		return;
	}
	for (size_t pass = 0; pass < options->passes; pass++) {
		double start = cpu_seconds();

		classify_all(build->ctx, work, options->batch);
		seconds[pass] = cpu_seconds() - start;
	}
	seconds_sort(seconds, options->passes);
	printf("\"mpps\":%.3f,\"mpps_best\":%.3f,\"build_ms\":%.2f,\"bytes\":%zu,"
	       "\"rules_bytes\":%zu,\"passes\":%zu,\"digest\":\"0x%016" PRIx64 "\"}\n",
		work->keys_len / seconds[options->passes / 2] * 1e-6,
		work->keys_len / seconds[0] * 1e-6, build->build_ms, build->bytes,
		build->rules_bytes, options->passes, answers_digest(work->answers, work->keys_len));
	fflush(stdout);
}

static void run_build(const struct options *options, const struct work *work, size_t max_size_mib)
{
	struct build build = build_tables(work, max_size_mib);

	for (size_t m = 0; m < options->methods_len; m++) {
		if (build.error == 0) {
			measure(options, work, &build, options->methods[m]);
			continue;
		}
		print_name(&build, options->methods[m]->name);
		printf("\"error\":\"build failed: %s\"}\n", strerror(build.error));
	}
	rte_acl_free(build.ctx);
}

static int write_answers(const char *path, const struct work *work)
{
	FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");

	if (file == NULL) {
		perror(path);
		return 1;
	}
	for (size_t i = 0; i < work->keys_len; i++)
		fprintf(file, "%d\n", work->answers[i]);
	if (fflush(file) != 0 || (file != stdout && fclose(file) != 0)) {
		perror(path);
		return 1;
	}
	return 0;
}

/* ---- start ---- */

void usage(void)
{
	fputs("usage: acl --rules FILE --trace FILE [--max-size MIB,...] [--methods NAME,...]\n"
	      "           [--passes N] [--batch N] [--core N] [--heap MIB] [--verify KEYS]\n"
	      "           [--answers FILE|-]\n"
	      "The default build always runs; --max-size adds tuned ones. Methods: scalar\n"
	      "sse avx2 x16 x32 (default x16,x32). --heap is what EAL takes (default 1024);\n"
	      "2 MiB pages are used if so many are free. --verify compares the first KEYS\n"
	      "answers with a linear search (default 1000). --answers writes those of the\n"
	      "last method, one a line.\n",
		stderr);
	exit(2);
}

static const struct method *method_named(const char *name)
{
	for (size_t i = 0; i < RTE_DIM(METHODS); i++)
		if (strcmp(METHODS[i].name, name) == 0)
			return &METHODS[i];
	usage();
	return NULL;
}

static void parse_methods(struct options *options, char *list)
{
	options->methods_len = 0;
	for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
		if (options->methods_len == LIST_MAX)
			usage();
		options->methods[options->methods_len++] = method_named(name);
	}
}

static void parse_max_sizes(struct options *options, char *list)
{
	for (char *size = strtok(list, ","); size != NULL; size = strtok(NULL, ",")) {
		if (options->max_sizes == LIST_MAX)
			usage();
		options->max_size_mib[options->max_sizes++] = number(size, 1 << 20);
	}
}

static void parse_option(struct options *options, int letter, char *value)
{
	switch (letter) {
	case 'r': options->rules_path = value; break;
	case 't': options->trace_path = value; break;
	case 'a': options->answers_path = value; break;
	case 'c': options->core = value; number(value, 4096); break;
	case 's': parse_max_sizes(options, value); break;
	case 'm': parse_methods(options, value); break;
	case 'p': options->passes = number(value, PASSES_MAX); break;
	case 'b': options->batch = number(value, 1 << 16); break;
	case 'h': options->heap_mib = number(value, 1 << 20); break;
	case 'v': options->verify = number(value, SIZE_MAX); break;
	default: usage();
	}
}

static struct options parse_options(int argc, char **argv)
{
	static const struct option LONG[] = {
		{"rules", 1, NULL, 'r'}, {"trace", 1, NULL, 't'}, {"answers", 1, NULL, 'a'},
		{"core", 1, NULL, 'c'}, {"max-size", 1, NULL, 's'}, {"methods", 1, NULL, 'm'},
		{"passes", 1, NULL, 'p'}, {"batch", 1, NULL, 'b'}, {"heap", 1, NULL, 'h'},
		{"verify", 1, NULL, 'v'}, {NULL, 0, NULL, 0},
	};
	struct options options = {.core = "0", .max_size_mib = {0}, .max_sizes = 1,
		.methods = {&METHODS[3], &METHODS[4]}, .methods_len = 2, .passes = 9,
		.batch = 256, .heap_mib = 1024, .verify = 1000};
	int letter;

	while ((letter = getopt_long(argc, argv, "", LONG, NULL)) != -1)
		parse_option(&options, letter, optarg);
	if (optind != argc || options.rules_path == NULL || options.trace_path == NULL ||
	    options.passes == 0 || options.batch == 0 || options.methods_len == 0)
		usage();
	return options;
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv);
	struct work work = {0};

	work.rules = rules_read(options.rules_path, &work.rules_len);
	work.keys = keys_read(options.trace_path, &work.keys_len);
	work.key_ptrs = allocate(work.keys_len * sizeof(*work.key_ptrs));
	work.results = allocate(work.keys_len * sizeof(*work.results));
	work.answers = allocate(work.keys_len * sizeof(*work.answers));
	for (size_t i = 0; i < work.keys_len; i++)
		work.key_ptrs[i] = (const uint8_t *)&work.keys[i];

	start_eal("rte_acl", options.core, options.heap_mib);
	for (size_t i = 0; i < options.max_sizes; i++)
		run_build(&options, &work, options.max_size_mib[i]);
	return options.answers_path == NULL ? 0 : write_answers(options.answers_path, &work);
}
