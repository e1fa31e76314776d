/* SPDX-License-Identifier: BSD-3-Clause */
/* params.c - the parameters of a store, as every front end takes them */
#include "thinswap.h"
#include "block.h"
#include "codec.h"
#include "util/harden.h"
#include "util/size.h"
#include "worker.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATER_MIN 5
#define HIGH_WATER_MAX 99
#define LOW_WATER_MAX 98
#define HIGH_WATER_DEFAULT 95
#define LOW_WATER_DEFAULT 90
/* A burst of 2 MiB of compressed pages, some 8 MiB of swap-out, while the
 * keeper touches more.
 */
#define RESERVE_BYTES (2ull << 20)
/* A burst of swap-out that is accepted at the speed of a copy; never more than
 * a sixteenth of the budget.
 */
#define WRITE_BEHIND_BYTES (8ull << 20)
#define WRITE_BEHIND_PART 16u
/* Room to raise the budget; address space only. */
#define RAM_MAX_TIMES 4

void ts_params_init(struct ts_params *params)
{
	*params = (struct ts_params){
		.level = TS_CODEC_LEVEL_DEFAULT,
		.dictionary = true,
		.encrypt = true,
		.use_uring = true,
		.write_behind_bytes = WRITE_BEHIND_BYTES,
		.workers = (int)ts_n_cpus(),
		.high_water = HIGH_WATER_DEFAULT,
		.low_water = LOW_WATER_DEFAULT,
	};
}

void ts_params_fini(struct ts_params *params)
{
	free(params->spill_path);
	free(params->trainer);
	free(params->keep_path);
	free(params->stats_path);
	params->spill_path = NULL;
	params->trainer = NULL;
	params->keep_path = NULL;
	params->stats_path = NULL;
}

void ts_params_find_trainer(struct ts_params *params, const char *dir)
{
	static const char *const beside[] = { "", "/../lib" };
	char path[PATH_MAX];

	if (!params->dictionary)
		return;
	for (unsigned i = 0; dir && i < 2; i++) {
		snprintf(path, sizeof(path), "%s%s/thinswap-train", dir,
			 beside[i]);
		if (!access(path, X_OK)) {
			params->trainer = strdup(path);
			return;
		}
	}
	if (!access(TS_TRAINER, X_OK))
		params->trainer = strdup(TS_TRAINER);
}

/* A value on its way into the parameters, and where to complain. */
struct given {
	const char *key, *value;
	char *err;
	size_t err_bytes;
};

static int set_size(const struct given *g, uint64_t *ret_bytes, uint64_t min,
		    uint64_t max)
{
	char why[160], low[TS_SIZE_TEXT_BYTES], high[TS_SIZE_TEXT_BYTES];
	uint64_t bytes;

	if (ts_size_parse(g->value, &bytes, why, sizeof(why))) {
		snprintf(g->err, g->err_bytes, "%s=%s: %s", g->key, g->value,
			 why);
		return -EINVAL;
	}
	if (bytes < min || bytes > max) {
		snprintf(g->err, g->err_bytes,
			 "%s=%s: out of range, allowed are %s to %s", g->key,
			 g->value, ts_size_format(min, low, sizeof(low)),
			 ts_size_format(max, high, sizeof(high)));
		return -EINVAL;
	}
	*ret_bytes = bytes;
	return 0;
}

static int set_int(const struct given *g, int *ret_value, int min, int max)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(g->value, &end, 10);
	if (errno || end == g->value || *end || n < min || n > max) {
		snprintf(g->err, g->err_bytes,
			 "%s=%s: must be a whole number from %d to %d", g->key,
			 g->value, min, max);
		return -EINVAL;
	}
	*ret_value = (int)n;
	return 0;
}

static int set_choice(const struct given *g, const char *no, const char *yes,
		      bool *ret_value)
{
	bool is_yes = !strcmp(g->value, yes);

	if (!is_yes && strcmp(g->value, no)) {
		snprintf(g->err, g->err_bytes, "%s=%s: must be %s or %s",
			 g->key, g->value, no, yes);
		return -EINVAL;
	}
	*ret_value = is_yes;
	return 0;
}

static int set_bool(const struct given *g, bool *ret_value)
{
	return set_choice(g, "false", "true", ret_value);
}

static int set_path(const struct given *g, char **ret_path)
{
	char *path;

	if (!*g->value) {
		snprintf(g->err, g->err_bytes, "%s: the path is empty",
			 g->key);
		return -EINVAL;
	}
	path = strdup(g->value);
	if (!path)
		return -ENOMEM;
	free(*ret_path);
	*ret_path = path;
	return 0;
}

