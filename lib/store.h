/* SPDX-License-Identifier: BSD-3-Clause */
/* store.h - the store behind thinswap.h */
#ifndef TS_STORE_H
#define TS_STORE_H

#include "core.h"
#include "keeper.h"
#include "spiller.h"
#include "statsfile.h"
#include "thinswap.h"
#include "train.h"
#include "worker.h"

struct ts_store {
	struct ts_core core;
	struct ts_keeper keeper;
	struct ts_spiller spiller; /* if there is a spill tier */
	struct ts_workers workers; /* if pages are compressed behind writes */
	struct ts_train train;     /* if there are dictionaries */
	struct ts_statsfile statsfile; /* if one was asked for */
};

/* 0, or -EINVAL if the range is not inside the device. */
int ts_store_range(const struct ts_store *store, uint64_t len_bytes,
		   uint64_t off_bytes);

#endif
