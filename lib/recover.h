/* SPDX-License-Identifier: BSD-3-Clause */
/* recover.h - rebuild what is derived, from the words alone */
#ifndef TS_RECOVER_H
#define TS_RECOVER_H

#include "core.h"

/* The core has been set up on a segment that was there before. Walk the words
 * and make everything that they imply: which objects and blocks are in use, the
 * notes on pages, live counts, what lives in which segment, which dictionaries
 * are needed, the gauges. What no word names is free.
 *
 * A process can be killed between any two instructions: a word is either old
 * or new, and what it names was complete before it. So there is nothing to
 * repair; a word that makes no sense means that the memory is damaged.
 *
 * Returns 0, or -EBADMSG with a sentence in @err.
 */
int ts_recover(struct ts_core *core, char *err, size_t err_bytes);

#endif
