/* SPDX-License-Identifier: BSD-3-Clause */
/* swaps.h - what the kernel says about swap in use */
#ifndef TS_DAEMON_CLI_SWAPS_H
#define TS_DAEMON_CLI_SWAPS_H

#include <stdint.h>

/* Bytes in use on all swap areas. Returns 0, or -ENOENT when none is on. */
int ts_swaps_used(uint64_t *ret_bytes);

#endif
