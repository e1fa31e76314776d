// SPDX-License-Identifier: BSD-3-Clause
/* quiet.c - requests neither allocate nor fault (case 2)
 *
 * A swap server that needs memory to take a page in hangs when there is none.
 * After the start, and after a fork as nbdkit does before it, a thread that
 * has run each kind of request once on one page must not fault again, whatever
 * it is asked, as long as the keeper is given time; and never allocate.
 *
 * malloc() and its like are counted by standing before the C library's.
 */
#include "tests/common/model.h"
#include "store.h"
#include "util/lock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE      (1ull << 50) /* with a root of many pages */
#define RUN_BYTES (64 * 4096ull)

static _Thread_local bool watched;
static unsigned n_allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
	n_allocations += watched;
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	n_allocations += watched;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	n_allocations += watched;
	return __libc_realloc(p, n);
}
#endif

static struct ts_store *store;
static uint8_t buf[RUN_BYTES], now[RUN_BYTES];

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

static int see_extent(void *opaque, uint64_t off, uint64_t len,
		      enum ts_extent type)
{
	return 0;
}

/* One of each. */
static void request_all(uint64_t len, uint64_t off)
{
	int err = ts_store_write(store, buf, len, off);

	if (!err)
		err = ts_store_read(store, now, len, off);
	if (!err)
		err = ts_store_write(store, buf, 100, off + 50);
	if (!err)
		err = ts_store_zero(store, 100, off + 60);
	if (!err)
		err = ts_store_extents(store, len, off, see_extent, NULL);
	if (!err)
		err = ts_store_discard(store, len / 2, off);
	if (!err)
		err = ts_store_zero(store, len, off);
	if (err)
		rig_die("a request failed: %s", strerror(-err));
}

static void await_reserve(void)
{
	struct ts_blocks *blocks = &store->core.media.blocks;

	while (ts_blocks_free_touched(blocks) <= blocks->reserve * 3 / 4)
		ts_sleep_ns(1000000);
}

/* Returns the number of faults. */
static long measure(struct rng *rng)
{
	long n = 0, before;

	for (unsigned i = 0; i < 150; i++) {
		uint64_t off = rng_below(rng, SIZE / RUN_BYTES) * RUN_BYTES;

		/* New ground each time, all over the device; some of it stays,
		 * so that the pool grows.
		 */
		model_content(rng, buf, RUN_BYTES, 0);
		await_reserve();
		before = faults();
		watched = true;
		request_all(RUN_BYTES, off);
		if (i % 4 == 0 && ts_store_write(store, buf, RUN_BYTES, off))
			rig_die("a write failed");
		watched = false;
		n += faults() - before;
	}
	return n;
}

static void run(const char *what)
{
	struct rng rng = {1};
	long n;

	if (ts_store_start(store))
		rig_die("the store does not start");
	/* Stack, code and the test's own buffers. */
	memset(now, 1, sizeof(now));
	model_content(&rng, buf, RUN_BYTES, 0);
	for (unsigned k = 0; k < PAGE_KINDS; k++) {
		page_make(buf, (enum page_kind)k, k);
		request_all(4096, 0);
	}
	n_allocations = 0;
	n = measure(&rng);
	printf("%s: %ld faults, %u allocations\n", what, n, n_allocations);
	fflush(stdout);
	if (n || n_allocations)
		rig_die("requests fault or allocate %s", what);
	rig_check(store);
}

/* As the plugin does it, with pages sampled for a dictionary meanwhile. */
static int run_locked(void)
{
	struct ts_params params;
	char err[256];

	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) {
		perror("not tried with locked memory: mlockall");
		return EXIT_SUCCESS;
	}
	ts_params_init(&params);
	params.size_bytes = SIZE;
	params.ram_bytes = 64 * MIB;
	params.trainer = strdup("/bin/true");
	if (ts_params_finish(&params, err, sizeof(err)) ||
	    ts_store_new(&params, &store, err, sizeof(err)))
		rig_die("%s", err);
	run("locked on fault, with sampling");
	ts_store_free(store);
	ts_params_fini(&params);
	return EXIT_SUCCESS;
}

int main(void)
{
	int status;

	if (rig_is_instrumented()) {
		puts("this build watches memory, which allocates and faults");
		return EXIT_SKIP;
	}
	store = rig_new(SIZE, 64 * MIB);
	if (!fork()) {
		run("after a fork");
		ts_store_free(store);
		_exit(EXIT_SUCCESS);
	}
	wait(&status);
	ts_store_free(store);
	if (status)
		return EXIT_FAILURE;
	store = rig_new(SIZE, 64 * MIB);
	run("without a fork");
	ts_store_free(store);
	return run_locked();
}
