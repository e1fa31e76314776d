/* SPDX-License-Identifier: BSD-3-Clause */
/* statsfile.c - the statistics file, as its server makes and writes it
 *
 * A tmpfs can itself be swapped out, so the server locks its mapping. The file
 * is allocated in full, so that touching it cannot fail for room.
 *
 * The lock that says "somebody lives here" is one on the open file, which a
 * fork keeps and a death gives up.
 */
#include "statsfile.h"
#include "shm.h"
#include "util/filelock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <linux/magic.h>

static uint64_t mix(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull;
	return hash;
}

uint64_t ts_statsfile_fingerprint(void)
{
	static const char *const names[] = {
#define TS_STAT(name, kind, unit, text) #name " " #kind " " #unit,
#define TS_GAUGE(name, unit, text)      #name " " #unit,
#define TS_HIST(name, text)             #name,
#include "stats.def"
	};
	uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		hash = mix(hash, names[i]);
	return hash + sizeof(struct ts_statsfile_map);
}

static int refuse(char *err, size_t err_bytes, int error, const char *path,
		  const char *why)
{
	snprintf(err, err_bytes, "stats=%s: %s", path, why);
	return error;
}

/* What lies at @path already may only be the file of a dead server. */
static int may_replace(const char *path, char *err, size_t err_bytes)
{
	struct ts_statsfile_header old = {0};
	struct stat st;
	char why[96];
	int fd, error = 0;

	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT
			       ? 0
			       : refuse(err, err_bytes, -errno, path,
					errno == ELOOP ? "is a symbolic link"
						       : strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    (st.st_size && pread(fd, &old, sizeof(old), 0) < 8) ||
	    (st.st_size && old.magic != TS_STATSFILE_MAGIC)) {
		error = refuse(err, err_bytes, -EEXIST, path,
			       "is there and is not a statistics file");
	} else if (ts_file_lock(fd)) {
		snprintf(why, sizeof(why), "is in use by a server with pid %d",
			 old.pid);
		error = refuse(err, err_bytes, -EBUSY, path, why);
	}
	close(fd);
	return error;
}

static bool on_tmpfs(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) &&
	       (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* A new file under a name of its own: complete before it is seen. */
static int make_file(struct ts_statsfile *file, const char *temporary)
{
	const size_t bytes = sizeof(*file->map);
	int error;

	file->fd =
		open(temporary,
		     O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (file->fd < 0)
		return -errno;
	if (fchmod(file->fd, 0644) || flock(file->fd, LOCK_EX | LOCK_NB))
		return -errno;
	error = posix_fallocate(file->fd, 0, (off_t)bytes);
	if (error)
		return -error;
	file->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			 file->fd, 0);
	if (file->map == MAP_FAILED) {
		file->map = NULL;
		return -errno;
	}
	file->shares = on_tmpfs(file->fd);
	return ts_shm_touch(file->map, bytes);
}

static void write_header(struct ts_statsfile_header *header, const char *engine)
{
	*header = (struct ts_statsfile_header){
		.magic = TS_STATSFILE_MAGIC,
		.version = TS_STATSFILE_VERSION,
		.header_bytes = sizeof(*header),
		.fingerprint = ts_statsfile_fingerprint(),
		.file_bytes = sizeof(struct ts_statsfile_map),
		.pid = getpid(),
		.start_ns = ts_now_ns(),
		.start_time = time(NULL),
	};
	snprintf(header->engine, sizeof(header->engine), "%s", engine);
}

int ts_statsfile_new(struct ts_statsfile *file, const char *path,
		     const char *engine, char *err, size_t err_bytes)
{
	char temporary[4096];
	int error;

	*file = (struct ts_statsfile){.fd = -1};
	error = may_replace(path, err, err_bytes);
	if (error)
		return error;
	if (snprintf(temporary, sizeof(temporary), "%s.%d.new", path,
		     getpid()) >= (int)sizeof(temporary))
		return refuse(err, err_bytes, -ENAMETOOLONG, path,
			      strerror(ENAMETOOLONG));
	error = make_file(file, temporary);
	if (!error) {
		write_header(&file->map->header, engine);
		if (rename(temporary, path))
			error = -errno;
	}
	/* The directory may change; the name is for the end. */
	if (!error)
		file->path = realpath(path, NULL);
	if (error) {
		refuse(err, err_bytes, error, path, strerror(-error));
		if (file->fd >= 0)
			unlink(temporary);
		ts_statsfile_fini(file);
	}
	return error;
}

/* Field 22 of its stat: with the pid, it names a process for good. */
static uint64_t own_start_ticks(void)
{
	char stat[1024], *at;
	FILE *proc = fopen("/proc/self/stat", "re");
	size_t got;

	if (!proc)
		return 0;
	got = fread(stat, 1, sizeof(stat) - 1, proc);
	fclose(proc);
	stat[got] = '\0';
	at = strrchr(stat, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

void ts_statsfile_start(struct ts_statsfile *file)
{
	if (!file->map)
		return;
	file->map->header.start_ticks = own_start_ticks();
	ts_store_release(&file->map->header.pid, getpid());
	/* Where it is not permitted, the pool cannot be locked either, which
	 * is told there.
	 */
	mlock(file->map, sizeof(*file->map));
}

void ts_statsfile_fini(struct ts_statsfile *file)
{
	struct stat here, ours;

	if (file->map) {
		ts_store_release(&file->map->header.ended, 1u);
		munmap(file->map, sizeof(*file->map));
	}
	if (file->path && !fstat(file->fd, &ours) &&
	    !lstat(file->path, &here) && here.st_ino == ours.st_ino &&
	    here.st_dev == ours.st_dev)
		unlink(file->path);
	free(file->path);
	if (file->map || file->fd > 0)
		close(file->fd);
	*file = (struct ts_statsfile){.fd = -1};
}

void ts_statsfile_publish(struct ts_statsfile *file,
			  const struct ts_looked_up *looked_up,
			  const struct ts_stats *stats)
{
	struct ts_statsfile_map *map = file->map;
	uint32_t seq = map->seq;

	ts_store_relaxed(&map->seq, seq + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(&map->looked_up, looked_up, sizeof(*looked_up));
	if (!file->shares) {
		struct ts_stats_sums sums;

		/* One shard says it all. */
		ts_stats_sum_all(stats, &sums);
		memcpy(map->shard[0].value, sums.value, sizeof(sums.value));
		memcpy(map->shard[0].hist, sums.hist, sizeof(sums.hist));
	}
	/* Pairs with the reader's acquire. */
	ts_store_release(&map->seq, seq + 2);
}
