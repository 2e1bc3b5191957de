/*
 * The least that a TPACKET_V3 receiver can do: blocks of a mapped ring are read frame by frame, one
 * byte and the length of each are added up, and the block goes back to the kernel. Sleeps in
 * poll(2) while no block is full. The ring has the size that `FromDevice(METHOD AFPACKET_BLOCKS)`
 * gives it.
 *
 * tpacket INTERFACE SECONDS: prints frames received, frames that the kernel dropped, and a sum of
 * bytes, so that no read is optimised away.
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES (1u << 18)
#define BLOCKS 128u
#define RETIRE_MS 1

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

/* Reads all frames of a block; returns how many, and adds to `sum`. */
static unsigned read_block(const struct tpacket_block_desc *block, uint64_t *sum)
{
	unsigned frames = block->hdr.bh1.num_pkts;
	const uint8_t *at = (const uint8_t *)block + block->hdr.bh1.offset_to_first_pkt;
	for (unsigned n = 0; n < frames; n++) {
		const struct tpacket3_hdr *head = (const struct tpacket3_hdr *)at;
		*sum += head->tp_snaplen + at[head->tp_mac];
		at += head->tp_next_offset;
	}
	return frames;
}

static int open_socket(const char *name)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	int version = TPACKET_V3, on = 1;
	if (fd < 0)
		fail("socket");
	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version))
		fail("PACKET_VERSION");
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
	struct tpacket_req3 ring = {
		.tp_block_size = BLOCK_BYTES,
		.tp_block_nr = BLOCKS,
		.tp_frame_size = 2048,
		.tp_frame_nr = BLOCK_BYTES / 2048 * BLOCKS,
		.tp_retire_blk_tov = RETIRE_MS,
	};
	if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring))
		fail("PACKET_RX_RING");
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(name),
	};
	if (address.sll_ifindex == 0)
		fail(name);
	if (bind(fd, (struct sockaddr *)&address, sizeof address))
		fail("bind");
	return fd;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: tpacket INTERFACE SECONDS\n");
		return 2;
	}
	int fd = open_socket(argv[1]);
	uint8_t *ring = mmap(NULL, (size_t)BLOCK_BYTES * BLOCKS, PROT_READ | PROT_WRITE,
			     MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		fail("mmap");
	uint64_t frames = 0, sum = 0;
	double end = now() + atof(argv[2]);
	for (unsigned at = 0; now() < end; at = (at + 1) % BLOCKS) {
		struct tpacket_block_desc *block = (void *)(ring + (size_t)at * BLOCK_BYTES);
		uint32_t *status = &block->hdr.bh1.block_status;
		while (!(__atomic_load_n(status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
			struct pollfd wait = { .fd = fd, .events = POLLIN | POLLERR };
			poll(&wait, 1, 100);
			if (now() >= end)
				goto done;
		}
		frames += read_block(block, &sum);
		__atomic_store_n(status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
done:;
	struct tpacket_stats_v3 stats = { 0 };
	socklen_t bytes = sizeof stats;
	getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes);
	printf("%llu %u %llu\n", (unsigned long long)frames, stats.tp_drops,
	       (unsigned long long)sum);
	return 0;
}
