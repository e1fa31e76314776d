// SPDX-License-Identifier: BSD-3-Clause
/* test_block.c - the block list: reserve, budget, hysteresis, failures
 *
 * ts_shm_touch() and ts_shm_punch() are wrapped at link time.
 */
#include "block.h"
#include "shm.h"
#include "run.h"
#include "util/atomic.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define N_BLOCKS 32u
#define RESERVE  8u

static struct ts_shm shm;
static struct ts_blocks blocks;

static int touch_error, punch_error;
static void (*while_touching)(void);

int __real_ts_shm_touch(void *addr, size_t bytes);
int __wrap_ts_shm_touch(void *addr, size_t bytes);
int __real_ts_shm_punch(void *addr, size_t bytes);
int __wrap_ts_shm_punch(void *addr, size_t bytes);

int __wrap_ts_shm_touch(void *addr, size_t bytes)
{
	if (while_touching)
		while_touching();
	return touch_error ? touch_error : __real_ts_shm_touch(addr, bytes);
}

int __wrap_ts_shm_punch(void *addr, size_t bytes)
{
	return punch_error ? punch_error : __real_ts_shm_punch(addr, bytes);
}

static void setup(void)
{
	touch_error = punch_error = 0;
	while_touching = NULL;
	ck_assert_int_eq(ts_shm_new(&shm, N_BLOCKS * TS_BLOCK_BYTES, 0), 0);
	ck_assert_int_eq(ts_blocks_init(&blocks, shm.base, N_BLOCKS, RESERVE),
			 0);
}

static void teardown(void)
{
	const char *wrong = ts_blocks_check(&blocks);

	ck_assert_msg(!wrong, "%s", wrong);
	ts_blocks_fini(&blocks);
	ts_blocks_fini(&blocks);
	ts_shm_free(&shm);
}

static void check_resident(unsigned n)
{
	ck_assert_uint_eq(ts_blocks_resident_bytes(&blocks),
			  (uint64_t)n * TS_BLOCK_BYTES);
}

/* Only what the keeper touched is handed out, and the error tells whether
 * waiting for it helps.
 */
START_TEST(reserve)
{
	uint32_t block;

	check_resident(0);
	ck_assert_int_eq(ts_block_take(&blocks, &block), -ENOBUFS);
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 3), 3);
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 100), RESERVE - 3);
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 100), 0);
	ck_assert_uint_eq(ts_blocks_free_touched(&blocks), RESERVE);
	for (unsigned i = 0; i < RESERVE; i++)
		ck_assert_int_eq(ts_block_take(&blocks, &block), 0);
	ck_assert_int_eq(ts_block_take(&blocks, &block), -ENOBUFS);
	check_resident(RESERVE);
}
END_TEST

/* All blocks, each once; then no more until one comes back. */
START_TEST(budget)
{
	bool taken[N_BLOCKS] = {false};
	uint32_t block, n = 0;
	int err;

	while ((err = ts_block_take(&blocks, &block)) != -ENOSPC) {
		if (err == -ENOBUFS) {
			ck_assert_uint_gt(ts_blocks_refill(&blocks, 100), 0);
			continue;
		}
		ck_assert_int_eq(err, 0);
		ck_assert_uint_lt(block, N_BLOCKS);
		ck_assert(!taken[block]);
		taken[block] = true;
		memset(ts_block_addr(&blocks, block), 0xff, TS_BLOCK_BYTES);
		n++;
	}
	ck_assert_uint_eq(n, N_BLOCKS);
	check_resident(N_BLOCKS);
	ck_assert_int_eq(ts_blocks_wait(&blocks), -ENOSPC);
	ts_block_give(&blocks, 7);
	ck_assert_int_eq(ts_blocks_wait(&blocks), 0);
	ck_assert_int_eq(ts_block_take(&blocks, &block), 0);
	ck_assert_uint_eq(block, 7);
}
END_TEST

