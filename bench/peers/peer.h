/*
 * What the peers share: the clock and the numbers on a command line (peer.c); for those over DPDK,
 * starting it, and its heap (eal.c).
 */
#ifndef PEER_PEER_H
#define PEER_PEER_H

#include <stddef.h>
#include <stdint.h>

/* Says how the program is called, and exits with 2; each program has its own. */
void usage(void) __attribute__((noreturn));

/* A number from the command line, `max` at most; anything else ends in usage(). */
size_t number(const char *text, size_t max);

/* The thread's CPU time. */
double cpu_seconds(void);

/* Bytes that are taken from the EAL heap. */
size_t heap_bytes(void);

/* Sorts the seconds of passes, the best first. */
void seconds_sort(double *seconds, size_t count);

/*
 * Starts the EAL on a core, with a heap of 2 MiB pages where so many are free, else of ordinary
 * memory; no PCI. Says on stderr, under `name`, which it is, and exits if it cannot.
 */
void start_eal(const char *name, const char *core, size_t heap_mib);

#endif
