// SPDX-License-Identifier: BSD-3-Clause
/* rig.c - a store with a spill file, and slots whose contents are known */
#include "tests/spill/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;

static void hear(void *opaque, enum ts_event_level level, const char *text)
{
	struct spill_rig *rig = opaque;
	char *more;

	ts_lock(&said_lock);
	if (asprintf(&more, "%s%s\n", rig->said ? rig->said : "", text) < 0)
		rig_die("no memory for the test");
	free(rig->said);
	rig->said = more;
	ts_unlock(&said_lock);
}

void spill_rig_init(struct spill_rig *rig, uint64_t size_bytes,
		    uint64_t ram_bytes, uint64_t spill_bytes)
{
	*rig = (struct spill_rig){ .fd = -1 };
	ts_params_init(&rig->params);
	rig->params.size_bytes = size_bytes;
	rig->params.ram_bytes = ram_bytes;
	rig->params.spill_bytes = spill_bytes;
	rig->params.write_behind_bytes = 0;
	rig->params.event = hear;
	rig->params.event_opaque = rig;
	rig->n_slots = (unsigned)(size_bytes / 4096);
	rig->generation = calloc(rig->n_slots, sizeof(*rig->generation));
	if (!rig->generation)
		rig_die("no memory for the test");
}

void spill_rig_start(struct spill_rig *rig)
{
	const char *tmp = getenv("TMPDIR");
	char dir[256], path[300], why[512];
	int err;

	snprintf(dir, sizeof(dir), "%s/ts-spill.XXXXXX",
		 tmp ? tmp : "/var/tmp");
	if (!mkdtemp(dir))
		rig_die("%s: %s", dir, strerror(errno));
	snprintf(path, sizeof(path), "%s/file", dir);
	rig->params.spill_path = strdup(path);
	err = ts_params_finish(&rig->params, why, sizeof(why));
	if (!err)
		err = ts_store_new(&rig->params, &rig->store, why,
				   sizeof(why));
	rig->fd = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	rmdir(dir);
	if (err)
		rig_die("no store: %s", why);
	err = ts_store_start(rig->store);
	if (err)
		rig_die("the store does not start: %s", strerror(-err));
}

void spill_rig_end(struct spill_rig *rig)
{
	ts_store_free(rig->store);
	ts_params_fini(&rig->params);
	free(rig->generation);
	free(rig->said);
	close(rig->fd);
}

static void make(struct spill_rig *rig, unsigned slot, uint32_t generation,
		 uint8_t *ret_page)
{
	static const enum page_kind kinds[] = { PAGE_TEXT, PAGE_RANDOM,
						PAGE_TEXT, PAGE_NEAR };

	if (generation)
		page_make(ret_page, kinds[(slot + generation) % 4],
			  slot * 100000ull + generation);
	else
		memset(ret_page, 0, PAGE_BYTES);
}

int slot_write(struct spill_rig *rig, unsigned slot)
{
	uint8_t page[PAGE_BYTES];
	int err;

	make(rig, slot, rig->generation[slot] + 1, page);
	err = ts_store_write(rig->store, page, PAGE_BYTES, slot * 4096ull);
	if (!err)
		rig->generation[slot]++;
	else if (err != -ENOSPC)
		rig_die("write of slot %u: %s", slot, strerror(-err));
	return err;
}

void slot_discard(struct spill_rig *rig, unsigned slot)
{
	if (ts_store_discard(rig->store, PAGE_BYTES, slot * 4096ull))
		rig_die("a discard failed");
	rig->generation[slot] = 0;
}

bool slot_reads(struct spill_rig *rig, unsigned slot)
{
	uint8_t page[PAGE_BYTES], expected[PAGE_BYTES];
	int err = ts_store_read(rig->store, page, PAGE_BYTES, slot * 4096ull);

	if (err && err != -EIO)
		rig_die("read of slot %u: %s", slot, strerror(-err));
	make(rig, slot, rig->generation[slot], expected);
	if (!err && memcmp(page, expected, PAGE_BYTES))
		rig_die("slot %u does not hold its generation %" PRIu32, slot,
			rig->generation[slot]);
	return !err;
}

void slots_verify(struct spill_rig *rig)
{
	for (unsigned slot = 0; slot < rig->n_slots; slot++)
		if (!slot_reads(rig, slot))
			rig_die("slot %u cannot be read", slot);
}

bool slot_is_spilled(struct spill_rig *rig, unsigned slot, ts_word *ret_word)
{
	ts_word word = ts_word_none();
	struct ts_cluster cluster;

	ts_cluster_open(&rig->store->core.clusters, slot / TS_CLUSTER_SLOTS,
			&cluster);
	if (cluster.words)
		word = cluster.words[slot % TS_CLUSTER_SLOTS];
	ts_cluster_close(&cluster);
	if (ret_word)
		*ret_word = word;
	return ts_word_kind(word) == TS_SPILL;
}

void spill_rig_check(struct spill_rig *rig)
{
	rig_check(rig->store);
}

struct ts_counters spill_rig_counters(struct spill_rig *rig)
{
	struct ts_counters c;

	ts_store_counters(rig->store, &c);
	return c;
}
