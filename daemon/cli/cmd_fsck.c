// SPDX-License-Identifier: BSD-3-Clause
/* cmd_fsck.c - `thinswap fsck`: verify all that is stored
 *
 * Asks nobody: it looks into the memory of the server (lib/peek.h), which may
 * be serving, stalled or dead.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/stats_out.h"
#include "fsck.h"
#include "keepfile.h"
#include "util/size.h"

#define NICE       10
#define NO_SEGMENT (1ul + INT_MAX)

struct options {
	const char *file, *keep, *spill;
	struct ts_number segment; /* NO_SEGMENT: not given */
};

/* Returns -1 to go on, or an exit code. */
static int parse(int argc, char **argv, struct options *o, struct ts_cli *cli)
{
	const struct ts_option options[] = {
		{"file", "FILE", "a server that was started with stats=FILE",
		 ts_take_text, &o->file},
		{"keep", "FILE", "memory that was kept with keep=FILE",
		 ts_take_text, &o->keep},
		{"segment", "N", "shared memory by its number; see ipcs -m",
		 ts_take_number, &o->segment},
		{"spill", "FILE",
		 "where the spill file is now, if it was moved", ts_take_text,
		 &o->spill},
		{0},
	};
	const struct ts_usage usage = {
		.synopsis = "[OPTION]...",
		.head = "Verify every page that is stored, in memory and in "
			"the spill file.\n"
			"Changes nothing, disturbs nobody, and works while the "
			"server serves,\n"
			"is stalled, or is dead and its memory was kept. For "
			"its user or root.\n",
		.tail = "Exit code: 0 all is sound, 6 damage was found, 1 not "
			"all could be\n"
			"looked at, 3 there is nothing to look at.\n",
		.options = options,
		.json = &cli->json,
	};

	return ts_options_parse(argc, argv, &usage);
}

static int fail(const struct ts_cli *cli, int error, const char *text)
{
	enum ts_exit code = TS_EXIT_FAILED;
	char sentence[700];

	if (error == -EACCES || error == -EPERM)
		code = TS_EXIT_NO_PERMISSION;
	else if (error == -ENOENT || error == -ESRCH)
		code = TS_EXIT_NO_DAEMON;
	snprintf(sentence, sizeof(sentence), "%s%s", text,
		 code == TS_EXIT_NO_PERMISSION ? "; try sudo" : "");
	return ts_cli_fail(cli, (int)code, sentence);
}

/* By the server's process, which the statistics name. */
static int find_by_stats(const struct ts_cli *cli, const struct options *o,
			 int *ret_segment)
{
	struct ts_stats_source source;
	struct ts_snapshot now;
	char why[256];
	int code = ts_stats_source_open(cli, o->file, false, &source);

	if (code != TS_EXIT_OK)
		return code;
	ts_stats_source_read(&source, &now);
	ts_stats_source_close(&source);
	if (!now.alive)
		return fail(cli, -ESRCH,
			    "the server is gone, and its memory "
			    "went with it");
	*ret_segment = ts_peek_find(now.header.pid, why, sizeof(why));
	return *ret_segment < 0 ? fail(cli, *ret_segment, why) : TS_EXIT_OK;
}

/* What is kept is found by its file, also when nobody serves it. */
static int find(const struct ts_cli *cli, const struct options *o,
		int *ret_segment)
{
	char path[512], why[600];

	*ret_segment = (int)o->segment.value;
	if (o->segment.value != NO_SEGMENT)
		return TS_EXIT_OK;
	if (o->file)
		return find_by_stats(cli, o, ret_segment);
	snprintf(path, sizeof(path), "%s/memory", cli->runtime_dir);
	*ret_segment = ts_keepfile_segment(o->keep ? o->keep : path);
	if (*ret_segment >= 0)
		return TS_EXIT_OK;
	if (!o->keep)
		return find_by_stats(cli, o, ret_segment);
	snprintf(why, sizeof(why), "%.500s: %s", o->keep,
		 *ret_segment == -ENOENT ? "no memory is kept"
					 : strerror(-*ret_segment));
	return fail(cli, *ret_segment, why);
}

static bool is_served(int segment)
{
	struct shmid_ds ds;

	return !shmctl(segment, IPC_STAT, &ds) && ds.shm_nattch > 0;
}

static const char *const kind_names[TS_KINDS] = {
	[TS_ZERO] = "zero", [TS_FILL] = "fill", [TS_STAGED] = "staged",
	[TS_RAM] = "ram",   [TS_RAW] = "raw",   [TS_SPILL] = "spill",
};

static const char *const fault_names[TS_FSCK_FAULTS] = {
	[TS_FSCK_DIRECTORY] = "map",  [TS_FSCK_WORD] = "words",
	[TS_FSCK_BLOCK] = "blocks",   [TS_FSCK_OBJECT] = "objects",
	[TS_FSCK_RECORD] = "records", [TS_FSCK_UNREADABLE] = "unreadable",
};

