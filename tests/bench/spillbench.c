// SPDX-License-Identifier: BSD-3-Clause
/* spillbench.c - what the spill tier writes and reads, without a server
 *
 *	spillbench --file PATH --spill SIZE --ram SIZE [--pages FILE]
 *		   [--full PERCENT] [--hot PERCENT] [--readers N]
 *		   fill|drain|read|overwrite|working-set|ram-only
 *
 * One store, one JSON line. Without --pages the pages are random bytes, which
 * do not compress: then the file is what limits.
 *
 * fill         write 70 % of the file's size; bytes that reached the file by
 *              the second, how many for each byte of a page displaced, and
 *              which share of the processor time the spill tier's threads took
 * drain        70 % of the file's size is in memory (RAM must hold it) and is
 *              sent to the file: no compression, so this is what the spiller,
 *              its cipher and the file can do
 * read         after that, 4 KiB from random slots that are in the file, in
 *              --readers (1) threads
 * overwrite    --full (80) percent of the file's size is stored; random slots
 *              are written again, three times as many as there are, with --hot
 *              nine of ten in that many percent of the slots
 *
 *		amplification   bytes to the file for each byte of a page
 *				displaced, as stored
 *		for_uniform     what theory gives a log at this share of live
 *				bytes, when no page is likelier to be overwritten
 *				than another
 *		per_overwritten the same bytes, for each byte of a page
 *				overwritten, as stored
 *		per_4096        the same, for each 4096 bytes displaced
 *
 * ram-only     the RAM's half is written and read at random, for instruction
 *              counts; with --spill 0 there is no file
 * working-set  four times the RAM is stored; a set of slots that takes half of
 *              the RAM is read and written at random: how many reads the file
 *              had to serve
 */
#include "store.h"
#include "tests/bench/hist.h"
#include "tests/common/rng.h"
#include "util/atomic.h"
#include "util/size.h"

#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB	(1ull << 20)
#define PAGE	4096ull
#define RUN	16u /* pages a request */
#define WRITERS 2u
#define READS	20000u
#define READERS 64u

static struct ts_params params;
static struct ts_store *store;
static const uint8_t *pages;
static uint64_t n_pages, n_slots;
static unsigned percent_full = 80, percent_hot, n_readers = 1;
static struct rng rng = { 1 };

__attribute__((format(printf, 1, 2), noreturn)) static void
die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	fprintf(stderr, "spillbench: ");
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

static uint64_t size_of(const char *text)
{
	char why[160];
	uint64_t bytes;

	if (ts_size_parse(text, &bytes, why, sizeof(why)))
		die("%s", why);
	return bytes;
}

static void random_pages(void)
{
	uint64_t bytes = 64 * MIB;
	uint64_t *p = aligned_alloc(PAGE, bytes);

	if (!p)
		die("no memory");
	for (uint64_t i = 0; i < bytes / 8; i++)
		p[i] = rng_next(&rng);
	pages = (uint8_t *)p;
	n_pages = bytes / PAGE;
}

static void map_pages(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *at;

	if (fd < 0 || fstat(fd, &st))
		die("%s: cannot be opened", path);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ,
		  MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (at == MAP_FAILED)
		die("%s: cannot be mapped", path);
	close(fd);
	pages = at;
	n_pages = (uint64_t)st.st_size / PAGE;
}

static struct ts_counters counters(void)
{
	struct ts_counters c;

	ts_store_counters(store, &c);
	return c;
}

/* Until every page is compressed. */
static void settle(void)
{
	while (counters().staged_slots)
		ts_sleep_ns(1000000);
}

static void put(uint64_t slot, unsigned n, uint64_t from)
{
	if (from % n_pages + n > n_pages)
		from = 0;
	if (ts_store_write(store, pages + from % n_pages * PAGE, n * PAGE,
			   slot * PAGE))
		die("a write was refused");
}

struct writer {
	uint64_t from, to; /* slots */
};

static void *write_slots(void *arg)
{
	const struct writer *w = arg;

	for (uint64_t slot = w->from; slot + RUN <= w->to; slot += RUN)
		put(slot, RUN, slot);
	return NULL;
}

