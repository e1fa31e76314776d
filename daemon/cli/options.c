// SPDX-License-Identifier: BSD-3-Clause
/* options.c - the options of a command, from one table
 *
 * getopt_long() does the reading; its own table is made from ours.
 */
#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "util/size.h"

#define FIRST     256 /* getopt's value for the first option of a table */
#define WHY_BYTES 256

int ts_cli_usage(const char *command, const char *sentence)
{
	fprintf(stderr, "thinswap%s%s: %s; see thinswap%s%s --help\n",
		command ? " " : "", command ? command : "", sentence,
		command ? " " : "", command ? command : "");
	return TS_EXIT_USAGE;
}

static unsigned count(const struct ts_option *options)
{
	unsigned n = 0;

	while (options && options[n].name)
		n++;
	return n;
}

static int argument_of(const struct ts_option *option)
{
	if (!option->argument)
		return no_argument;
	return option->argument[0] == '[' ? optional_argument
					  : required_argument;
}

static int left_width(const struct ts_option *option)
{
	return snprintf(NULL, 0, "--%s%s%s", option->name,
			option->argument ? " " : "",
			option->argument ? option->argument : "");
}

/* One option; the lines of its help below each other. */
static void print_option(const char *name, const char *argument, int width,
			 const char *text)
{
	char left[64];
	int len;

	snprintf(left, sizeof(left), "%s%s%s", name, argument ? " " : "",
		 argument ? argument : "");
	for (; text; text = text[len] ? text + len + 1 : NULL) {
		len = (int)strcspn(text, "\n");
		printf("  %-*s  %.*s\n", width, left, len, text);
		left[0] = '\0';
	}
}

static void print_help(const char *command, const struct ts_usage *usage)
{
	int width = (int)strlen("-h, --help");
	char name[48];

	for (unsigned i = 0; i < count(usage->options); i++)
		if (left_width(&usage->options[i]) > width)
			width = left_width(&usage->options[i]);
	printf("Usage: thinswap %s %s\n\n%s\n", command, usage->synopsis,
	       usage->head);
	for (unsigned i = 0; i < count(usage->options); i++) {
		const struct ts_option *option = &usage->options[i];

		snprintf(name, sizeof(name), "--%s", option->name);
		print_option(name, option->argument, width, option->help);
	}
	if (usage->json)
		print_option("--json", NULL, width, "print one JSON object");
	print_option("-h, --help", NULL, width, "print this help");
	if (usage->tail)
		printf("\n%s", usage->tail);
}

static int take(int argc, char **argv, const struct ts_option *option)
{
	char why[WHY_BYTES], sentence[WHY_BYTES + 64];
	const char *text = optarg;

	/* What may be left out may also be a word of its own. */
	if (!text && argument_of(option) == optional_argument &&
	    optind < argc && argv[optind][0] != '-')
		text = argv[optind++];
	if (option->take(text, option->to, why, sizeof(why)))
		return -1;
	snprintf(sentence, sizeof(sentence), "--%s %s", option->name, why);
	return ts_cli_usage(argv[0], sentence);
}

static int complain(char **argv, const char *what)
{
	char sentence[WHY_BYTES];

	snprintf(sentence, sizeof(sentence), what, argv[optind - 1]);
	return ts_cli_usage(argv[0], sentence);
}

static int check_arguments(unsigned n, const char *command,
			   const struct ts_usage *usage)
{
	if (n < usage->least)
		return ts_cli_usage(command, usage->missing);
	if (n <= usage->most)
		return -1;
	return ts_cli_usage(command, usage->most ? "too many arguments"
						 : "no arguments are taken");
}

int ts_options_parse(int argc, char **argv, const struct ts_usage *usage)
{
	struct option longs[TS_OPTIONS_MAX + 3] = {0};
	unsigned n = count(usage->options);
	int opt, code = -1;

	for (unsigned i = 0; i < n; i++)
		longs[i] = (struct option){
			.name = usage->options[i].name,
			.has_arg = argument_of(&usage->options[i]),
			.val = FIRST + (int)i,
		};
	longs[n] = (struct option){.name = "help", .val = 'h'};
	if (usage->json)
		longs[n + 1] = (struct option){.name = "json", .val = 'j'};
	optind = 0; /* main() has used getopt before */
	opterr = 0;
	while (code < 0 &&
	       (opt = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
		if (opt >= FIRST) {
			code = take(argc, argv, &usage->options[opt - FIRST]);
		} else if (opt == 'j') {
			*usage->json = true;
		} else if (opt == 'h') {
			print_help(argv[0], usage);
			code = TS_EXIT_OK;
		} else {
			code = complain(argv, opt == ':' ? "%s wants a value"
							 : "unknown option %s");
		}
	}
	return code < 0 ? check_arguments((unsigned)(argc - optind), argv[0],
					  usage)
			: code;
}

bool ts_take_flag(const char *text, void *to, char *why, size_t why_bytes)
{
	*(bool *)to = true;
	return true;
}

bool ts_take_text(const char *text, void *to, char *why, size_t why_bytes)
{
	*(const char **)to = text;
	return true;
}

bool ts_take_number(const char *text, void *to, char *why, size_t why_bytes)
{
	struct ts_number *number = to;
	char *end;

	number->value = strtoul(text, &end, 10);
	if (*text != '-' && end != text && !*end &&
	    number->value >= number->min && number->value <= number->max)
		return true;
	snprintf(why, why_bytes, "must be a number from %lu to %lu",
		 number->min, number->max);
	return false;
}

bool ts_take_seconds(const char *text, void *to, char *why, size_t why_bytes)
{
	struct ts_seconds *seconds = to;
	char *end;

	seconds->value = text ? strtod(text, &end) : 1;
	if (!text || (end != text && !*end && seconds->value >= seconds->min &&
		      seconds->value <= seconds->max))
		return true;
	snprintf(why, why_bytes, "must be %.3g to %.6g seconds", seconds->min,
		 seconds->max);
	return false;
}

bool ts_take_size(const char *text, void *to, char *why, size_t why_bytes)
{
	return ts_size_parse(text, to, why, why_bytes) == 0;
}
