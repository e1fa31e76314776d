/* SPDX-License-Identifier: BSD-3-Clause */
/* filereader.h - reads through the store by its FUSE file, for the probe
 *
 * A read that does not come back in time stays under way and can be waited for
 * again: a server that stands still costs one request and no thread.
 */
#ifndef TS_DAEMON_FILEREADER_H
#define TS_DAEMON_FILEREADER_H

#include "probe.h"

extern const struct ts_probe_ops ts_filereader_ops;

#endif
