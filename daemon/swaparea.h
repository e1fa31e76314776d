/* SPDX-License-Identifier: BSD-3-Clause */
/* swaparea.h - a block device as a swap area: make, on, off, how full
 *
 * mkswap, swapon and swapoff are the programs of util-linux. Steps that meet
 * a busy device (udev looks at every new one) are tried again for a while;
 * every failure names its step.
 */
#ifndef TS_DAEMON_SWAPAREA_H
#define TS_DAEMON_SWAPAREA_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "error.h"
#include "spawn.h"

struct ts_swap_use {
	uint64_t size_bytes;
	uint64_t used_bytes;
	int priority;
};

/* Is @device on as swap, and how full? 0, or -ENOENT when it is not on. */
int ts_swap_lookup(const char *device, struct ts_swap_use *ret);

/* Does somebody have the device for himself, as swap has? */
bool ts_swap_is_claimed(const char *device);

/* Wait until the device can be opened alone, has its size, and check that it
 * is not rotational and discards.
 */
int ts_swap_check_device(const struct ts_config *config, const char *device,
			 uint64_t size_bytes, struct ts_error *error);

int ts_swap_make(const struct ts_config *config, const char *device,
		 struct ts_error *error);
int ts_swap_on(const struct ts_config *config, const char *device,
	       struct ts_error *error);

/* Start swapoff; its end is seen on ret->pidfd. */
int ts_swap_off_start(const struct ts_config *config, const char *device,
		      int output_fd, struct ts_child *ret,
		      struct ts_error *error);

/* swapoff to its end: for an area that was just switched on. */
int ts_swap_off(const struct ts_config *config, const char *device,
		struct ts_error *error);

/* Whether what is swapped out on @device fits back into memory (and into
 * other swap areas).
 */
struct ts_swap_room {
	uint64_t used_bytes;
	uint64_t room_bytes;
	uint64_t missing_bytes; /* 0: it fits */
};

int ts_swap_measure_room(const char *device, struct ts_swap_room *ret,
			 struct ts_error *error);

#endif