/* The budget may be less than the segment. */
START_TEST(small_budget)
{
	uint32_t block;

	blocks.budget = 2;
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 100), 2);
	ck_assert_int_eq(ts_block_take(&blocks, &block), 0);
	ck_assert_int_eq(ts_block_take(&blocks, &block), 0);
	ck_assert_int_eq(ts_block_take(&blocks, &block), -ENOSPC);
	ck_assert(!ts_blocks_wants_refill(&blocks));
	/* Taken away from under what is in use: no block too many. */
	blocks.budget = 1;
	ck_assert_int_eq(ts_block_take(&blocks, &block), -ENOSPC);
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 100), 0);
}
END_TEST

START_TEST(wants_refill)
{
	uint32_t block;

	ck_assert(ts_blocks_wants_refill(&blocks));
	ts_blocks_refill(&blocks, 100);
	for (unsigned left = RESERVE; left-- > 0;) {
		ck_assert_int_eq(ts_block_take(&blocks, &block), 0);
		ck_assert(ts_blocks_wants_refill(&blocks) ==
			  (left <= RESERVE * 3 / 4));
	}
}
END_TEST

START_TEST(shrink)
{
	uint32_t block;
	uint8_t *p;

	ts_blocks_refill(&blocks, 100);
	ck_assert_int_eq(ts_block_take(&blocks, &block), 0);
	p = ts_block_addr(&blocks, block);
	memset(p, 1, TS_BLOCK_BYTES);
	ts_block_give(&blocks, block);
	ck_assert_uint_eq(ts_blocks_shrink(&blocks, 2, 3), 3);
	check_resident(RESERVE - 3);
	ck_assert_uint_eq(ts_blocks_shrink(&blocks, 2, 100), RESERVE - 5);
	ck_assert_uint_eq(ts_blocks_shrink(&blocks, 2, 100), 0);
	check_resident(2);
	/* It was the block given back last, so it went first. */
	ck_assert_uint_eq(p[0], 0);
	/* Cold blocks are touched again before fresh ones. */
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 100), RESERVE - 2);
	ck_assert_uint_eq(blocks.fresh, RESERVE);
}
END_TEST

/* No memory in the system: nothing is lost, and it is tried again. */
START_TEST(touch_fails)
{
	uint32_t block;

	touch_error = -ENOMEM;
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(ts_blocks_refill(&blocks, 100), 0);
		ck_assert_ptr_null(ts_blocks_check(&blocks));
		check_resident(0);
	}
	ck_assert_int_eq(ts_block_take(&blocks, &block), -ENOBUFS);
	touch_error = 0;
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 100), RESERVE);
}
END_TEST

START_TEST(punch_fails)
{
	ts_blocks_refill(&blocks, 100);
	punch_error = -ENOMEM;
	ck_assert_uint_eq(ts_blocks_shrink(&blocks, 0, 100), 0);
	check_resident(RESERVE);
	ck_assert_uint_eq(ts_blocks_free_touched(&blocks), RESERVE);
}
END_TEST

static int taken_meanwhile;

static void take_meanwhile(void)
{
	uint32_t block;

	taken_meanwhile = ts_block_take(&blocks, &block);
}

/* While the keeper touches the last block of the budget, the budget is not
 * used up: whoever asks has to wait, not to fail.
 */
START_TEST(last_block_on_its_way)
{
	blocks.budget = 1;
	while_touching = take_meanwhile;
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 1), 1);
	ck_assert_int_eq(taken_meanwhile, -ENOBUFS);
}
END_TEST

static void *wait_thread(void *arg)
{
	return (void *)(intptr_t)ts_blocks_wait(&blocks);
}

static pthread_t waiter;

static void start_waiter(void)
{
	while_touching = NULL;
	ck_assert(!pthread_create(&waiter, NULL, wait_thread, NULL));
	/* Give it time to fail, if it does. */
	usleep(20000);
}

