#include "classbench.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file that is being read, for messages. */
struct source {
	FILE *file;
	const char *path;
	size_t line;
};

static void fail(const struct source *source, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s:%zu: ", source->path, source->line);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

static struct source source_open(const char *path)
{
	struct source source = {.file = fopen(path, "r"), .path = path};

	if (source.file == NULL) {
		perror(path);
		exit(2);
	}
	return source;
}

/* The next line that holds anything; 0 at the end. */
static int next_line(struct source *source, char *line, int bytes)
{
	while (fgets(line, bytes, source->file) != NULL) {
		source->line++;
		if (strchr(line, '\n') == NULL && !feof(source->file))
			fail(source, "line longer than %d bytes", bytes - 1);
		if (line[strspn(line, " \t\r\n")] != '\0' && line[0] != '#')
			return 1;
	}
	fclose(source->file);
	return 0;
}

/* Grows an array by doubling when `count` has reached a power of two. */
static void *grow(void *array, size_t count, size_t item_bytes)
{
	void *grown = array;

	if (count == 0 || (count >= 1024 && (count & (count - 1)) == 0))
		grown = realloc(array, item_bytes * (count == 0 ? 1024 : 2 * count));
	if (grown == NULL) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	return grown;
}

static struct rule rule_parse(const struct source *source, const char *line)
{
	unsigned int s[5], d[5], sp[2], dp[2], proto, mask;
	struct rule rule;
	int fields = sscanf(line, " @%u.%u.%u.%u/%u %u.%u.%u.%u/%u %u : %u %u : %u %x/%x",
		&s[0], &s[1], &s[2], &s[3], &s[4], &d[0], &d[1], &d[2], &d[3], &d[4],
		&sp[0], &sp[1], &dp[0], &dp[1], &proto, &mask);

	if (fields != 16)
		fail(source, "not a ClassBench IPv4 rule (%d of 16 numbers): %s", fields, line);
	for (int i = 0; i < 4; i++)
		if (s[i] > 255 || d[i] > 255)
			fail(source, "address byte above 255: %s", line);
	if (s[4] > 32 || d[4] > 32 || sp[1] > 65535 || dp[1] > 65535 || sp[0] > sp[1] ||
	    dp[0] > dp[1] || proto > 255 || mask > 255)
		fail(source, "value out of range: %s", line);
	rule.src = s[0] << 24 | s[1] << 16 | s[2] << 8 | s[3];
	rule.dst = d[0] << 24 | d[1] << 16 | d[2] << 8 | d[3];
	rule.src_len = s[4];
	rule.dst_len = d[4];
	rule.src_lo = sp[0];
	rule.src_hi = sp[1];
	rule.dst_lo = dp[0];
	rule.dst_hi = dp[1];
	rule.proto = proto;
	rule.proto_mask = mask;
	return rule;
}

struct rule *rules_read(const char *path, size_t *count)
{
	struct source source = source_open(path);
	struct rule *rules = NULL;
	char line[512];

	*count = 0;
	while (next_line(&source, line, sizeof(line))) {
		rules = grow(rules, *count, sizeof(*rules));
		rules[(*count)++] = rule_parse(&source, line);
	}
	return rules;
}

static struct key key_parse(const struct source *source, const char *line)
{
	unsigned int src, dst, l4_src, l4_dst, proto;
	struct key key = {0};

	if (sscanf(line, "%u %u %u %u %u", &src, &dst, &l4_src, &l4_dst, &proto) != 5)
		fail(source, "not a ClassBench key (five decimal numbers): %s", line);
	if (l4_src > 65535 || l4_dst > 65535 || proto > 255)
		fail(source, "value out of range: %s", line);
	key.src = htonl(src);
	key.dst = htonl(dst);
	key.l4_src = htons(l4_src);
	key.l4_dst = htons(l4_dst);
	key.proto = proto;
	return key;
}

struct key *keys_read(const char *path, size_t *count)
{
	struct source source = source_open(path);
	struct key *keys = NULL, *aligned = NULL;
	char line[512];

	*count = 0;
	while (next_line(&source, line, sizeof(line))) {
		keys = grow(keys, *count, sizeof(*keys));
		keys[(*count)++] = key_parse(&source, line);
	}
	if (*count == 0)
		fail(&source, "no key in it");
	if (posix_memalign((void **)&aligned, 64, *count * sizeof(*keys)) != 0) {
		fputs("out of memory\n", stderr);
		exit(1);
	}
	memcpy(aligned, keys, *count * sizeof(*keys));
	free(keys);
	return aligned;
}

static int prefix_matches(uint32_t prefix, unsigned int len, uint32_t address)
{
	return len == 0 || (prefix ^ address) >> (32 - len) == 0;
}

int rule_matches(const struct rule *rule, const struct key *key)
{
	uint16_t l4_src = ntohs(key->l4_src), l4_dst = ntohs(key->l4_dst);

	return prefix_matches(rule->src, rule->src_len, ntohl(key->src)) &&
	       prefix_matches(rule->dst, rule->dst_len, ntohl(key->dst)) &&
	       rule->src_lo <= l4_src && l4_src <= rule->src_hi &&
	       rule->dst_lo <= l4_dst && l4_dst <= rule->dst_hi &&
	       ((rule->proto ^ key->proto) & rule->proto_mask) == 0;
}

uint64_t answers_digest(const int32_t *answers, size_t count)
{
	uint64_t digest = 0xcbf29ce484222325;

	for (size_t i = 0; i < count; i++) {
		uint32_t bits = (uint32_t)answers[i];

		for (int byte = 0; byte < 4; byte++) {
			digest ^= bits >> (8 * byte) & 0xff;
			digest *= 0x100000001b3;
		}
	}
	return digest;
}
