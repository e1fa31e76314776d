// SPDX-License-Identifier: BSD-3-Clause
/* cmd_estimate.c - `thinswap estimate`: what it would bring, before installing
 *
 * Changes nothing, starts nothing, and needs no configuration.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/estimate.h"
#include "cli/sample.h"
#include "codec.h"
#include "util/lock.h"
#include "util/size.h"

#define PAGE           4096u
#define SAMPLE_DEFAULT 16384u
#define SAMPLE_MAX     1000000ul
#define RATE_DEFAULT   20000u /* pages a second: 80 MB/s */
#define BUDGET_DEFAULT (2ull << 30)
#define BURST          64u

static const char help[] =
	"Usage: thinswap estimate [OPTION]... [PID...]\n"
	"\n"
	"Say what thinswap would make of the memory of these processes, or of\n"
	"all: shares of zero, same-filled, duplicate and incompressible "
	"pages,\n"
	"ratio and processor time by level, with and without a dictionary, "
	"and\n"
	"how much a budget would hold. Reads a random sample; changes "
	"nothing.\n"
	"Needs root for processes of others.\n"
	"\n"
	"  --sample PAGES  most pages to look at; default 16384\n"
	"  --rate PAGES    most pages to read a second; default 20000\n"
	"  --levels LIST   zstd levels, -7 to 19; default -1,1,3\n"
	"  --budget SIZE   memory for compressed pages; default 2G\n"
	"  --json          print one JSON object\n"
	"  -h, --help      print this help\n";

struct options {
	unsigned long sample, rate;
	uint64_t budget;
	int level[TS_ESTIMATE_LEVELS_MAX];
	unsigned n_levels;
	bool json;
};

static bool take_levels(const char *text, struct options *o)
{
	char *end;

	o->n_levels = 0;
	do {
		long level = strtol(text, &end, 10);

		if (end == text || (*end && *end != ',') ||
		    level < TS_CODEC_LEVEL_MIN || level > TS_CODEC_LEVEL_MAX ||
		    o->n_levels == TS_ESTIMATE_LEVELS_MAX)
			return false;
		o->level[o->n_levels++] = (int)level;
		text = end + 1;
	} while (*end);
	return true;
}

static bool take_number(const char *text, unsigned long max, unsigned long *ret)
{
	char *end;

	*ret = strtoul(text, &end, 10);
	return *text != '-' && end != text && !*end && *ret > 0 && *ret <= max;
}

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"sample", required_argument, NULL, 's'},
		{"rate", required_argument, NULL, 'r'},
		{"levels", required_argument, NULL, 'l'},
		{"budget", required_argument, NULL, 'b'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	char why[256];
	int opt;

	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (opt) {
		case 's':
			if (!take_number(optarg, SAMPLE_MAX, &o->sample))
				return ts_cli_usage(argv[0],
						    "--sample must be "
						    "1 to 1000000 pages");
			break;
		case 'r':
			if (!take_number(optarg, UINT32_MAX, &o->rate))
				return ts_cli_usage(argv[0], "--rate must be a "
							     "number of pages");
			break;
		case 'l':
			if (!take_levels(optarg, o))
				return ts_cli_usage(argv[0],
						    "--levels must be "
						    "up to 8 numbers from -7 "
						    "to 19, with commas");
			break;
		case 'b':
			if (ts_size_parse(optarg, &o->budget, why, sizeof(why)))
				return ts_cli_usage(argv[0], why);
			break;
		case 'j':
			o->json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return TS_EXIT_OK;
		default:
			return ts_cli_usage(argv[0], "unknown option, or one "
						     "without its argument");
		}
	}
	return -1;
}

static int fail(const struct options *o, int code, const char *text)
{
	if (o->json)
		ts_cli_print_json(json_pack("{s:b, s:i, s:s}", "ok", 0,
					    "exit_code", code, "error", text));
	else
		fprintf(stderr, "thinswap: %s\n", text);
	return code;
}

static void show_progress(void *opaque, double part)
{
	const char *what = opaque;

	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r%-12s [%-40.*s] %3.0f %%", what, (int)(part * 40),
		"########################################", 100 * part);
}

