/* SPDX-License-Identifier: BSD-3-Clause */
/* keepfile.c - the small file that says which segment is kept */
#include "keepfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 96
#define BOOT_ID_BYTES 37u

static const char *const prefix[] = {
	[TS_KEEP_MAKING] = "making ",
	[TS_KEEP_SEGMENT] = "",
	[TS_KEEP_ENDED] = "ended ",
};

static void read_boot_id(char ret_id[BOOT_ID_BYTES])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	snprintf(ret_id, BOOT_ID_BYTES, "unknown");
	if (!f)
		return;
	if (!fgets(ret_id, BOOT_ID_BYTES, f))
		snprintf(ret_id, BOOT_ID_BYTES, "unknown");
	fclose(f);
}

static bool parse(const char *line, enum ts_keep_state state, int *ret_number)
{
	size_t skip = strlen(prefix[state]);
	char boot[BOOT_ID_BYTES], now[BOOT_ID_BYTES];

	if (strncmp(line, prefix[state], skip) ||
	    sscanf(line + skip, "%d %36s", ret_number, boot) != 2)
		return false;
	read_boot_id(now);
	return !strcmp(boot, now);
}

struct ts_keep_note ts_keepfile_read(int fd)
{
	struct ts_keep_note note = {0};
	char line[LINE_BYTES] = "";

	if (pread(fd, line, sizeof(line) - 1, 0) <= 0)
		return note;
	for (unsigned i = TS_KEEP_MAKING; i <= TS_KEEP_ENDED; i++)
		if (parse(line, i, &note.number)) {
			note.state = i;
			break;
		}
	return note;
}

/* One write, and what was longer before is cut off after it: a line is read
 * up to its end.
 */
int ts_keepfile_write(int fd, struct ts_keep_note note)
{
	char line[LINE_BYTES], boot[BOOT_ID_BYTES];
	ssize_t n;

	read_boot_id(boot);
	n = snprintf(line, sizeof(line), "%s%d %s\n", prefix[note.state],
		     note.number, boot);
	if (pwrite(fd, line, (size_t)n, 0) != n)
		return -EIO;
	return ftruncate(fd, n) ? -errno : 0;
}

int ts_keepfile_segment(const char *path)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct ts_keep_note note;

	if (fd < 0)
		return -errno;
	note = ts_keepfile_read(fd);
	close(fd);
	return note.state == TS_KEEP_SEGMENT ? note.number : -ENOENT;
}
