#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test-swap-spill.sh - real pages swapped out to memory, and from there to disk
#
# Usage: test-swap-spill.sh PAGER PLUGIN
#
# A data set several times the plugin's RAM budget, compressed, is written,
# touched and verified in a cgroup that holds a third of it. That most of it
# went through the spill file is read from what the kernel says the server
# wrote to disk; that the cap holds, from the server's memory. Then case 26:
# bad spill paths, each refused at start by name.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/system/swaprig.sh
source "$here/swaprig.sh"
# shellcheck source=tests/system/pages.sh
source "$here/pages.sh"

MIB=$((1 << 20))
pager=$1 plugin=$2
limit=$((96 * MIB))
size=$((3 * limit))
ram=$((16 * MIB))

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

server_wrote() {
	awk '/^write_bytes:/ { print $2 }' "/proc/$server_pid/io"
}

# refused PATH WORDS...: the plugin does not start, and says why.
refused() {
	local path=$1 said
	shift
	if said=$(timeout 30 nbdkit --foreground --unix "$RIG_DIR/refused" \
		"$plugin" size=64M ram=8M "spill=$path" spill-size=16M 2>&1); then
		check "$path is refused" 0
	fi
	check "$path: $*" "$([[ $said == *"$path"*"$*"* ]] && echo 1 || echo 0)"
}

rig_require
pages=$(ts_pages data)
rig_begin
rig_scratch
spill=$RIG_SCRATCH/spill
rig_spawn server nbdkit --foreground --unix "$RIG_DIR/sock" \
	"$plugin" size=1G ram=$ram spill="$spill" spill-size=512M
server_pid=$RIG_PID
rig_wait_socket "$RIG_DIR/sock"
check "the file is ours alone" \
	"$([[ $(stat -c %a "$spill") == 600 ]] && echo 1 || echo 0)"
rig_attach "$RIG_DIR/sock"
rig_swapon 32000
rig_cgroup "$limit"
idle_rss=$(server_rss)

status=0
most=0
rig_in_cgroup_bg "$pager" --pages "$pages" --json --size "$size" \
	--touches 20000 >"$RIG_DIR/pager.json"
pager_pid=$RIG_PID
while [[ -d /proc/$pager_pid && $(ps -o stat= -p "$pager_pid") != Z* ]]; do
	now=$(($(server_rss) - idle_rss))
	((now > most)) && most=$now
	sleep 0.2
done
wait "$pager_pid" || status=$?
cat "$RIG_DIR/pager.json"
wrote=$(server_wrote)
check "no process was killed" $(($(rig_cgroup_oom_kills) == 0))
check "the pager found no wrong page" $((status == 0))
check "$((wrote / MIB)) MiB were written to disk by themselves" \
	$((wrote > 2 * ram))
# nbdkit's request buffers, up to a MiB a thread, come on top.
check "memory stayed at its cap ($((most / MIB)) MiB above idle)" \
	$((most < ram + 40 * MIB))

echo "case 26: bad paths"
refused "$RIG_SCRATCH" "is a directory"
refused "$RIG_SCRATCH/none/spill" "does not exist"
refused "$spill" "in use by another process"
ln -s "$spill" "$RIG_SCRATCH/link"
refused "$RIG_SCRATCH/link" "symbolic link"
echo mine >"$RIG_SCRATCH/foreign"
refused "$RIG_SCRATCH/foreign" "not a spill file"
# Our own swap device: busy by the kernel's word.
if [[ -b $RIG_DEV ]]; then
	refused "$RIG_DEV" "used as swap"
fi

rig_swapoff
rig_detach
check "the server has lived through it" \
	"$([[ -d /proc/$server_pid ]] && echo 1 || echo 0)"
rig_end