static json_t *numbers(const char *const *name, const uint64_t *value,
		       unsigned n)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < n; i++)
		if (name[i])
			json_object_set_new(object, name[i],
					    json_integer((json_int_t)value[i]));
	return object;
}

static json_t *examples(const struct ts_fsck *f)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < f->n_examples; i++)
		json_array_append_new(
			array,
			json_pack("{s:I, s:s}", "offset_bytes",
				  (json_int_t)f->example[i].slot * 4096, "what",
				  ts_fsck_name(f->example[i].fault)));
	return array;
}

static void print_json(int code, const struct ts_peek *peek,
		       const struct ts_fsck *f)
{
	ts_cli_print_json(json_pack(
		"{s:b, s:i, s:i, s:b, s:I, s:o, s:o, s:o,"
		" s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"ok", code == TS_EXIT_OK, "exit_code", code, "segment",
		peek->segment, "served", is_served(peek->segment), "errors",
		(json_int_t)ts_fsck_errors(f), "faults",
		numbers(fault_names, f->faults, TS_FSCK_FAULTS), "examples",
		examples(f), "slots", numbers(kind_names, f->slots, TS_KINDS),
		"clusters", (json_int_t)f->clusters, "leaves",
		(json_int_t)f->leaves, "blocks", (json_int_t)f->blocks,
		"dictionaries", (json_int_t)f->dictionaries, "stored_bytes",
		(json_int_t)f->stored_bytes, "record_bytes",
		(json_int_t)f->record_bytes, "looked_again",
		(json_int_t)f->changed, "unsettled", (json_int_t)f->unsettled,
		"not_looked_at", (json_int_t)f->unread));
}

static void print_text(const struct ts_peek *peek, const struct ts_fsck *f)
{
	char a[TS_SIZE_TEXT_BYTES], b[TS_SIZE_TEXT_BYTES];
	uint64_t pages = 0;
	const char *comma = "";

	for (unsigned i = 0; i < TS_KINDS; i++)
		pages += f->slots[i];
	printf("segment       %d, %s\n", peek->segment,
	       is_served(peek->segment) ? "served" : "nobody serves it");
	printf("pages         %llu: ", (unsigned long long)pages);
	for (unsigned i = 0; i < TS_KINDS; i++)
		if (kind_names[i]) {
			printf("%s%llu %s", comma,
			       (unsigned long long)f->slots[i], kind_names[i]);
			comma = ", ";
		}
	printf("\nmemory        %llu blocks, %s stored, %llu clusters, "
	       "%llu dictionaries\n",
	       (unsigned long long)f->blocks,
	       ts_size_format(f->stored_bytes, a, sizeof(a)),
	       (unsigned long long)f->clusters,
	       (unsigned long long)f->dictionaries);
	if (peek->head.n_segments)
		printf("spill         %s of records in %.200s\n",
		       ts_size_format(f->record_bytes, b, sizeof(b)),
		       peek->head.spill_path);
	printf("looked again  %llu, not settled %llu\n",
	       (unsigned long long)f->changed,
	       (unsigned long long)f->unsettled);
	if (f->unread)
		printf("not looked at %llu: %s\n",
		       (unsigned long long)f->unread, f->why_unread);
	printf("errors        %llu\n", (unsigned long long)ts_fsck_errors(f));
	for (unsigned i = 0; i < TS_FSCK_FAULTS; i++)
		if (f->faults[i])
			printf("  %-10llu  %s\n",
			       (unsigned long long)f->faults[i],
			       ts_fsck_name(i));
	for (unsigned i = 0; i < f->n_examples; i++)
		printf("  at %llu: %s\n",
		       (unsigned long long)f->example[i].slot * 4096,
		       ts_fsck_name(f->example[i].fault));
}

static int run(const struct ts_cli *cli, const struct options *o, int segment)
{
	int code = TS_EXIT_OK, error;
	struct ts_peek peek;
	struct ts_fsck found;
	char why[256];

	error = ts_peek_open(&peek, segment, why, sizeof(why));
	if (error)
		return fail(cli, error, why);
	error = ts_fsck(&peek, o->spill, &found);
	if (error) {
		ts_peek_close(&peek);
		return fail(cli, error, strerror(-error));
	}
	if (ts_fsck_errors(&found))
		code = TS_EXIT_DAMAGED;
	else if (found.unread)
		code = TS_EXIT_FAILED;
	if (cli->json)
		print_json(code, &peek, &found);
	else
		print_text(&peek, &found);
	ts_peek_close(&peek);
	return code;
}

int ts_cmd_fsck(int argc, char **argv, const struct ts_cli *given)
{
	struct options o = {.segment = {NO_SEGMENT, 0, INT_MAX}};
	struct ts_cli cli = *given;
	int segment, code = parse(argc, argv, &o, &cli);

	if (code >= 0)
		return code;
	/* Other processes' pages pass through this one. */
	prctl(PR_SET_DUMPABLE, 0);
	code = find(&cli, &o, &segment);
	if (code != TS_EXIT_OK)
		return code;
	setpriority(PRIO_PROCESS, 0, NICE);
	return run(&cli, &o, segment);
}
