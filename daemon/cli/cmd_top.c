// SPDX-License-Identifier: BSD-3-Clause
/* cmd_top.c - `thinswap top`: live, in a terminal
 *
 * Without a terminal it prints plain lines, as `thinswap stats --watch` does.
 */
#include <curses.h>
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/top_screen.h"

#define SECONDS_MIN 0.2
#define SECONDS_MAX 60.0

static const char help[] =
	"Usage: thinswap top [OPTION]...\n"
	"\n"
	"Watch the store: tiers as bars, rates with their history, latencies\n"
	"of the last interval, health. Plain lines without a terminal.\n"
	"\n"
	"  --file FILE        of a server that was started with stats=FILE\n"
	"  --seconds SECONDS  between looks; default 1\n"
	"  -h, --help         print this help\n"
	"\n"
	"Keys: q quit, c size classes and back, + slower, - faster.\n";

struct options {
	const char *file;
	double seconds;
};

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"file", required_argument, NULL, 'f'},
		{"seconds", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	char *end;
	int opt;

	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (opt) {
		case 'f':
			o->file = optarg;
			break;
		case 's':
			o->seconds = strtod(optarg, &end);
			if (*end || !(o->seconds >= SECONDS_MIN &&
				      o->seconds <= SECONDS_MAX))
				return ts_cli_usage(argv[0], "--seconds must "
							     "be 0.2 to 60");
			break;
		case 'h':
			fputs(help, stdout);
			return TS_EXIT_OK;
		default:
			return ts_cli_usage(argv[0], "unknown option, or one "
						     "without its argument");
		}
	}
	return optind < argc ? ts_cli_usage(argv[0], "no arguments are taken")
			     : -1;
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
	struct options o = {.seconds = 1};
	struct ts_stats_source source;
	static struct ts_top top;
	int code = parse(argc, argv, &o);

	if (code >= 0)
		return code;
	code = ts_stats_source_open(cli, o.file, false, &source);
	if (code != TS_EXIT_OK)
		return code;
	top.seconds = o.seconds;
	code = has_terminal() ? run_in_terminal(&top, &source) : TS_EXIT_FAILED;
	if (code != TS_EXIT_OK)
		code = run_plain(&top, &source);
	ts_stats_source_close(&source);
	return code;
}
