/* SPDX-License-Identifier: BSD-3-Clause */
/* serverstat.h - what a server process has used: CPU time and memory
 *
 * CPU time is that of the whole process, exited threads included, with the
 * resolution of the scheduler (the CPU-time clock of the process, the same
 * sum as utime + stime of /proc/PID/stat, which counts in ticks).
 * Resident memory includes attached System V shared memory that the process
 * has touched: VmRSS and VmHWM of /proc/PID/status count it.
 */
#ifndef TS_BENCH_SERVERSTAT_H
#define TS_BENCH_SERVERSTAT_H

#include <stdint.h>
#include <sys/types.h>

struct ts_serverstat {
	uint64_t cpu_ns;
	uint64_t rss_kib;  /* VmRSS */
	uint64_t peak_kib; /* VmHWM */
};

/* Returns 0 or -errno; @ret is then unchanged. */
int ts_serverstat_read(pid_t pid, struct ts_serverstat *ret);

#endif
