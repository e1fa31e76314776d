/* SPDX-License-Identifier: BSD-3-Clause */
/* tune_apply.c - what can be changed while a store runs: the server's side
 *
 * Runs in the keeper, which is the one that may allocate and wait. The request
 * path reads each of these settings with a single relaxed load.
 */
#include "store.h"
#include "tune.h"

#include <errno.h>

/* A high mark at or below the low one takes that along, so that both can be
 * changed one after the other in any direction.
 */
static int set_high(struct ts_tier *tier, unsigned high)
{
	if (tier->low_percent >= high)
		ts_store_relaxed(&tier->low_percent, high - 1);
	ts_store_relaxed(&tier->high_percent, high);
	return 0;
}

static int set_low(struct ts_tier *tier, unsigned low)
{
	if (low >= tier->high_percent)
		return -ERANGE;
	ts_store_relaxed(&tier->low_percent, low);
	return 0;
}

int ts_tune_apply(struct ts_store *store, enum ts_tune_key key, int64_t value)
{
	struct ts_media *media = &store->core.media;
	struct ts_spiller *spiller = &store->spiller;
	struct ts_tier *tier = &spiller->tier;

	if (key != TS_TUNE_RAM && key != TS_TUNE_LEVEL && !media->spill)
		return -ENOTSUP;
	switch (key) {
	case TS_TUNE_RAM:
		return ts_blocks_set_budget(&media->blocks,
					    (uint64_t)value >> TS_BLOCK_SHIFT);
	case TS_TUNE_LEVEL:
		return ts_codec_set_level(&media->codec, (int)value);
	case TS_TUNE_HIGH_WATER:
		return set_high(tier, (unsigned)value);
	case TS_TUNE_LOW_WATER:
		return set_low(tier, (unsigned)value);
	case TS_TUNE_RAM_ADMISSION:
		ts_store_relaxed(&tier->closed, !value);
		return 0;
	case TS_TUNE_WRITE_BUDGET:
		ts_store_relaxed(&spiller->wear.bytes_day, (uint64_t)value);
		return 0;
	case TS_N_TUNE_KEYS:
		break;
	}
	return -EINVAL;
}

void ts_tune_answer(struct ts_store *store)
{
	struct ts_mailbox *box;
	uint32_t ticket;

	if (!store->statsfile.map)
		return;
	box = &store->statsfile.map->mailbox;
	/* Pairs with the asker's release. */
	ticket = ts_load_acquire(&box->asked);
	/* Anything else is nothing, or a request that was taken back. */
	if (ticket != box->answered + 1)
		return;
	box->error = box->key < TS_N_TUNE_KEYS
			     ? ts_tune_apply(store, box->key, box->value)
			     : -EINVAL;
	/* Pairs with the asker's acquire. */
	ts_store_release(&box->answered, ticket);
}
