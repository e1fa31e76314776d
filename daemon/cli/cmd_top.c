// SPDX-License-Identifier: BSD-3-Clause
/* cmd_top.c - `thinswap top`: live, in a terminal
 *
 * Without a terminal it prints plain lines, as `thinswap stats --watch` does.
 */
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/top_screen.h"

#define SECONDS_MIN 0.2
#define SECONDS_MAX 60.0

static const char head[] =
	"Watch the store: tiers as bars, rates with their history, latencies\n"
	"of the last interval, health. Plain lines without a terminal.\n";

static const char keys[] =
	"Keys: q quit, c size classes and back, + slower, - faster.\n";

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, const char **ret_file,
		 double *ret_seconds)
{
	struct ts_seconds seconds = {1, SECONDS_MIN, SECONDS_MAX};
	const struct ts_option options[] = {
		{"file", "FILE", "of a server that was started with stats=FILE",
		 ts_take_text, ret_file},
		{"seconds", "SECONDS", "between looks; default 1",
		 ts_take_seconds, &seconds},
		{0},
	};
	const struct ts_usage usage = {
		.synopsis = "[OPTION]...",
		.head = head,
		.options = options,
		.tail = keys,
	};
	int code = ts_options_parse(argc, argv, &usage);

	*ret_seconds = seconds.value;
	return code;
}

/* Returns false to end. */
static bool handle_key(struct ts_top *top, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case 'c':
	case '\t':
		top->classes = !top->classes;
		break;
	case '+':
		if (top->seconds * 2 <= SECONDS_MAX)
			top->seconds *= 2;
		break;
	case '-':
		if (top->seconds / 2 >= SECONDS_MIN)
			top->seconds /= 2;
		break;
	default:
		/* KEY_RESIZE too: the next draw takes the new size. */
		break;
	}
	return true;
}

/* Look, draw, and take keys until it is time to look again. */
static void run(struct ts_top *top, struct ts_stats_source *source)
{
	uint64_t next_ns = ts_now_ns(), now_ns;
	struct ts_snapshot now;
	bool go_on = true;
	int key;

	while (go_on) {
		now_ns = ts_now_ns();
		if (now_ns >= next_ns) {
			ts_stats_source_read(source, &now);
			ts_top_feed(top, &now);
			next_ns = now_ns + (uint64_t)(top->seconds * 1e9);
		}
		ts_top_draw(top);
		timeout((int)((next_ns - now_ns) / 1000000) + 1);
		key = getch();
		if (key != ERR)
			go_on = handle_key(top, key);
	}
}

static bool has_terminal(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && term && *term &&
	       strcmp(term, "dumb") != 0;
}

static int run_in_terminal(struct ts_top *top, struct ts_stats_source *source)
{
	SCREEN *screen;

	setlocale(LC_ALL, "");
	top->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return TS_EXIT_FAILED;
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	run(top, source);
	endwin();
	delscreen(screen);
	return TS_EXIT_OK;
}

static int run_plain(struct ts_top *top, struct ts_stats_source *source)
{
	struct ts_snapshot before, now;

	ts_stats_source_read(source, &before);
	for (unsigned i = 0; !ferror(stdout); i++) {
		ts_sleep_ns((uint64_t)(top->seconds * 1e9));
		ts_stats_source_read(source, &now);
		ts_stats_rates(stdout, &before, &now, i % 20 == 0);
		before = now;
	}
	return TS_EXIT_OK;
}

int ts_cmd_top(int argc, char **argv, const struct ts_cli *cli)
{
	struct ts_stats_source source;
	static struct ts_top top;
	const char *file = NULL;
	int code = parse(argc, argv, &file, &top.seconds);

	if (code >= 0)
		return code;
	code = ts_stats_source_open(cli, file, false, &source);
	if (code != TS_EXIT_OK)
		return code;
	code = has_terminal() ? run_in_terminal(&top, &source) : TS_EXIT_FAILED;
	if (code != TS_EXIT_OK)
		code = run_plain(&top, &source);
	ts_stats_source_close(&source);
	return code;
}
