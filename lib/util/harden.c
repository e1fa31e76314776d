// SPDX-License-Identifier: BSD-3-Clause
/* harden.c - the steps that keep a swap server out of its own swap
 *
 * Measured in guests with little memory: a server hangs its machine unless it
 * is locked, has touched all that it needs, and its threads carry the flusher
 * flag. MCL_ONFAULT keeps address space that is never used (nbdkit has 192 MiB
 * of idle buffers, every thread a stack) from costing memory.
 *
 * The flag that PR_SET_IO_FLUSHER sets can be read back without privilege
 * only from /proc: field 9 of a thread's stat holds PF_MEMALLOC_NOIO.
 */
#include "util/harden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Read-only data beyond this is a table of its own (31 MiB of ICU come with
 * libnbd) that serving never looks at.
 */
#define TS_HARDEN_TABLE_BYTES (8ul << 20)

#define TS_HARDEN_STACK_BYTES (64u << 10)

/* include/linux/sched.h; part of the ABI of /proc/PID/stat */
#define TS_PF_MEMALLOC_NOIO 0x00080000ul

int ts_harden_lock_memory(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
		return -errno;
	return 0;
}

/* Libraries that nbdkit and libnbd bring along for TLS and URIs: some 7 MiB
 * of code that nothing calls while swap is on, which never uses either.
 */
static bool is_idle_library(const char *path)
{
	static const char *const idle[] = {
		"/libgnutls.", "/libunistring.", "/libp11-kit.", "/libidn2.",
		"/libtasn1.",  "/libhogweed.",	 "/libnettle.",	 "/libgmp.",
		"/libffi.",    "/libxml2.",	 "/libicu",	 "/liblzma.",
	};

	for (size_t i = 0; i < sizeof(idle) / sizeof(*idle); i++)
		if (strstr(path, idle[i]))
			return true;
	return false;
}

/* Only private mappings of files: shared ones hold data, anonymous ones are
 * touched by whoever owns them. Returns 0 to skip, else the advice.
 */
static int advice_for(const char *perms, const char *path, size_t bytes)
{
	if (perms[3] != 'p' || path[0] != '/')
		return 0;
	if (strncmp(path, "/dev/", 5) == 0 || is_idle_library(path))
		return 0;
	if (perms[1] == 'w')
		return MADV_POPULATE_WRITE;
	if (perms[0] != 'r' ||
	    (perms[2] != 'x' && bytes > TS_HARDEN_TABLE_BYTES))
		return 0;
	return MADV_POPULATE_READ;
}

int ts_harden_populate_code(uint64_t *ret_bytes)
{
	unsigned long start, end;
	uint64_t bytes = 0;
	char *line = NULL;
	size_t room = 0;
	char perms[5];
	FILE *maps;
	int ret = 0;

	maps = fopen("/proc/self/maps", "re");
	if (!maps)
		return -errno;
	while (ret == 0 && getline(&line, &room, maps) > 0) {
		int path_at = 0, advice;

		if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %n", &start, &end,
			   perms, &path_at) != 3 ||
		    path_at == 0)
			continue;
		advice = advice_for(perms, line + path_at, end - start);
		if (!advice)
			continue;
		if (madvise((void *)start, end - start, advice) == 0)
			bytes += end - start;
		else if (errno == EINVAL)
			ret = -EINVAL;
		/* Others mean that a mapping ends beyond its file or went
		 * away meanwhile: nothing there that could be run.
		 */
	}
	free(line);
	fclose(maps);
	if (ret == 0 && ret_bytes)
		*ret_bytes = bytes;
	return ret;
}

int ts_harden_touch_heap(void)
{
	unsigned long start, end;
	char *line = NULL;
	size_t room = 0;
	int err = 0;
	FILE *maps;

	maps = fopen("/proc/self/maps", "re");
	if (!maps)
		return -errno;
	while (!err && getline(&line, &room, maps) > 0)
		if (strstr(line, "[heap]") &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2 &&
		    madvise((void *)start, end - start, MADV_POPULATE_WRITE))
			err = -errno;
	free(line);
	fclose(maps);
	return err;
}

