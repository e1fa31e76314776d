/* SPDX-License-Identifier: BSD-3-Clause */
/* compact.h - empty sparse blocks into full ones */
#ifndef TS_COMPACT_H
#define TS_COMPACT_H

#include "core.h"

/* Move objects out of the emptiest blocks of classes that have more room than
 * @slack lets them keep, until @max_blocks are empty. Returns how many are.
 * Safe beside requests; never waits for memory. Hold no lock.
 */
unsigned ts_compact(struct ts_core *core, enum ts_slack slack,
		    unsigned max_blocks);

#endif
