#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# swaprun.sh - run a command in a small memory cgroup on one kind of swap
#
# swaprun.sh --report FILE [--cgroup BYTES] nbdkit ARGUMENT... -- COMMAND...
# swaprun.sh --report FILE [--cgroup BYTES] fuse MOUNTED-BY... -- COMMAND...
# swaprun.sh --report FILE [--cgroup BYTES] zram ALGORITHM DISKSIZE -- COMMAND...
#
# nbdkit   serve swap by `nbdkit ARGUMENT...`, attached as the rig does it
# fuse     serve swap by a FUSE server of its own: the command MOUNTED-BY
#          stays in the foreground; "{}" in it stands for the mount point's
#          directory, in which a file `swap` must appear
# zram     a zram device of its own, added for this run and removed after
#
# vm.page-cluster is 0 during the run. The command's output and exit status
# are passed on; FILE gets one JSON object: seconds, the most that the cgroup
# had in swap, the servers' peak memory, and zram's mm_stat at its fullest.
# Everything is undone at the end, however it ends.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/system/swaprig.sh
source "$here/../system/swaprig.sh"

cgroup=$((160 << 20)) report=''
while [[ ${1:-} == --* ]]; do
	case $1 in
	--report) report=$2 ;;
	--cgroup) cgroup=$2 ;;
	*) rig_say "unknown option $1"; exit 2 ;;
	esac
	shift 2
done
kind=${1:?which swap?}
shift
spec=()
while (($#)) && [[ $1 != -- ]]; do
	spec+=("$1")
	shift
done
[[ ${1:-} == -- && $# -gt 1 && $report ]] || {
	rig_say "needs --report FILE and -- COMMAND"
	exit 2
}
shift

zram=''
# shellcheck disable=SC2317 # called at exit
zram_remove() {
	[[ $zram ]] || return 0
	rig_swapoff_dev "/dev/zram$zram" || return 1
	echo 1 >"/sys/block/zram$zram/reset"
	echo "$zram" >/sys/class/zram-control/hot_remove
	zram=''
}

attach_zram() {
	[[ -e /sys/class/zram-control/hot_add ]] || modprobe zram || true
	[[ -e /sys/class/zram-control/hot_add ]] ||
		rig_skip "the kernel has no zram"
	rig_at_exit zram_remove
	zram=$(cat /sys/class/zram-control/hot_add)
	echo "$1" >"/sys/block/zram$zram/comp_algorithm" 2>/dev/null ||
		rig_skip "zram has no $1"
	echo "$2" >"/sys/block/zram$zram/disksize"
	RIG_DEV=/dev/zram$zram RIG_ROUTE=zram
}

# The file that a FUSE server of its own shows, as a loop device.
# shellcheck disable=SC2034 # the rig reads RIG_DEV
attach_own_fuse() {
	local i
	rig_spawn server "${@//\{\}/$RIG_DIR/mnt}"
	for ((i = 0; i < 500; i++)); do
		[[ -s $RIG_DIR/mnt/swap ]] && break
		[[ -d /proc/$RIG_PID ]] || break
		sleep 0.02
	done
	[[ -s $RIG_DIR/mnt/swap ]] || {
		rig_say "the FUSE server did not mount:"
		tail -n 3 "$RIG_DIR/server.log" >&2
		return 1
	}
	RIG_DEV=$(losetup --find --show --direct-io=on "$RIG_DIR/mnt/swap")
	RIG_ROUTE=fuse
}

# The sum of a field of /proc/PID/status over the servers, in KiB.
servers_kib() {
	local file pid sum=0 value
	for file in "$RIG_DIR"/pids/*; do
		[[ -s $file ]] || continue
		read -r pid _ <"$file"
		value=$(awk -v f="$1:" '$1 == f { print $2 }' \
			"/proc/$pid/status" 2>/dev/null) || continue
		((sum += ${value:-0})) || true
	done
	echo "$sum"
}

# CPU time of the servers in clock ticks.
servers_ticks() {
	local file pid stat fields sum=0
	for file in "$RIG_DIR"/pids/*; do
		[[ -s $file ]] || continue
		read -r pid _ <"$file"
		stat=$(cat "/proc/$pid/stat" 2>/dev/null) || continue
		read -ra fields <<<"${stat##*) }"
		((sum += fields[11] + fields[12])) || true
	done
	echo "$sum"
}

watch_run() {
	local pid=$1 now
	while [[ -d /proc/$pid && $(ps -o stat= -p "$pid") != Z* ]]; do
		now=$(rig_cgroup_swapped)
		if ((now > most_swapped)); then
			most_swapped=$now
			[[ ! $zram ]] || mm_stat=$(cat "/sys/block/zram$zram/mm_stat")
			most_rss=$(servers_kib VmRSS)
		fi
		sleep 0.1
	done
}

rig_require
rig_begin
case $kind in
nbdkit)
	rig_spawn server nbdkit --foreground --unix "$RIG_DIR/sock" \
		"${spec[@]}"
	rig_wait_socket "$RIG_DIR/sock"
	rig_attach "$RIG_DIR/sock"
	;;
fuse) attach_own_fuse "${spec[@]}" ;;
zram) attach_zram "${spec[@]}" ;;
*) rig_say "unknown swap: $kind"; exit 2 ;;
esac
# shellcheck disable=SC2119 # its own default priority
rig_swapon
rig_page_cluster 0
rig_cgroup "$cgroup"

most_swapped=0 most_rss=0 mm_stat='' status=0
ticks=$(servers_ticks) start=$(date +%s%N)
rig_in_cgroup_bg "$@"
pid=$RIG_PID
watch_run "$pid"
wait "$pid" || status=$?
seconds=$((($(date +%s%N) - start) / 1000000))
ticks=$(($(servers_ticks) - ticks))

cat >"$report" <<END
{"route": "$RIG_ROUTE", "status": $status, "milliseconds": $seconds,
 "cgroup_bytes": $cgroup, "most_swapped_bytes": $most_swapped,
 "server_rss_kib": $most_rss, "server_peak_kib": $(servers_kib VmHWM),
 "server_cpu_ms": $((ticks * 1000 / $(getconf CLK_TCK))),
 "zram_mm_stat": [$(tr -s ' ' , <<<"${mm_stat## }" | sed 's/^,//; s/,$//')]}
END
rig_swapoff
rig_end
exit "$status"
