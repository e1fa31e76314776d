/* SPDX-License-Identifier: BSD-3-Clause */
/* statsread.c - the statistics file, as readers see it
 *
 * A server that is stopped while it publishes leaves its seqlock odd. A
 * reader does not wait for it: after some tries it takes what is there, and
 * marks the snapshot as not consistent.
 */
#include "statsfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_TRIES 1000u

static int check_header(const struct ts_statsfile_header *header,
			off_t file_bytes, char *err, size_t err_bytes,
			const char *path)
{
	if (header->magic != TS_STATSFILE_MAGIC) {
		snprintf(err, err_bytes, "%s: not a statistics file", path);
		return -EINVAL;
	}
	if (header->version != TS_STATSFILE_VERSION ||
	    header->fingerprint != ts_statsfile_fingerprint() ||
	    (uint64_t)file_bytes < sizeof(struct ts_statsfile_map)) {
		snprintf(err, err_bytes,
			 "%s: written by another build of thinswap (%.23s); "
			 "use the `thinswap` of that version",
			 path, header->engine);
		return -EPROTO;
	}
	return 0;
}

int ts_statsfile_open(struct ts_statsfile_reader *reader, const char *path,
		      char *err, size_t err_bytes)
{
	struct ts_statsfile_header header = {0};
	void *map = MAP_FAILED;
	struct stat st;
	int fd, error;

	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		error = -errno;
		snprintf(err, err_bytes, "%s: %s", path, strerror(-error));
		return error;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    pread(fd, &header, sizeof(header), 0) < 8)
		header.magic = 0;
	error = check_header(&header, st.st_size, err, err_bytes, path);
	if (!error) {
		map = mmap(NULL, sizeof(struct ts_statsfile_map), PROT_READ,
			   MAP_SHARED, fd, 0);
		if (map == MAP_FAILED) {
			error = -errno;
			snprintf(err, err_bytes, "%s: %s", path,
				 strerror(-error));
		}
	}
	close(fd);
	if (!error)
		*reader =
			(struct ts_statsfile_reader){map, st.st_dev, st.st_ino};
	return error;
}

void ts_statsfile_close(struct ts_statsfile_reader *reader)
{
	if (reader->map)
		munmap((void *)reader->map, sizeof(*reader->map));
	reader->map = NULL;
}

bool ts_statsfile_replaced(const struct ts_statsfile_reader *reader,
			   const char *path)
{
	struct stat st;

	return !stat(path, &st) &&
	       (st.st_dev != reader->dev || st.st_ino != reader->ino);
}

/* State and start time of a process, from its stat. */
static void look_at_process(struct ts_snapshot *snapshot)
{
	char path[32], stat[1024], *at;
	uint64_t ticks;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", snapshot->header.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	got = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	if (got <= 0)
		return;
	stat[got] = '\0';
	at = strrchr(stat, ')');
	if (!at || strlen(at) < 3)
		return;
	snapshot->stopped = at[2] == 'T' || at[2] == 't';
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	ticks = at ? strtoull(at, NULL, 10) : 0;
	snapshot->alive = ticks == snapshot->header.start_ticks;
	snapshot->stopped &= snapshot->alive;
}

void ts_statsfile_read(const struct ts_statsfile_reader *reader,
		       struct ts_snapshot *ret)
{
	const struct ts_statsfile_map *map = reader->map;
	struct ts_stats stats = {(struct ts_stats_shard *)map->shard};
	bool good = false;

	memset(ret, 0, sizeof(*ret));
	ret->header = map->header;
	for (unsigned try = 0; try < READ_TRIES && !good; try++) {
		uint32_t seq = ts_load_acquire(&map->seq);

		memcpy(&ret->looked_up, &map->looked_up,
		       sizeof(ret->looked_up));
		ts_stats_sum_all(&stats, &ret->sums);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		good = !(seq & 1) && ts_load_relaxed(&map->seq) == seq;
	}
	ret->sums.consistent &= good;
	ret->taken_ns = ts_now_ns();
	look_at_process(ret);
}
