/* SPDX-License-Identifier: BSD-3-Clause */
/* params.c - the parameters of a store, as every front end takes them */
#include "thinswap.h"
#include "block.h"
#include "codec.h"
#include "util/size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every size class may hold a block of its own that is nearly empty. */
#define RAM_MIN_BYTES (8ull << 20)
/* A raw page's number in its word has 27 bits. */
#define RAM_MAX_BYTES (512ull << 30)
/* A burst of 4 MiB of compressed pages, some 16 MiB of swap-out, while the
 * keeper touches more.
 */
#define RESERVE_BYTES (4ull << 20)

void ts_params_init(struct ts_params *params)
{
	*params = (struct ts_params){ .level = TS_CODEC_LEVEL_DEFAULT };
}

static int set_size(uint64_t *ret_bytes, const char *key, const char *value,
		    uint64_t min, uint64_t max, char *err, size_t err_bytes)
{
	char why[160], low[24], high[24];
	uint64_t bytes;

	if (ts_size_parse(value, &bytes, why, sizeof(why))) {
		snprintf(err, err_bytes, "%s=%s: %s", key, value, why);
		return -EINVAL;
	}
	if (bytes < min || bytes > max) {
		ts_size_format(min, low, sizeof(low));
		ts_size_format(max, high, sizeof(high));
		snprintf(err, err_bytes,
			 "%s=%s: out of range, allowed are %s to %s", key,
			 value, low, high);
		return -EINVAL;
	}
	*ret_bytes = bytes;
	return 0;
}

static int set_int(int *ret_value, const char *key, const char *value, int min,
		   int max, char *err, size_t err_bytes)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(value, &end, 10);
	if (errno || end == value || *end || n < min || n > max) {
		snprintf(err, err_bytes,
			 "%s=%s: must be a whole number from %d to %d", key,
			 value, min, max);
		return -EINVAL;
	}
	*ret_value = (int)n;
	return 0;
}

int ts_params_set(struct ts_params *params, const char *key, const char *value,
		  char *err, size_t err_bytes)
{
	if (!strcmp(key, "size"))
		return set_size(&params->size_bytes, key, value, TS_SLOT_BYTES,
				TS_MAX_SIZE_BYTES, err, err_bytes);
	if (!strcmp(key, "ram"))
		return set_size(&params->ram_bytes, key, value, RAM_MIN_BYTES,
				RAM_MAX_BYTES, err, err_bytes);
	if (!strcmp(key, "level"))
		return set_int(&params->level, key, value, TS_CODEC_LEVEL_MIN,
			       TS_CODEC_LEVEL_MAX, err, err_bytes);
	snprintf(err, err_bytes,
		 "%s: no such parameter; there are size, ram and level", key);
	return -ENOENT;
}

static uint64_t machine_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) *
	       (uint64_t)sysconf(_SC_PAGESIZE);
}

int ts_params_finish(struct ts_params *params, char *err, size_t err_bytes)
{
	uint64_t machine = machine_bytes();
	char given[24], have[24];

	if (!params->size_bytes) {
		snprintf(err, err_bytes,
			 "size: missing; give the device's virtual size, for example size=16G");
		return -EINVAL;
	}
	if (!params->ram_bytes) {
		params->ram_bytes = machine / 2;
		if (params->ram_bytes < RAM_MIN_BYTES)
			params->ram_bytes = RAM_MIN_BYTES;
	}
	if (params->ram_bytes > machine) {
		ts_size_format(params->ram_bytes, given, sizeof(given));
		ts_size_format(machine, have, sizeof(have));
		snprintf(err, err_bytes,
			 "ram=%s: more than the machine has (%s)", given,
			 have);
		return -EINVAL;
	}
	params->size_bytes &= ~(uint64_t)(TS_SLOT_BYTES - 1);
	if (!params->reserve_bytes)
		params->reserve_bytes = RESERVE_BYTES;
	if (params->reserve_bytes > params->ram_bytes / 4)
		params->reserve_bytes = params->ram_bytes / 4;
	return 0;
}
