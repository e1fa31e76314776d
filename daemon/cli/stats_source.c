// SPDX-License-Identifier: BSD-3-Clause
/* stats_source.c - find and read the statistics of an instance */
#include "cli/stats_out.h"

#include <errno.h>
#include <string.h>

static int complain(const struct ts_cli *cli,
		    const struct ts_stats_source *source, int error,
		    const char *sentence)
{
	enum ts_exit code = TS_EXIT_FAILED;
	char text[1400];

	if (error == -ENOENT && source->of_daemon) {
		code = TS_EXIT_NO_DAEMON;
		snprintf(text, sizeof(text),
			 "no statistics in %s: thinswapd does not run there; "
			 "start it with systemctl start thinswap, or name the "
			 "file of another server with --file",
			 cli->runtime_dir);
	} else if (error == -ENOENT) {
		code = TS_EXIT_NO_DAEMON;
		snprintf(text, sizeof(text),
			 "%s: no such file; a server makes it when it is "
			 "started with stats=%s",
			 source->path, source->path);
	} else if (error == -EACCES) {
		code = TS_EXIT_NO_PERMISSION;
		snprintf(text, sizeof(text),
			 "%s; everybody may read the file, so a directory "
			 "above it must be closed to you: try sudo",
			 sentence);
	} else {
		snprintf(text, sizeof(text), "%s", sentence);
	}
	return ts_cli_fail(cli, (int)code, text);
}

int ts_stats_source_open(const struct ts_cli *cli, const char *file, bool quiet,
			 struct ts_stats_source *ret)
{
	char sentence[700];
	int error;

	memset(ret, 0, sizeof(*ret));
	ret->of_daemon = !file;
	if (file)
		snprintf(ret->path, sizeof(ret->path), "%s", file);
	else
		snprintf(ret->path, sizeof(ret->path), "%s/stats",
			 cli->runtime_dir);
	error = ts_statsfile_open(&ret->reader, ret->path, sentence,
				  sizeof(sentence));
	if (!error)
		return TS_EXIT_OK;
	return quiet ? TS_EXIT_NO_DAEMON : complain(cli, ret, error, sentence);
}

void ts_stats_source_close(struct ts_stats_source *source)
{
	ts_statsfile_close(&source->reader);
}

void ts_stats_source_read(struct ts_stats_source *source,
			  struct ts_snapshot *ret)
{
	struct ts_statsfile_reader fresh;
	char sentence[700];

	if (ts_statsfile_replaced(&source->reader, source->path) &&
	    !ts_statsfile_open(&fresh, source->path, sentence,
			       sizeof(sentence))) {
		ts_statsfile_close(&source->reader);
		source->reader = fresh;
	}
	ts_statsfile_read(&source->reader, ret);
}