/* Write slots 0..n_slots - 1; returns seconds until the file has its part. */
static double fill(void)
{
	struct writer writer[WRITERS];
	pthread_t id[WRITERS];
	uint64_t start = ts_now_ns();

	for (unsigned i = 0; i < WRITERS; i++) {
		writer[i] = (struct writer){ n_slots * i / WRITERS,
					     n_slots * (i + 1) / WRITERS };
		pthread_create(&id[i], NULL, write_slots, &writer[i]);
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(id[i], NULL);
	/* What is in flight belongs to it. */
	settle();
	if (params.spill_path) {
		ts_lock(&store->spiller.busy);
		ts_unlock(&store->spiller.busy);
	}
	return (double)(ts_now_ns() - start) / 1e9;
}

/* Bytes of pages, as stored and sealed, that went to the file. */
static double displaced(const struct ts_counters *a, const struct ts_counters *b)
{
	double mean = (double)b->spill_bytes / (double)b->spill_slots;

	return (double)(b->spilled_pages - a->spilled_pages) *
	       (mean + TS_RECORD_EXTRA);
}

/* What the threads of the spill tier have run, in seconds; and how long the
 * spiller has waited for a processor.
 */
struct sched {
	double ran, spiller_ran, spiller_waited;
};

/* Read a line or two numbers of a thread. */
static bool read_line(const char *task, const char *name, char *ret_line,
		      int bytes)
{
	char path[96];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", task, name);
	f = fopen(path, "re");
	ok = f && fgets(ret_line, bytes, f);
	if (f)
		fclose(f);
	return ok;
}

static struct sched spill_sched(void)
{
	struct sched sched = { 0 };
	glob_t found;

	if (glob("/proc/self/task/*", 0, NULL, &found))
		die("no /proc");
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char name[32], line[96];
		unsigned long long ran, waited;
		bool spiller;

		if (!read_line(found.gl_pathv[i], "comm", name, sizeof(name)))
			continue;
		spiller = !strcmp(name, "ts-spiller\n");
		if (!spiller && strcmp(name, "ts-sealer\n"))
			continue;
		if (!read_line(found.gl_pathv[i], "schedstat", line,
			       sizeof(line)) ||
		    sscanf(line, "%llu %llu", &ran, &waited) != 2)
			die("%s/schedstat cannot be read", found.gl_pathv[i]);
		sched.ran += (double)ran / 1e9;
		if (spiller) {
			sched.spiller_ran = (double)ran / 1e9;
			sched.spiller_waited = (double)waited / 1e9;
		}
	}
	globfree(&found);
	return sched;
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void report_fill(void)
{
	struct ts_counters before = counters(), now;
	double cpu = cpu_seconds(), spill = spill_sched().ran;
	double s = fill();

	cpu = cpu_seconds() - cpu;
	spill = spill_sched().ran - spill;
	now = counters();
	printf("{\"seconds\": %.3f, \"stored_mb_s\": %.1f, \"written_mb_s\": %.1f, \"amplification\": %.3f, \"spill_share_of_cpu\": %.3f}\n",
	       s, (double)(n_slots * PAGE) / s / 1e6,
	       (double)now.spill_written_bytes / s / 1e6,
	       (double)now.spill_written_bytes / displaced(&before, &now),
	       spill / cpu);
}

static void report_drain(void)
{
	struct ts_counters now;
	struct sched was, is;
	uint64_t start;
	double s;

	fill();
	was = spill_sched();
	start = ts_now_ns();
	ts_store_relaxed(&store->spiller.tier.closed, true);
	do {
		ts_spiller_kick(&store->spiller);
		ts_sleep_ns(1000000);
		now = counters();
	} while (now.ram_slots + now.raw_slots + now.staged_slots);
	s = (double)(ts_now_ns() - start) / 1e9;
	is = spill_sched();
	printf("{\"seconds\": %.3f, \"written_mb_s\": %.1f, \"cpu_share\": %.3f, \"waited_for_cpu_share\": %.3f, \"mb_per_cpu_s\": %.1f}\n",
	       s, (double)now.spill_written_bytes / s / 1e6,
	       (is.spiller_ran - was.spiller_ran) / s,
	       (is.spiller_waited - was.spiller_waited) / s,
	       (double)now.spill_written_bytes / (is.ran - was.ran) / 1e6);
}

static bool is_spilled(uint64_t slot)
{
	struct ts_cluster cluster;
	bool yes;

	ts_cluster_open(&store->core.clusters, slot / TS_CLUSTER_SLOTS,
			&cluster);
	yes = cluster.words &&
	      ts_word_kind(cluster.words[slot % TS_CLUSTER_SLOTS]) == TS_SPILL;
	ts_cluster_close(&cluster);
	return yes;
}

struct reader {
	struct rng rng;
	struct ts_hist hist;
};

static void *read_slots(void *arg)
{
	struct reader *r = arg;
	uint8_t page[PAGE];

	while (r->hist.count < READS / n_readers) {
		uint64_t slot = rng_below(&r->rng, n_slots), start;

		if (!is_spilled(slot))
			continue;
		start = ts_now_ns();
		if (ts_store_read(store, page, PAGE, slot * PAGE))
			die("a read failed");
		ts_hist_add(&r->hist, ts_now_ns() - start);
	}
	return NULL;
}

static void report_read(void)
{
	static struct reader reader[READERS];
	static struct ts_hist hist;
	pthread_t id[READERS];
	uint64_t start;
	double s;

	fill();
	start = ts_now_ns();
	for (unsigned i = 0; i < n_readers; i++) {
		reader[i].rng = (struct rng){ i + 1 };
		pthread_create(&id[i], NULL, read_slots, &reader[i]);
	}
	for (unsigned i = 0; i < n_readers; i++) {
		pthread_join(id[i], NULL);
		ts_hist_merge(&hist, &reader[i].hist);
	}
	s = (double)(ts_now_ns() - start) / 1e9;
	printf("{\"p50_us\": %.1f, \"p99_us\": %.1f, \"reads_per_s\": %.0f}\n",
	       (double)ts_hist_percentile(&hist, 0.5) / 1e3,
	       (double)ts_hist_percentile(&hist, 0.99) / 1e3,
	       (double)hist.count / s);
}

/* A slot to be overwritten; the hot ones are scattered. */
static uint64_t any_slot(void)
{
	uint64_t n = n_slots;

	if (!percent_hot || rng_below(&rng, 10) == 0)
		return rng_below(&rng, n);
	/* Odd, and no divisor of what these sizes can be. */
	return rng_below(&rng, n * percent_hot / 100) * 1000003 % n;
}

/* What share f of a segment is live when it is cleaned, and what that costs:
 * Desnoyers, "Analytic modeling of SSD write performance" (2012), has
 * u = (f - 1) / ln f for a share u of all.
 */
static double for_uniform(double u)
{
	double low = 1e-9, high = 1 - 1e-9;

	for (unsigned i = 0; i < 60; i++) {
		double f = (low + high) / 2;

		if ((f - 1) / log(f) < u)
			low = f;
		else
			high = f;
	}
	return 1 / (1 - low);
}

static void report_overwrite(void)
{
	struct ts_counters before, now;
	double s, written, share, mean;

	/* Twice, so that what follows is steady. */
	fill();
	for (uint64_t i = 0; i < 2 * n_slots; i++)
		put(any_slot(), 1, rng_next(&rng));
	before = counters();
	s = (double)ts_now_ns() / 1e9;
	for (uint64_t i = 0; i < 3 * n_slots; i++)
		put(any_slot(), 1, rng_next(&rng));
	settle();
	s = (double)ts_now_ns() / 1e9 - s;
	now = counters();
	written = (double)(now.spill_written_bytes - before.spill_written_bytes);
	share = (double)now.spill_bytes / (double)now.spill_size_bytes;
	mean = (double)(now.spill_bytes + now.stored_bytes) / (double)n_slots;
	printf("{\"amplification\": %.3f, \"for_uniform\": %.3f, \"per_overwritten\": %.3f, \"per_4096\": %.3f, \"spill_live_share\": %.3f, \"stored_mb_s\": %.1f}\n",
	       written / displaced(&before, &now), for_uniform(share),
	       written / (double)(3 * n_slots) / mean,
	       written / (double)(now.spilled_pages - before.spilled_pages) /
		       PAGE,
	       share, (double)(3 * n_slots * PAGE) / s / 1e6);
}

/* Half of the memory; what is done is the same in every run. */
static void report_ram_only(void)
{
	uint8_t page[PAGE];

	fill();
	for (uint64_t i = 0; i < n_slots; i++) {
		put(rng_below(&rng, n_slots), 1, rng_next(&rng));
		if (ts_store_read(store, page, PAGE,
				  rng_below(&rng, n_slots) * PAGE))
			die("a read failed");
	}
	if (counters().spilled_pages)
		die("something was spilled");
	printf("{\"pages\": %" PRIu64 "}\n", 3 * n_slots);
}

/* Some time to get used to the set, then it is counted. */
static void report_working_set(void)
{
	struct ts_counters before, now;
	uint64_t set = n_slots / 8, reads = 0;
	uint8_t page[PAGE];

	fill();
	before = counters();
	for (uint64_t i = 0; i < 18 * set; i++) {
		uint64_t slot = n_slots / 3 + rng_below(&rng, set);

		if (i == 12 * set) {
			before = counters();
			reads = 0;
		}
		if (i % 4 == 0) {
			put(slot, 1, rng_next(&rng));
			continue;
		}
		if (ts_store_read(store, page, PAGE, slot * PAGE))
			die("a read failed");
		reads++;
	}
	now = counters();
	printf("{\"reads\": %" PRIu64 ", \"from_ram_share\": %.4f}\n", reads,
	       1 - (double)(now.spill_read_pages - before.spill_read_pages) /
			       (double)reads);
}

/* Slots that take so many bytes; a sample says how pages compress. */
static uint64_t slots_for(uint64_t bytes)
{
	struct ts_counters c;
	uint64_t n = 1024;
	double mean;

	for (uint64_t slot = 0; slot < n; slot += RUN)
		put(slot, RUN, rng_next(&rng));
	settle();
	c = counters();
	mean = (double)(c.stored_bytes + c.spill_bytes) / (double)n;
	return (uint64_t)((double)bytes / mean) / RUN * RUN;
}

static void start(void)
{
	char why[512];

	params.size_bytes = 1ull << 40;
	if (ts_params_finish(&params, why, sizeof(why)) ||
	    ts_store_new(&params, &store, why, sizeof(why)))
		die("%s", why);
	if (ts_store_start(store))
		die("the store does not start");
}

static void run(const char *what)
{
	const struct {
		const char *name;
		void (*report)(void);
		unsigned percent_of_spill, percent_of_ram;
	} parts[] = {
		{ "fill", report_fill, 70, 0 },
		{ "drain", report_drain, 70, 0 },
		{ "read", report_read, 70, 0 },
		{ "overwrite", report_overwrite, percent_full, 0 },
		{ "working-set", report_working_set, 0, 400 },
		{ "ram-only", report_ram_only, 0, 50 },
	};

	for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (strcmp(what, parts[i].name))
			continue;
		n_slots = slots_for(
			params.spill_bytes / 100 * parts[i].percent_of_spill +
			params.ram_bytes / 100 * parts[i].percent_of_ram);
		parts[i].report();
		return;
	}
	die("%s: no such part", what);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "file", required_argument, NULL, 'f' },
		{ "spill", required_argument, NULL, 's' },
		{ "ram", required_argument, NULL, 'r' },
		{ "pages", required_argument, NULL, 'p' },
		{ "full", required_argument, NULL, 'u' },
		{ "hot", required_argument, NULL, 'h' },
		{ "readers", required_argument, NULL, 'n' },
		{ 0 },
	};
	int c;

	ts_params_init(&params);
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 'f')
			params.spill_path = strdup(optarg);
		else if (c == 's')
			params.spill_bytes = size_of(optarg);
		else if (c == 'r')
			params.ram_bytes = size_of(optarg);
		else if (c == 'p')
			map_pages(optarg);
		else if (c == 'u')
			percent_full = (unsigned)atoi(optarg);
		else if (c == 'h')
			percent_hot = (unsigned)atoi(optarg);
		else if (c == 'n')
			n_readers = (unsigned)atoi(optarg);
		else
			return 2;
	}
	if (!params.spill_path || !params.ram_bytes || optind + 1 != argc ||
	    !n_readers || n_readers > READERS)
		die("usage: see the head of spillbench.c");
	if (!params.spill_bytes) {
		free(params.spill_path);
		params.spill_path = NULL;
	}
	if (!pages)
		random_pages();
	start();
	run(argv[optind]);
	ts_store_free(store);
	ts_params_fini(&params);
	return EXIT_SUCCESS;
}
