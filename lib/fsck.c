/* SPDX-License-Identifier: BSD-3-Clause */
/* fsck.c - verify everything that a segment and its spill file hold
 *
 * A word that was read, and then an object that fails its check, prove nothing
 * under a server that serves: the page may have been replaced in between. So
 * what looks wrong is looked up again from the root of the map on, until it is
 * right or has been wrong in the same way several times: the same word, naming
 * the same bytes. A page that is damaged keeps still; one that is being
 * replaced does not.
 *
 * That two words name one object needs no search: a check covers the slot that
 * the object belongs to, so it fails for one of the two. What is noted of a
 * block is its use, and who was seen to use it.
 */
#include "fsck.h"
#include "cluster.h"
#include "fsck_page.h"
#include "util/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SAME_TIMES 3u
#define TRIES_MAX 64u
#define PAUSE_MIN_NS 500000u
#define PAUSE_DOUBLINGS 4u

/* The use of a block: its class, or that of leaves, and somebody who uses it: a
 * slot, a cluster for words, or a leaf.
 */
enum user { USER_SLOT, USER_WORDS, USER_LEAF };

struct use {
	uint64_t number : 46, user : 2, size_class : 16; /* + 1; 0: unknown */
};

struct walk {
	const struct ts_peek *peek;
	struct ts_fsck *found;
	struct ts_examiner examiner;
	struct use *use; /* of each block */
	struct ts_evidence evidence[2];
	ts_word words[TS_CLUSTER_SLOTS];
	uint32_t leaf[TS_LEAF_CLUSTERS];
};

static void pause_before(unsigned try)
{
	ts_sleep_ns(PAUSE_MIN_NS
		    << (try < PAUSE_DOUBLINGS ? try : PAUSE_DOUBLINGS));
}

static void blame(struct walk *w, enum ts_fault_found fault, uint64_t slot)
{
	struct ts_fsck *found = w->found;

	found->faults[fault]++;
	if (found->n_examples < TS_FSCK_EXAMPLES)
		found->example[found->n_examples++] =
			(struct ts_fsck_example){ slot, fault };
}

/* Look up what a user uses now. Returns false when it uses no block. */
static bool look_up_use(struct walk *w, enum user user, uint64_t number,
			uint32_t *ret_block, struct use *ret_use)
{
	unsigned size_class = TS_CLASS_PAGE;
	uint32_t at = 0;
	ts_word word;
	bool uses;

	switch (user) {
	case USER_SLOT:
		uses = !ts_peek_word(w->peek, number, &word) &&
		       ts_examiner_block(&w->examiner, word, ret_block,
					 &size_class);
		break;
	case USER_WORDS:
		uses = !ts_peek_entry(w->peek, number, &at) && at;
		*ret_block = (at - 1) / TS_BLOCK_PAGES;
		break;
	default:
		uses = !ts_peek_root(w->peek, number, &at) && at;
		*ret_block = at - 1;
		size_class = TS_CLASS_LEAF - 1;
	}
	*ret_use = (struct use){ .number = number,
				 .user = user,
				 .size_class = size_class + 1 };
	return uses && *ret_block < w->peek->head.n_blocks;
}

/* Whether two uses of a block exclude each other. */
static bool conflict(struct use a, struct use b)
{
	if (a.size_class != b.size_class)
		return true;
	/* A leaf is a whole block. */
	return a.user == USER_LEAF && a.number != b.number;
}

/* Two uses of a block that exclude each other: usually one of them has moved
 * on meanwhile.
 */
static void settle_use(struct walk *w, uint32_t block, struct use mine)
{
	struct use *known = &w->use[block];
	uint64_t slot = mine.number;
	struct use other;
	uint32_t now;

	for (unsigned try = 0; try < SAME_TIMES; try++) {
		pause_before(try);
		if (!look_up_use(w, known->user, known->number, &now,
				 &other) || now != block) {
			*known = mine;
			return;
		}
		*known = other;
		if (!look_up_use(w, mine.user, mine.number, &now, &mine) ||
		    now != block || !conflict(mine, *known))
			return;
	}
	if (mine.user == USER_WORDS)
		slot *= TS_CLUSTER_SLOTS;
	else if (mine.user == USER_LEAF)
		slot *= TS_LEAF_CLUSTERS * TS_CLUSTER_SLOTS;
	blame(w, TS_FSCK_BLOCK, slot);
}

