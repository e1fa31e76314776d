// SPDX-License-Identifier: BSD-3-Clause
/* test_statsfile.c - the statistics file, and tuning through it */
#include "statsfile.h"
#include "thinswap.h"
#include "tune.h"
#include "view.h"
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE    4096u
#define N_SLOTS 4096u

static char dir[64], path[96];
static struct ts_store *store;

static void set(struct ts_params *params, const char *key, const char *value)
{
	char err[256] = "";

	ck_assert_msg(!ts_params_set(params, key, value, err, sizeof(err)),
		      "%s", err);
}

/* @spill NULL: memory for everything; else for less than N_SLOTS of noise. */
static void start_in(const char *base, const char *spill)
{
	struct ts_params params;
	char err[256] = "";

	snprintf(dir, sizeof(dir), "%s/ts-stats.XXXXXX", base);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/stats", dir);
	ts_params_init(&params);
	set(&params, "size", "64M");
	set(&params, "ram", spill ? "8M" : "32M");
	set(&params, "stats", path);
	if (!spill)
		params.write_behind_bytes = 0;
	if (spill) {
		set(&params, "spill", spill);
		set(&params, "spill-size", "32M");
	}
	ck_assert_int_eq(ts_params_finish(&params, err, 256), 0);
	ck_assert_msg(!ts_store_new(&params, &store, err, 256), "%s", err);
	ck_assert_int_eq(ts_store_start(store), 0);
	ts_params_fini(&params);
}

static void setup(void)
{
	start_in("/dev/shm", NULL);
}

static void teardown(void)
{
	ts_store_free(store);
	store = NULL;
	ck_assert_int_eq(rmdir(dir), 0);
}

static void look(struct ts_snapshot *ret)
{
	struct ts_statsfile_reader reader;
	char err[256];

	ck_assert_int_eq(ts_statsfile_open(&reader, path, err, 256), 0);
	ts_statsfile_read(&reader, ret);
	ts_statsfile_close(&reader);
}

static void fill_page(uint8_t *page, unsigned kind, unsigned seed)
{
	uint64_t x = seed + 1;

	memset(page, kind == 1 ? 0x5a : 0, PAGE);
	for (unsigned i = 0; i < PAGE && kind >= 2; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		page[i] = kind == 2 && i > 1000 ? 'x' : (uint8_t)(x >> 33);
	}
}

START_TEST(test_everybody_may_read)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0644);
}
END_TEST

START_TEST(test_counts_at_once)
{
	static struct ts_snapshot now;
	uint8_t page[PAGE];

	for (unsigned kind = 0; kind < 4; kind++)
		for (unsigned i = 0; i < 10; i++) {
			fill_page(page, kind, i);
			ck_assert_int_eq(ts_store_write(store, page, PAGE,
							(kind * 10 + i) * PAGE),
					 0);
		}
	look(&now);
	ck_assert_int_eq(now.sums.value[TS_STAT_zero_slots], 10);
	ck_assert_int_eq(now.sums.value[TS_STAT_fill_slots], 10);
	ck_assert_int_eq(now.sums.value[TS_STAT_written_pages], 40);
	ck_assert_uint_eq(ts_latency_count(&now.sums.hist[TS_HIST_write]), 40);
	ck_assert_uint_eq(ts_latency_count(&now.sums.hist[TS_HIST_compress]),
			  20);
	ck_assert_int_eq(now.looked_up.gauge[TS_GAUGE_budget_bytes], 32 << 20);
	ck_assert(now.sums.consistent);
	ck_assert(now.alive && !now.stopped);
}
END_TEST

/* The load: threads that give slots another kind again and again. Even ones
 * turn half of the slots from zeroes to a pattern and back, which is quick, so
 * that looks often meet a change. Odd ones fill the other half with more noise
 * than memory takes, so that pages go on to spill and come back. No slot is
 * ever dropped.
 */
static bool stop_load;

static void *load(void *arg)
{
	unsigned odd = (unsigned)(uintptr_t)arg % 2;
	unsigned x = (unsigned)(uintptr_t)arg;
	uint8_t page[PAGE];

	while (!ts_load_relaxed(&stop_load)) {
		uint64_t slot;

		x = x * 1664525u + 1013904223u;
		slot = odd * N_SLOTS / 2 + (x >> 8) % (N_SLOTS / 2);
		fill_page(page, odd ? 2 + (x >> 29 > 0) : x >> 31, x);
		if (ts_store_write(store, page, PAGE, slot * PAGE) ||
		    (odd && ts_store_read(store, page, PAGE, slot * PAGE)))
			return (void *)"a request failed";
	}
	return NULL;
}

/* Whether a look is of all slots, each once. */
static bool adds_up(const struct ts_snapshot *now)
{
	struct ts_view view;
	uint64_t sum = 0;
	char kind[32];

	ts_view_make(now, &view);
	for (unsigned i = 0; i < TS_N_STATS; i++)
		if (ts_stat_kind(i, kind))
			sum += view.slots[i];
	return sum == N_SLOTS && view.used_slots == N_SLOTS;
}

