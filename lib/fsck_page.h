/* SPDX-License-Identifier: BSD-3-Clause */
/* fsck_page.h - whether what one word names is sound: see fsck.h */
#ifndef TS_FSCK_PAGE_H
#define TS_FSCK_PAGE_H

#include "backend.h"
#include "fsck.h"
#include "spill/spill.h"

/* The bytes by which a page was judged. */
struct ts_evidence {
	unsigned n;
	uint8_t bytes[4096 + 64];
};

struct ts_examiner {
	const struct ts_peek *peek;
	struct ts_media media; /* the codec, and classes of objects */
	struct ts_coder *decoder;
	struct ts_kept_head head; /* a copy, as the codec wants it */
	struct ts_kept_dict *dict; /* copies */
	struct ts_seal seal;
	int spill_fd;
	uint8_t *record_buf; /* TS_READ_BYTES, aligned */
	char why_unread[256];
};

/* Returns 0 or -ENOMEM. Without a spill file that can be read, @why_unread
 * says why.
 */
int ts_examiner_init(struct ts_examiner *examiner, const struct ts_peek *peek,
		     const char *spill_path);
void ts_examiner_fini(struct ts_examiner *examiner);

/* Take the dictionaries as they are now. Returns how many there are. */
unsigned ts_examiner_dicts(struct ts_examiner *examiner);

/* Judge a word and what it names. A record that nobody can look at is sound,
 * and *ret_unread is set.
 */
enum ts_fault_found ts_examine(struct ts_examiner *examiner, uint64_t slot,
			       ts_word word, struct ts_evidence *ret_evidence,
			       bool *ret_unread);

/* The block that a word of a page in memory names, and the size class that it
 * must be cut for. Returns false for other words.
 */
bool ts_examiner_block(const struct ts_examiner *examiner, ts_word word,
		       uint32_t *ret_block, unsigned *ret_class);

#endif
