/* SPDX-License-Identifier: BSD-3-Clause */
/* estimate.h - what thinswap would make of a sample of pages
 *
 * The engine's own codec does the work, so that the figures are those that a
 * store would show.
 */
#ifndef TS_DAEMON_CLI_ESTIMATE_H
#define TS_DAEMON_CLI_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TS_ESTIMATE_LEVELS_MAX 8u

struct ts_trial {
	int level;
	bool dictionary;
	bool done;                 /* false: too few pages to train with */
	uint64_t pages, raw_pages; /* of them kept uncompressed */
	uint64_t stored_bytes;     /* with the header of each object */
	uint64_t compress_ns, restore_ns; /* processor time */
};

struct ts_estimate {
	uint64_t pages, zero, fill, duplicate; /* duplicate of an earlier one */
	uint64_t incompressible;               /* kept raw at the first level */
	uint64_t compressible_pages;           /* neither zero nor fill */
	unsigned n_trials;
	struct ts_trial trial[2 * TS_ESTIMATE_LEVELS_MAX];
};

/* Called now and then with the share that is done. */
typedef void ts_progress_fn(void *opaque, double part);

/* Judge @n pages, one after the other in @data, at each level. Returns 0 or
 * -ENOMEM.
 */
int ts_estimate(const uint8_t *data, size_t n, const int *level,
		unsigned n_levels, ts_progress_fn *progress, void *opaque,
		struct ts_estimate *ret);

/* Ratio of a trial, 0 when nothing was stored. */
double ts_trial_ratio(const struct ts_trial *trial);

/* How many bytes of such pages fit into a budget, by a trial. */
uint64_t ts_estimate_room(const struct ts_estimate *e,
			  const struct ts_trial *trial, uint64_t budget_bytes);

#endif
