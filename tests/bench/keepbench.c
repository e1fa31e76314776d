// SPDX-License-Identifier: BSD-3-Clause
/* keepbench.c - how long taking over takes, and what keeping costs
 *
 * keepbench [--mib N] [--rounds N] | --use kept|plain
 *
 * Taking over: a child fills a kept store with N, N/2 and N/4 MiB of memory and
 * is killed; its successor is timed, step by step, on all processors and bound
 * to one of them.
 *
 * Keeping: rounds of the same writes, reads and overwrites through a store with
 * keep= and one without, in turn, in processes of their own; processor time and
 * the memory that is used. With --use one of these alone, and fewer of them, in
 * this process: for valgrind --tool=callgrind, whose counts of instructions
 * repeat where times do not. Prints JSON; asserts nothing.
 */
#include <getopt.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store.h"

#define MIB	   (1ull << 20)
#define PAGE	   4096u
#define RUN	   64u
#define COST_PAGES 24576u
#define FEW_PAGES  2048u

/* What a child tells. */
struct told {
	struct ts_took_over took;
	uint64_t new_ns, start_ns, resident_bytes;
	double cpu_s; /* of the process, to its end or to the first request */
};

static struct told *told;
static char dir[] = "/tmp/ts-keepbench.XXXXXX", keep_path[64];
static uint64_t fill_bytes, cost_pages = COST_PAGES;

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static struct ts_store *open_store(uint64_t ram_bytes, bool keep)
{
	struct ts_params params;
	struct ts_store *store;
	char err[512];
	uint64_t start_ns = ts_now_ns();

	ts_params_init(&params);
	params.size_bytes = 64ull << 30;
	params.ram_bytes = ram_bytes;
	params.dictionary = false;
	params.keep_path = keep ? keep_path : NULL;
	if (ts_params_finish(&params, err, sizeof(err)) ||
	    ts_store_new(&params, &store, err, sizeof(err))) {
		fprintf(stderr, "%s\n", err);
		_exit(1);
	}
	told->new_ns = ts_now_ns() - start_ns;
	start_ns = ts_now_ns();
	if (ts_store_start(store))
		_exit(1);
	told->start_ns = ts_now_ns() - start_ns;
	return store;
}

/* Compresses to about a quarter, like pages of programs. */
static void make_page(uint8_t *page, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;

	for (unsigned i = 0; i < PAGE; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		for (unsigned k = 0; k < 8; k++)
			page[i + k] = k < 2 ? (uint8_t)(x >> 8 * k) :
					      (uint8_t)(i >> 6);
	}
}

static uint64_t resident(struct ts_store *store)
{
	struct ts_counters c;

	ts_store_counters(store, &c);
	return c.resident_bytes;
}

static void fill(void)
{
	struct ts_store *store = open_store(fill_bytes + 64 * MIB, true);
	static uint8_t data[RUN * PAGE];
	uint64_t slot = 0;

	while (resident(store) < fill_bytes + 8 * MIB) {
		for (unsigned i = 0; i < RUN; i++)
			make_page(data + i * PAGE, slot + i);
		if (ts_store_write(store, data, sizeof(data), slot * PAGE))
			_exit(1);
		slot += RUN;
	}
	kill(getpid(), SIGKILL);
}

static void take_over(bool one_cpu)
{
	double before = cpu_seconds();
	struct ts_store *store;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (one_cpu)
		sched_setaffinity(0, sizeof(one), &one);
	store = open_store(fill_bytes + 64 * MIB, true);
	told->cpu_s = cpu_seconds() - before;
	told->took = store->core.took_over;
	told->resident_bytes = resident(store);
	if (!one_cpu)
		kill(getpid(), SIGKILL); /* for the next to take over */
	ts_store_free(store);
}

static void take_over_all(void)
{
	take_over(false);
}

static void take_over_one(void)
{
	take_over(true);
}