/* Note that somebody was seen to use a block. */
static void note_use(struct walk *w, uint32_t block, enum user user,
		     uint64_t number, unsigned size_class)
{
	struct use mine = { .number = number,
			    .user = user,
			    .size_class = size_class + 1 };

	if (!w->use[block].size_class) {
		w->use[block] = mine;
		w->found->blocks++;
	} else if (conflict(mine, w->use[block])) {
		settle_use(w, block, mine);
	}
}

static void count(struct walk *w, uint64_t slot, ts_word word, bool unread)
{
	struct ts_fsck *found = w->found;
	enum ts_kind kind = ts_word_kind(word);

	if (kind == TS_NONE)
		return;
	found->slots[kind]++;
	found->unread += unread;
	if (kind == TS_SPILL)
		found->record_bytes += ts_word_len(word) + TS_RECORD_EXTRA;
	else if (ts_kind_stored(kind) && kind != TS_STAGED)
		found->stored_bytes += ts_word_len(word);
}

static bool same_page(ts_word a, ts_word b)
{
	return ts_word_set_mark(ts_word_set_hot(a), 0).bits ==
	       ts_word_set_mark(ts_word_set_hot(b), 0).bits;
}

static bool same_evidence(const struct walk *w)
{
	const struct ts_evidence *a = &w->evidence[0], *b = &w->evidence[1];

	return a->n == b->n && !memcmp(a->bytes, b->bytes, a->n);
}

/* Something looked wrong: look again until it is clear. */
static void look_again(struct walk *w, uint64_t slot, ts_word word,
		       enum ts_fault_found fault)
{
	unsigned same = 0;
	ts_word last;
	bool unread;

	w->found->changed++;
	for (unsigned try = 0; try < TRIES_MAX; try++) {
		pause_before(try);
		ts_examiner_dicts(&w->examiner);
		last = word;
		w->evidence[1] = w->evidence[0];
		if (ts_peek_word(w->peek, slot, &word)) {
			same = 0;
			continue;
		}
		fault = ts_examine(&w->examiner, slot, word, &w->evidence[0],
				   &unread);
		if (fault == TS_FSCK_SOUND) {
			count(w, slot, word, unread);
			return;
		}
		same = same_page(word, last) && same_evidence(w) ? same + 1 : 0;
		if (same == SAME_TIMES) {
			w->found->changed--;
			/* Not of the word's bits, if it makes no sense. */
			if (fault != TS_FSCK_WORD)
				count(w, slot, word, false);
			blame(w, fault, slot);
			return;
		}
	}
	w->found->unsettled++;
}

/* Returns whether it was sound at the first look. */
static bool check_slot(struct walk *w, uint64_t slot, ts_word word)
{
	enum ts_fault_found fault;
	bool unread;

	fault = ts_examine(&w->examiner, slot, word, &w->evidence[0], &unread);
	if (fault == TS_FSCK_SOUND)
		count(w, slot, word, unread);
	else
		look_again(w, slot, word, fault);
	return fault == TS_FSCK_SOUND;
}

/* Copy a cluster's words. Returns their page + 1, or 0. */
static uint32_t copy_words(struct walk *w, uint64_t nr)
{
	unsigned bad = 0;

	for (unsigned try = 0; try < TRIES_MAX; try++) {
		uint32_t page, again;
		int err = ts_peek_entry(w->peek, nr, &page);

		if (!err && !page)
			return 0;
		if (!err)
			err = ts_peek_blocks(w->peek,
					     (uint64_t)(page - 1) * 4096,
					     w->words, sizeof(w->words));
		if (!err && !ts_peek_entry(w->peek, nr, &again) &&
		    again == page)
			return page;
		bad = err ? bad + 1 : 0;
		if (bad > SAME_TIMES) {
			blame(w, TS_FSCK_DIRECTORY, nr * TS_CLUSTER_SLOTS);
			return 0;
		}
		pause_before(try);
	}
	w->found->unsettled += TS_CLUSTER_SLOTS;
	return 0;
}