static bool same_kinds(const struct ts_snapshot *a, const struct ts_snapshot *b)
{
	char kind[32];

	for (unsigned i = 0; i < TS_N_STATS; i++)
		if (ts_stat_kind(i, kind) &&
		    a->sums.value[i] != b->sums.value[i])
			return false;
	return true;
}

/* In a process of its own, which shares nothing but the file: look until so
 * many consistent looks differ from the one before, some of them with pages
 * in every tier. Exits with 0 when all add up.
 */
static void read_in_child(void)
{
	static struct ts_snapshot now, before;
	unsigned looks = 0, all_kinds = 0;

	while (looks < 1500 || !all_kinds) {
		const int64_t *v = now.sums.value;

		look(&now);
		if (!now.sums.consistent || same_kinds(&now, &before))
			continue;
		if (!adds_up(&now))
			_exit(1);
		looks++;
		all_kinds += v[TS_STAT_zero_slots] > 0 &&
			     v[TS_STAT_fill_slots] > 0 &&
			     v[TS_STAT_ram_slots] > 0 &&
			     v[TS_STAT_spill_slots] > 0;
		before = now;
	}
	_exit(0);
}

START_TEST(test_sums_add_up_under_load)
{
	char spill[] = "/dev/shm/ts-stats-spill.XXXXXX";
	pthread_t thread[3];
	void *failure;
	uint8_t page[PAGE];
	int status;
	pid_t child;

	close(mkstemp(spill));
	teardown();
	start_in("/dev/shm", spill);
	unlink(spill);
	fill_page(page, 0, 0);
	for (unsigned i = 0; i < N_SLOTS; i++)
		ck_assert_int_eq(
			ts_store_write(store, page, PAGE, (uint64_t)i * PAGE),
			0);
	child = fork();
	if (!child)
		read_in_child();
	ck_assert_int_gt(child, 0);
	ts_store_relaxed(&stop_load, false);
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, load, (void *)(i + 1));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ts_store_relaxed(&stop_load, true);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(thread[i], &failure);
		ck_assert_ptr_null(failure);
	}
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(test_living_server_is_respected)
{
	struct ts_statsfile other;
	char err[256], pid[32];

	ck_assert_int_eq(ts_statsfile_new(&other, path, "test", err, 256),
			 -EBUSY);
	snprintf(pid, sizeof(pid), "pid %d", getpid());
	ck_assert_msg(strstr(err, pid), "%s", err);
}
END_TEST

