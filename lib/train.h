/* SPDX-License-Identifier: BSD-3-Clause */
/* train.h - get dictionaries trained on what is really swapped
 *
 *	idle --due--> sampling --sample full--> training --child ended--> idle
 *
 * Pages are sampled on their way into the store, one in eight, until there are
 * enough; for the second dictionary one in 64. A short-lived child process (thinswap-train) then makes a dictionary
 * of them, and says whether it wins over none: training takes memory and time
 * that the serving process does not have. A dictionary is due at the start,
 * again after that, and then when pages compress worse than just after the last
 * one.
 *
 * Threads  ts_train_offer() is for every writer; the rest is the keeper's.
 */
#ifndef TS_TRAIN_H
#define TS_TRAIN_H

#include "codec.h"
#include "stats.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TS_SAMPLE_PAGES 512u

/* What parent and child share: a memfd. The child fills in all but sample. */
struct ts_training {
	uint8_t sample[TS_SAMPLE_PAGES][4096];
	uint8_t dict[TS_DICT_BYTES];
	uint32_t dict_bytes;  /* 0: none is better */
	int32_t level;        /* set by the parent */
	uint64_t plain_bytes; /* of the pages kept for the trial, without */
	uint64_t dict_trial_bytes;
};

enum ts_train_state { TS_TRAIN_IDLE, TS_TRAIN_SAMPLING, TS_TRAIN_TRAINING };

struct ts_train {
	const char *program; /* NULL: no training */
	struct ts_codec *codec;
	struct ts_stats *stats;

	uint32_t state; /* atomic */
	uint32_t offered, taken, copied; /* atomic */
	struct ts_training *shared;
	int fd;
	pid_t child;

	/* How well pages compress: the window that is being looked at, and the
	 * first one after the current dictionary came, in bytes a page.
	 */
	uint64_t window_pages, window_bytes; /* counters at its start */
	uint32_t reference;
	unsigned one_in, n_trained;
	bool failed; /* the program does not start: said once */
};

void ts_train_init(struct ts_train *train, const char *program,
		   struct ts_codec *codec, struct ts_stats *stats);
void ts_train_fini(struct ts_train *train);

/* A page that is about to be compressed. Cheap, and a copy of some while
 * sampling.
 */
void ts_train_offer(struct ts_train *train, const void *page);

/* The keeper's step. Returns whether it should be called again soon. */
bool ts_train_step(struct ts_train *train);

#endif