static void check_cluster(struct walk *w, uint64_t nr)
{
	uint64_t slot = nr * TS_CLUSTER_SLOTS;
	unsigned size_class;
	uint32_t page, block;

	if (nr >= w->peek->n_clusters) {
		blame(w, TS_FSCK_DIRECTORY, slot);
		return;
	}
	page = copy_words(w, nr);
	if (!page)
		return;
	w->found->clusters++;
	note_use(w, (page - 1) / TS_BLOCK_PAGES, USER_WORDS, nr,
		 TS_CLASS_PAGE);
	for (unsigned i = 0; i < TS_CLUSTER_SLOTS; i++, slot++) {
		if (!w->words[i].bits)
			continue;
		if (check_slot(w, slot, w->words[i]) &&
		    ts_examiner_block(&w->examiner, w->words[i], &block,
				      &size_class))
			note_use(w, block, USER_SLOT, slot, size_class);
	}
}

/* Copy a leaf's entries. Returns its block + 1, or 0. */
static uint32_t copy_leaf(struct walk *w, uint32_t i)
{
	unsigned bad = 0;

	do {
		uint32_t block;
		int err = ts_peek_root(w->peek, i, &block);

		if (!err && !block)
			return 0;
		if (!err && !ts_peek_blocks(w->peek,
					    (uint64_t)(block - 1)
						    << TS_BLOCK_SHIFT,
					    w->leaf, sizeof(w->leaf)))
			return block;
		pause_before(bad);
	} while (bad++ < SAME_TIMES);
	blame(w, TS_FSCK_DIRECTORY,
	      (uint64_t)i * TS_LEAF_CLUSTERS * TS_CLUSTER_SLOTS);
	return 0;
}

static void check_leaf(struct walk *w, uint32_t i)
{
	uint32_t block = copy_leaf(w, i);

	if (!block)
		return;
	w->found->leaves++;
	note_use(w, block - 1, USER_LEAF, i, TS_CLASS_LEAF - 1);
	for (uint64_t k = 0; k < TS_LEAF_CLUSTERS; k++)
		if (w->leaf[k])
			check_cluster(w, (uint64_t)i * TS_LEAF_CLUSTERS + k);
}

int ts_fsck(const struct ts_peek *peek, const char *spill_path,
	    struct ts_fsck *ret)
{
	struct walk *w = calloc(1, sizeof(*w));
	int err = -ENOMEM;

	memset(ret, 0, sizeof(*ret));
	if (!w)
		return err;
	w->peek = peek;
	w->found = ret;
	w->use = calloc(peek->head.n_blocks, sizeof(*w->use));
	if (w->use)
		err = ts_examiner_init(&w->examiner, peek, spill_path);
	if (!err) {
		ret->dictionaries = ts_examiner_dicts(&w->examiner);
		for (uint32_t i = 0; i < peek->n_leaves; i++)
			check_leaf(w, i);
		memcpy(ret->why_unread, w->examiner.why_unread,
		       sizeof(ret->why_unread));
	}
	ts_examiner_fini(&w->examiner);
	free(w->use);
	free(w);
	return err;
}

uint64_t ts_fsck_errors(const struct ts_fsck *fsck)
{
	uint64_t n = 0;

	for (unsigned i = TS_FSCK_SOUND + 1; i < TS_FSCK_FAULTS; i++)
		n += fsck->faults[i];
	return n;
}

const char *ts_fsck_name(enum ts_fault_found fault)
{
	static const char *const names[TS_FSCK_FAULTS] = {
		[TS_FSCK_SOUND] = "sound",
		[TS_FSCK_DIRECTORY] = "a part of the map is outside the memory",
		[TS_FSCK_WORD] = "a word makes no sense",
		[TS_FSCK_BLOCK] = "a block is used for two things",
		[TS_FSCK_OBJECT] = "a page in memory fails its check",
		[TS_FSCK_RECORD] = "a spilled page fails its check",
		[TS_FSCK_UNREADABLE] = "a spilled page cannot be read",
	};

	return names[fault];
}
