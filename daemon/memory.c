// SPDX-License-Identifier: BSD-3-Clause
/* memory.c - the memory that an instance's server keeps over its own death
 *
 * /proc/sysvipc/shm tells size, users and resident bytes of every segment in
 * one reading, and needs no right to the segment.
 */
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include "kept.h"
#include "log.h"
#include "util/size.h"

#define BOOT_ID_BYTES  37
#define END_TIMEOUT_MS 30000
#define END_STEP_MS    10

static int read_boot_id(char ret_id[static BOOT_ID_BYTES])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	int err = -ENOENT;

	if (!file)
		return err;
	if (fgets(ret_id, BOOT_ID_BYTES, file))
		err = 0;
	fclose(file);
	return err;
}

/* One line of the table: is it segment @ret->segment, and ours? */
static int parse_row(const char *line, struct ts_memory *ret)
{
	unsigned long long size, resident;
	unsigned mode, users, uid;
	int segment;

	if (sscanf(line, "%*d %d %o %llu %*d %*d %u %u %*u %*u %*u %*u %*u "
		   "%*u %llu", &segment, &mode, &size, &users, &uid,
		   &resident) != 6 || segment != ret->segment)
		return -ENOENT;
	if (uid != geteuid() || (mode & 077))
		return -EPERM;
	ret->size_bytes = size;
	ret->resident_bytes = resident;
	ret->users = users;
	return 0;
}

static int look_up(struct ts_memory *ret)
{
	FILE *file = fopen("/proc/sysvipc/shm", "re");
	int err = -ENOENT;
	char line[512];

	if (!file)
		return err;
	while (err == -ENOENT && fgets(line, sizeof(line), file))
		err = parse_row(line, ret);
	fclose(file);
	return err < 0 ? -ENOENT : 0;
}

int ts_memory_look(const struct ts_runtime *rt, struct ts_memory *ret)
{
	char note[80], noted[BOOT_ID_BYTES], now[BOOT_ID_BYTES];
	struct ts_memory memory = {0};
	int err;

	err = ts_runtime_read_note(rt, TS_MEMORY_FILE, note, sizeof(note));
	if (err < 0)
		return -ENOENT;
	if (sscanf(note, "%d %36s", &memory.segment, noted) != 2 ||
	    read_boot_id(now) < 0 || strcmp(noted, now) != 0)
		return -ENOENT;
	err = look_up(&memory);
	if (err == 0)
		*ret = memory;
	return err;
}

/* A process that was killed has it mapped until its last thread has ended,
 * which may be after its first one is seen to be dead.
 */
static int wait_for_users(const struct ts_runtime *rt, struct ts_memory *ret)
{
	int err = ts_memory_look(rt, ret);

	for (int ms = 0; err == 0 && ret->users > 0 && ms < END_TIMEOUT_MS;
	     ms += END_STEP_MS) {
		usleep(END_STEP_MS * 1000);
		err = ts_memory_look(rt, ret);
	}
	return err;
}

int ts_memory_reclaim(const struct ts_runtime *rt, struct ts_error *error)
{
	char size[TS_SIZE_TEXT_BYTES], path[TS_RUNTIME_PATH_BYTES];
	struct ts_memory memory;

	if (wait_for_users(rt, &memory) == 0) {
		if (memory.users > 0)
			return ts_fail(error, -EBUSY,
				       "segment %d of kept memory is in use by "
				       "%u processes", memory.segment,
				       memory.users);
		if (shmctl(memory.segment, IPC_RMID, NULL) < 0)
			return ts_fail(error, -errno, "give back segment %d of "
				       "kept memory: %m", memory.segment);
		ts_log(LOG_NOTICE, "gave back %s of memory (segment %d) that "
		       "a server had left",
		       ts_size_format(memory.resident_bytes, size,
				      sizeof(size)), memory.segment);
	}
	if (ts_kept_forget(ts_runtime_path(rt, TS_MEMORY_FILE, path)) < 0)
		return ts_fail(error, -EBUSY, "a process that is ending has "
			       "memory mapped that %s names", path);
	return 0;
}
