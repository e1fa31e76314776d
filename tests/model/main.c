// SPDX-License-Identifier: BSD-3-Clause
/* main.c - random operations against a plain array (cases 14, 18, 19, 20, 21)
 *
 *	ts-model exact|shared|lanes [--threads N] [--ops N] [--seed N]
 *		 [--size SIZE] [--ram SIZE] [--write-behind SIZE] [--expect-full]
 *		 [--spill SIZE [--expect-cleaned] [--no-uring] [--plain]]
 *
 * exact   threads work on bytes of their own, and each byte is known
 * shared  threads write, drop and read the same slots: a slot must always
 *         hold one whole write, and never an older one than was seen before
 * lanes   threads write parts of their own of the same slots: none may undo
 *         another
 *
 * --spill adds a spill file and demands that it was used. Whether segments
 * were cleaned depends on the order of events: only runs that fill both tiers
 * or have one thread can demand that.
 */
#include "tests/model/run.h"
#include "tests/spill/rig.h"
#include "util/size.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct job {
	struct run *run;
	void (*fn)(void *opaque, unsigned thread);
	void *opaque;
	unsigned thread;
};

static void *run_job(void *arg)
{
	struct job *job = arg;

	job->fn(job->opaque, job->thread);
	return NULL;
}

void run_threads(struct run *run, void (*fn)(void *opaque, unsigned thread),
		 void *opaque)
{
	pthread_t id[MAX_THREADS];
	struct job job[MAX_THREADS];

	for (unsigned i = 0; i < run->n_threads; i++) {
		job[i] = (struct job){run, fn, opaque, i};
		if (pthread_create(&id[i], NULL, run_job, &job[i]))
			rig_die("no thread");
	}
	for (unsigned i = 0; i < run->n_threads; i++)
		pthread_join(id[i], NULL);
}

void run_pause(struct run *run, unsigned thread, uint64_t op)
{
	if (op % OPS_TO_PAUSE)
		return;
	pthread_barrier_wait(&run->pause);
	if (!thread)
		rig_check(run->store);
	pthread_barrier_wait(&run->pause);
}

struct rng run_rng(const struct run *run, unsigned thread)
{
	struct rng rng = {run->seed + thread * 0x100000001b3u};

	rng_next(&rng);
	return rng;
}

static void check_end(struct run *run)
{
	struct ts_counters c;

	rig_check(run->store);
	if (ts_store_discard(run->store, run->size_bytes, 0))
		rig_die("the last discard failed");
	rig_check_empty(run->store);
	ts_store_counters(run->store, &c);
	printf("%" PRIu64 " pages written, %" PRIu64 " read, %" PRIu64
	       " discarded, %" PRIu64 " refusals, %" PRIu64 " objects moved, %" PRIu64
	       " staged, %" PRIu64 " of them for nothing\n",
	       c.written_pages, c.read_pages, c.discarded_pages, c.nospace,
	       c.compacted_objects, c.staged_pages, c.unstaged_pages);
	if (c.damaged)
		rig_die("%" PRIu64 " pages damaged", c.damaged);
	if (run->spill_bytes)
		printf("%" PRIu64 " pages spilled, %" PRIu64
		       " moved by cleaning, %" PRIu64 " promoted, %" PRIu64
		       " read from spill\n",
		       c.spilled_pages, c.cleaned_pages, c.promoted_pages,
		       c.spill_read_pages);
	if (run->spill_bytes && (!c.spilled_pages || !c.spill_read_pages))
		rig_die("the spill file was to be used");
	if (run->write_behind_bytes && !c.staged_pages)
		rig_die("pages were to be staged");
	if (run->expect_cleaned && !c.cleaned_pages)
		rig_die("segments were to be cleaned");
	if (run->expect_full && (!c.nospace || !c.compacted_objects))
		rig_die("the budget was to be exhausted and was not");
}

static uint64_t number(const char *text)
{
	char why[160];
	uint64_t n;

	if (ts_size_parse(text, &n, why, sizeof(why)))
		rig_die("%s", why);
	return n;
}

static void parse(struct run *run, int argc, char **argv)
{
	static const struct option options[] = {
		{"threads", required_argument, NULL, 't'},
		{"ops", required_argument, NULL, 'o'},
		{"seed", required_argument, NULL, 's'},
		{"size", required_argument, NULL, 'z'},
		{"ram", required_argument, NULL, 'r'},
		{"expect-full", no_argument, NULL, 'f'},
		{"expect-cleaned", no_argument, NULL, 'l'},
		{"write-behind", required_argument, NULL, 'b'},
		{"spill", required_argument, NULL, 'p'},
		{"no-uring", no_argument, NULL, 'u'},
		{"plain", no_argument, NULL, 'c'},
		{0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 'f')
			run->expect_full = true;
		else if (c == 'l')
			run->expect_cleaned = true;
		else if (c == 'b')
			run->write_behind_bytes = number(optarg);
		else if (c == 'p')
			run->spill_bytes = number(optarg);
		else if (c == 'u')
			run->no_uring = true;
		else if (c == 'c')
			run->plain = true;
		else if (c == 't')
			run->n_threads = (unsigned)number(optarg);
		else if (c == 'o')
			run->n_ops = number(optarg);
		else if (c == 's')
			run->seed = number(optarg);
		else if (c == 'z')
			run->size_bytes = number(optarg);
		else if (c == 'r')
			run->ram_bytes = number(optarg);
		else
			exit(2);
	}
	if (run->n_threads < 1 || run->n_threads > MAX_THREADS)
		rig_die("1 to %u threads", MAX_THREADS);
}

static void start(struct run *run, struct spill_rig *rig)
{
	struct ts_params params;

	if (!run->spill_bytes) {
		ts_params_init(&params);
		params.size_bytes = run->size_bytes;
		params.ram_bytes = run->ram_bytes;
		params.write_behind_bytes = run->write_behind_bytes;
		run->store = rig_started(rig_make(&params));
		return;
	}
	spill_rig_init(rig, run->size_bytes, run->ram_bytes, run->spill_bytes);
	rig->params.write_behind_bytes = run->write_behind_bytes;
	rig->params.use_uring = !run->no_uring;
	rig->params.encrypt = !run->plain;
	spill_rig_start(rig);
	run->store = rig->store;
}

int main(int argc, char **argv)
{
	struct run run = {
		.n_threads = 1,
		.n_ops = 2000,
		.seed = (uint64_t)time(NULL),
		.size_bytes = 64 * MIB,
		.ram_bytes = 8 * MIB,
	};
	struct spill_rig rig;
	const char *variant;

	parse(&run, argc, argv);
	variant = optind < argc ? argv[optind] : "exact";
	printf("%s, %u threads, seed %" PRIu64 "\n", variant, run.n_threads,
	       run.seed);
	fflush(stdout);
	pthread_barrier_init(&run.pause, NULL, run.n_threads);
	start(&run, &rig);
	if (!strcmp(variant, "exact"))
		run_exact(&run);
	else if (!strcmp(variant, "shared"))
		run_shared(&run);
	else if (!strcmp(variant, "lanes"))
		run_lanes(&run);
	else
		rig_die("%s: no such variant", variant);
	check_end(&run);
	if (run.spill_bytes)
		spill_rig_end(&rig);
	else
		ts_store_free(run.store);
	pthread_barrier_destroy(&run.pause);
	return EXIT_SUCCESS;
}
