/* SPDX-License-Identifier: BSD-3-Clause */
/* sealers.c - threads that help to seal the records of a pack
 *
 * Records lie in place and have places of their own, so any thread can seal
 * any of them: whoever is free takes the next few. The spiller takes its share
 * and then waits for the last helper, a few records' time at most.
 */
#include "sealers.h"
#include "util/atomic.h"
#include "util/harden.h"
#include "util/lock.h"

#include <unistd.h>

/* Some tens of microseconds: small beside a segment, large beside a wake-up. */
#define TAKE 16u

static void seal_some(struct ts_sealers *sealers, struct ts_pack *pack)
{
	uint32_t i;

	while ((i = ts_add_relaxed(&sealers->next, TAKE)) < pack->n)
		ts_pack_seal(pack, sealers->seal, i,
			     pack->n - i < TAKE ? pack->n : i + TAKE);
}

static void *run(void *arg)
{
	struct ts_sealers *sealers = arg;

	pthread_setname_np(pthread_self(), "ts-sealer");
	ts_harden_touch_stack();
	ts_lock(&sealers->lock);
	while (!sealers->stop) {
		struct ts_pack *pack = sealers->pack;

		if (!pack || ts_load_relaxed(&sealers->next) >= pack->n) {
			pthread_cond_wait(&sealers->wake, &sealers->lock);
			continue;
		}
		sealers->at_work++;
		ts_unlock(&sealers->lock);
		seal_some(sealers, pack);
		ts_lock(&sealers->lock);
		if (!--sealers->at_work)
			pthread_cond_signal(&sealers->idle);
	}
	ts_unlock(&sealers->lock);
	return NULL;
}

void ts_sealers_start(struct ts_sealers *sealers)
{
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = n_cpus < 1 ? 0 : (unsigned)n_cpus - 1;

	*sealers = (struct ts_sealers){ 0 };
	ts_mutex_init(&sealers->lock);
	ts_cond_init(&sealers->wake);
	ts_cond_init(&sealers->idle);
	if (n > TS_SEALERS_MAX)
		n = TS_SEALERS_MAX;
	while (sealers->n < n &&
	       !pthread_create(&sealers->thread[sealers->n], NULL, run,
			       sealers))
		sealers->n++;
}

void ts_sealers_stop(struct ts_sealers *sealers)
{
	if (!sealers->n)
		return;
	ts_lock(&sealers->lock);
	sealers->stop = true;
	pthread_cond_broadcast(&sealers->wake);
	ts_unlock(&sealers->lock);
	while (sealers->n)
		pthread_join(sealers->thread[--sealers->n], NULL);
	pthread_mutex_destroy(&sealers->lock);
	pthread_cond_destroy(&sealers->wake);
	pthread_cond_destroy(&sealers->idle);
}

void ts_sealers_run(struct ts_sealers *sealers, struct ts_pack *pack,
		    const struct ts_seal *seal)
{
	if (!sealers->n || pack->n <= TAKE) {
		ts_pack_seal(pack, seal, 0, pack->n);
		return;
	}
	ts_lock(&sealers->lock);
	sealers->seal = seal;
	ts_store_relaxed(&sealers->next, 0);
	sealers->pack = pack;
	pthread_cond_broadcast(&sealers->wake);
	ts_unlock(&sealers->lock);
	seal_some(sealers, pack);
	ts_lock(&sealers->lock);
	sealers->pack = NULL;
	while (sealers->at_work)
		pthread_cond_wait(&sealers->idle, &sealers->lock);
	ts_unlock(&sealers->lock);
}
