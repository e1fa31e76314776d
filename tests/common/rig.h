/* SPDX-License-Identifier: BSD-3-Clause */
/* rig.h - stores for tests, and what tests demand of them
 *
 * What fails here ends the program with a sentence: a test cannot go on
 * without its store.
 */
#ifndef TS_TESTS_RIG_H
#define TS_TESTS_RIG_H

#include "thinswap.h"

#define MIB (1ull << 20)

/* Exit code that tells meson that a test lacks something it needs. */
#define EXIT_SKIP 77

/* Print a sentence about a failure and exit with 1. */
__attribute__((format(printf, 1, 2), noreturn)) void rig_die(const char *fmt,
							     ...);

/* A store that is ready for requests, or before ts_store_start(). Without
 * write-behind: a page is at once where it is going to be.
 */
struct ts_store *rig_start(uint64_t size_bytes, uint64_t ram_bytes);
struct ts_store *rig_new(uint64_t size_bytes, uint64_t ram_bytes);

/* The same in two steps, for parameters of the test's own. */
struct ts_store *rig_make(struct ts_params *params);
struct ts_store *rig_started(struct ts_store *store);

/* At a quiet moment: everything must agree, and stay within the budget. */
void rig_check(struct ts_store *store);

/* At a quiet moment: nothing may be stored any more. */
void rig_check_empty(struct ts_store *store);

/* Is this build, or this run, one that watches memory by itself? Such watching
 * allocates and faults.
 */
bool rig_is_instrumented(void);

#endif
