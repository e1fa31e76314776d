#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# lifetime.sh - foreground, background and captive servers work, and none
# leaves memory behind, killed or stopped

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
need nbdcopy nbdinfo cmp

# wait_gone PID - until a process that is not our child has ended
wait_gone() {
	while kill -0 "$1" 2>/dev/null; do
		sleep 0.02
	done
}

# Data that needs far more memory than is set aside before the fork.
head -c 32M /dev/urandom >"$TMP/data"

use() {
	nbdcopy "$TMP/data" "$SERVER_URI"
	nbdcopy "$SERVER_URI" - | cmp - "$TMP/data" ||
		fail "$1: what comes back differs"
}

expect_no_segment() {
	[[ -z $(segments_of "$1") ]] || fail "$2 server left shared memory"
}

server_start 32M
use foreground
server_stop

server_start 32M
use foreground
kill -KILL "$SERVER_PID"
wait "$SERVER_PID" 2>/dev/null || true
unset "SERVERS[$SERVER_PID]"
expect_no_segment "$SERVER_PID" "a killed"

# In the background nbdkit forks after the parameters were read: threads and
# memory must belong to the child.
mapfile -t params < <(plugin_params 32M)
SERVER_SOCK=$TMP/background.sock
SERVER_URI="nbd+unix:///?socket=$SERVER_SOCK"
"${NBDKIT[@]}" --unix "$SERVER_SOCK" --pidfile "$TMP/background.pid" \
	"${PLUGIN_WORDS[@]}" "${params[@]}"
until [[ -s $TMP/background.pid ]]; do
	sleep 0.02
done
pid=$(<"$TMP/background.pid")
SERVERS[$pid]=1
use background
kill -TERM "$pid"
wait_gone "$pid"
unset "SERVERS[$pid]"
expect_no_segment "$pid" "a background"

need_no_tsan
# nbdinfo must not inherit a sanitizer.
# shellcheck disable=SC2016 # nbdkit sets $uri
size=$("${NBDKIT[@]}" --unix - "${PLUGIN_WORDS[@]}" "${params[@]}" \
	--run 'LD_PRELOAD= nbdinfo --size "$uri"')
[[ $size == $((32 << 20)) ]] || fail "a captive server says $size bytes"
