/* SPDX-License-Identifier: BSD-3-Clause */
/* thinswap.h - the engine's public face: the one header that front ends see
 *
 * A store is a thin block device of 4 KiB slots. Front ends (plugin/, and
 * daemon/fuse/) translate their protocol into the calls below, one call a
 * request, from as many threads as they like.
 *
 * Ranges   any offset and length inside the device; length 0 does nothing.
 * Errors   0 or -errno. A call that fails leaves every slot either as it was
 *          or fully written; what was stored stays readable.
 *            -EINVAL   range outside the device
 *            -ENOSPC   the budget is used up (writes only)
 *            -EIO      a stored object is damaged (reads and sub-slot writes)
 * Threads  every function after ts_store_start() may be called from any
 *          thread. None allocates, faults memory in or logs.
 * Events   what a log should know (a spill device fails, io_uring is refused)
 *          goes to an optional callback, a sentence at a time.
 */
#ifndef TS_THINSWAP_H
#define TS_THINSWAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TS_SLOT_SHIFT 12
#define TS_SLOT_BYTES 4096u
#define TS_MAX_SIZE_BYTES (1ull << 53) /* 8 PiB */
/* Every size class may hold a block of its own that is nearly empty; a raw
 * page's number in its word has 26 bits.
 */
#define TS_RAM_MIN_BYTES (8ull << 20)
#define TS_RAM_MAX_BYTES (256ull << 30)
#define TS_WRITE_BEHIND_MAX_BYTES (1ull << 30)
/* Eight segments and the header's; 2^25 segments of 1 MiB. */
#define TS_SPILL_MIN_BYTES (9ull << 20)
#define TS_SPILL_MAX_BYTES (1ull << 45)

struct ts_store;

enum ts_event_level {
	TS_EVENT_INFO,
	TS_EVENT_WARNING, /* someone should look at it */
};

/* Called seldom, from ts_store_start() or a thread of the store, with no lock
 * held that a request waits for. @text is one line without a newline and gone
 * after the call. Nothing of the store may be called from it.
 */
typedef void ts_event_fn(void *opaque, enum ts_event_level level,
			 const char *text);

/* What a store is made of. ts_params_init() gives the defaults. */
struct ts_params {
	uint64_t size_bytes;    /* virtual size, whole slots */
	uint64_t ram_bytes;     /* budget for all that is resident for pages */
	uint64_t ram_max_bytes; /* most that the budget can be tuned to */
	uint64_t reserve_bytes; /* pool memory touched ahead of demand */
	int level;              /* of zstd */
	bool dictionary;        /* train dictionaries on what is stored */
	char *trainer;          /* the program that does, if it is installed */

	uint64_t write_behind_bytes; /* frames of pages that are accepted and
				      * yet to be compressed; 0: none are */
	int workers;            /* threads that compress them */

	char *keep_path;        /* keep the memory when the process is killed;
				 * this file says where it is. NULL: do not */

	char *spill_path;       /* file or block device; NULL: no spill */
	uint64_t spill_bytes;   /* 0: as large as what is there */
	bool encrypt;           /* what is spilled */
	bool spill_force;       /* use a file or device that holds something */
	bool use_uring;         /* where the kernel permits it */
	uint64_t write_budget_bytes; /* a day; 0: none */
	bool write_budget_waits; /* spent: writes wait, else they fail */
	int high_water, low_water; /* percent of the budget: spill begins, ends */

	char *stats_path; /* statistics for others to read; NULL: none */

	ts_event_fn *event; /* or NULL */
	void *event_opaque;
};

/* @dir is the folder that the front end's file is in: the trainer is looked
 * for there, beside it, and where it is installed. May be NULL.
 */
void ts_params_find_trainer(struct ts_params *params, const char *dir);

void ts_params_init(struct ts_params *params);
void ts_params_fini(struct ts_params *params);

/* Take one "key=value" parameter as both front ends spell it.
 *
 * Returns 0, -ENOENT (no such key) or -EINVAL; @err then says in a sentence
 * what was given and what is allowed.
 */
