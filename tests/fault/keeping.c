// SPDX-License-Identifier: BSD-3-Clause
/* keeping.c - a kept store, and the journal of what it was told */
#include "tests/fault/keeping.h"
#include "fsck.h"
#include "keepfile.h"
#include "tests/common/pages.h"
#include "util/atomic.h"
#include "util/lock.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <zdict.h>

#define FAR_SLOT    (40ull << 30 >> 12)
#define SIZE_BYTES  (48ull << 30)
#define RAM_BYTES   (8ull << 20)
#define SPILL_BYTES (10ull << 20)
/* Every so many generations a slot is discarded instead of written. */
#define DISCARD_EVERY 7u
#define CHILDREN_MAX  8192u
#define SAMPLES	      96u

struct journal *journal;
void (*ts_fault_hook)(const struct ts_fault_point *point);

static char dir[200], keep_path[256], spill_path[256];
static bool spills;
static pid_t child[CHILDREN_MAX];
static unsigned n_children;
static uint8_t dict[TS_DICT_BYTES];
static size_t dict_bytes;

void keeping_wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	journal->failed = 1;
}

unsigned keeping_points(void)
{
	return (unsigned)(__stop_ts_fault_points - __start_ts_fault_points);
}

const char *keeping_point_name(unsigned i)
{
	return __start_ts_fault_points[i].name;
}

static void pass_point(const struct ts_fault_point *point)
{
	uint32_t i = (uint32_t)(point - __start_ts_fault_points);
	uint64_t hit = ts_add_relaxed(&journal->hits[i], 1) + 1;

	ts_store_relaxed(&journal->last, i + 1);
	if (i + 1 == journal->armed && hit == journal->armed_hit) {
		journal->died = 1;
		kill(getpid(), SIGKILL);
		for (;;)
			pause();
	}
}

/* Of pages like those that are written. */
static void train(void)
{
	static uint8_t sample[SAMPLES * 4096];
	size_t bytes[SAMPLES];

	for (unsigned i = 0; i < SAMPLES; i++) {
		page_make(sample + i * 4096, PAGE_TEXT, i);
		bytes[i] = 4096;
	}
	dict_bytes = ZDICT_trainFromBuffer(dict, sizeof(dict), sample, bytes,
					   SAMPLES);
	if (ZDICT_isError(dict_bytes)) {
		fprintf(stderr, "no dictionary\n");
		exit(1);
	}
}

/* An impatient user, or a test that takes too long. */
static void interrupted(int signal)
{
	(void)signal;
	keeping_end();
	_exit(1);
}

void keeping_begin(bool with_spill)
{
	const char *tmp = getenv("TMPDIR");

	/* Memory is the fastest disk, where there is room in it. */
	snprintf(dir, sizeof(dir), "/dev/shm/ts-keeping.XXXXXX");
	if (!mkdtemp(dir)) {
		snprintf(dir, sizeof(dir), "%.100s/ts-keeping.XXXXXX",
			 tmp ? tmp : "/tmp");
		if (!mkdtemp(dir)) {
			perror(dir);
			exit(1);
		}
	}
	snprintf(keep_path, sizeof(keep_path), "%s/keep", dir);
	snprintf(spill_path, sizeof(spill_path), "%s/spill", dir);
	spills = with_spill;
	journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (journal == MAP_FAILED || keeping_points() > POINTS_MAX) {
		fprintf(stderr, "no journal\n");
		exit(1);
	}
	train();
	ts_fault_hook = pass_point;
	signal(SIGTERM, interrupted);
	signal(SIGINT, interrupted);
}

static bool is_child(pid_t pid)
{
	for (unsigned i = 0; i < n_children; i++)
		if (child[i] == pid)
			return true;
	return false;
}

/* Segments that a child of ours has made. Pids come again, so those of other
 * programs are told by their size.
 */
