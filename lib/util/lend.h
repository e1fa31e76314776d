/* SPDX-License-Identifier: BSD-3-Clause */
/* lend.h - a stack of things to borrow, one user at a time
 *
 * The one returned last is lent first, since it is still in the cache. A
 * borrower that finds none waits for a return.
 */
#ifndef TS_UTIL_LEND_H
#define TS_UTIL_LEND_H

#include "util/lock.h"

struct ts_lent {
	struct ts_lent *next; /* first member of what is lent */
};

struct ts_lend {
	pthread_mutex_t lock;
	pthread_cond_t returned;
	struct ts_lent *free;
};

static inline void ts_lend_init(struct ts_lend *lend)
{
	lend->free = NULL;
	ts_mutex_init(&lend->lock);
	ts_cond_init(&lend->returned);
}

static inline void ts_lend_fini(struct ts_lend *lend)
{
	pthread_mutex_destroy(&lend->lock);
	pthread_cond_destroy(&lend->returned);
}

static inline void *ts_borrow(struct ts_lend *lend)
{
	struct ts_lent *lent;

	ts_lock(&lend->lock);
	while (!(lent = lend->free))
		pthread_cond_wait(&lend->returned, &lend->lock);
	lend->free = lent->next;
	ts_unlock(&lend->lock);
	return lent;
}

static inline void ts_return(struct ts_lend *lend, void *thing)
{
	struct ts_lent *lent = thing;

	ts_lock(&lend->lock);
	lent->next = lend->free;
	lend->free = lent;
	pthread_cond_signal(&lend->returned);
	ts_unlock(&lend->lock);
}

#endif