int ts_params_set(struct ts_params *params, const char *key, const char *value,
		  char *err, size_t err_bytes);

/* Check the parameters against each other and the machine, complete the
 * defaults. Returns 0 or -EINVAL with a sentence in @err.
 */
int ts_params_finish(struct ts_params *params, char *err, size_t err_bytes);

/* Make an empty store. Allocates all that it will ever need except pool
 * blocks; starts no thread, so that a front end may fork afterwards. Returns
 * 0, or -errno with a sentence in @err.
 */
int ts_store_new(const struct ts_params *params, struct ts_store **ret_store,
		 char *err, size_t err_bytes);

/* For a process that waits to take over the pages which another one keeps at
 * params->keep_path: look whether this build can read them, and have ready the
 * memory that ts_store_new() and ts_store_start() will take, so that they find
 * it although the machine has none left. Again after other things have taken
 * memory: they may have had what was meant for it. Nothing kept is touched. Returns
 * 0, or -errno with a sentence in @err: -EPROTO, another layout; -EINVAL,
 * other sizes.
 */
int ts_store_rehearse(const struct ts_params *params, char *err,
		      size_t err_bytes);

/* Start the keeper and touch the reserve. Call once, after any fork. */
int ts_store_start(struct ts_store *store);

/* Stop the threads and give all memory back. NULL is fine. No request may
 * be running.
 */
void ts_store_free(struct ts_store *store);

int ts_store_read(struct ts_store *store, void *buf, uint64_t len_bytes,
		  uint64_t off_bytes);
int ts_store_write(struct ts_store *store, const void *buf, uint64_t len_bytes,
		   uint64_t off_bytes);

/* Whether a write of so much would be copied now and compressed later, which
 * takes little time. A guess: others may be faster.
 */
bool ts_store_would_stage(const struct ts_store *store, uint64_t len_bytes);

/* The range reads as zero afterwards. Whole slots are dropped and cost
 * nothing; a slot covered in part is rewritten, so -ENOSPC is possible.
 */
int ts_store_zero(struct ts_store *store, uint64_t len_bytes,
		  uint64_t off_bytes);

/* Drop the whole slots inside the range; slots covered in part stay as they
 * are. Afterwards the dropped slots read as zero. Never fails for room.
 */
int ts_store_discard(struct ts_store *store, uint64_t len_bytes,
		     uint64_t off_bytes);

enum ts_extent {
	TS_EXTENT_DATA,
	TS_EXTENT_ZERO, /* written, reads as zero */
	TS_EXTENT_HOLE, /* not stored, reads as zero */
};

/* Report the range as runs of one type in ascending order, from its first
 * byte on and without gaps; each run is as long as it can be. A non-zero
 * return of @fn stops the walk and is returned.
 */
typedef int ts_extent_fn(void *opaque, uint64_t off_bytes, uint64_t len_bytes,
			 enum ts_extent type);
int ts_store_extents(struct ts_store *store, uint64_t len_bytes,
		     uint64_t off_bytes, ts_extent_fn *fn, void *opaque);

/* A snapshot of what the store holds and has done: every line of stats.def by
 * its name, and the memory behind it. Gauges are exact when no request is
 * running.
 */
struct ts_counters {
#define TS_STAT(name, kind, unit, text) uint64_t name;
#include "stats.def"
#undef TS_STAT
	uint64_t resident_bytes; /* touched block memory, reserve included */
	uint64_t budget_bytes;
	bool locked; /* the kernel may not swap the pool */

	/* Of the spill tier, if there is one. */
	bool spill, spill_uring, spill_direct, spill_degraded, spill_firm;
	bool spill_budget_spent;
	const char *spill_cipher;
	const char *why_not_uring; /* empty when it is used */
	uint64_t spill_size_bytes, spill_free_bytes;
};
void ts_store_counters(struct ts_store *store, struct ts_counters *ret);

/* Walk everything, compare the derived state with the words, and every stored
 * page with its check. For tests and self checks. No request may be running.
 * Returns 0 or -EBADMSG with a sentence in @err.
 */
int ts_store_check(struct ts_store *store, char *err, size_t err_bytes);

#endif
