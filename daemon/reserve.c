// SPDX-License-Identifier: BSD-3-Clause
/* reserve.c - memory set aside for the successor of a server that dies
 *
 * One private mapping: unmapped, its pages are free in the same moment. In a
 * guest of 384 MiB under pressure a successor without it was seen to search
 * for memory for good: an allocation under the flusher flag neither waits for
 * swap nor calls the OOM killer.
 */
#include "reserve.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/harden.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LEAST_BYTES (8ul << 20)

/* Half as much again: some of it goes to others. */
static size_t need_of(pid_t pid)
{
	struct ts_harden_facts facts;
	size_t own, most;

	most = (size_t)sysconf(_SC_PHYS_PAGES) / 8 * 4096;
	if (ts_harden_observe(pid, &facts) < 0 ||
	    facts.rss_bytes < facts.anon_shm_bytes)
		return LEAST_BYTES;
	own = facts.rss_bytes - facts.anon_shm_bytes;
	own += own / 2;
	if (own > most)
		own = most;
	own &= ~4095ul;
	return own < LEAST_BYTES ? LEAST_BYTES : own;
}

static unsigned long long available_bytes(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			break;
	fclose(file);
	return kib * 1024;
}

static int hold(struct ts_reserve *reserve)
{
	void *at;

	if (available_bytes() < 2 * (unsigned long long)reserve->wanted)
		return -ENOMEM;
	at = mmap(NULL, reserve->wanted, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	/* No huge pages: they would come and go in other amounts. */
	madvise(at, reserve->wanted, MADV_NOHUGEPAGE);
	if ((madvise(at, reserve->wanted, MADV_POPULATE_WRITE) < 0 &&
	     errno != EINVAL) ||
	    mlock(at, reserve->wanted) < 0) {
		int err = -errno;

		munmap(at, reserve->wanted);
		return err;
	}
	reserve->at = at;
	reserve->bytes = reserve->wanted;
	return 0;
}

int ts_reserve_take(struct ts_reserve *reserve, pid_t server_pid)
{
	ts_reserve_give(reserve);
	reserve->wanted = need_of(server_pid);
	return hold(reserve);
}

void ts_reserve_refill(struct ts_reserve *reserve)
{
	if (!reserve->bytes && reserve->wanted)
		hold(reserve);
}

void ts_reserve_give(struct ts_reserve *reserve)
{
	if (reserve->bytes)
		munmap(reserve->at, reserve->bytes);
	reserve->at = NULL;
	reserve->bytes = 0;
}
