/* SPDX-License-Identifier: BSD-3-Clause */
/* statsfile.h - the statistics of a store as a file that anybody may read
 *
 *	| header | looked-up values (seqlock) | mailbox | shards |
 *
 * Server   ts_statsfile_new() before any fork, ts_statsfile_start() after it.
 *          The file is new under its name, mode 0644, in one step; a reader of
 *          the old one is not disturbed. As long as the server lives it holds
 *          a lock on the file, so a second one is refused.
 * Reader   ts_statsfile_open(), then ts_statsfile_read() as often as wanted:
 *          never blocks, needs neither the server's help nor privilege, and
 *          works when the server is stopped or dead.
 * Format   TS_STATSFILE_VERSION and a fingerprint of stats.def and of the
 *          layout: a reader of another build says so and reads nothing.
 * Mailbox  what `thinswap tune` asks for; see tune.h.
 */
#ifndef TS_STATSFILE_H
#define TS_STATSFILE_H

#include "pool.h"
#include "stats.h"

#include <stddef.h>
#include <sys/types.h>

#define TS_STATSFILE_MAGIC   0x7374617473776e69ull /* "inwstats" */
#define TS_STATSFILE_VERSION 1u

struct ts_class_use {
	uint32_t object_bytes, per_block;
	uint64_t blocks, objects;
};

/* What is looked up once a second. */
struct ts_looked_up {
	uint64_t at_ns; /* ts_now_ns() of that */
	int64_t gauge[TS_N_GAUGES];
	struct ts_class_use size_class[TS_POOL_CLASSES];
};

/* One request at a time; the asker holds the lock that ts_tune_ask() takes.
 * The server looks when @asked differs from @answered.
 */
struct ts_mailbox {
	uint32_t asked, answered;
	uint32_t key;
	int32_t error; /* 0 or -errno, of the answer */
	int64_t value;
};

struct ts_statsfile_header {
	uint64_t magic;
	uint32_t version, header_bytes;
	uint64_t fingerprint;
	uint64_t file_bytes;
	int32_t pid;
	uint32_t ended;       /* 1: the server has stopped as it should */
	uint64_t start_ticks; /* field 22 of its /proc/PID/stat */
	uint64_t start_ns;    /* ts_now_ns() */
	int64_t start_time;   /* seconds since 1970 */
	char engine[24];      /* its version */
};

struct ts_statsfile_map {
	struct ts_statsfile_header header;
	_Alignas(64) uint32_t seq; /* odd: being written */
	struct ts_looked_up looked_up;
	_Alignas(64) struct ts_mailbox mailbox;
	struct ts_stats_shard shard[TS_STAT_SHARDS];
};

/* The server's side. */
struct ts_statsfile {
	struct ts_statsfile_map *map; /* NULL: there is none */
	char *path;
	int fd;
	bool shares; /* the shards in the file are the ones in use */
};

/* Make the file. On a tmpfs the store's shards are to lie in it. Elsewhere,
 * where the kernel's write-back would make the request path fault, they stay
 * private and are copied once a second.
 *
 * Returns 0, or -errno with a sentence in @err: -EBUSY when a living server
 * has the file, -EEXIST when it is there and is no statistics file.
 */
int ts_statsfile_new(struct ts_statsfile *file, const char *path,
		     const char *engine, char *err, size_t err_bytes);

/* After the fork: note the pid, lock the pages in memory. */
void ts_statsfile_start(struct ts_statsfile *file);

/* Mark as ended, remove, unmap. A zeroed struct is fine. */
void ts_statsfile_fini(struct ts_statsfile *file);

/* Publish what was looked up, and the shards if they are private. */
void ts_statsfile_publish(struct ts_statsfile *file,
			  const struct ts_looked_up *looked_up,
			  const struct ts_stats *stats);

/* A reader's side. */
struct ts_statsfile_reader {
	const struct ts_statsfile_map *map;
	dev_t dev;
	ino_t ino;
};

/* A consistent look at everything. */
struct ts_snapshot {
	struct ts_statsfile_header header;
	struct ts_looked_up looked_up;
	struct ts_stats_sums sums;
	uint64_t taken_ns; /* ts_now_ns() */
	bool alive;        /* the server's process is there */
	bool stopped;      /* by a signal, or traced */
};

/* Returns 0, or -errno with a sentence in @err. */
int ts_statsfile_open(struct ts_statsfile_reader *reader, const char *path,
		      char *err, size_t err_bytes);
void ts_statsfile_close(struct ts_statsfile_reader *reader);
void ts_statsfile_read(const struct ts_statsfile_reader *reader,
		       struct ts_snapshot *ret);

/* Whether @path is another file by now: a server was started anew. */
bool ts_statsfile_replaced(const struct ts_statsfile_reader *reader,
			   const char *path);

/* Of the statistics as this build knows them. */
uint64_t ts_statsfile_fingerprint(void);

#endif