static void end_progress(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%65s\r", "");
}

/* Returns an exit code. */
static int collect(const struct options *o, int n_pids, char **pids,
		   struct ts_sample *sample)
{
	char text[160];

	for (int i = 0; i < n_pids; i++) {
		unsigned long pid;
		int err = take_number(pids[i], INT32_MAX, &pid)
				  ? ts_sample_add(sample, (pid_t)pid)
				  : -ESRCH;

		if (!err)
			continue;
		snprintf(text, sizeof(text),
			 err == -ESRCH ? "%.40s: no such process"
				       : "%.40s: permission denied: the memory "
					 "of others needs root "
					 "(CAP_SYS_PTRACE); try sudo",
			 pids[i]);
		return fail(o,
			    err == -ESRCH ? TS_EXIT_FAILED
					  : TS_EXIT_NO_PERMISSION,
			    text);
	}
	if (!n_pids)
		ts_sample_add_all(sample);
	if (sample->n)
		return TS_EXIT_OK;
	return sample->refused
		       ? fail(o, TS_EXIT_NO_PERMISSION,
			      "permission denied: the "
			      "memory of others needs root (CAP_SYS_PTRACE); "
			      "try sudo")
		       : fail(o, TS_EXIT_FAILED, "no anonymous memory found");
}

/* Not faster than the rate; returns how many pages were still there. */
static size_t read_pages(const struct options *o, struct ts_sample *sample,
			 uint8_t *data)
{
	uint64_t start_ns = ts_now_ns();
	size_t n = 0;

	ts_sample_sort(sample);
	for (size_t i = 0; i < sample->n; i++) {
		n += ts_sample_read(&sample->page[i], data + n * PAGE);
		if (i % BURST == 0) {
			uint64_t due_ns =
				start_ns + i * 1000000000ull / o->rate;
			uint64_t now_ns = ts_now_ns();

			show_progress((char[]){"reading"},
				      (double)i / (double)sample->n);
			if (due_ns > now_ns)
				ts_sleep_ns(due_ns - now_ns);
		}
	}
	return n;
}

static double percent(uint64_t n, const struct ts_estimate *e)
{
	return e->pages ? 100.0 * (double)n / (double)e->pages : 0;
}

static double micros(uint64_t ns, uint64_t pages)
{
	return pages ? (double)ns / 1e3 / (double)pages : 0;
}

/* The trial that a server would run as: level 1 if it is there, with a
 * dictionary if one was made.
 */
static const struct ts_trial *usual(const struct ts_estimate *e)
{
	unsigned at = 0;

	for (unsigned i = 0; i < e->n_trials; i += 2)
		if (e->trial[i].level == TS_CODEC_LEVEL_DEFAULT)
			at = i;
	return &e->trial[at + e->trial[at + 1].done];
}

static void print_text(const struct options *o, const struct ts_sample *sample,
		       const struct ts_estimate *e)
{
	char a[TS_SIZE_TEXT_BYTES], b[TS_SIZE_TEXT_BYTES];

	printf("sample        %" PRIu64 " of %" PRIu64 " resident anonymous "
	       "pages (%s) of %u processes\n",
	       e->pages, sample->seen,
	       ts_size_format(sample->seen * PAGE, a, sizeof(a)),
	       sample->processes);
	if (sample->refused)
		printf("              %u processes may not be read\n",
		       sample->refused);
	printf("zero          %5.1f %%\n"
	       "same-filled   %5.1f %%\n"
	       "duplicate     %5.1f %%  of another page in the sample\n"
	       "incompressible%5.1f %%  at level %d, kept as they are\n",
	       percent(e->zero, e), percent(e->fill, e),
	       percent(e->duplicate, e), percent(e->incompressible, e),
	       e->trial[0].level);
	printf("\nof the pages that are neither zero nor same-filled:\n"
	       "level  dictionary   ratio   compress   restore   in %s\n",
	       ts_size_format(o->budget, a, sizeof(a)));
	for (unsigned i = 0; i < e->n_trials; i++) {
		const struct ts_trial *t = &e->trial[i];

		if (!t->done)
			continue;
		printf("%5d  %-10s  %6.2f  %6.1f us  %5.1f us  %s\n", t->level,
		       t->dictionary ? "yes" : "no", ts_trial_ratio(t),
		       micros(t->compress_ns, t->pages),
		       micros(t->restore_ns, t->pages - t->raw_pages),
		       ts_size_format(ts_estimate_room(e, t, o->budget), b,
				      sizeof(b)));
	}
	printf("\nwith a %s budget this machine could swap about %.1f GiB\n",
	       ts_size_format(o->budget, a, sizeof(a)),
	       (double)ts_estimate_room(e, usual(e), o->budget) /
		       (double)(1ull << 30));
}

