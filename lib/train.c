/* SPDX-License-Identifier: BSD-3-Clause */
/* train.c - get dictionaries trained on what is really swapped
 *
 * The child is started by posix_spawn, which does not copy the parent's page
 * tables: a fork would make every page of the serving process fault at its
 * next write. The sample is in a memfd that exists only while it is needed.
 */
#include "train.h"
#include "shm.h"
#include "util/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first dictionary is wanted soon. But what is swapped first may all be one
 * program's, so the second is made of pages spread over 128 MiB.
 */
#define FIRST_ONE_IN 8u
#define ONE_IN 64u
/* A window is 64 MiB of pages; an eighth worse is worth a new dictionary. */
#define WINDOW_PAGES 16384u
#define WORSE_BY 8u

extern char **environ;

void ts_train_init(struct ts_train *train, const char *program,
		   struct ts_codec *codec, struct ts_stats *stats)
{
	*train = (struct ts_train){
		.program = program,
		.codec = codec,
		.stats = stats,
		.fd = -1,
	};
}

static void drop_shared(struct ts_train *train)
{
	if (train->shared)
		munmap(train->shared, sizeof(*train->shared));
	if (train->fd >= 0)
		close(train->fd);
	train->shared = NULL;
	train->fd = -1;
}

void ts_train_fini(struct ts_train *train)
{
	if (train->child > 0) {
		kill(train->child, SIGKILL);
		waitpid(train->child, NULL, 0);
	}
	train->child = 0;
	if (train->codec)
		drop_shared(train);
	train->codec = NULL;
}

void ts_train_offer(struct ts_train *train, const void *page)
{
	uint32_t i;

	/* Acquire: pairs with the keeper, that has just set up the sample. */
	if (ts_load_acquire(&train->state) != TS_TRAIN_SAMPLING)
		return;
	if (ts_add_relaxed(&train->offered, 1) % train->one_in)
		return;
	i = ts_add_relaxed(&train->taken, 1);
	if (i >= TS_SAMPLE_PAGES)
		return;
	memcpy(train->shared->sample[i], page, 4096);
	/* Release: the keeper that finds all copied has the copies. */
	__atomic_fetch_add(&train->copied, 1, __ATOMIC_RELEASE);
}

static bool begin_sampling(struct ts_train *train)
{
	size_t bytes = sizeof(*train->shared);
	void *shared = MAP_FAILED;

	train->fd = memfd_create("thinswap-training", MFD_CLOEXEC);
	if (train->fd >= 0 && !ftruncate(train->fd, (off_t)bytes))
		shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			      train->fd, 0);
	/* MAP_POPULATE does nothing under MCL_ONFAULT, and a request that
	 * faults here hangs the machine.
	 */
	if (shared == MAP_FAILED || ts_shm_touch(shared, bytes)) {
		if (shared != MAP_FAILED)
			munmap(shared, bytes);
		drop_shared(train);
		return false;
	}
	train->shared = shared;
	train->shared->level = train->codec->dicts.level;
	train->one_in = train->n_trained == 1 ? ONE_IN : FIRST_ONE_IN;
	ts_store_relaxed(&train->taken, 0);
	ts_store_relaxed(&train->copied, 0);
	ts_store_release(&train->state, TS_TRAIN_SAMPLING);
	return true;
}

static bool begin_training(struct ts_train *train)
{
	char *argv[] = { (char *)train->program, NULL };
	posix_spawn_file_actions_t actions;
	int err;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, train->fd, STDIN_FILENO);
	err = posix_spawn(&train->child, train->program, &actions, NULL, argv,
			  environ);
	posix_spawn_file_actions_destroy(&actions);
	ts_store_release(&train->state, TS_TRAIN_TRAINING);
	if (err) {
		train->child = 0;
		train->failed = true;
	}
	return !err;
}

/* Note how the counters stand: a new window begins. */
static void begin_window(struct ts_train *train)
{
	train->window_pages = (uint64_t)ts_stats_sum(
		train->stats, TS_STAT_compressed_pages);
	train->window_bytes = (uint64_t)ts_stats_sum(
		train->stats, TS_STAT_compressed_bytes);
}

/* A page file may say anything: the child is ours, what it read is not. */
static void take_result(struct ts_train *train, int status)
{
	struct ts_training *t = train->shared;

	if (WIFEXITED(status) && !WEXITSTATUS(status) && t->dict_bytes &&
	    !ts_dicts_add(&train->codec->dicts, t->dict, t->dict_bytes))
		ts_stats_add(train->stats, TS_STAT_dictionaries, 1);
	train->n_trained++;
	train->reference = 0;
	begin_window(train);
}

static void end_training(struct ts_train *train)
{
	drop_shared(train);
	ts_store_release(&train->state, TS_TRAIN_IDLE);
}

/* Whether pages compress worse than they did when the dictionary was new. */
static bool due(struct ts_train *train)
{
	uint64_t pages, bytes;
	uint32_t mean;

	pages = (uint64_t)ts_stats_sum(train->stats,
				       TS_STAT_compressed_pages) -
		train->window_pages;
	if (pages < WINDOW_PAGES)
		return false;
	bytes = (uint64_t)ts_stats_sum(train->stats,
				       TS_STAT_compressed_bytes) -
		train->window_bytes;
	mean = (uint32_t)(bytes / pages);
	begin_window(train);
	if (!train->reference)
		train->reference = mean;
	return mean > train->reference + train->reference / WORSE_BY;
}

static bool step_idle(struct ts_train *train)
{
	/* A dictionary that was kept is as good as the second. */
	bool early = train->n_trained ? train->n_trained < 2 :
					!train->codec->dicts.added;

	if (train->failed || (!early && !due(train)))
		return false;
	return begin_sampling(train);
}

bool ts_train_step(struct ts_train *train)
{
	int status;

	if (!train->program)
		return false;
	switch (ts_load_relaxed(&train->state)) {
	case TS_TRAIN_IDLE:
		return step_idle(train);
	case TS_TRAIN_SAMPLING:
		if (ts_load_acquire(&train->copied) < TS_SAMPLE_PAGES)
			return ts_load_relaxed(&train->taken);
		if (!begin_training(train))
			end_training(train);
		return true;
	default:
		if (waitpid(train->child, &status, WNOHANG) == 0)
			return true;
		train->child = 0;
		take_result(train, status);
		end_training(train);
		return false;
	}
}
