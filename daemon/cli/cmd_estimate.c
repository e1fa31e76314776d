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
#include "cli/options.h"
#include "cli/sample.h"
#include "codec.h"
#include "util/lock.h"
#include "util/size.h"

#define PAGE  4096u
#define BURST 64u

static const char head[] =
	"Say what thinswap would make of the memory of these processes, or\n"
	"of all: shares of zero, same-filled, duplicate and incompressible\n"
	"pages, ratio and processor time by level, with and without a\n"
	"dictionary, and how much a budget would hold. Reads a random sample;\n"
	"changes nothing. Needs root for processes of others.\n";

struct levels {
	int level[TS_ESTIMATE_LEVELS_MAX];
	unsigned n;
};

struct options {
	struct ts_cli cli;
	struct ts_number sample, rate;
	uint64_t budget;
	struct levels levels;
};

static bool take_levels(const char *text, void *to, char *why, size_t why_bytes)
{
	struct levels *levels = to;
	char *end;

	levels->n = 0;
	do {
		long level = strtol(text, &end, 10);

		if (end == text || (*end && *end != ',') ||
		    level < TS_CODEC_LEVEL_MIN || level > TS_CODEC_LEVEL_MAX ||
		    levels->n == TS_ESTIMATE_LEVELS_MAX) {
			snprintf(why, why_bytes,
				 "must be up to %u numbers from %d to %d, with "
				 "commas between",
				 TS_ESTIMATE_LEVELS_MAX, TS_CODEC_LEVEL_MIN,
				 TS_CODEC_LEVEL_MAX);
			return false;
		}
		levels->level[levels->n++] = (int)level;
		text = end + 1;
	} while (*end);
	return true;
}

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, struct options *o)
{
	const struct ts_option options[] = {
		{"sample", "PAGES", "most pages to look at; default 16384",
		 ts_take_number, &o->sample},
		{"rate", "PAGES", "most pages to read a second; default 20000",
		 ts_take_number, &o->rate},
		{"levels", "LIST", "zstd levels, -7 to 19; default -1,1,3",
		 take_levels, &o->levels},
		{"budget", "SIZE", "memory for compressed pages; default 2G",
		 ts_take_size, &o->budget},
		{0},
	};
	const struct ts_usage usage = {
		.synopsis = "[OPTION]... [PID...]",
		.head = head,
		.options = options,
		.json = &o->cli.json,
		.most = TS_NO_LIMIT,
	};

	return ts_options_parse(argc, argv, &usage);
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
		struct ts_number pid = {0, 1, INT32_MAX};
		int err = ts_take_number(pids[i], &pid, text, sizeof(text))
				  ? ts_sample_add(sample, (pid_t)pid.value)
				  : -ESRCH;

		if (!err)
			continue;
		snprintf(text, sizeof(text),
			 err == -ESRCH ? "%.40s: no such process"
				       : "%.40s: permission denied: the memory "
					 "of others needs root "
					 "(CAP_SYS_PTRACE); try sudo",
			 pids[i]);
		return ts_cli_fail(&o->cli,
				   err == -ESRCH ? TS_EXIT_FAILED
						 : TS_EXIT_NO_PERMISSION,
				   text);
	}
	if (!n_pids)
		ts_sample_add_all(sample);
	if (sample->n)
		return TS_EXIT_OK;
	return sample->refused ? ts_cli_fail(&o->cli, TS_EXIT_NO_PERMISSION,
					     "permission denied: the "
					     "memory of others needs root "
					     "(CAP_SYS_PTRACE); "
					     "try sudo")
			       : ts_cli_fail(&o->cli, TS_EXIT_FAILED,
					     "no anonymous memory found");
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
				start_ns + i * 1000000000ull / o->rate.value;
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
		return ts_cli_fail(&o->cli, TS_EXIT_FAILED,
				   "no memory for the sample");
	n = read_pages(o, sample, data);
	err = ts_estimate(data, n, o->levels.level, o->levels.n, show_progress,
			  (char[]){"compressing"}, &e);
	end_progress();
	free(data);
	if (err)
		return ts_cli_fail(&o->cli, TS_EXIT_FAILED, strerror(-err));
	if (!n)
		return ts_cli_fail(&o->cli, TS_EXIT_NO_PERMISSION,
				   "no page could be read: "
				   "the memory of others needs root "
				   "(CAP_SYS_PTRACE); try sudo");
	if (o->cli.json)
		return print_json(o, sample, &e);
	print_text(o, sample, &e);
	return TS_EXIT_OK;
}

int ts_cmd_estimate(int argc, char **argv, const struct ts_cli *cli)
{
	struct options o = {
		.cli = *cli,
		.sample = {16384, 1, 1000000},
		.rate = {20000, 1, UINT32_MAX}, /* 80 MB/s */
		.budget = 2ull << 30,
		.levels = {{-1, 1, 3}, 3},
	};
	struct ts_sample sample;
	int code = parse(argc, argv, &o);

	if (code >= 0)
		return code;
	if (ts_sample_init(&sample, o.sample.value))
		return ts_cli_fail(&o.cli, TS_EXIT_FAILED,
				   "no memory for the sample");
	code = collect(&o, argc - optind, argv + optind, &sample);
	if (code == TS_EXIT_OK)
		code = judge(&o, &sample);
	ts_sample_fini(&sample);
	return code;
}