unsigned keeping_leaks(void)
{
	FILE *f = fopen("/proc/sysvipc/shm", "re");
	char line[512];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long bytes;
		int id, pid;

		if (sscanf(line, "%*d %d %*o %llu %d", &id, &bytes, &pid) !=
			    3 ||
		    bytes != journal->segment_bytes || !is_child(pid))
			continue;
		fprintf(stderr, "segment %d is left\n", id);
		n++;
	}
	if (f)
		fclose(f);
	return n;
}

void keeping_end(void)
{
	int id = ts_keepfile_segment(keep_path);

	if (id >= 0)
		ts_shm_remove(id);
	unlink(keep_path);
	unlink(spill_path);
	rmdir(dir);
}

pid_t keeping_fork(void (*fn)(uint64_t seed), uint64_t seed)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(seed);
		_exit(0);
	}
	if (pid > 0 && n_children < CHILDREN_MAX)
		child[n_children++] = pid;
	return pid;
}

static bool is_discard(uint32_t generation)
{
	return generation % DISCARD_EVERY == 0;
}

static uint64_t slot_of(uint32_t i)
{
	return i < NEAR_SLOTS ? i : FAR_SLOT + i - NEAR_SLOTS;
}

/* A page that says whose it is; some compress, some hardly, some not. */
static void make_page(uint8_t *page, uint32_t slot, uint32_t generation)
{
	uint64_t x = slot * 0x9e3779b97f4a7c15ull + generation;
	unsigned kind = (slot / 8 + generation) % 5;
	uint64_t *w = (uint64_t *)page;

	for (unsigned i = 0; i < 512; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		w[i] = kind == 0 ? x : i % (2u << kind) ? i & 3 : x;
	}
	w[0] = slot;
	w[511] = generation;
	if (kind == 4 && slot % 16 == 0)
		for (unsigned i = 0; i < 512; i++)
			w[i] = (uint64_t)generation << 32 | slot;
}

static bool holds(const uint8_t *page, uint32_t slot, uint32_t generation)
{
	static const uint8_t zeroes[4096];
	uint8_t want[4096] __attribute__((aligned(8)));

	if (is_discard(generation))
		return !memcmp(page, zeroes, sizeof(zeroes));
	make_page(want, slot, generation);
	return !memcmp(page, want, sizeof(want));
}

/* The slot holds what was acknowledged, or tried after it. */
static void verify_slot(struct ts_store *store, uint32_t i)
{
	uint8_t page[4096] __attribute__((aligned(8)));
	int ret = ts_store_read(store, page, 4096, slot_of(i) * 4096);
	uint32_t g = journal->acked[i];
	bool found = false;

	for (; !ret && g <= journal->tried[i] && !found; g++)
		found = holds(page, i, g);
	if (!found)
		keeping_wrong("slot %u: read %d, acknowledged %u, tried %u, page says slot %" PRIu64
			      " generation %" PRIu64,
			      i, ret, journal->acked[i], journal->tried[i],
			      *(uint64_t *)page, *(uint64_t *)(page + 4088));
	else /* from here on this is what it holds */
		journal->acked[i] = journal->tried[i] = g - 1;
}

static void walk_from_outside(struct ts_store *store)
{
	struct ts_peek peek;
	struct ts_fsck found;
	char why[256];

	if (ts_peek_open(&peek, store->core.kept.shm.id, why, sizeof(why))) {
		keeping_wrong("from outside: %s", why);
		return;
	}
	if (ts_fsck(&peek, NULL, &found) || ts_fsck_errors(&found) ||
	    found.unread || found.unsettled)
		keeping_wrong("from outside: %" PRIu64 " errors, the first: %s; %" PRIu64
			      " unread: %s; %" PRIu64 " unsettled",
			      ts_fsck_errors(&found),
			      ts_fsck_name(found.example[0].fault),
			      found.unread, found.why_unread, found.unsettled);
	ts_peek_close(&peek);
}

static void verify(struct ts_store *store)
{
	char err[256];

	if (ts_store_check(store, err, sizeof(err)))
		keeping_wrong("after taking over: %s", err);
	walk_from_outside(store);
	for (uint32_t i = 0; i < SLOTS && !journal->failed; i++)
		verify_slot(store, i);
	journal->verified++;
}

