/* SPDX-License-Identifier: BSD-3-Clause */
/* nearest.h - how far two names are apart, for "did you mean" hints
 *
 * Letters of either case are equal, and so are '-' and '_'. Names longer
 * than TS_NEAREST_MAX_LEN are compared by their beginnings. Nothing here
 * allocates.
 */
#ifndef TS_UTIL_NEAREST_H
#define TS_UTIL_NEAREST_H

#include <stdbool.h>

#define TS_NEAREST_MAX_LEN 63

/* The number of letters to insert, drop, replace, or swap with their
 * neighbour, to make @a into @b.
 */
unsigned ts_edit_distance(const char *a, const char *b);

/* Is @distance small enough to call it a slip of the fingers in @word? */
bool ts_edit_is_near(const char *word, unsigned distance);

#endif
