/* SPDX-License-Identifier: BSD-3-Clause */
/* fsck.h - verify everything that a segment and its spill file hold
 *
 * The whole way is walked, from the root of the map over leaves and words to
 * objects and records; every check is computed and every page restored. Only
 * what is in the segment and the file is looked at, through peek.h: the server
 * may be serving, stopped or dead.
 *
 * Under a server that serves, what is read may just be changing. So nothing is
 * an error before it has been found, by the same word and with the same bytes,
 * several times in some milliseconds.
 */
#ifndef TS_FSCK_H
#define TS_FSCK_H

#include "peek.h"

enum ts_fault_found {
	TS_FSCK_SOUND,
	TS_FSCK_DIRECTORY,  /* an entry of the map is outside the memory */
	TS_FSCK_WORD,       /* a word that makes no sense */
	TS_FSCK_BLOCK,      /* a block that is used for two things */
	TS_FSCK_OBJECT,     /* a page in memory fails its check */
	TS_FSCK_RECORD,     /* a spilled page fails its check */
	TS_FSCK_UNREADABLE, /* a record cannot be read from the device */
	TS_FSCK_FAULTS,
};

#define TS_FSCK_EXAMPLES 16u

struct ts_fsck {
	/* What there is. */
	uint64_t leaves, clusters, blocks;
	uint64_t slots[TS_KINDS]; /* by kind; none is not counted */
	uint64_t stored_bytes; /* in memory; without what is yet to compress */
	uint64_t record_bytes;
	uint64_t dictionaries;

	/* What is wrong with it. */
	uint64_t faults[TS_FSCK_FAULTS];
	struct ts_fsck_example {
		uint64_t slot; /* or the first one of the part of the map */
		enum ts_fault_found fault;
	} example[TS_FSCK_EXAMPLES];
	unsigned n_examples;

	/* What could not be told. */
	uint64_t changed;   /* slots that were looked at again */
	uint64_t unsettled; /* of them, those that never kept still */
	uint64_t unread;    /* records that nobody could look at, because: */
	char why_unread[256];
};

/* Walk. @spill_path: where the spill file is now, NULL: where the segment says
 * that it was. Returns 0 whatever was found, or -ENOMEM.
 */
int ts_fsck(const struct ts_peek *peek, const char *spill_path,
	    struct ts_fsck *ret);

uint64_t ts_fsck_errors(const struct ts_fsck *fsck);

/* A fault in a few words. */
const char *ts_fsck_name(enum ts_fault_found fault);

#endif
