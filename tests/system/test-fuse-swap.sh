#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test-fuse-swap.sh - real pages swapped out to thinswap-fuse and back
#
# Usage: test-fuse-swap.sh PAGER THINSWAP-FUSE
#
# 1. A data set of three times its cgroup is written, touched and verified,
#    while the kernel is asked again and again what the page cache holds of
#    the server's file: nothing, or it would be a second, uncompressed copy.
#    The server itself is never swapped (case 1).
# 2. Case 29: the program is gone, others swap a little, and what was stored
#    for it must be gone too, by the server's own account (st_blocks) and by
#    its resident memory.
# 3. A server that is told to stop under live swap serves on (case 5).
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/system/swaprig.sh
source "$here/swaprig.sh"
# shellcheck source=tests/system/pages.sh
source "$here/pages.sh"

MIB=$((1 << 20))
pager=$1
fuse=$2
limit=$((96 * MIB))
size=$((3 * limit))

check() {
	if (($2)); then
		echo "ok: $1"
	else
		echo "FAILED: $1 ($2)"
		exit 1
	fi
}

server_status() {
	awk -v key="$1:" '$1 == key { print $2 * 1024 }' \
		"/proc/$server_pid/status"
}

stored_bytes() { echo $(($(stat --format=%b "$RIG_DIR/mnt/swap") * 512)); }

# Pages of the file in the page cache; "unknown" before Linux 6.5.
cached_pages() {
	/usr/bin/python3 - "$RIG_DIR/mnt/swap" <<-'PYTHON'
		import ctypes, os, sys
		libc = ctypes.CDLL(None)
		found = (ctypes.c_uint64 * 5)()
		where = (ctypes.c_uint64 * 2)(0, 0)
		fd = os.open(sys.argv[1], os.O_RDONLY)
		failed = libc.syscall(451, fd, where, found, 0)
		print('unknown' if failed else found[0])
	PYTHON
}

# Run a pager in the cgroup; remember the most that was seen meanwhile.
run_pager() {
	most_swapped=0 most_stored=0 most_cached=0 most_own=0
	rig_in_cgroup_bg "$pager" --pages "$pages" --json "$@" \
		>"$RIG_DIR/pager.json"
	local pid=$RIG_PID now
	while [[ -d /proc/$pid && $(ps -o stat= -p "$pid") != Z* ]]; do
		now=$(rig_cgroup_swapped)
		((now > most_swapped)) && most_swapped=$now
		now=$(stored_bytes)
		((now > most_stored)) && most_stored=$now
		now=$(cached_pages)
		[[ $now != unknown ]] && ((now > most_cached)) &&
			most_cached=$now
		now=$(server_status VmSwap)
		((now > most_own)) && most_own=$now
		sleep 0.2
	done
	wait "$pid"
}

rig_require
pages=$(ts_pages data)
rig_begin
rig_spawn server "$fuse" --threads 4 "$RIG_DIR/mnt" size=1G ram=512M
server_pid=$RIG_PID
server_start=$(rig_start_time "$server_pid")
for ((i = 0; i < 500; i++)); do
	[[ -s $RIG_DIR/mnt/swap ]] && break
	sleep 0.02
done
RIG_DEV=$(losetup --find --show --direct-io=on --sector-size 4096 \
	"$RIG_DIR/mnt/swap")
check "direct I/O" $(($(cat "/sys/block/${RIG_DEV#/dev/}/loop/dio") == 1))
check "not rotational (case 29)" \
	$(($(cat "/sys/block/${RIG_DEV#/dev/}/queue/rotational") == 0))
check "discards (case 29)" \
	$(($(cat "/sys/block/${RIG_DEV#/dev/}/queue/discard_max_bytes") > 0))
rig_swapon 32000
rig_cgroup "$limit"
idle_rss=$(server_status VmRSS)

echo "1. three times the cgroup"
status=0
run_pager --size "$size" --touches 20000 || status=$?
cat "$RIG_DIR/pager.json"
check "the pager found no wrong page" $((status == 0))
check "most of the data was in swap ($((most_swapped / MIB)) MiB)" \
	$((most_swapped > (size - limit) * 8 / 10))
check "the server stored it compressed ($((most_stored / MIB)) MiB)" \
	$((most_stored > most_swapped / 20 && most_stored < most_swapped))
check "nothing of it in the page cache ($most_cached pages)" \
	$((most_cached == 0))
check "the server's own memory was never in swap" $((most_own == 0))

echo "2. case 29: freed swap is given back"
stored=$most_stored
for ((round = 0; round < 20; round++)); do
	left=$(stored_bytes)
	rss=$(($(server_status VmRSS) - idle_rss))
	echo "round $round: $((left / MIB)) of $((stored / MIB)) MiB stored," \
		"$((rss / MIB)) MiB resident"
	((left < stored * 3 / 10 && rss < stored / 2)) && break
	# Light churn: a little more than the cgroup holds.
	run_pager --size $((limit + 8 * MIB)) --touches 1000
done
check "stored bytes fell sharply" $((left < stored * 3 / 10))
check "memory went back to the system" $((rss < stored / 2))

echo "3. told to stop under live swap"
rig_in_cgroup_bg "$pager" --pages "$pages" --size "$size" --seconds 4 \
	--json >"$RIG_DIR/pager.json"
pager_pid=$RIG_PID
sleep 2
kill -TERM "$server_pid"
status=0
wait "$pager_pid" || status=$?
check "the pager found no wrong page" $((status == 0))
alive=0
rig_is_alive "$server_pid" "$server_start" && alive=1
check "the server has lived through it" "$alive"

rig_swapoff
rig_detach
for ((i = 0; i < 250; i++)); do
	rig_is_alive "$server_pid" "$server_start" || break
	[[ $(ps -o stat= -p "$server_pid") == Z* ]] && break
	sleep 0.02
done
status=0
wait "$server_pid" || status=$?
check "it ended by itself with the mount" $((status == 0))
rig_end