static json_t *trial_json(const struct options *o, const struct ts_estimate *e,
			  const struct ts_trial *t)
{
	return json_pack("{s:i, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:I}",
			 "level", t->level, "dictionary", t->dictionary,
			 "pages", (json_int_t)t->pages, "raw_pages",
			 (json_int_t)t->raw_pages, "stored_bytes",
			 (json_int_t)t->stored_bytes, "ratio",
			 ts_trial_ratio(t), "compress_us",
			 micros(t->compress_ns, t->pages), "restore_us",
			 micros(t->restore_ns, t->pages - t->raw_pages),
			 "budget_holds_bytes",
			 (json_int_t)ts_estimate_room(e, t, o->budget));
}

static int print_json(const struct options *o, const struct ts_sample *sample,
		      const struct ts_estimate *e)
{
	json_t *trials = json_array();

	for (unsigned i = 0; i < e->n_trials; i++)
		if (e->trial[i].done)
			json_array_append_new(trials,
					      trial_json(o, e, &e->trial[i]));
	return ts_cli_print_json(json_pack(
		"{s:b, s:I, s:I, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:I}",
		"ok", 1, "resident_pages", (json_int_t)sample->seen,
		"sampled_pages", (json_int_t)e->pages, "processes",
		sample->processes, "refused", sample->refused, "zero_pages",
		(json_int_t)e->zero, "fill_pages", (json_int_t)e->fill,
		"duplicate_pages", (json_int_t)e->duplicate,
		"incompressible_pages", (json_int_t)e->incompressible,
		"budget_bytes", (json_int_t)o->budget, "trials", trials,
		"budget_holds_bytes",
		(json_int_t)ts_estimate_room(e, usual(e), o->budget)));
}

static int judge(const struct options *o, struct ts_sample *sample)
{
	uint8_t *data = malloc(sample->n * PAGE);
	struct ts_estimate e;
	size_t n;
	int err;

	if (!data)
		return fail(o, TS_EXIT_FAILED, "no memory for the sample");
	n = read_pages(o, sample, data);
	err = ts_estimate(data, n, o->level, o->n_levels, show_progress,
			  (char[]){"compressing"}, &e);
	end_progress();
	free(data);
	if (err)
		return fail(o, TS_EXIT_FAILED, strerror(-err));
	if (!n)
		return fail(o, TS_EXIT_NO_PERMISSION,
			    "no page could be read: "
			    "the memory of others needs root "
			    "(CAP_SYS_PTRACE); try sudo");
	if (o->json)
		return print_json(o, sample, &e);
	print_text(o, sample, &e);
	return TS_EXIT_OK;
}

int ts_cmd_estimate(int argc, char **argv, const struct ts_cli *cli)
{
	struct options o = {
		.sample = SAMPLE_DEFAULT,
		.rate = RATE_DEFAULT,
		.budget = BUDGET_DEFAULT,
		.level = {-1, 1, 3},
		.n_levels = 3,
		.json = cli->json,
	};
	struct ts_sample sample;
	int code = parse(argc, argv, &o);

	if (code >= 0)
		return code;
	if (ts_sample_init(&sample, o.sample))
		return fail(&o, TS_EXIT_FAILED, "no memory for the sample");
	code = collect(&o, argc - optind, argv + optind, &sample);
	if (code == TS_EXIT_OK)
		code = judge(&o, &sample);
	ts_sample_fini(&sample);
	return code;
}
