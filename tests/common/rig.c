// SPDX-License-Identifier: BSD-3-Clause
/* rig.c - stores for tests, and what tests demand of them */
#include "tests/common/rig.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rig_die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

struct ts_store *rig_make(struct ts_params *params)
{
	struct ts_store *store;
	char why[256];
	int err;

	if (ts_params_finish(params, why, sizeof(why)))
		rig_die("parameters refused: %s", why);
	err = ts_store_new(params, &store, why, sizeof(why));
	if (err)
		rig_die("no store: %s", why);
	return store;
}

struct ts_store *rig_new(uint64_t size_bytes, uint64_t ram_bytes)
{
	struct ts_params params;

	ts_params_init(&params);
	params.size_bytes = size_bytes;
	params.ram_bytes = ram_bytes;
	params.write_behind_bytes = 0;
	return rig_make(&params);
}

struct ts_store *rig_start(uint64_t size_bytes, uint64_t ram_bytes)
{
	return rig_started(rig_new(size_bytes, ram_bytes));
}

struct ts_store *rig_started(struct ts_store *store)
{
	int err = ts_store_start(store);

	if (err)
		rig_die("the store does not start: %s", strerror(-err));
	return store;
}

void rig_check(struct ts_store *store)
{
	struct ts_counters c;
	char why[256];

	if (ts_store_check(store, why, sizeof(why)))
		rig_die("the store is inconsistent: %s", why);
	ts_store_counters(store, &c);
	if (c.resident_bytes > c.budget_bytes)
		rig_die("%" PRIu64 " bytes resident, budget %" PRIu64,
			c.resident_bytes, c.budget_bytes);
}

void rig_check_empty(struct ts_store *store)
{
	struct ts_counters c;

	rig_check(store);
	ts_store_counters(store, &c);
	if (c.zero_slots || c.fill_slots || c.staged_slots || c.ram_slots ||
	    c.raw_slots || c.stored_bytes || c.clusters)
		rig_die("an empty store holds %" PRIu64 " zero, %" PRIu64
			" fill, %" PRIu64 " staged, %" PRIu64 " ram, %" PRIu64
			" raw slots, %" PRIu64 " bytes, %" PRIu64 " clusters",
			c.zero_slots, c.fill_slots, c.staged_slots, c.ram_slots,
			c.raw_slots, c.stored_bytes, c.clusters);
}

bool rig_is_instrumented(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#else
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload");
#endif
}
