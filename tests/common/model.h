/* SPDX-License-Identifier: BSD-3-Clause */
/* model.h - a store and the plain array that it must equal
 *
 * Each call does the same to both and compares what can be compared. Several
 * threads may use one model as long as no two touch the same bytes at a time;
 * slots may be shared only between whole-slot operations of one thread.
 * A difference ends the program with a sentence.
 */
#ifndef TS_TESTS_MODEL_H
#define TS_TESTS_MODEL_H

#include "tests/common/pages.h"
#include "tests/common/rig.h"
#include "tests/common/rng.h"

struct model {
	struct ts_store *store;
	uint8_t *array;
	uint64_t bytes;
};

/* @store stays the caller's; @bytes is its size. */
void model_init(struct model *model, struct ts_store *store, uint64_t bytes);
void model_fini(struct model *model);

/* Write @data. After -ENOSPC the array takes over what the store made of each
 * slot, which must be all old or all new. Returns 0 or -ENOSPC.
 */
int model_write(struct model *model, const void *data, uint64_t len,
		uint64_t off);
int model_zero(struct model *model, uint64_t len, uint64_t off);
void model_discard(struct model *model, uint64_t len, uint64_t off);
void model_read(struct model *model, uint64_t len, uint64_t off);

/* Extents must be without gaps, as long as they can be, and right. */
void model_extents(struct model *model, uint64_t len, uint64_t off);

/* Compare all. */
void model_compare(struct model *model);

/* Contents for a write of @len bytes at @off: pages of all kinds, cut where
 * the slots are.
 */
void model_content(struct rng *rng, uint8_t *ret_data, uint64_t len,
		   uint64_t off);

/* The longest request that the functions above take. */
#define MODEL_MAX_BYTES (4 * MIB)

#endif
