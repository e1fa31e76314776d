# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# lib.sh - start a real nbdkit on a unix socket for one test, and clean up
#
# Source it, then:
#   need CMD...                 skip the test when a program is missing
#   server_start SIZE [K=V...]  sets SERVER_PID, SERVER_SOCK and SERVER_URI
#   server_stop                 clean stop; fails on a dirty one
#   fail TEXT / skip TEXT       end the test
# $TMP is a fresh directory that goes away with the test. server_start may be
# called again, for a second server.
#
# PLUGIN says what is tested: the path of the plugin (meson sets it), or any
# other nbdkit plugin with its parameters. TS_PLUGIN overrides it, so that
#   TS_PLUGIN=memory meson test --suite plugin
# shows whether a test asks for more than a plain device gives.
#
# A plugin built with a sanitizer needs its runtime loaded before nbdkit; that
# is found out by itself, and a report in the server's log fails the test.

set -euo pipefail

read -ra PLUGIN_WORDS <<<"${TS_PLUGIN:-${PLUGIN:?PLUGIN is not set}}"
TMP=$(mktemp -d "${TMPDIR:-/tmp}/ts-plugin.XXXXXX")
declare -A SERVERS=()	# pids of all that were started and not yet stopped
SERVER_COUNT=0

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

skip() {
	echo "SKIP: $*"
	exit 77
}

need() {
	local cmd

	for cmd; do
		[[ -n $(type -P "$cmd") ]] || skip "needs $cmd"
	done
}

is_thinswap() {
	[[ ${PLUGIN_WORDS[0]} == *thinswap* ]]
}

need_thinswap() {
	is_thinswap || skip "only thinswap promises this"
}

# The sanitizer runtimes that the plugin was linked with, for LD_PRELOAD.
sanitizers() {
	[[ ${PLUGIN_WORDS[0]} == */* ]] || return 0
	ldd "${PLUGIN_WORDS[0]}" |
		awk '/lib[at]san|libubsan/ { printf "%s ", $3 }'
}

# nbdkit with what the plugin needs loaded; nbdkit unloads the plugin at exit,
# which leak checking cannot follow.
NBDKIT=(env "LD_PRELOAD=$(sanitizers)" ASAN_OPTIONS=detect_leaks=0 nbdkit)

# Memory figures of a sanitized server mean nothing.
need_no_sanitizer() {
	[[ -z $(sanitizers) ]] || skip "the plugin is built with a sanitizer"
}

# The parameters of SIZE [K=V...] that the plugin under test knows.
plugin_params() {
	local word

	echo "size=$1"
	shift
	for word; do
		if is_thinswap; then
			echo "$word"
		fi
	done
}

# nbdkit --run starts a shell that inherits what is loaded into nbdkit.
need_no_tsan() {
	[[ $(sanitizers) != *tsan* ]] ||
		skip "a shell with ThreadSanitizer in it crashes"
}

cleanup() {
	local status=$? pid log

	trap - EXIT
	for pid in "${!SERVERS[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	if ((status != 0 && status != 77)); then
		for log in "$TMP"/server*.log; do
			[[ -s $log ]] || continue
			echo "--- ${log##*/}, its last lines:" >&2
			tail -n 40 "$log" >&2
		done
	fi
	rm -rf "$TMP"
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

server_start() {
	local params pidfile log

	SERVER_COUNT=$((SERVER_COUNT + 1))
	SERVER_SOCK=$TMP/nbd$SERVER_COUNT.sock
	SERVER_URI="nbd+unix:///?socket=$SERVER_SOCK"
	pidfile=$TMP/nbd$SERVER_COUNT.pid
	log=$TMP/server$SERVER_COUNT.log
	mapfile -t params < <(plugin_params "$@")
	"${NBDKIT[@]}" --foreground --unix "$SERVER_SOCK" \
		--pidfile "$pidfile" "${PLUGIN_WORDS[@]}" "${params[@]}" \
		2>"$log" &
	SERVER_PID=$!
	SERVERS[$SERVER_PID]=1
	# The pid file appears once nbdkit listens.
	until [[ -s $pidfile ]]; do
		kill -0 "$SERVER_PID" 2>/dev/null ||
			fail "nbdkit did not start: ${PLUGIN_WORDS[*]} ${params[*]}"
		sleep 0.02
	done
	export SERVER_PID SERVER_URI SERVER_SOCK
}

# System V segments that a process made and that are still there.
segments_of() {
	awk -v pid="$1" 'NR > 1 && $5 == pid { print $2 }' /proc/sysvipc/shm
}

server_stop() {
	local status=0 log=$TMP/server$SERVER_COUNT.log left

	kill -0 "$SERVER_PID" 2>/dev/null || fail "nbdkit died"
	kill -TERM "$SERVER_PID"
	wait "$SERVER_PID" || status=$?
	unset "SERVERS[$SERVER_PID]"
	((status == 0)) || fail "nbdkit exited with $status"
	left=$(segments_of "$SERVER_PID")
	[[ -z $left ]] || fail "nbdkit left shared memory: $left"
	! grep -Eq 'Sanitizer|runtime error:' "$log" ||
		fail "a sanitizer reported something"
}

# Make FILE of 128 MiB from programs and libraries of this machine, a part that
# does not compress, and holes, for copying there and back.
make_image() {
	local files=(/usr/bin/* /usr/lib/*-linux-gnu/*.so*)

	truncate -s 128M "$1"
	# cat is stopped by head, or meets a name that is no file: no failure.
	(cat "${files[@]}" 2>/dev/null || true) | head -c 48M |
		dd of="$1" bs=1M conv=notrunc iflag=fullblock status=none
	dd if=/dev/urandom of="$1" bs=4k seek=16384 count=1500 conv=notrunc \
		iflag=fullblock status=none
	# A last page that is written only in part.
	printf 'the end' | dd of="$1" bs=1 seek=$((128 * 1024 * 1024 - 7)) \
		conv=notrunc status=none
}

# Bytes of the device of a type in nbdinfo's map: data, hole,zero ...
map_bytes() {
	nbdinfo --map "$SERVER_URI" |
		awk -v type="$1" '$4 == type { sum += $2 }
			END { printf "%d\n", sum }'
}

# The slots of FILE that hold anything but zeros.
used_slots() {
	/usr/bin/python3 - "$1" <<'END'
import sys
with open(sys.argv[1], "rb") as image:
    print(sum(any(slot) for slot in iter(lambda: image.read(4096), b"")))
END
}