/* Not inlined, so that the array is below the caller's frame. */
__attribute__((noinline)) void ts_harden_touch_stack(void)
{
	volatile char stack[TS_HARDEN_STACK_BYTES];

	for (size_t i = 0; i < sizeof(stack); i += 4096)
		stack[i] = 0;
}

int ts_harden_io_flusher(bool on)
{
	if (prctl(PR_SET_IO_FLUSHER, on ? 1 : 0, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

int ts_harden_realtime(bool on)
{
	struct sched_param param = { .sched_priority = on ? 1 : 0 };

	if (sched_setscheduler(0, on ? SCHED_RR : SCHED_OTHER, &param) < 0)
		return -errno;
	return 0;
}

bool ts_harden_is_realtime(void)
{
	return sched_getscheduler(0) == SCHED_RR;
}

int ts_harden_oom_score_adj(int value)
{
	char text[16];
	int fd, len, ret = 0;

	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = snprintf(text, sizeof(text), "%d", value);
	if (write(fd, text, len) != len)
		ret = errno == EACCES ? -EPERM : -errno;
	close(fd);
	return ret;
}

bool ts_harden_has_capability(int capability)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	return data[CAP_TO_INDEX(capability)].effective &
	       CAP_TO_MASK(capability);
}

int ts_harden_memlock_limit(uint64_t need_bytes, uint64_t *ret_limit_bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return -errno;
	if (limit.rlim_cur == RLIM_INFINITY ||
	    ts_harden_has_capability(CAP_IPC_LOCK)) {
		*ret_limit_bytes = UINT64_MAX;
		return 0;
	}
	*ret_limit_bytes = limit.rlim_cur;
	return limit.rlim_cur < need_bytes ? -ENOMEM : 0;
}

/* Whole small file of /proc into @buf; 0 or -ESRCH. */
static int read_proc(const char *path, char *buf, size_t room)
{
	ssize_t got;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	got = read(fd, buf, room - 1);
	close(fd);
	if (got <= 0)
		return -ESRCH;
	buf[got] = '\0';
	return 0;
}

static uint64_t status_bytes(const char *status, const char *key)
{
	const char *at = strstr(status, key);

	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* Field @n (from 3 on) of a stat line: fields are counted after the command,
 * which stands in brackets and may hold anything.
 */
static unsigned long long stat_field(const char *stat, unsigned n)
{
	const char *at = strrchr(stat, ')');

	for (; at && n > 2; n--)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static int observe_threads(pid_t pid, struct ts_harden_facts *facts)
{
	char path[64], stat[1024];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return -ESRCH;
	while ((entry = readdir(dir))) {
		unsigned long long policy;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", pid,
			 entry->d_name);
		if (read_proc(path, stat, sizeof(stat)) < 0)
			continue; /* a thread that ended meanwhile */
		facts->threads++;
		if (stat_field(stat, 9) & TS_PF_MEMALLOC_NOIO)
			facts->threads_flusher++;
		policy = stat_field(stat, 41);
		if (policy == SCHED_FIFO || policy == SCHED_RR)
			facts->threads_realtime++;
	}
	closedir(dir);
	return 0;
}

int ts_harden_observe(pid_t pid, struct ts_harden_facts *ret)
{
	struct ts_harden_facts facts = {0};
	char path[64], text[8192];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	err = read_proc(path, text, sizeof(text));
	if (err < 0)
		return err;
	facts.rss_bytes = status_bytes(text, "\nVmRSS:");
	facts.locked_bytes = status_bytes(text, "\nVmLck:");
	facts.swapped_bytes = status_bytes(text, "\nVmSwap:");
	facts.anon_shm_bytes = status_bytes(text, "\nRssShmem:");
	facts.file_bytes = status_bytes(text, "\nRssFile:");

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	err = read_proc(path, text, sizeof(text));
	if (err < 0)
		return err;
	facts.oom_score_adj = atoi(text);

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	err = read_proc(path, text, sizeof(text));
	if (err < 0)
		return err;
	facts.minor_faults = stat_field(text, 10);
	facts.major_faults = stat_field(text, 12);

	err = observe_threads(pid, &facts);
	if (err < 0)
		return err;
	*ret = facts;
	return 0;
}
