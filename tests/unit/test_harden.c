// SPDX-License-Identifier: BSD-3-Clause
/* test_harden.c - each hardening step, read back from /proc (cases 1, 2) */
#include "util/harden.h"
#include "run.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct ts_harden_facts here(void)
{
	struct ts_harden_facts facts;

	ck_assert_int_eq(ts_harden_observe(getpid(), &facts), 0);
	return facts;
}

START_TEST(observes_a_process)
{
	struct ts_harden_facts facts = here();

	ck_assert_uint_gt(facts.rss_bytes, 0);
	ck_assert_uint_ge(facts.threads, 1);
	ck_assert_uint_gt(facts.minor_faults, 0);
	ck_assert_uint_eq(facts.threads_realtime, 0);
	/* Beyond what the kernel gives out. */
	ck_assert_int_eq(ts_harden_observe(1 << 23, &facts), -ESRCH);
}
END_TEST

/* On fault: address space that is never touched must not become resident. */
START_TEST(locks_on_fault)
{
	struct ts_harden_facts before, after;
	uint64_t limit;
	char *map;

	if (ts_harden_memlock_limit(512 * (uint64_t)MIB, &limit) < 0) {
		ck_assert_uint_lt(limit, 512 * (uint64_t)MIB);
		return;
	}
	ck_assert_int_eq(ts_harden_lock_memory(), 0);
	before = here();
	ck_assert_uint_ge(before.locked_bytes, before.rss_bytes / 2);
	map = mmap(NULL, 256 * MIB, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	after = here();
	ck_assert_uint_ge(after.locked_bytes, before.locked_bytes + 256 * MIB);
	ck_assert_uint_lt(after.rss_bytes, before.rss_bytes + 8 * MIB);
}
END_TEST

START_TEST(populates_code)
{
	uint64_t bytes = 0;
	int err = ts_harden_populate_code(&bytes);

	if (err == -EINVAL)
		return; /* before Linux 5.14 */
	ck_assert_int_eq(err, 0);
	/* The C library alone has more. */
	ck_assert_uint_gt(bytes, MIB);
}
END_TEST

START_TEST(finds_a_small_limit)
{
	struct rlimit small = {.rlim_cur = 8 * MIB, .rlim_max = 8 * MIB};
	uint64_t limit;
	int err;

	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &small), 0);
	err = ts_harden_memlock_limit(9 * MIB, &limit);
	if (ts_harden_has_capability(CAP_IPC_LOCK)) {
		ck_assert_int_eq(err, 0);
		ck_assert_uint_eq(limit, UINT64_MAX);
	} else {
		ck_assert_int_eq(err, -ENOMEM);
		ck_assert_uint_eq(limit, 8 * MIB);
		ck_assert_int_eq(ts_harden_memlock_limit(7 * MIB, &limit), 0);
	}
}
END_TEST

static void *sleeper(void *opaque)
{
	pause();
	return NULL;
}

/* The flag is inherited by threads, or refused by name of the capability. */
START_TEST(sets_the_flusher_flag)
{
	struct ts_harden_facts facts;
	pthread_t thread;
	int err = ts_harden_io_flusher(true);

	ck_assert_int_eq(
		err, ts_harden_has_capability(CAP_SYS_RESOURCE) ? 0 : -EPERM);
	ck_assert_int_eq(pthread_create(&thread, NULL, sleeper, NULL), 0);
	facts = here();
	ck_assert_uint_eq(facts.threads, 2);
	ck_assert_uint_eq(facts.threads_flusher, err == 0 ? 2 : 0);
}
END_TEST

START_TEST(sets_oom_score)
{
	/* Upwards is always allowed. */
	ck_assert_int_eq(ts_harden_oom_score_adj(500), 0);
	ck_assert_int_eq(here().oom_score_adj, 500);
	if (ts_harden_has_capability(CAP_SYS_RESOURCE)) {
		ck_assert_int_eq(ts_harden_oom_score_adj(-1000), 0);
		ck_assert_int_eq(here().oom_score_adj, -1000);
	} else {
		ck_assert_int_eq(ts_harden_oom_score_adj(-1000), -EPERM);
		ck_assert_int_eq(here().oom_score_adj, 500);
	}
}
END_TEST

/* Every test in a process of its own: the steps cannot be taken back. */
int main(void)
{
	TCase *tcase;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	puts("SKIP: sanitizers make mlockall do nothing and start threads");
	return 77;
#endif
	tcase = tcase_create("harden");
	tcase_add_test(tcase, observes_a_process);
	tcase_add_test(tcase, locks_on_fault);
	tcase_add_test(tcase, populates_code);
	tcase_add_test(tcase, finds_a_small_limit);
	tcase_add_test(tcase, sets_the_flusher_flag);
	tcase_add_test(tcase, sets_oom_score);
	return run_case(tcase);
}
