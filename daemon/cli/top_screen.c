// SPDX-License-Identifier: BSD-3-Clause
/* top_screen.c - what `thinswap top` draws */
#include "cli/top_screen.h"

#include <inttypes.h>
#include <string.h>

#include <curses.h>

#include "util/size.h"

#define PAGE      4096u
#define LABEL     9  /* columns of a line's name */
#define BAR_RIGHT 30 /* columns for what stands right of a bar */
#define SIZE(bytes)                                                            \
	ts_size_format((bytes), (char[TS_SIZE_TEXT_BYTES]){0},                 \
		       TS_SIZE_TEXT_BYTES)

void ts_top_feed(struct ts_top *top, const struct ts_snapshot *now)
{
	unsigned at = top->n++ % TS_TOP_HISTORY;

	top->before = top->now;
	top->now = *now;
	ts_rates_make(&top->before, &top->now, &top->rates);
	top->history[TS_TOP_READ][at] = top->rates.read_pages;
	top->history[TS_TOP_WRITE][at] = top->rates.written_pages;
	top->history[TS_TOP_DISCARD][at] = top->rates.discarded_pages;
	top->history[TS_TOP_SPILL][at] = top->rates.spilled_pages;
	top->history[TS_TOP_UNSPILL][at] = top->rates.spill_read_pages;
}

static void head(const struct ts_top *top)
{
	const struct ts_snapshot *now = &top->now;
	double up = (double)(now->taken_ns - now->header.start_ns) / 1e9;

	attron(A_BOLD);
	mvprintw(0, 0, "thinswap %.23s", now->header.engine);
	attroff(A_BOLD);
	printw("  pid %d, up %.0f min, every %.3g s", now->header.pid, up / 60,
	       top->seconds);
	if (COLS > 70)
		mvprintw(0, COLS - 24, "q quit  c %s  + -",
			 top->classes ? "overview" : "classes ");
}

static void health(const struct ts_top *top, const struct ts_view *view,
		   int row)
{
	char text[400];
	bool any = false;

	mvaddstr(row, 0, "health");
	move(row, LABEL);
	for (unsigned i = 0; i < TS_N_WARNINGS; i++) {
		if (!(view->warnings >> i & 1))
			continue;
		attron(A_REVERSE);
		printw("%s", ts_warning_name(i));
		attroff(A_REVERSE);
		if (!any)
			printw(" %.*s", COLS > 60 ? COLS - 40 : 0,
			       ts_warning_text(i, &top->now, view, text,
					       sizeof(text)));
		addstr(" ");
		any = true;
	}
	if (!any)
		addstr("good");
}

static void bar(int row, const char *label, double part, const char *text)
{
	int width = COLS - LABEL - BAR_RIGHT - 3, full;

	mvaddstr(row, 0, label);
	if (width < 8)
		width = 8;
	full = (int)(part * width + 0.5);
	mvaddch(row, LABEL, '[');
	for (int i = 0; i < width; i++)
		addch(i < full ? '#' : '.');
	printw("] %s", text);
}

static double part_of(double a, double b)
{
	return b <= 0 ? 0 : a > b ? 1 : a / b;
}

static int tiers(const struct ts_top *top, const struct ts_view *view, int row)
{
	const int64_t *gauge = top->now.looked_up.gauge;
	char text[96];

	snprintf(text, sizeof(text), "%s of %s", SIZE(view->used_slots * PAGE),
		 SIZE(view->size_slots * PAGE));
	bar(row++, "device",
	    part_of((double)view->used_slots, (double)view->size_slots), text);
	snprintf(text, sizeof(text), "%s of %s", SIZE(view->taken_bytes),
		 SIZE((uint64_t)gauge[TS_GAUGE_budget_bytes]));
	bar(row++, "memory",
	    part_of((double)view->taken_bytes,
		    (double)gauge[TS_GAUGE_budget_bytes]),
	    text);
	if (!gauge[TS_GAUGE_spill_present]) {
		mvaddstr(row, 0, "spill");
		mvaddstr(row, LABEL, "none");
		return row + 1;
	}
	snprintf(text, sizeof(text), "%s of %s%s", SIZE(view->spill_used_bytes),
		 SIZE((uint64_t)gauge[TS_GAUGE_spill_size_bytes]),
		 gauge[TS_GAUGE_spill_degraded] ? " DEGRADED" : "");
	bar(row, "spill",
	    part_of((double)view->spill_used_bytes,
		    (double)gauge[TS_GAUGE_spill_size_bytes]),
	    text);
	return row + 1;
}

static int pages(const struct ts_view *view, int row)
{
	char kind[32];

	mvaddstr(row, 0, "pages");
	move(row, LABEL);
	for (unsigned i = 0; i < TS_N_STATS; i++)
		if (ts_stat_kind(i, kind))
			printw("%s %" PRIu64 "  ", kind, view->slots[i]);
	mvprintw(row + 1, 0, "%-*sratio %.2f  all in %.2f  room %s%s", LABEL,
		 "worth", view->ratio, view->all_in,
		 view->room_is_guess ? "at least " : "about ",
		 SIZE(view->room_bytes));
	return row + 2;
}

