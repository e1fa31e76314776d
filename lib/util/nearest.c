// SPDX-License-Identifier: BSD-3-Clause
/* nearest.c - how far two names are apart, for "did you mean" hints
 *
 * The restricted Damerau-Levenshtein distance (optimal string alignment):
 * the usual table of prefix distances, of which a swap of neighbours needs
 * the last two rows besides the current one. Swaps count one, because they
 * are what fast typing produces.
 */
#include "util/nearest.h"

#include <ctype.h>
#include <string.h>

static unsigned min_of(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static char plain(char c)
{
	return c == '_' ? '-' : tolower((unsigned char)c);
}

unsigned ts_edit_distance(const char *a, const char *b)
{
	unsigned rows[3][TS_NEAREST_MAX_LEN + 1];
	unsigned *before = rows[0], *above = rows[1], *row = rows[2], *spare;
	unsigned a_len = strnlen(a, TS_NEAREST_MAX_LEN);
	unsigned b_len = strnlen(b, TS_NEAREST_MAX_LEN);
	unsigned i, j, cost;

	for (j = 0; j <= b_len; j++)
		above[j] = j;
	for (i = 1; i <= a_len; i++) {
		row[0] = i;
		for (j = 1; j <= b_len; j++) {
			cost = plain(a[i - 1]) != plain(b[j - 1]);
			row[j] = min_of(above[j - 1] + cost,
					min_of(above[j], row[j - 1]) + 1);
			if (cost && i > 1 && j > 1 &&
			    plain(a[i - 1]) == plain(b[j - 2]) &&
			    plain(a[i - 2]) == plain(b[j - 1]))
				row[j] = min_of(row[j], before[j - 2] + 1);
		}
		spare = before;
		before = above;
		above = row;
		row = spare;
	}
	return above[b_len];
}

bool ts_edit_is_near(const char *word, unsigned distance)
{
	return distance <= 1 + strnlen(word, TS_NEAREST_MAX_LEN) / 4;
}
