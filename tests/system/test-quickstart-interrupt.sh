#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test-quickstart-interrupt.sh - Ctrl-C leaves nothing behind, at any point
#
# Runs tools/quickstart again and again in a session of its own, waits for a
# line of its output and a moment more, and signals the whole process group,
# as a terminal does at Ctrl-C. Then no swap area, loop device, mount,
# cgroup, process or file of that run may be left. After SIGKILL something
# may be, and the next run has to remove it.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/system/swaprig.sh
source "$here/swaprig.sh"
quickstart=$here/../../tools/quickstart

# left_by PID: what a run has left, one thing a line.
left_by() {
	local name=$RIG_BASE/$1- root f
	read -r _ root < <(rig_cgroup_root)
	grep -F "$name" /proc/mounts || true
	for f in /sys/block/loop*/loop/backing_file; do
		[[ -e $f ]] || continue
		grep -HF "$name" "$f" 2>/dev/null || true
	done
	compgen -G "$name*" || true
	compgen -G "$root/thinswap-rig-$1-*" || true
	compgen -G "/var/tmp/thinswap-rig-$1-*" || true
	# A kernel nbd device keeps its server's socket in use.
	pgrep -af -- "$name" || true
}

# Start quickstart, wait for MARK in its output and DELAY seconds more.
start() {
	local mark=$1 delay=$2 i status
	# Here, not only by the redirection: the child may be slower than the
	# first look, which would find the run before.
	: >"$log"
	# A background job ignores SIGINT, and bash cannot undo that.
	setsid env --default-signal=INT,HUP "$quickstart" --seconds 4 \
		</dev/null >"$log" 2>&1 &
	pid=$!
	for ((i = 0; i < 12000; i++)); do
		grep -q -- "$mark" "$log" && break
		[[ -d /proc/$pid ]] || break
		sleep 0.05
	done
	grep -q -- "$mark" "$log" || {
		status=0
		wait "$pid" || status=$?
		echo "FAILED: quickstart never printed '$mark'" \
			"(status $status, $i looks)"
		cat "$log"
		exit 1
	}
	sleep "$delay"
}

# interrupt SIGNAL STATUS MARK DELAY
interrupt() {
	local signal=$1 want=$2 mark=$3 delay=$4 status=0 left
	start "$mark" "$delay"
	kill "-$signal" -- "-$pid" 2>/dev/null || true
	wait "$pid" || status=$?
	left=$(left_by "$pid")
	if [[ $left ]]; then
		echo "FAILED: $signal $delay s after '$mark' left:"
		echo "$left"
		cat "$log"
		exit 1
	fi
	# It may have ended by itself just before.
	if [[ $status != "$want" && $status != 0 ]]; then
		echo "FAILED: $signal $delay s after '$mark': status $status"
		cat "$log"
		exit 1
	fi
	echo "ok: $signal $delay s after '$mark' (status $status)"
}

rig_require
log=$(mktemp)
trap 'rm -f "$log"' EXIT

interrupt INT 130 '^== build' 0
for delay in 0 0.1 0.2 0.3 0.4 0.5; do
	interrupt INT 130 '^== thinswap device' "$delay"
done
interrupt INT 130 'is swap' 0
interrupt INT 130 '^== python3 loads' 0.7
interrupt INT 130 'pager *fill' 0.3
interrupt TERM 143 'pager *touches' 0.5
interrupt HUP 129 'pager *verify' 0
interrupt INT 130 '^== result' 0

# SIGKILL of the script alone: servers and swap live on.
start 'pager *touches' 0
kill -KILL "$pid"
wait "$pid" 2>/dev/null || true
killed=$pid
if [[ ! $(left_by "$killed") ]]; then
	echo "FAILED: the killed run left nothing, so this tests nothing"
	exit 1
fi
interrupt INT 130 'is swap' 0
left=$(left_by "$killed")
if [[ $left ]]; then
	echo "FAILED: the run after a killed one did not remove:"
	echo "$left"
	exit 1
fi
echo "ok: the next run has removed what a killed one had left"
