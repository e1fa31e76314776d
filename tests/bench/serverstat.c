/* SPDX-License-Identifier: BSD-3-Clause */
/* serverstat.c - what a server process has used: CPU time and memory */
#include "serverstat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int read_status(pid_t pid, struct ts_serverstat *stat)
{
	char name[64], line[256];
	FILE *in;

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	in = fopen(name, "re");
	if (!in)
		return -errno;
	while (fgets(line, sizeof(line), in)) {
		sscanf(line, "VmRSS: %" SCNu64, &stat->rss_kib);
		sscanf(line, "VmHWM: %" SCNu64, &stat->peak_kib);
	}
	fclose(in);
	return stat->peak_kib ? 0 : -ESRCH;
}

int ts_serverstat_read(pid_t pid, struct ts_serverstat *ret)
{
	struct ts_serverstat stat = {0};
	struct timespec spent;
	clockid_t clock;
	int rc = clock_getcpuclockid(pid, &clock);

	if (rc)
		return -rc;
	if (clock_gettime(clock, &spent) < 0)
		return -errno;
	stat.cpu_ns = spent.tv_sec * 1000000000ull + spent.tv_nsec;
	rc = read_status(pid, &stat);
	if (rc)
		return rc;
	*ret = stat;
	return 0;
}
