// SPDX-License-Identifier: BSD-3-Clause
/* nomemory.c - the system has no memory for the keeper to touch
 *
 * ts_shm_touch() is wrapped. A short lack is waited for; a long one is
 * ENOSPC after a bounded wait, and neither readers nor discards wait with the
 * writer.
 */
#include "tests/common/model.h"
#include "store.h"
#include "util/atomic.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int lacking; /* touches that fail; atomic */
static unsigned n_failed;

int __real_ts_shm_touch(void *addr, size_t bytes);
int __wrap_ts_shm_touch(void *addr, size_t bytes);

int __wrap_ts_shm_touch(void *addr, size_t bytes)
{
	if (ts_load_relaxed(&lacking) > 0) {
		ts_add_relaxed(&lacking, -1);
		ts_add_relaxed(&n_failed, 1);
		return -ENOMEM;
	}
	return __real_ts_shm_touch(addr, bytes);
}

static uint8_t buf[64 * 4096];

/* Write random pages until a request fails; @slot counts on. Returns the
 * error.
 */
static int fill(struct model *model, uint64_t *slot)
{
	int err = 0;

	while (!err && (*slot + 64) * 4096 <= model->bytes) {
		for (unsigned i = 0; i < 64; i++)
			page_make(buf + i * 4096, PAGE_RANDOM, *slot + i);
		err = model_write(model, buf, sizeof(buf), *slot * 4096);
		if (!err)
			*slot += 64;
	}
	return err;
}

/* A few touches in a row fail: the writer waits and all is well. */
static void short_lack(void)
{
	struct ts_store *store = rig_start(16 * MIB, 32 * MIB);
	struct model model;
	uint64_t slot = 0;

	model_init(&model, store, 16 * MIB);
	ts_store_relaxed(&lacking, 10);
	if (fill(&model, &slot))
		rig_die("refused although memory came back");
	if (ts_load_relaxed(&n_failed) < 10)
		rig_die("the keeper did not try again");
	rig_check(store);
	model_compare(&model);
	model_fini(&model);
	ts_store_free(store);
}

struct bystander {
	struct model *model;
	int waiting; /* the writer is in its last request; atomic */
	uint64_t reads;
};

/* Reads and drops one page after another of those that were written before
 * the lack, until the writer is back.
 */
static void *stand_by(void *arg)
{
	struct bystander *b = arg;
	uint64_t slot = 0;

	while (ts_load_relaxed(&b->waiting)) {
		model_read(b->model, 4096, slot % 64 * 4096);
		b->reads++;
		slot++;
	}
	return NULL;
}

static void long_lack(void)
{
	struct ts_store *store = rig_start(16 * MIB, 32 * MIB);
	struct bystander b = {.waiting = 1};
	struct model model;
	pthread_t thread;
	uint64_t slot = 0;
	int err;

	model_init(&model, store, 16 * MIB);
	b.model = &model;
	for (unsigned i = 0; i < 64; i++)
		page_make(buf + i * 4096, (enum page_kind)(i % PAGE_KINDS), i);
	if (model_write(&model, buf, sizeof(buf), 0))
		rig_die("the first write was refused");
	slot = 64;
	ts_store_relaxed(&lacking, INT32_MAX);
	if (pthread_create(&thread, NULL, stand_by, &b))
		rig_die("no thread");
	err = fill(&model, &slot);
	ts_store_relaxed(&b.waiting, 0);
	pthread_join(thread, NULL);
	if (err != -ENOSPC)
		rig_die("no memory, but %s", strerror(-err));
	if (b.reads < 100)
		rig_die("only %" PRIu64 " reads while a writer waited",
			b.reads);
	rig_check(store);
	model_compare(&model);
	/* Memory comes back. */
	ts_store_relaxed(&lacking, 0);
	if (fill(&model, &slot))
		rig_die("refused although memory came back");
	model_compare(&model);
	model_discard(&model, 16 * MIB, 0);
	rig_check_empty(store);
	model_fini(&model);
	ts_store_free(store);
}

static void lack_at_start(void)
{
	struct ts_store *store = rig_new(16 * MIB, 32 * MIB);

	ts_store_relaxed(&lacking, INT32_MAX);
	if (ts_store_start(store) != -ENOMEM)
		rig_die("started without a reserve");
	ts_store_relaxed(&lacking, 0);
	ts_store_relaxed(&n_failed, 0);
	ts_store_free(store);
}

int main(void)
{
	lack_at_start();
	short_lack();
	long_lack();
	return EXIT_SUCCESS;
}
