/*
 * Readers for the two ClassBench text formats, and the digest by which answers are compared.
 *
 * Rules, one a line, the first line wins:
 *   @SIP/len DIP/len lo : hi lo : hi proto/mask [flags/mask]      (the flags column is ignored)
 * Traces, one key a line, decimal:
 *   SIP DIP l4_src l4_dst proto [flags [rule]]                    (the rest is ignored)
 */
#ifndef PEER_CLASSBENCH_H
#define PEER_CLASSBENCH_H

#include <stddef.h>
#include <stdint.h>

/* One rule. Addresses and ports in host order. */
struct rule {
	uint32_t src, dst;
	uint8_t src_len, dst_len;
	uint16_t src_lo, src_hi, dst_lo, dst_hi;
	uint8_t proto, proto_mask;
};

/* One key as rte_acl reads it: network order, 16 bytes, so that four share a cache line. */
struct key {
	uint8_t proto;
	uint8_t pad[3];
	uint32_t src, dst;
	uint16_t l4_src, l4_dst;
};

/* The rules of a file; exits with a message that names file and line if it is malformed. */
struct rule *rules_read(const char *path, size_t *count);

/* The keys of a file, cache-line aligned; exits as rules_read does. */
struct key *keys_read(const char *path, size_t *count);

/* Whether a rule matches a key: the oracle of --verify. */
int rule_matches(const struct rule *rule, const struct key *key);

/* 64-bit FNV-1a over the answers, each as a little-endian int32 (rule index, -1 for none). */
uint64_t answers_digest(const int32_t *answers, size_t count);

#endif