static void spark(const struct ts_top *top, enum ts_top_rate which, int row,
		  int column)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄",
					     "▅", "▆", "▇", "█"};
	static const char ascii[] = " .:-=+*#@";
	unsigned width = COLS - column > 4 ? (unsigned)(COLS - column) : 4;
	unsigned n = top->n < TS_TOP_HISTORY ? top->n : TS_TOP_HISTORY;
	double most = 0;

	if (n > width)
		n = width;
	for (unsigned i = 1; i <= n; i++) {
		double v = top->history[which][(top->n - i) % TS_TOP_HISTORY];

		most = v > most ? v : most;
	}
	move(row, column);
	for (unsigned i = n; i >= 1; i--) {
		double v = top->history[which][(top->n - i) % TS_TOP_HISTORY];
		unsigned level = (unsigned)(part_of(v, most) * 8 + 0.5);

		if (top->utf8)
			addstr(blocks[level]);
		else
			addch((chtype)ascii[level]);
	}
}

static int rates(const struct ts_top *top, int row)
{
	static const char *const names[TS_TOP_RATES] = {
		"read", "write", "discard", "spill", "unspill"};

	mvaddstr(row++, 0, "pages a second");
	for (unsigned i = 0; i < TS_TOP_RATES; i++) {
		mvprintw(row, 0, "  %-7s%10.0f  ", names[i],
			 top->history[i][(top->n - 1) % TS_TOP_HISTORY]);
		spark(top, i, row++, 22);
	}
	return row;
}

static void latency(const struct ts_top *top, int row)
{
	static const unsigned quantiles[] = {500, 900, 990, 999};
	char text[TS_DURATION_TEXT_BYTES];

	mvprintw(row++, 0, "%-12s%10s %10s %10s %10s %10s", "latency",
		 "a second", "p50", "p90", "p99", "p99.9");
	for (unsigned i = 0; i < TS_N_HISTS; i++) {
		const struct ts_latency *hist = &top->rates.hist[i];
		uint64_t n = ts_latency_count(hist);

		mvprintw(row++, 0, "  %-10s%10.0f", ts_latency_info[i].name,
			 top->rates.seconds > 0 ? (double)n / top->rates.seconds
						: 0);
		for (unsigned k = 0; k < 4; k++)
			printw(" %10s", n ? ts_duration_format(
						    ts_latency_quantile_ns(
							    hist, quantiles[k]),
						    text, sizeof(text))
					  : "-");
	}
}

/* Classes with blocks, the one that wastes the most memory first. */
static unsigned sort_classes(const struct ts_class_use *use, unsigned *ret)
{
	uint64_t waste[TS_POOL_CLASSES];
	unsigned n = 0;

	for (unsigned i = 0; i < TS_POOL_CLASSES; i++) {
		unsigned at = n;

		if (!use[i].blocks)
			continue;
		waste[i] = (use[i].blocks * use[i].per_block - use[i].objects) *
			   use[i].object_bytes;
		for (; at > 0 && waste[ret[at - 1]] < waste[i]; at--)
			ret[at] = ret[at - 1];
		ret[at] = i;
		n++;
	}
	return n;
}

static void classes(const struct ts_top *top, int row)
{
	const struct ts_class_use *use = top->now.looked_up.size_class;
	unsigned order[TS_POOL_CLASSES], n = sort_classes(use, order);

	mvprintw(row++, 0,
		 "%8s %10s %12s %7s %10s  fragmentation of %u size "
		 "classes",
		 "bytes", "blocks", "objects", "filled", "unused", n);
	for (unsigned i = 0; i < n && row < LINES; i++) {
		const struct ts_class_use *c = &use[order[i]];
		uint64_t room = c->blocks * c->per_block;
		double filled = part_of((double)c->objects, (double)room);

		mvprintw(row, 0,
			 "%8u %10" PRIu64 " %12" PRIu64 " %6.1f%% %10s  ",
			 c->object_bytes, c->blocks, c->objects, 100 * filled,
			 SIZE((room - c->objects) * c->object_bytes));
		for (int k = 0; k < (int)(filled * (COLS - 55)); k++)
			addch('#');
		row++;
	}
	if (!n)
		mvaddstr(row, 0, "nothing is stored in memory");
}

void ts_top_draw(const struct ts_top *top)
{
	struct ts_view view;
	int row;

	ts_view_make(&top->now, &view);
	erase();
	head(top);
	health(top, &view, 1);
	if (top->classes) {
		classes(top, 3);
	} else {
		row = tiers(top, &view, 2);
		row = pages(&view, row);
		row = rates(top, row + 1);
		latency(top, row + 1);
	}
	refresh();
}
