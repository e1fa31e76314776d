#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# lifetime.sh - foreground, background and captive servers work, and none
# leaves memory behind, killed or stopped

# shellcheck source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
need qemu-io nbdinfo

# wait_gone PID - until a process that is not our child has ended
wait_gone() {
	while kill -0 "$1" 2>/dev/null; do
		sleep 0.02
	done
}

use() {
	local out

	out=$(qemu-io -f raw -c 'write -P 0x5a 0 1M' -c 'read -P 0x5a 0 1M' \
		"$SERVER_URI" 2>&1)
	! grep -Eq 'failed|mismatch|error' <<<"$out" || fail "$1: $out"
}

expect_no_segment() {
	[[ -z $(segments_of "$1") ]] || fail "$2 server left shared memory"
}

server_start 1G
use foreground
server_stop

server_start 1G
use foreground
kill -KILL "$SERVER_PID"
wait "$SERVER_PID" 2>/dev/null || true
unset "SERVERS[$SERVER_PID]"
expect_no_segment "$SERVER_PID" "a killed"

# In the background nbdkit forks after the parameters were read: threads and
# memory must belong to the child.
mapfile -t params < <(plugin_params 1G)
preload=$(sanitizers)
SERVER_SOCK=$TMP/background.sock
SERVER_URI="nbd+unix:///?socket=$SERVER_SOCK"
LD_PRELOAD=${preload% } ASAN_OPTIONS=detect_leaks=0 \
	nbdkit --unix "$SERVER_SOCK" --pidfile "$TMP/background.pid" \
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

# shellcheck disable=SC2016 # nbdkit sets $uri
size=$(LD_PRELOAD=${preload% } ASAN_OPTIONS=detect_leaks=0 \
	nbdkit --unix - "${PLUGIN_WORDS[@]}" "${params[@]}" \
	--run 'nbdinfo --size "$uri"')
[[ $size == $((1 << 30)) ]] || fail "a captive server says $size bytes"
