/* SPDX-License-Identifier: BSD-3-Clause */
/* top_screen.h - what `thinswap top` draws
 *
 * ncurses is set up by the caller; every draw takes the size of the screen as
 * it is then, and leaves out what does not fit.
 */
#ifndef TS_DAEMON_CLI_TOP_SCREEN_H
#define TS_DAEMON_CLI_TOP_SCREEN_H

#include "cli/stats_out.h"

#define TS_TOP_HISTORY 240u

enum ts_top_rate {
	TS_TOP_READ,
	TS_TOP_WRITE,
	TS_TOP_DISCARD,
	TS_TOP_SPILL,
	TS_TOP_UNSPILL,
	TS_TOP_RATES
};

struct ts_top {
	struct ts_snapshot before, now;
	struct ts_rates rates;
	/* Rates of the last intervals; the newest is at (n - 1) % size. */
	double history[TS_TOP_RATES][TS_TOP_HISTORY];
	unsigned n;
	double seconds; /* between looks */
	bool classes;   /* the second page */
	bool utf8;
};

/* Take a new snapshot over. */
void ts_top_feed(struct ts_top *top, const struct ts_snapshot *now);

void ts_top_draw(const struct ts_top *top);

#endif
