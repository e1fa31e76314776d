/* SPDX-License-Identifier: BSD-3-Clause */
/* parallel.h - do one piece of work on all processors, at start */
#ifndef TS_PARALLEL_H
#define TS_PARALLEL_H

/* Call @fn(@arg) in as many threads at a time as there are processors, at most
 * @max, the caller's being one of them; return when all have. @fn shares out
 * the work itself. Threads that cannot be had are done without.
 */
void ts_in_parallel(unsigned max, void (*fn)(void *arg), void *arg);

#endif
