/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - the memory that an instance's server keeps over its own death
 *
 * The server is given keep=<runtime directory>/memory. While pages live, that
 * file names the segment of shared memory that they are in, and the segment
 * outlives the server however that ends, save by a clean stop; see
 * lib/kept.h. Here the daemon looks at it from outside.
 */
#ifndef TS_DAEMON_MEMORY_H
#define TS_DAEMON_MEMORY_H

#include <stdint.h>

#include "error.h"
#include "runtime.h"

#define TS_MEMORY_FILE "memory"

struct ts_memory {
	int segment;
	uint64_t size_bytes;     /* of the mapping, which is sparse */
	uint64_t resident_bytes; /* what it takes */
	unsigned users;          /* processes that have it mapped */
};

/* The segment that the file names: 0, or -ENOENT when there is none, the
 * file is of another boot, or the segment is not ours.
 */
int ts_memory_look(const struct ts_runtime *rt, struct ts_memory *ret);

/* Give back what is left when nothing needs it any more. -EBUSY while a
 * process has it mapped. Nothing to do is no error.
 */
int ts_memory_reclaim(const struct ts_runtime *rt, struct ts_error *error);

#endif