static bool anything_acked(void)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		if (journal->acked[i])
			return true;
	return false;
}

/* A store that began empty may do so only where nothing was. */
static void expect_adopted(const struct ts_store *store)
{
	if (!store->core.kept.adopted ||
	    store->core.kept.shm.id != journal->segment) {
		if (!journal->stopping && anything_acked())
			keeping_wrong("pages were acknowledged, and the store is new");
		memset(journal->acked, 0, sizeof(journal->acked));
		memset(journal->tried, 0, sizeof(journal->tried));
	}
	journal->segment = store->core.kept.shm.id;
	journal->segment_bytes = store->core.kept.shm.bytes;
	journal->stopping = 0;
}

struct ts_store *keeping_open(void)
{
	struct ts_store *store;
	struct ts_params params;
	char err[512] = "";

	ts_params_init(&params);
	params.size_bytes = SIZE_BYTES;
	params.ram_bytes = RAM_BYTES;
	params.dictionary = false;
	params.keep_path = keep_path;
	params.spill_path = spills ? spill_path : NULL;
	params.spill_bytes = spills ? SPILL_BYTES : 0;
	if (!ts_params_finish(&params, err, sizeof(err)) &&
	    (!journal->no_stage || !(params.write_behind_bytes = 0)) &&
	    /* Less to touch for each of many lives. */
	    (params.reserve_bytes = 256 << 10) &&
	    !ts_store_new(&params, &store, err, sizeof(err)) &&
	    !ts_store_start(store)) {
		expect_adopted(store);
		verify(store);
		ts_store_release(&journal->ready, 1);
		return store;
	}
	keeping_wrong("cannot serve: %s", err);
	_exit(1);
}

static void acknowledge(uint32_t first, uint32_t n, uint32_t generation,
			int ret)
{
	for (uint32_t i = first; i < first + n && !ret; i++)
		ts_store_release(&journal->acked[i], generation);
	if (ret && ret != -ENOSPC)
		keeping_wrong("a request failed: %s", strerror(-ret));
	ts_add_relaxed(&journal->operations, 1);
}

/* One generation for all, so that it is one request. */
static uint32_t next_generation(uint32_t first, uint32_t n)
{
	uint32_t most = 0;

	for (uint32_t i = first; i < first + n; i++)
		if (journal->tried[i] > most)
			most = journal->tried[i];
	return most + 1;
}

static void try_generation(uint32_t first, uint32_t n, uint32_t generation)
{
	for (uint32_t i = first; i < first + n; i++)
		ts_store_release(&journal->tried[i], generation);
}

void keeping_discard(struct ts_store *store, uint32_t first, uint32_t n)
{
	uint32_t g = next_generation(first, n);

	g = (g + DISCARD_EVERY - 1) / DISCARD_EVERY * DISCARD_EVERY;
	try_generation(first, n, g);
	acknowledge(first, n, g,
		    ts_store_discard(store, n * 4096ull,
				     slot_of(first) * 4096));
}

void keeping_write(struct ts_store *store, uint32_t first, uint32_t n)
{
	static _Thread_local uint8_t pages[RUN_MAX * 4096]
		__attribute__((aligned(8)));
	uint32_t g = next_generation(first, n);

	g += is_discard(g);
	try_generation(first, n, g);
	for (uint32_t i = 0; i < n; i++)
		make_page(pages + i * 4096, first + i, g);
	acknowledge(first, n, g,
		    ts_store_write(store, pages, n * 4096ull,
				   slot_of(first) * 4096));
}

void keeping_change(struct ts_store *store, struct rng *rng, uint32_t first,
		    uint32_t n)
{
	if (rng_below(rng, 6) == 0)
		keeping_discard(store, first, n);
	else
		keeping_write(store, first, n);
}

void keeping_new_dictionary(struct ts_store *store)
{
	struct ts_codec *codec = &store->core.media.codec;

	ts_codec_retire(codec);
	ts_dicts_add(&codec->dicts, dict, dict_bytes);
}

void keeping_close(struct ts_store *store)
{
	ts_store_release(&journal->stopping, 1);
	ts_store_free(store);
}