int ts_params_set(struct ts_params *params, const char *key, const char *value,
		  char *err, size_t err_bytes)
{
	struct given g = { key, value, err, err_bytes };

	if (!strcmp(key, "size"))
		return set_size(&g, &params->size_bytes, TS_SLOT_BYTES,
				TS_MAX_SIZE_BYTES);
	if (!strcmp(key, "ram"))
		return set_size(&g, &params->ram_bytes, TS_RAM_MIN_BYTES,
				TS_RAM_MAX_BYTES);
	if (!strcmp(key, "level"))
		return set_int(&g, &params->level, TS_CODEC_LEVEL_MIN,
			       TS_CODEC_LEVEL_MAX);
	if (!strcmp(key, "reserve"))
		return set_size(&g, &params->reserve_bytes, TS_BLOCK_BYTES,
				TS_RAM_MAX_BYTES);
	if (!strcmp(key, "write-behind"))
		return set_size(&g, &params->write_behind_bytes, 0,
				TS_WRITE_BEHIND_MAX_BYTES);
	if (!strcmp(key, "workers"))
		return set_int(&g, &params->workers, 1, TS_WORKERS_MAX);
	if (!strcmp(key, "keep"))
		return set_path(&g, &params->keep_path);
	if (!strcmp(key, "dictionary"))
		return set_bool(&g, &params->dictionary);
	if (!strcmp(key, "ram-max"))
		return set_size(&g, &params->ram_max_bytes, TS_RAM_MIN_BYTES,
				TS_RAM_MAX_BYTES);
	if (!strcmp(key, "stats"))
		return set_path(&g, &params->stats_path);
	if (!strcmp(key, "spill"))
		return set_path(&g, &params->spill_path);
	if (!strcmp(key, "spill-size"))
		return set_size(&g, &params->spill_bytes, TS_SPILL_MIN_BYTES,
				TS_SPILL_MAX_BYTES);
	if (!strcmp(key, "encrypt"))
		return set_bool(&g, &params->encrypt);
	if (!strcmp(key, "spill-force"))
		return set_bool(&g, &params->spill_force);
	if (!strcmp(key, "io-uring"))
		return set_bool(&g, &params->use_uring);
	if (!strcmp(key, "write-budget"))
		return set_size(&g, &params->write_budget_bytes, 0,
				UINT64_MAX / 2);
	if (!strcmp(key, "write-budget-spent"))
		return set_choice(&g, "fail", "wait",
				  &params->write_budget_waits);
	if (!strcmp(key, "high-water"))
		return set_int(&g, &params->high_water, WATER_MIN,
			       HIGH_WATER_MAX);
	if (!strcmp(key, "low-water"))
		return set_int(&g, &params->low_water, WATER_MIN,
			       LOW_WATER_MAX);
	snprintf(err, err_bytes,
		 "%s: no such parameter; there are size, ram, ram-max, reserve, level, dictionary, write-behind, workers, keep, high-water, low-water, spill, spill-size, encrypt, spill-force, write-budget, write-budget-spent, io-uring and stats",
		 key);
	return -ENOENT;
}

unsigned ts_n_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > TS_WORKERS_MAX ? TS_WORKERS_MAX : (unsigned)n;
}

static uint64_t machine_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) *
	       (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Without a limit on locked memory, what is not touched costs nothing. */
static uint64_t default_ram_max(const struct ts_params *params,
				uint64_t machine)
{
	uint64_t most = RAM_MAX_TIMES * params->ram_bytes, limit;

	ts_harden_memlock_limit(0, &limit);
	if (limit != UINT64_MAX)
		return params->ram_bytes;
	if (most > machine)
		most = machine;
	return most > TS_RAM_MAX_BYTES ? TS_RAM_MAX_BYTES : most;
}

int ts_params_finish(struct ts_params *params, char *err, size_t err_bytes)
{
	uint64_t machine = machine_bytes();
	char given[TS_SIZE_TEXT_BYTES], have[TS_SIZE_TEXT_BYTES];

	if (!params->size_bytes) {
		snprintf(err, err_bytes,
			 "size: missing; give the device's virtual size, for example size=16G");
		return -EINVAL;
	}
	if (!params->spill_path && params->spill_bytes) {
		snprintf(err, err_bytes,
			 "spill-size: there is no spill file; give spill=PATH as well");
		return -EINVAL;
	}
	if (params->low_water >= params->high_water) {
		snprintf(err, err_bytes,
			 "low-water=%d: must be below high-water (%d)",
			 params->low_water, params->high_water);
		return -EINVAL;
	}
	if (!params->ram_bytes) {
		params->ram_bytes = machine / 2;
		if (params->ram_bytes < TS_RAM_MIN_BYTES)
			params->ram_bytes = TS_RAM_MIN_BYTES;
		if (params->ram_bytes > TS_RAM_MAX_BYTES)
			params->ram_bytes = TS_RAM_MAX_BYTES;
	}
	if (params->ram_bytes > machine) {
		ts_size_format(params->ram_bytes, given, sizeof(given));
		ts_size_format(machine, have, sizeof(have));
		snprintf(err, err_bytes,
			 "ram=%s: more than the machine has (%s)", given,
			 have);
		return -EINVAL;
	}
	if (!params->ram_max_bytes)
		params->ram_max_bytes = default_ram_max(params, machine);
	if (params->ram_max_bytes < params->ram_bytes)
		params->ram_max_bytes = params->ram_bytes;
	params->size_bytes &= ~(uint64_t)(TS_SLOT_BYTES - 1);
	if (!params->reserve_bytes)
		params->reserve_bytes = RESERVE_BYTES;
	if (params->reserve_bytes > params->ram_bytes / 4)
		params->reserve_bytes = params->ram_bytes / 4;
	if (params->reserve_bytes < TS_BLOCK_BYTES)
		params->reserve_bytes = TS_BLOCK_BYTES;
	if (params->write_behind_bytes > params->ram_bytes / WRITE_BEHIND_PART)
		params->write_behind_bytes =
			params->ram_bytes / WRITE_BEHIND_PART;
	return 0;
}