START_TEST(wait_for_last_block)
{
	void *err;

	blocks.budget = 1;
	while_touching = start_waiter;
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 1), 1);
	pthread_join(waiter, &err);
	ck_assert_int_eq((int)(intptr_t)err, 0);
}
END_TEST

/* A block that could not be touched ends the wait of those it was for, if
 * nothing else is left; here the budget was lowered meanwhile.
 */
START_TEST(wait_in_vain)
{
	void *err;

	blocks.budget = 1;
	while_touching = start_waiter;
	touch_error = -ENOMEM;
	ck_assert_uint_eq(ts_blocks_refill(&blocks, 1), 0);
	pthread_mutex_lock(&blocks.lock);
	blocks.budget = 0;
	pthread_cond_broadcast(&blocks.refilled);
	pthread_mutex_unlock(&blocks.lock);
	pthread_join(waiter, &err);
	ck_assert_int_eq((int)(intptr_t)err, -ENOSPC);
}
END_TEST

/* The walker is not blind. */
START_TEST(check_sees)
{
	uint32_t block;

	ts_blocks_refill(&blocks, 100);
	ck_assert_int_eq(ts_block_take(&blocks, &block), 0);
	blocks.n_touched--;
	ck_assert_ptr_nonnull(ts_blocks_check(&blocks));
	blocks.n_touched++;
	blocks.n_taken++;
	ck_assert_ptr_nonnull(ts_blocks_check(&blocks));
	blocks.n_taken--;
	blocks.fresh = N_BLOCKS + 1;
	ck_assert_ptr_nonnull(ts_blocks_check(&blocks));
	blocks.fresh = RESERVE;
}
END_TEST

/* Takers, givers and a keeper at once: no block is held twice. */
static bool held[N_BLOCKS];
static bool stop;

static void *churn(void *arg)
{
	unsigned seed = (unsigned)(intptr_t)arg;
	uint32_t block;

	for (unsigned i = 0; i < 5000; i++) {
		int err = ts_block_take(&blocks, &block);

		if (err == -ENOBUFS)
			err = ts_blocks_wait(&blocks);
		else if (!err) {
			ck_assert(!__atomic_exchange_n(&held[block], true,
						       __ATOMIC_RELAXED));
			if (rand_r(&seed) % 4 == 0)
				sched_yield();
			ts_store_relaxed(&held[block], false);
			ts_block_give(&blocks, block);
		}
		ck_assert(!err || err == -ENOSPC);
	}
	return NULL;
}

static void *keep(void *arg)
{
	while (!ts_load_relaxed(&stop)) {
		ts_blocks_refill(&blocks, 4);
		ts_blocks_shrink(&blocks, 1, 2);
	}
	return NULL;
}

START_TEST(threads)
{
	pthread_t id[4], keeper;

	stop = false;
	ck_assert(!pthread_create(&keeper, NULL, keep, NULL));
	for (unsigned i = 0; i < 4; i++)
		ck_assert(!pthread_create(&id[i], NULL, churn,
					  (void *)(intptr_t)(i + 1)));
	for (unsigned i = 0; i < 4; i++)
		pthread_join(id[i], NULL);
	ts_store_relaxed(&stop, true);
	pthread_join(keeper, NULL);
	ck_assert_uint_eq(blocks.n_taken, 0);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("block");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, reserve);
	tcase_add_test(tcase, budget);
	tcase_add_test(tcase, small_budget);
	tcase_add_test(tcase, wants_refill);
	tcase_add_test(tcase, shrink);
	tcase_add_test(tcase, touch_fails);
	tcase_add_test(tcase, punch_fails);
	tcase_add_test(tcase, last_block_on_its_way);
	tcase_add_test(tcase, wait_for_last_block);
	tcase_add_test(tcase, wait_in_vain);
	tcase_add_test(tcase, check_sees);
	tcase_add_test(tcase, threads);
	return run_case(tcase);
}
