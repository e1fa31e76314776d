// SPDX-License-Identifier: BSD-3-Clause
/* test_shm.c - shared memory: sparse, private, locked, and gone afterwards
 *
 * shmctl() and madvise() are wrapped at link time, to refuse.
 */
#include "shm.h"
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (1u << 20)

static int refuse_lock, refuse_populate;

int __real_shmctl(int id, int op, struct shmid_ds *buf);
int __wrap_shmctl(int id, int op, struct shmid_ds *buf);
int __real_madvise(void *addr, size_t bytes, int advice);
int __wrap_madvise(void *addr, size_t bytes, int advice);

int __wrap_shmctl(int id, int op, struct shmid_ds *buf)
{
	if (op == SHM_LOCK && refuse_lock) {
		errno = EPERM;
		return -1;
	}
	return __real_shmctl(id, op, buf);
}

int __wrap_madvise(void *addr, size_t bytes, int advice)
{
	if (refuse_populate && advice == 23) {
		errno = refuse_populate;
		return -1;
	}
	return __real_madvise(addr, bytes, advice);
}

static struct ts_shm shm;

static void setup(void)
{
	refuse_lock = refuse_populate = 0;
	ck_assert_int_eq(ts_shm_new(&shm, BYTES, 0), 0);
}

static void teardown(void)
{
	ts_shm_free(&shm);
	ts_shm_free(&shm);
}

static unsigned resident(void)
{
	unsigned char in[BYTES / 4096];
	unsigned n = 0;

	ck_assert_int_eq(mincore(shm.base, BYTES, in), 0);
	for (unsigned i = 0; i < BYTES / 4096; i++)
		n += in[i] & 1;
	return n;
}

START_TEST(sparse_and_zero)
{
	ck_assert_uint_eq(shm.bytes, BYTES);
	ck_assert_uint_eq(resident(), 0);
	ck_assert(!shm.base[0] && !memcmp(shm.base, shm.base + 1, BYTES - 1));
}
END_TEST

/* Nobody else may look, and the kernel removes it with its last user. */
START_TEST(private)
{
	struct shmid_ds ds;
	int id = shm.id;

	ck_assert_int_eq(__real_shmctl(id, IPC_STAT, &ds), 0);
	ck_assert_uint_eq(ds.shm_perm.mode & 0777, 0600);
	ck_assert_uint_ne(ds.shm_perm.mode & SHM_DEST, 0);
	ck_assert_uint_eq(ds.shm_nattch, 1);
	ck_assert_uint_eq(!!(ds.shm_perm.mode & SHM_LOCKED), shm.locked);
	ts_shm_free(&shm);
	ck_assert_int_eq(__real_shmctl(id, IPC_STAT, &ds), -1);
}
END_TEST

static bool has_flag(const char *flag)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512], start[32];
	bool here = false, found = false;

	ck_assert_ptr_nonnull(f);
	snprintf(start, sizeof(start), "%lx-", (unsigned long)shm.base);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, start, strlen(start)))
			here = true;
		if (here && !strncmp(line, "VmFlags:", 8)) {
			found = strstr(line, flag);
			break;
		}
	}
	fclose(f);
	return found;
}

START_TEST(not_dumped)
{
	ck_assert(has_flag(" dd"));
}
END_TEST

START_TEST(touch_and_punch)
{
	ck_assert_int_eq(ts_shm_touch(shm.base + 65536, 65536), 0);
	ck_assert_uint_eq(resident(), 16);
	memset(shm.base + 65536, 7, 65536);
	/* Touching again leaves contents alone. */
	ck_assert_int_eq(ts_shm_touch(shm.base + 65536, 65536), 0);
	ck_assert_uint_eq(shm.base[65536], 7);
	ck_assert_int_eq(ts_shm_punch(shm.base + 65536, 4096), 0);
	ck_assert_uint_eq(resident(), 15);
	ck_assert_uint_eq(shm.base[65536], 0);
	ck_assert_uint_eq(shm.base[65536 + 4096], 7);
}
END_TEST

