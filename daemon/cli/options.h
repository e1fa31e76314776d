/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h - the options of a command, from one table
 *
 * The table says what is taken and what --help prints; --help itself, and
 * --json where the command has it, are added. A value that is not allowed
 * ends the command with a sentence that says what is.
 *
 *	const struct ts_option options[] = {
 *		{"count", "N", "end after N lines", ts_take_number, &count},
 *		{0},
 *	};
 */
#ifndef TS_DAEMON_CLI_OPTIONS_H
#define TS_DAEMON_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#define TS_OPTIONS_MAX 12u
#define TS_NO_LIMIT    (~0u)

/* Read @text into *@to. False: @why says what is allowed ("must be ..."). */
typedef bool ts_take_fn(const char *text, void *to, char *why,
			size_t why_bytes);

struct ts_option {
	const char *name;     /* without the dashes */
	const char *argument; /* NULL: none; "[X]": may be left out */
	const char *help;     /* its lines with \n between */
	ts_take_fn *take;     /* gets NULL for an argument that is left out */
	void *to;
};

struct ts_usage {
	const char *synopsis;            /* after the command's name */
	const char *head;                /* paragraphs before the options */
	const char *tail;                /* and after them; NULL: none */
	const struct ts_option *options; /* the last has no name; or NULL */
	bool *json;                      /* NULL: there is no --json */
	unsigned least, most;            /* arguments that are no options */
	const char *missing; /* what to say when there are too few */
};

/* Returns -1 to go on, with the arguments at argv[optind], or an exit code. */
int ts_options_parse(int argc, char **argv, const struct ts_usage *usage);

/* Say that the command line is wrong; returns TS_EXIT_USAGE. */
int ts_cli_usage(const char *command, const char *sentence);

/* What @to is, in this order: bool (becomes true), const char *, struct
 * ts_number, struct ts_seconds, uint64_t.
 */
ts_take_fn ts_take_flag, ts_take_text, ts_take_number, ts_take_seconds,
	ts_take_size;

struct ts_number {
	unsigned long value, min, max;
};

struct ts_seconds {
	double value, min, max;
};

#endif
