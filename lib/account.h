/* SPDX-License-Identifier: BSD-3-Clause */
/* account.h - what a change of words does to the gauges, counted in one go */
#ifndef TS_ACCOUNT_H
#define TS_ACCOUNT_H

#include "backend.h"

struct ts_change {
	int32_t slots[TS_KINDS];
	int64_t bytes[TS_KINDS];
};

/* Note that a slot's word came (@by 1) or went (@by -1). */
void ts_change_word(struct ts_change *change, ts_word word, int by);

/* Add it all to the gauges. */
void ts_change_apply(struct ts_media *media, const struct ts_change *change);

#endif
