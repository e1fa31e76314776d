/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_check.h - `thinswap check [FILE]`: judge a configuration, start nothing
 *
 * Gives the answer that thinswapd would give, by the same code. Prints to
 * stdout what the configuration comes to, or to stderr what is wrong; with
 * @json one JSON object to stdout in both cases. @argv[0] is the command's
 * own name. Returns the exit code: 0 good, 1 not good, 2 wrong usage.
 */
#ifndef TS_DAEMON_CLI_CMD_CHECK_H
#define TS_DAEMON_CLI_CMD_CHECK_H

#include <stdbool.h>

int ts_cmd_check(int argc, char **argv, bool json);

#endif