/* Kernels before 5.14 do not know how to populate. */
START_TEST(touch_by_hand)
{
	refuse_populate = EINVAL;
	ck_assert_int_eq(ts_shm_touch(shm.base, 65536), 0);
	ck_assert_uint_eq(resident(), 16);
	shm.base[0] = 9;
	ck_assert_int_eq(ts_shm_touch(shm.base, 65536), 0);
	ck_assert_uint_eq(shm.base[0], 9);
}
END_TEST

/* Borders need not be those of pages. */
START_TEST(touch_unaligned)
{
	ck_assert_int_eq(ts_shm_touch(shm.base + 4095, 2), 0);
	ck_assert_uint_eq(resident(), 2);
	refuse_populate = EINVAL;
	ck_assert_int_eq(ts_shm_touch(shm.base + 3 * 4096 - 1, 2), 0);
	ck_assert_uint_eq(resident(), 4);
}
END_TEST

START_TEST(touch_fails)
{
	refuse_populate = ENOMEM;
	ck_assert_int_eq(ts_shm_touch(shm.base, 65536), -ENOMEM);
	ck_assert_uint_eq(resident(), 0);
}
END_TEST

START_TEST(punch_fails)
{
	ck_assert_int_lt(ts_shm_punch(shm.base + 1, 4096), 0);
}
END_TEST

/* Without the right to lock, it works and says so. */
START_TEST(not_locked)
{
	struct shmid_ds ds;

	ts_shm_free(&shm);
	refuse_lock = 1;
	ck_assert_int_eq(ts_shm_new(&shm, BYTES, 0), 0);
	ck_assert(!shm.locked);
	ck_assert_int_eq(__real_shmctl(shm.id, IPC_STAT, &ds), 0);
	ck_assert_uint_eq(ds.shm_perm.mode & SHM_LOCKED, 0);
}
END_TEST

START_TEST(too_large)
{
	struct ts_shm large = {0};

	ck_assert_int_lt(ts_shm_new(&large, 0, 0), 0);
	ck_assert_int_lt(ts_shm_new(&large, SIZE_MAX, 0), 0);
	ck_assert_ptr_null(large.base);
}
END_TEST

/* Beside a process that lives: nothing is touched; used once it is gone. */
START_TEST(prepare)
{
	struct ts_shm kept, taken = {0};
	const uint8_t *base;
	size_t bytes;
	pid_t pid;
	int key = getpid() | 1 << 30, status;

	ck_assert_int_eq(ts_shm_new(&kept, BYTES, key), 0);
	ck_assert_int_eq(ts_shm_touch(kept.base + 65536, 4096), 0);
	kept.base[65536] = 5;
	pid = fork();
	if (pid == 0) {
		struct ts_shm other = { .base = kept.base };
		unsigned char in[BYTES / 4096];
		unsigned n = 0;

		ts_shm_free(&other);
		if (ts_shm_prepare(kept.id, &base, &bytes) || bytes != BYTES)
			_exit(1);
		if (mincore((void *)base, BYTES, in))
			_exit(2);
		for (unsigned i = 0; i < BYTES / 4096; i++)
			n += in[i] & 1;
		/* The parent ends its use meanwhile. */
		if (n != 1 || ts_shm_attach(&taken, kept.id) ||
		    taken.base != base || taken.base[65536] != 5)
			_exit(3);
		_exit(0);
	}
	usleep(100000);
	ts_shm_free(&kept);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ts_shm_remove(kept.id);
	ck_assert_int_lt(ts_shm_prepare(kept.id, &base, &bytes), 0);
}
END_TEST

/* A child sees the same memory, not a copy. */
START_TEST(crosses_a_fork)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		shm.base[5] = 42;
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_uint_eq(shm.base[5], 42);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("shm");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, sparse_and_zero);
	tcase_add_test(tcase, private);
	tcase_add_test(tcase, not_dumped);
	tcase_add_test(tcase, touch_and_punch);
	tcase_add_test(tcase, touch_by_hand);
	tcase_add_test(tcase, touch_unaligned);
	tcase_add_test(tcase, touch_fails);
	tcase_add_test(tcase, punch_fails);
	tcase_add_test(tcase, not_locked);
	tcase_add_test(tcase, too_large);
	tcase_add_test(tcase, prepare);
	tcase_add_test(tcase, crosses_a_fork);
	return run_case(tcase);
}