static void use(bool keep)
{
	struct ts_store *store = open_store(256 * MIB, keep);
	static uint8_t data[RUN * PAGE];

	for (unsigned part = 0; part < 3; part++)
		for (uint64_t slot = 0; slot < cost_pages; slot += RUN) {
			for (unsigned i = 0; part != 1 && i < RUN; i++)
				make_page(data + i * PAGE, slot + i + part);
			if (part == 1)
				ts_store_read(store, data, sizeof(data),
					      slot * PAGE);
			else
				ts_store_write(store, data, sizeof(data),
					       slot * PAGE);
		}
	told->resident_bytes = resident(store);
	told->cpu_s = cpu_seconds();
	ts_store_free(store);
}

static void use_kept(void)
{
	use(true);
}

static void use_plain(void)
{
	use(false);
}

static void in_child(void (*fn)(void))
{
	pid_t pid = fork();

	if (!pid) {
		fn();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static json_t *times(void)
{
	const struct ts_took_over *t = &told->took;
	double gib = (double)told->resident_bytes / (1024.0 * MIB);

	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "words_ms",
			 (double)t->words_ns / 1e6, "blocks_ms",
			 (double)t->blocks_ns / 1e6, "map_ms",
			 (double)t->map_ns / 1e6, "new_ms",
			 (double)told->new_ns / 1e6, "start_ms",
			 (double)told->start_ns / 1e6, "processor_ms_a_gib",
			 told->cpu_s * 1e3 / gib, "all_ms_a_gib",
			 (double)(told->new_ns + told->start_ns) / 1e6 / gib);
}

static json_t *taking_over(uint64_t bytes)
{
	json_t *all, *one;

	fill_bytes = bytes;
	in_child(fill);
	in_child(take_over_all);
	all = times();
	in_child(take_over_one);
	one = times();
	return json_pack("{s:f, s:I, s:o, s:o}", "resident_mib",
			 (double)told->resident_bytes / (double)MIB, "pages",
			 (json_int_t)told->took.pages, "all_processors", all,
			 "one_processor", one);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static json_t *keeping(unsigned rounds)
{
	double ratio[64];
	uint64_t kept_bytes = 0, plain_bytes = 0;

	for (unsigned i = 0; i < rounds; i++) {
		double kept;

		in_child(use_kept);
		kept = told->cpu_s;
		kept_bytes = told->resident_bytes;
		in_child(use_plain);
		plain_bytes = told->resident_bytes;
		ratio[i] = kept / told->cpu_s;
	}
	qsort(ratio, rounds, sizeof(*ratio), compare);
	return json_pack("{s:f, s:f, s:f, s:f}", "processor_time_ratio",
			 ratio[rounds / 2], "lowest", ratio[0], "highest",
			 ratio[rounds - 1], "memory_ratio",
			 (double)kept_bytes / (double)plain_bytes);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "mib", required_argument, NULL, 'm' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "use", required_argument, NULL, 'u' },
		{ 0 },
	};
	uint64_t mib = 256;
	const char *only = NULL;
	unsigned rounds = 9;
	json_t *sizes = json_array();
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'm')
			mib = strtoull(optarg, NULL, 0);
		else if (c == 'r')
			rounds = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'u')
			only = optarg;
	}
	if (mib < 4 || rounds < 1 || rounds > 64 || !mkdtemp(dir))
		return 2;
	snprintf(keep_path, sizeof(keep_path), "%s/keep", dir);
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED)
		return 1;
	if (only) {
		cost_pages = FEW_PAGES;
		use(!strcmp(only, "kept"));
		rmdir(dir);
		return 0;
	}
	for (unsigned part = 4; part; part /= 2)
		json_array_append_new(sizes, taking_over(mib * MIB / part));
	json_dumpf(json_pack("{s:o, s:o}", "taking_over", sizes, "keeping",
			     keeping(rounds)),
		   stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(4));
	putchar('\n');
	rmdir(dir);
	return 0;
}
