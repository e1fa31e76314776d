/* SPDX-License-Identifier: BSD-3-Clause */
/* spill.h - the spill tier's parts in one place, and reading from it
 *
 * Writing is the spiller's (spiller.h), reading everybody's: a reader borrows
 * an engine with a buffer of its own, starts the reads of a request together
 * and waits for them together.
 */
#ifndef TS_SPILL_SPILL_H
#define TS_SPILL_SPILL_H

#include "spill/file.h"
#include "spill/io.h"
#include "spill/seal.h"
#include "spill/segment.h"
#include "event.h"
#include "util/lend.h"

/* A record of the largest page lies in three blocks of 4 KiB at most. */
#define TS_READ_BYTES 12288u
#define TS_READERS 16u

struct ts_spill_reader {
	struct ts_lent lent;
	struct ts_io io;
	uint8_t *buf; /* TS_IO_DEPTH pieces of TS_READ_BYTES */
};

struct ts_spill {
	struct ts_spill_file file;
	struct ts_seal seal;
	struct ts_segments segments;
	struct ts_lend readers;
	bool encrypt;
	struct ts_kept_key key;
	bool wants_uring, uring; /* asked for; used */
	char why_not_uring[TS_IO_WHY_BYTES];
};

struct ts_spill_params {
	const char *path;
	uint64_t size_bytes; /* 0: what is there */
	bool encrypt;
	bool force;
	bool use_uring;
};

/* Open the spill tier. Returns 0, or -errno with a sentence in @err. */
int ts_spill_new(const struct ts_spill_params *params,
		 struct ts_spill **ret_spill, char *err, size_t err_bytes);
void ts_spill_free(struct ts_spill *spill);

/* What does not survive a fork: the key's locked memory, and the engines. What
 * is not as good as it could be is said to @events. Returns 0 or -errno.
 */
int ts_spill_start(struct ts_spill *spill, const struct ts_events *events);

/* Memory that transfers may use: aligned and touched. NULL if there is none. */
uint8_t *ts_spill_buffer(size_t bytes);

/* One record to be read. */
struct ts_fetch {
	uint32_t segment;
	unsigned off, len; /* of the record's data, in the segment */
	uint64_t slot;
	uint64_t generation; /* of the pinned segment */
	void *ret_data;      /* len bytes, 4096 at most */
	uint8_t ret_codec;
	int ret_error; /* 0, -EBADMSG or the device's error */
};

/* Read and open n records of pinned segments, n up to TS_IO_DEPTH. */
void ts_spill_fetch(struct ts_spill *spill, unsigned n,
		    struct ts_fetch *fetch);

#endif
