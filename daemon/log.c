// SPDX-License-Identifier: BSD-3-Clause
/* log.c - where a server says what it does
 *
 * JOURNAL_STREAM tells whether standard error is connected to the journal: it
 * names the device and inode of that stream. A variable that was merely
 * inherited does not match, and then standard error is what people read.
 */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

static bool to_journal;
static bool on_terminal;

void ts_log_open(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	if (stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	    fstat(STDERR_FILENO, &st) == 0)
		to_journal = st.st_dev == dev && st.st_ino == ino;
	on_terminal = isatty(STDERR_FILENO);
}

void ts_log(int priority, const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	if (to_journal) {
		sd_journal_printv(priority, format, args);
	} else {
		vsnprintf(line, sizeof(line), format, args);
		if (on_terminal)
			fprintf(stderr, "%s: %s\n",
				program_invocation_short_name, line);
		else
			fprintf(stderr, "<%d>%s: %s\n", priority,
				program_invocation_short_name, line);
	}
	va_end(args);
}
