// SPDX-License-Identifier: BSD-3-Clause
/* swaps.c - what the kernel says about swap in use */
#include "cli/swaps.h"

#include <errno.h>
#include <stdio.h>

int ts_swaps_used(uint64_t *ret_bytes)
{
	FILE *file = fopen("/proc/swaps", "re");
	unsigned long long used_kib, sum = 0;
	char line[512];
	unsigned n = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %*s %*s %llu", &used_kib) == 1) {
			sum += used_kib;
			n++;
		}
	if (file)
		fclose(file);
	if (!n)
		return -ENOENT;
	*ret_bytes = sum * 1024;
	return 0;
}
