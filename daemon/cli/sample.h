/* SPDX-License-Identifier: BSD-3-Clause */
/* sample.h - a random sample of the memory that processes could swap out
 *
 * Resident, private, anonymous pages of live processes, each with the same
 * chance. Reads only: /proc/PID/maps, pagemap, and the pages themselves by
 * process_vm_readv(), which needs root (CAP_SYS_PTRACE) for processes of
 * others.
 */
#ifndef TS_DAEMON_CLI_SAMPLE_H
#define TS_DAEMON_CLI_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ts_sample_page {
	pid_t pid;
	uint64_t addr;
};

struct ts_sample {
	struct ts_sample_page *page; /* @n of them */
	size_t n, max;
	uint64_t seen; /* resident anonymous pages in all */
	unsigned processes, refused;
	uint64_t rng;
};

/* Returns 0 or -ENOMEM. */
int ts_sample_init(struct ts_sample *sample, size_t max_pages);
void ts_sample_fini(struct ts_sample *sample);

/* Add a process. Returns 0, -ESRCH (gone) or -EACCES (not permitted). */
int ts_sample_add(struct ts_sample *sample, pid_t pid);

/* Add every process but this one. */
void ts_sample_add_all(struct ts_sample *sample);

/* Sort, so that neighbours are read together. */
void ts_sample_sort(struct ts_sample *sample);

/* Read one page of the sample; false when it is gone. */
bool ts_sample_read(const struct ts_sample_page *page, void *ret_page);

#endif
