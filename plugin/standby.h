/* SPDX-License-Identifier: BSD-3-Clause */
/* standby.h - a server that waits to take another one's place
 *
 * thinswapd starts it with THINSWAP_STANDBY=N, descriptor N being one end of a
 * stream socket, while the server still lives that keeps its memory at keep=.
 * Everything is set up but the store; connections can be made and warmed:
 *
 *	< ready BYTES       it waits; BYTES is what it has for itself alone
 *	< refused SENTENCE  it cannot read what is kept, and ends
 *	> again             connections were made: be ready beside them
 *	< ready BYTES
 *	> take              the server is dead: take over
 *	< taken             requests are served from what was kept
 *	< failed SENTENCE   they are not, and it ends
 *
 * Until "take" a read gives zeros and everything else is an error: nobody but
 * thinswapd has a connection. From then on requests wait for "taken"; there is
 * no moment in which the kernel could get a page that is not what was stored.
 * When thinswapd ends before "take", so does the standby.
 */
#ifndef TS_PLUGIN_STANDBY_H
#define TS_PLUGIN_STANDBY_H

#include "thinswap.h"

#include <stdbool.h>

/* Look for the variable; before any program is started. */
void ts_standby_load(void);

/* Is this process one? */
bool ts_standby_is_on(void);

/* Be ready, and begin to wait in a thread of its own. *@ret_store is set when
 * the store serves. @realtime: take over in the real-time class. Returns 0, or
 * -errno with a sentence in @err, which thinswapd has been told too.
 */
int ts_standby_begin(const struct ts_params *params, bool realtime,
		     struct ts_store **ret_store, char *err, size_t err_bytes);

/* For a request that finds no store: wait for it. NULL: before "take". */
struct ts_store *ts_standby_wait(void);

#endif
