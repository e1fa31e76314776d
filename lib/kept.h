/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.h - the shared segment, and how it outlives the process
 *
 *	| head 4 KiB | dictionaries | segments | root of the map | blocks ... |
 *
 * Everything that is not derived from the words lives here: the words
 * themselves with what they name, where the spill file's records are, the key
 * that seals them, and the dictionaries. Another process maps the same segment
 * and goes on (recover.h). Nothing in it is a pointer.
 *
 * A small file says which segment it is (keepfile.h). It is locked by the
 * process that serves, and goes away with the segment at a clean stop; after a
 * kill both stay. Without such a file, the segment goes with the process.
 */
#ifndef TS_KEPT_H
#define TS_KEPT_H

#include "dict.h"
#include "shm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is kept of a segment of the spill file. */
struct ts_kept_segment {
	uint64_t generation;
	uint32_t table_off, n_records;
};

struct ts_kept_dict {
	uint8_t bytes[TS_DICT_BYTES];
	uint32_t n_bytes;
	uint32_t pad[15];
};

struct ts_kept_head {
	char magic[8];
	uint64_t fingerprint; /* of the layout: see kept.c */
	uint64_t n_slots;
	uint32_t n_blocks, n_segments;
	uint32_t made; /* set when all of this is valid */

	uint32_t dict_current; /* codec number */
	int32_t dict_level;
	uint32_t has_key;
	uint8_t key[32];
	uint64_t generation; /* of segments, the last one given out */

	/* The spill file that the records are in, and where it was. */
	uint64_t spill_dev, spill_ino;
	uint32_t spill_sealed; /* they are encrypted, with the key */
	char spill_path[1024];
};

struct ts_kept {
	struct ts_shm shm;
	struct ts_kept_head *head;
	struct ts_kept_dict *dict;       /* TS_DICT_GENERATIONS */
	struct ts_kept_segment *segment; /* n_segments */
	void *root;
	size_t root_bytes;
	void *blocks;
	bool adopted; /* it was there before */
	bool served;  /* requests may have changed it: set by the store */
	char *path;   /* of the file, or NULL */
	int fd;
};

struct ts_kept_size {
	uint64_t n_slots;
	uint32_t n_blocks, n_segments;
	uint32_t n_budget; /* blocks that there must be at least */
	size_t root_bytes;
};

/* Where the parts of a segment are. */
struct ts_kept_layout {
	size_t dict, segment, root, blocks, bytes;
};

struct ts_kept_layout ts_kept_lay_out(const struct ts_kept_size *size);

/* Whether a head is one of ours, and of this layout. */
bool ts_kept_readable(const struct ts_kept_head *head);

/* Map the segment that the file @path names, or make a new one and say so in
 * the file. @path NULL: make one that goes with the process.
 *
 * How many blocks a segment that is there has is its own: head->n_blocks.
 *
 * Refused, with a sentence in @err: a file that another process holds, a
 * segment of another layout or other sizes or with fewer blocks than the
 * budget, and one that is gone although the
 * machine was not restarted since, because its pages are lost.
 * Returns 0 or -errno.
 */
int ts_kept_open(struct ts_kept *kept, const struct ts_kept_size *size,
		 const char *path, char *err, size_t err_bytes);

/* Look at the segment that the file @path names while another process serves
 * from it, and have its mapping ready for ts_kept_open(). The number of spill
 * segments is not looked at. Refuses what ts_kept_open() would refuse.
 */
int ts_kept_prepare(const struct ts_kept_size *size, const char *path,
		    char *err, size_t err_bytes);

/* The records of the words are in this spill file, or will be. Returns 0, or
 * -EINVAL with a sentence in @err: what was kept goes with another one.
 */
struct stat;
int ts_kept_bind_spill(struct ts_kept *kept, const char *path,
		       const struct stat *st, bool sealed, char *err,
		       size_t err_bytes);

/* Nobody serves what the file names, and nobody will: remove it and, if it was
 * being made or removed when its process was killed, the segment. One in which
 * pages are kept is the caller's to remove before. Returns 0, or -EBUSY when a
 * process has it mapped still: then the file stays as well.
 */
int ts_kept_forget(const char *path);

/* A clean stop: the segment and the file go away. */
void ts_kept_close(struct ts_kept *kept);

#endif
