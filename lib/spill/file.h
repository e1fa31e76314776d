/* SPDX-License-Identifier: BSD-3-Clause */
/* file.h - the file or block device that pages spill to
 *
 *	0          4096         1 MiB       2 MiB
 *	| header   | unused ... | segment 0 | segment 1 | ...
 *
 * The header says whose file this is and nothing of what is in it. It lets a
 * file be used again, and one that is somebody else's be refused.
 */
#ifndef TS_SPILL_FILE_H
#define TS_SPILL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TS_SEGMENT_SHIFT 20
#define TS_SEGMENT_BYTES (1u << TS_SEGMENT_SHIFT)

struct ts_spill_file {
	int fd;
	uint32_t n_segments;
	unsigned align; /* of offsets, lengths and memory, 4096 at most */
	bool direct;    /* O_DIRECT: no page cache */
	bool firm;      /* the room is reserved; else best effort */
	bool block;     /* a block device */
	bool no_discard; /* it was told once, and cannot do that */
};

/* Open @path for @size bytes; 0 takes what an existing file or device has.
 *
 * A regular file is made if it does not exist: mode 0600, never through a
 * symbolic link, preallocated. (A link to a block device is followed.) An existing one must be empty or bear our
 * header; a block device must be unused and empty, or bear it. @force lifts
 * that, not the check for use by others. The file is locked against a second
 * user until it is closed.
 *
 * Returns 0, or -errno with a sentence in @err that names the path.
 */
int ts_spill_file_open(struct ts_spill_file *file, const char *path,
		       uint64_t size_bytes, bool force, char *err,
		       size_t err_bytes);

/* Close. A zeroed struct, or fd -1, is fine. */
void ts_spill_file_close(struct ts_spill_file *file);

/* Tell the device, or a file whose room is not reserved, that n segments hold
 * nothing. Best effort; may take long. One that cannot is not told again.
 */
bool ts_spill_file_can_discard(const struct ts_spill_file *file);
void ts_spill_file_discard(struct ts_spill_file *file, uint32_t segment,
			   uint32_t n);

/* Without O_DIRECT: take a range that was read or written out of the page
 * cache, so that the cache does not become a second copy of what is spilled.
 */
void ts_spill_file_uncache(const struct ts_spill_file *file, uint64_t off,
			   uint64_t bytes, bool written);

static inline uint64_t ts_segment_off(uint32_t segment)
{
	return ((uint64_t)segment + 1) << TS_SEGMENT_SHIFT;
}

#endif