START_TEST(test_other_files_are_respected)
{
	char name[128], target[128], err[256];
	struct ts_statsfile other;
	int fd;

	snprintf(name, sizeof(name), "%s/precious", dir);
	fd = open(name, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(write(fd, "precious data", 13), 13);
	close(fd);
	ck_assert_int_eq(ts_statsfile_new(&other, name, "test", err, 256),
			 -EEXIST);
	snprintf(target, sizeof(target), "%s/link", dir);
	ck_assert_int_eq(symlink(name, target), 0);
	ck_assert_int_eq(ts_statsfile_new(&other, target, "test", err, 256),
			 -ELOOP);
	unlink(target);
	ck_assert_int_eq(mkfifo(target, 0600), 0);
	ck_assert_int_eq(ts_statsfile_new(&other, target, "test", err, 256),
			 -EEXIST);
	unlink(target);
	unlink(name);
}
END_TEST

/* A dead server's file is there, readable, and can be replaced. */
START_TEST(test_dead_server)
{
	static struct ts_snapshot now;
	struct ts_statsfile file;
	char err[256], old[96];
	pid_t child;

	memcpy(old, path, sizeof(old));
	snprintf(path, sizeof(path), "%s/dead", dir);
	child = fork();
	if (!child) {
		if (ts_statsfile_new(&file, path, "test", err, 256))
			_exit(1);
		ts_statsfile_start(&file);
		file.map->shard[3].value[TS_STAT_read_pages] = 4711;
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	look(&now);
	ck_assert(!now.alive);
	ck_assert_int_eq(now.header.pid, child);
	ck_assert_int_eq(now.sums.value[TS_STAT_read_pages], 4711);
	ck_assert_int_eq(ts_tune_ask(path, TS_TUNE_LEVEL, 3, 100, err, 256),
			 -ESRCH);
	ck_assert_int_eq(ts_statsfile_new(&file, path, "test", err, 256), 0);
	ts_statsfile_fini(&file);
	ck_assert_int_ne(access(path, F_OK), 0);
	memcpy(path, old, sizeof(path));
}
END_TEST

/* A thread that stopped within a change does not stop readers. */
START_TEST(test_reader_never_waits)
{
	static struct ts_snapshot now;
	struct ts_statsfile file;
	char err[256], old[96];

	memcpy(old, path, sizeof(old));
	snprintf(path, sizeof(path), "%s/stuck", dir);
	ck_assert_int_eq(ts_statsfile_new(&file, path, "test", err, 256), 0);
	file.map->shard[2].begun++;
	look(&now);
	ck_assert(!now.sums.consistent);
	file.map->shard[2].ended++;
	look(&now);
	ck_assert(now.sums.consistent);
	file.map->seq++;
	look(&now);
	ck_assert(!now.sums.consistent);
	ts_statsfile_fini(&file);
	memcpy(path, old, sizeof(path));
}
END_TEST

START_TEST(test_other_build)
{
	struct ts_statsfile_reader reader;
	struct ts_statsfile file;
	char name[128], err[256];

	snprintf(name, sizeof(name), "%s/other", dir);
	ck_assert_int_eq(ts_statsfile_new(&file, name, "9.9", err, 256), 0);
	file.map->header.fingerprint++;
	ck_assert_int_eq(ts_statsfile_open(&reader, name, err, 256), -EPROTO);
	ck_assert_msg(strstr(err, "9.9"), "%s", err);
	ts_statsfile_fini(&file);
}
END_TEST

static int ask(const char *text, char *err)
{
	enum ts_tune_key key;
	int64_t value;

	err[0] = '\0';
	if (ts_tune_parse(text, &key, &value, err, 256))
		return -EINVAL;
	return ts_tune_ask(path, key, value, 5000, err, 256);
}

START_TEST(test_tune)
{
	static struct ts_snapshot now;
	char err[256];

	ck_assert_msg(!ask("level=7", err), "%s", err);
	ck_assert_msg(!ask("ram=16M", err), "%s", err);
	look(&now);
	ck_assert_int_eq(now.looked_up.gauge[TS_GAUGE_level], 7);
	ck_assert_int_eq(now.looked_up.gauge[TS_GAUGE_budget_bytes], 16 << 20);
	ck_assert_int_eq(ask("ram=1T", err), -ERANGE);
	ck_assert_msg(strstr(err, "ram-max"), "%s", err);
	ck_assert_int_eq(ask("high-water=90", err), -ENOTSUP);
	ck_assert_int_eq(ask("level=20", err), -EINVAL);
	ck_assert_msg(strstr(err, "-7 to 19"), "%s", err);
	ck_assert_int_eq(ask("level=", err), -EINVAL);
	ck_assert_int_eq(ask("levle=1", err), -EINVAL);
	ck_assert_int_eq(ask("ram=1GB", err), -EINVAL);
}
END_TEST

/* A lowered budget refuses, a raised one accepts again; nothing is lost. */
START_TEST(test_tune_ram)
{
	uint8_t page[PAGE], back[PAGE];
	unsigned full = 0, more = 0;
	char err[256];

	ck_assert_msg(!ask("ram=8M", err), "%s", err);
	for (; full < N_SLOTS * 4; full++) {
		fill_page(page, 3, full);
		if (ts_store_write(store, page, PAGE, (uint64_t)full * PAGE))
			break;
	}
	ck_assert_uint_lt(full, N_SLOTS);
	ck_assert_msg(!ask("ram=16M", err), "%s", err);
	for (more = full; more < N_SLOTS * 4; more++) {
		fill_page(page, 3, more);
		if (ts_store_write(store, page, PAGE, (uint64_t)more * PAGE))
			break;
	}
	ck_assert_uint_gt(more, full + 1000);
	ck_assert_msg(!ask("level=-3", err), "%s", err);
	for (unsigned i = 0; i < more; i++) {
		fill_page(page, 3, i);
		ck_assert_int_eq(
			ts_store_read(store, back, PAGE, (uint64_t)i * PAGE),
			0);
		ck_assert_int_eq(memcmp(page, back, PAGE), 0);
	}
}
END_TEST

/* Where the directory is not a tmpfs, the shards are copied each second. */
START_TEST(test_on_disk)
{
	static struct ts_snapshot now;
	uint8_t page[PAGE] = {0};

	teardown();
	start_in("/var/tmp", NULL);
	ck_assert_int_eq(ts_store_write(store, page, PAGE, 0), 0);
	for (unsigned i = 0; i < 100; i++) {
		look(&now);
		if (now.sums.value[TS_STAT_zero_slots])
			break;
		usleep(50000);
	}
	ck_assert_int_eq(now.sums.value[TS_STAT_zero_slots], 1);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("statsfile");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, test_everybody_may_read);
	tcase_add_test(tcase, test_counts_at_once);
	tcase_add_test(tcase, test_sums_add_up_under_load);
	tcase_add_test(tcase, test_living_server_is_respected);
	tcase_add_test(tcase, test_other_files_are_respected);
	tcase_add_test(tcase, test_dead_server);
	tcase_add_test(tcase, test_reader_never_waits);
	tcase_add_test(tcase, test_other_build);
	tcase_add_test(tcase, test_tune);
	tcase_add_test(tcase, test_tune_ram);
	tcase_add_test(tcase, test_on_disk);
	return run_case(tcase);
}
