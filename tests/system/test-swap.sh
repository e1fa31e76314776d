#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test-swap.sh - real pages swapped out to thinswap and back, and given back
#
# Usage: test-swap.sh PAGER PLUGIN
#
# 1. A data set of three times its cgroup is written, touched and verified;
#    that it really went through our device is read from the kernel and from
#    the server's own memory.
# 2. Case 29, the unprivileged part: the program is gone, others swap a
#    little, and what was stored for it must be gone too: from the device's
#    map, and from the server's memory beyond what it had when idle.
#
# THINSWAP_TEST_SERVER, for example "memory 1G", tries another nbdkit plugin.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/system/swaprig.sh
source "$here/swaprig.sh"
# shellcheck source=tests/system/pages.sh
source "$here/pages.sh"

MIB=$((1 << 20))
KEPT=$((24 * MIB))
pager=$1
read -ra server <<<"${THINSWAP_TEST_SERVER:-$2 size=1G ram=512M}"
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

server_rss() {
	awk '/^VmRSS:/ { print $2 * 1024 }' "/proc/$server_pid/status"
}

# Bytes of the device that hold data, by its own map.
mapped_bytes() {
	nbdinfo --map --totals "nbd+unix:///?socket=$RIG_DIR/sock" |
		awk '/ data$/ { bytes += $1 } END { print bytes + 0 }'
}

json_number() {
	/usr/bin/python3 -c 'import functools, json, sys
value = json.load(open(sys.argv[1]))
print(functools.reduce(lambda v, k: v[k], sys.argv[2:], value))' "$@"
}

# Run a pager in the cgroup; remember the most that was in swap and stored.
run_pager() {
	most_swapped=0 most_stored=0
	rig_in_cgroup_bg "$pager" --pages "$pages" --json "$@" \
		>"$RIG_DIR/pager.json"
	local pid=$RIG_PID now
	while [[ -d /proc/$pid && $(ps -o stat= -p "$pid") != Z* ]]; do
		now=$(rig_cgroup_swapped)
		((now > most_swapped)) && most_swapped=$now
		now=$(($(server_rss) - idle_rss))
		((now > most_stored)) && most_stored=$now
		sleep 0.2
	done
	wait "$pid"
}

rig_require
pages=$(ts_pages data)
rig_begin
rig_spawn server nbdkit --foreground --unix "$RIG_DIR/sock" \
	--pidfile "$RIG_DIR/server.pid" "${server[@]}"
server_pid=$RIG_PID
server_start=$(rig_start_time "$server_pid")
rig_wait_socket "$RIG_DIR/sock"
rig_attach "$RIG_DIR/sock"
rig_swapon 32000
rig_cgroup "$limit"
idle_rss=$(server_rss)
echo "route $RIG_ROUTE, idle server $((idle_rss / MIB)) MiB"

echo "1. three times the cgroup"
status=0
run_pager --size "$size" --touches 20000 || status=$?
cat "$RIG_DIR/pager.json"
check "no process was killed" $(($(rig_cgroup_oom_kills) == 0))
check "the pager found no wrong page" $((status == 0))
wrong=$(json_number "$RIG_DIR/pager.json" wrong_pages)
faults=$(json_number "$RIG_DIR/pager.json" fault_us count)
check "0 pages wrong" $((wrong == 0))
check "touches waited for the device ($faults major faults)" \
	$((faults > 1000))
check "most of the data was in swap ($((most_swapped / MIB)) MiB)" \
	$((most_swapped > (size - limit) * 8 / 10))
check "the server stored it ($((most_stored / MIB)) MiB)" \
	$((most_stored > most_swapped / 20))
most=$most_stored

echo "2. case 29: freed swap is given back"
for ((round = 0; round < 3; round++)); do
	# Light churn: a little more than the cgroup holds.
	run_pager --size $((limit + 8 * MIB)) --touches 1000
done
# What the map calls data, and memory. Not stored bytes are nbdkit's request
# buffers, one a thread, and the engine's reserve, kept for the next writes.
goal=$((most * 3 / 10 + KEPT))
for ((i = 0; i < 120; i++)); do
	mapped=$(mapped_bytes)
	left=$(($(server_rss) - idle_rss))
	((left < goal && mapped < size / 20)) && break
	sleep 0.5
done
echo "$((mapped / MIB)) MiB of the device are data," \
	"$((left / MIB)) MiB of memory are left of $((most / MIB)) MiB"
check "stored slots are gone" $((mapped < size / 20))
check "memory went back to the system" $((left < goal))

rig_swapoff
rig_detach
alive=0
rig_is_alive "$server_pid" "$server_start" && alive=1
check "the server has lived through it" "$alive"
rig_end
