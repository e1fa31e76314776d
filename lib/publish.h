/* SPDX-License-Identifier: BSD-3-Clause */
/* publish.h - look up what is not counted, and put it in the statistics file
 */
#ifndef TS_PUBLISH_H
#define TS_PUBLISH_H

#include "store.h"

void ts_look_up(struct ts_store *store, struct ts_looked_up *ret);

/* For the keeper, about once a second: publish, and answer the mailbox. */
void ts_publish(void *store);

#endif
