// SPDX-License-Identifier: BSD-3-Clause
/* front.c - what both front ends need to be started */
#include "front.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "visible.h"

#define RESERVE_MIN_BYTES (4ull << 20)
#define RESERVE_MAX_BYTES (64ull << 20)

void ts_args_add(struct ts_args *args, const char *format, ...)
{
	size_t left = sizeof(args->room) - args->used;
	char *text = args->room + args->used;
	va_list list;
	int len;

	va_start(list, format);
	len = vsnprintf(text, left, format, list);
	va_end(list);
	assert(len >= 0 && (size_t)len < left);
	assert(args->n + 1 < sizeof(args->argv) / sizeof(*args->argv));
	args->used += (size_t)len + 1;
	args->argv[args->n++] = text;
	args->argv[args->n] = NULL;
}

void ts_args_set(struct ts_args *args, const char *key, const char *value)
{
	char room[sizeof(args->room)], *text = room;
	size_t len = strlen(key);
	unsigned n = args->n;

	memcpy(room, args->room, args->used);
	args->n = 0;
	args->used = 0;
	for (unsigned i = 0; i < n; i++, text += strlen(text) + 1)
		if (strncmp(text, key, len) || text[len] != '=')
			ts_args_add(args, "%s", text);
	ts_args_add(args, "%s=%s", key, value);
}

void ts_args_copy(struct ts_args *args, const struct ts_args *from)
{
	args->n = args->used = 0;
	for (unsigned i = 0; i < from->n; i++)
		ts_args_add(args, "%s", from->argv[i]);
}

static const char *next_arg(const struct ts_args *args, unsigned *at)
{
	while (*at < args->n && strncmp(args->argv[*at], "ram-max=", 8) == 0)
		(*at)++;
	return *at < args->n ? args->argv[(*at)++] : NULL;
}

bool ts_args_equal(const struct ts_args *a, const struct ts_args *b)
{
	unsigned at_a = 0, at_b = 0;
	const char *from_a, *from_b;

	do {
		from_a = next_arg(a, &at_a);
		from_b = next_arg(b, &at_b);
		if (!from_a || !from_b)
			return from_a == from_b;
	} while (strcmp(from_a, from_b) == 0);
	return false;
}

/* Under whole-machine pressure the keeper gets memory only after pages have
 * been written out, which takes from the reserve: a block for each size class
 * that is new, 4 MiB when a guest of 256 MiB had swapped out 8 MiB, and a third
 * of all that is in flight. So more than the store's own default.
 */
static uint64_t reserve_bytes(const struct ts_config *config)
{
	uint64_t bytes = config->ram.budget_bytes / 10;

	if (bytes < RESERVE_MIN_BYTES)
		bytes = RESERVE_MIN_BYTES;
	return bytes < RESERVE_MAX_BYTES ? bytes : RESERVE_MAX_BYTES;
}

static const char *truth(bool value)
{
	return value ? "true" : "false";
}

static void add_spill(struct ts_args *args, const struct ts_config *config)
{
	ts_args_add(args, "high-water=%d", config->tuning.high_water_percent);
	ts_args_add(args, "low-water=%d", config->tuning.low_water_percent);
	ts_args_add(args, "spill=%s", config->spill.path);
	if (config->spill.size_bytes)
		ts_args_add(args, "spill-size=%" PRIu64,
			    config->spill.size_bytes);
	ts_args_add(args, "encrypt=%s", truth(config->spill.encrypt));
	ts_args_add(args, "spill-force=%s", truth(config->spill.force));
	ts_args_add(args, "write-budget=%" PRIu64,
		    config->spill.write_budget_bytes);
	ts_args_add(args, "write-budget-spent=%s",
		    config->spill.write_budget_waits ? "wait" : "fail");
}

void ts_args_add_engine(struct ts_args *args, const struct ts_config *config,
			const struct ts_runtime *rt)
{
	char path[TS_RUNTIME_PATH_BYTES];

	ts_args_add(args, "ram=%" PRIu64, config->ram.budget_bytes);
	if (config->ram.max_bytes)
		ts_args_add(args, "ram-max=%" PRIu64, config->ram.max_bytes);
	ts_args_add(args, "reserve=%" PRIu64, reserve_bytes(config));
	ts_args_add(args, "level=%d", config->codec.level);
	ts_args_add(args, "dictionary=%s", truth(config->codec.dictionary));
	ts_args_add(args, "write-behind=%" PRIu64,
		    config->codec.write_behind_bytes);
	if (config->codec.workers)
		ts_args_add(args, "workers=%d", config->codec.workers);
	ts_args_add(args, "stats=%s",
		    ts_runtime_path(rt, TS_STATS_NAME, path));
	if (config->spill.path[0])
		add_spill(args, config);
}

const char *ts_front_beside(const char *name, char *buf, size_t room)
{
	char exe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (len < 0)
		return NULL;
	exe[len] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	if ((size_t)snprintf(buf, room, "%s/%s", exe, name) >= room)
		return NULL;
	return access(buf, R_OK) == 0 ? buf : NULL;
}
