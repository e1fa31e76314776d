# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-3-Clause
# swaprig.sh - real swap on an NBD server, kept inside a memory cgroup
#
# How to use it (as root, from a bash script with set -euo pipefail):
#
#	source swaprig.sh
#	rig_require			# exits 77 when the machine cannot do it
#	rig_begin			# state directory, traps, old leftovers
#	rig_spawn server nbdkit -f -U "$RIG_DIR/sock" memory 1G
#	rig_wait_socket "$RIG_DIR/sock"
#	rig_attach "$RIG_DIR/sock"	# sets RIG_DEV and RIG_ROUTE
#	rig_swapon			# mkswap, swapon -d, waits for its turn
#	rig_cgroup $((160 << 20))	# sets RIG_CGROUP
#	rig_in_cgroup ts-pager ...	# only this is under pressure
#	rig_swapoff; rig_detach; rig_end
#
# Whatever happens after rig_begin (error, Ctrl-C, TERM, a closed terminal),
# the traps undo all of it, in the only safe order: kill what runs in the
# cgroup, swapoff, cgroup, loop or nbd device, FUSE mount, and the servers
# last. After SIGKILL, the next rig_begin (or rig_clean_leftovers) does so.
#
# How it works: everything is named after the state directory
# $RIG_BASE/PID-STARTTIME-XXXXXX, so that no record has to be written at the
# right moment: the owner is in the name, the cgroup has the same name, the
# loop device is the one whose backing file lies in the directory, the swap
# area is the one on that device. Servers note their pid before they start;
# nbd devices are noted before they are connected.
#
# Signals: Ctrl-C goes to the whole foreground process group. Servers get a
# session of their own, and rig_in_cgroup waits for a background job, so the
# shell's trap runs at once and decides alone what dies, and when.

RIG_BASE=${RIG_BASE:-/run/thinswap-rig}
RIG_DIR=
RIG_SCRATCH=
RIG_DEV=
RIG_ROUTE=
RIG_CGROUP=
RIG_PID=
RIG_AT_EXIT=()

rig_say() { printf 'rig: %s\n' "$*" >&2; }

rig_skip() {
	printf 'SKIP: %s\n' "$*"
	exit 77
}

# --- what the machine has -------------------------------------------------

# Print "v1 DIR" or "v2 DIR": where memory cgroups are made. v1 wins, since
# a hybrid machine has its memory controller there.
rig_cgroup_root() {
	local dir
	dir=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' \
		/proc/mounts)
	if [[ $dir ]]; then
		echo "v1 $dir"
		return
	fi
	dir=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[[ $dir ]] && grep -qw memory "$dir/cgroup.controllers" || return 1
	echo "v2 $dir"
}

# Exit 77 with one line unless real swap can be tried here.
rig_require() {
	local tool
	((EUID == 0)) || rig_skip "needs root"
	for tool in mkswap swapon losetup nbdfuse fusermount3 nbdinfo \
		setsid flock; do
		command -v "$tool" >/dev/null || rig_skip "$tool is not installed"
	done
	rig_cgroup_root >/dev/null || rig_skip "no memory cgroup controller"
	[[ -e /proc/swaps ]] || rig_skip "the kernel has no swap"
	rig_have_nbd && return
	[[ -e /dev/fuse ]] || modprobe fuse 2>/dev/null || true
	[[ -c /dev/fuse ]] || rig_skip "no /dev/nbd0 and no /dev/fuse"
	[[ -c /dev/loop-control ]] || modprobe loop 2>/dev/null || true
	[[ -c /dev/loop-control ]] || rig_skip "no /dev/nbd0 and no loop devices"
}

# True when the kernel nbd driver and a program to drive it are there.
rig_have_nbd() {
	[[ ${RIG_NO_NBD:-} ]] && return 1
	[[ -b /dev/nbd0 ]] || modprobe nbd 2>/dev/null || true
	[[ -b /dev/nbd0 ]] && command -v nbd-client >/dev/null
}

# --- life of a rig --------------------------------------------------------

# Field 22 of /proc/PID/stat: with the pid, it names a process for good.
rig_start_time() {
	local stat fields
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	read -ra fields <<<"${stat##*) }"
	echo "${fields[19]}"
}

rig_is_alive() { [[ $(rig_start_time "$1") == "$2" ]]; }

# Make the state directory, arm the traps, undo what earlier runs left.
rig_begin() {
	mkdir -p "$RIG_BASE"
	chmod 700 "$RIG_BASE"
	trap rig_on_exit EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	trap 'exit 129' HUP
	trap 'exit 141' PIPE
	rig_clean_leftovers
	RIG_DIR=$(mktemp -d "$RIG_BASE/$$-$(rig_start_time $$)-XXXXXX")
	mkdir "$RIG_DIR/mnt" "$RIG_DIR/pids"
}

# Make RIG_SCRATCH, a directory on disk for large files, gone with the rig.
rig_scratch() {
	RIG_SCRATCH=$(rig_scratch_path "$RIG_DIR")
	mkdir "$RIG_SCRATCH"
}

rig_scratch_path() { echo "/var/tmp/thinswap-rig-${1##*/}"; }

# Run a command at exit, after the rig is gone.
rig_at_exit() { RIG_AT_EXIT+=("$*"); }

rig_on_exit() {
	local status=$? cmd
	trap '' INT TERM HUP PIPE
	trap - EXIT
	# What is killed now is no news.
	disown -a
	rig_end || status=1
	for cmd in "${RIG_AT_EXIT[@]}"; do
		eval "$cmd" || status=1
	done
	exit "$status"
}

# Undo everything. Harmless when there is nothing to undo.
rig_end() {
	local dir
	# Between mktemp and the assignment only the name is known.
	for dir in "$RIG_BASE/$$-$(rig_start_time $$)-"??????; do
		[[ -d $dir ]] || continue
		rig_undo "$dir" || return 1
	done
	rig_unlock
	RIG_DIR='' RIG_DEV='' RIG_ROUTE='' RIG_CGROUP=''
}

# Undo rigs whose owner no longer lives.
rig_clean_leftovers() {
	local dir name pid start rest
	for dir in "$RIG_BASE"/*-*-??????; do
		[[ -d $dir ]] || continue
		name=${dir##*/}
		IFS=- read -r pid start rest <<<"$name"
		rig_is_alive "$pid" "$start" && continue
		rig_say "cleaning up after an interrupted run ($name)"
		rig_undo "$dir" || rig_say "could not clean $dir"
	done
}

# The one teardown: every step looks at the system, not at what we believe.
rig_undo() {
	local dir=$1 dev cg
	# A server that is being spawned sees this and does not start.
	: >"$dir/closing"
	cg=$(rig_cgroup_path "$dir")
	[[ -d $cg ]] && rig_cgroup_kill "$cg"
	rig_stop_owner "$dir"
	for dev in $(rig_devices "$dir"); do
		rig_swapoff_dev "$dev" || return 1
	done
	[[ -d $cg ]] && rig_cgroup_remove "$cg"
	for dev in $(rig_devices "$dir"); do
		rig_release_dev "$dir" "$dev" || return 1
	done
	rig_unmount "$dir" || return 1
	rig_kill_servers "$dir"
	# The mount may have come up while we looked; a server is dead now.
	rig_unmount "$dir" || return 1
	[[ ! -e $dir/page-cluster ]] ||
		cat "$dir/page-cluster" >/proc/sys/vm/page-cluster
	rm -rf --one-file-system "$(rig_scratch_path "$dir")" "$dir"
}

# --- servers --------------------------------------------------------------

# Start a long-lived process outside the cgroup, in its own session.
#
# rig_spawn NAME CMD...   output to $RIG_DIR/NAME.log, sets RIG_PID
rig_spawn() {
	local name=$1 i
	shift
	# Dekker's handshake with rig_undo: write the pid, then look for
	# "closing"; the other side does it the other way round.
	# shellcheck disable=SC2016
	setsid bash -c '
		dir=$1 name=$2; shift 2
		stat=$(cat /proc/$$/stat)
		read -ra fields <<<"${stat##*) }"
		echo "$$ ${fields[19]}" >"$dir/pids/$name" || exit 1
		[[ -e $dir/closing ]] && exit 1
		exec "$@"' spawn "$RIG_DIR" "$name" "$@" \
		</dev/null >"$RIG_DIR/$name.log" 2>&1 &
	RIG_PID=$!
	for ((i = 0; i < 500; i++)); do
		[[ -s $RIG_DIR/pids/$name ]] && return
		sleep 0.01
	done
	rig_say "could not start $name"
	return 1
}

# Wait until a unix socket accepts connections, at most 30 seconds.
rig_wait_socket() {
	local i
	for ((i = 0; i < 600; i++)); do
		if [[ -S $1 ]] && nbdinfo --size "nbd+unix:///?socket=$1" \
			>/dev/null 2>&1; then
			return
		fi
		if [[ $RIG_PID && ! -d /proc/$RIG_PID ]]; then
			break
		fi
		sleep 0.05
	done
	rig_say "no NBD server at $1:"
	tail -n 5 "$RIG_DIR"/*.log >&2 || true
	return 1
}

# A server spawned as "owner" turns its swap off and takes its device down by
# itself when it is asked to end; what it does not, the rest of rig_undo does.
rig_stop_owner() {
	local pid start i
	[[ -s $1/pids/owner ]] || return 0
	read -r pid start <"$1/pids/owner"
	rig_is_alive "$pid" "$start" || return 0
	kill -TERM "$pid" 2>/dev/null || true
	for ((i = 0; i < 3000; i++)); do
		rig_is_alive "$pid" "$start" || return 0
		[[ $(ps -o stat= -p "$pid") == Z* ]] && return 0
		sleep 0.02
	done
}

rig_kill_servers() {
	local file pid start i sig
	for sig in TERM KILL; do
		for file in "$1"/pids/*; do
			[[ -s $file ]] || continue
			read -r pid start <"$file"
			rig_is_alive "$pid" "$start" || continue
			kill "-$sig" "$pid" 2>/dev/null || true
			for ((i = 0; i < 250; i++)); do
				rig_is_alive "$pid" "$start" || break
				# A zombie of ours is as dead as needed.
				[[ $(ps -o stat= -p "$pid") == Z* ]] && break
				sleep 0.02
			done
		done
	done
}

# --- devices --------------------------------------------------------------

# The block devices that belong to a state directory.
rig_devices() {
	local dir=$1 f
	for f in /sys/block/loop*/loop/backing_file; do
		# Cut at the blank: a deleted file reads "PATH (deleted)".
		[[ -e $f && $(cat "$f" 2>/dev/null) == "$dir/mnt/"* ]] || continue
		f=${f#/sys/block/}
		echo "/dev/${f%%/*}"
	done
	if [[ -s $dir/nbd ]]; then
		cat "$dir/nbd"
	fi
}

# Attach the NBD server at a unix socket: kernel nbd where there is one,
# else nbdfuse and a loop device with direct I/O. Sets RIG_DEV, RIG_ROUTE.
rig_attach() {
	if rig_have_nbd; then
		rig_attach_nbd "$1"
	else
		rig_attach_fuse "$1"
	fi
}

rig_attach_nbd() {
	local sock=$1 n name
	for ((n = 0; n < 16; n++)); do
		name=nbd$n
		[[ -b /dev/$name && ! -e /sys/block/$name/pid ]] || continue
		echo "/dev/$name" >"$RIG_DIR/nbd"
		if nbd-client -unix "$sock" "/dev/$name" -block-size 4096 \
			-timeout 600 >>"$RIG_DIR/nbd-client.log" 2>&1; then
			RIG_DEV=/dev/$name
			RIG_ROUTE=nbd
			return
		fi
		rm -f "$RIG_DIR/nbd"
	done
	rig_say "no nbd device could be connected:"
	tail -n 3 "$RIG_DIR/nbd-client.log" >&2 || true
	return 1
}

rig_attach_fuse() {
	local sock=$1 i dio
	rig_spawn nbdfuse nbdfuse -P "$RIG_DIR/nbdfuse.pid" \
		"$RIG_DIR/mnt/swap" --unix "$sock"
	for ((i = 0; i < 500; i++)); do
		[[ -s $RIG_DIR/nbdfuse.pid ]] && break
		[[ -d /proc/$RIG_PID ]] || break
		sleep 0.02
	done
	if [[ ! -s $RIG_DIR/mnt/swap ]]; then
		rig_say "nbdfuse did not mount:"
		tail -n 3 "$RIG_DIR/nbdfuse.log" >&2
		return 1
	fi
	RIG_DEV=$(losetup --find --show --direct-io=on "$RIG_DIR/mnt/swap")
	RIG_ROUTE=fuse
	# Without direct I/O the page cache of the FUSE file keeps a second,
	# uncompressed copy of every page, and the kernel refuses silently.
	dio=$(cat "/sys/block/${RIG_DEV#/dev/}/loop/dio")
	if [[ $dio != 1 ]]; then
		rig_say "$RIG_DEV has no direct I/O (dio=$dio)"
		return 1
	fi
}

rig_detach() {
	local dev
	for dev in $(rig_devices "$RIG_DIR"); do
		rig_release_dev "$RIG_DIR" "$dev"
	done
	rig_unmount "$RIG_DIR"
	RIG_DEV='' RIG_ROUTE=''
}

rig_release_dev() {
	local dir=$1 dev=$2 i
	if [[ $dev == /dev/nbd* ]]; then
		if [[ -e /sys/block/${dev#/dev/}/pid ]]; then
			nbd-client -d "$dev" >/dev/null 2>&1 || true
		fi
		for ((i = 0; i < 250; i++)); do
			[[ -e /sys/block/${dev#/dev/}/pid ]] || break
			sleep 0.02
		done
		rm -f "$dir/nbd"
		return
	fi
	losetup -d "$dev" || true
	# The kernel lets go when the last opener (udev, a scan) has closed.
	for ((i = 0; i < 250; i++)); do
		[[ $(cat "/sys/block/${dev#/dev/}/loop/backing_file" \
			2>/dev/null) == "$dir/mnt/"* ]] || return 0
		sleep 0.02
	done
	rig_say "$dev is still in use"
	return 1
}

rig_is_mounted() {
	awk -v m="$1" '$2 == m { found = 1 } END { exit !found }' /proc/mounts
}

rig_unmount() {
	local mnt=$1/mnt i
	for ((i = 0; i < 250; i++)); do
		rig_is_mounted "$mnt" || return 0
		fusermount3 -u "$mnt" 2>/dev/null || umount "$mnt" 2>/dev/null ||
			sleep 0.02
	done
	rig_say "$mnt is still mounted"
	return 1
}

# --- swap -----------------------------------------------------------------

# Only one rig at a time has its swap on: the kernel spreads pages over all
# areas, and two tests would measure each other. The turn is a file naming
# its owner, looked at under a short lock; a lock held for as long as the
# swap would be inherited by whatever this shell starts.
rig_lock() {
	local i limit=${RIG_LOCK_WAIT:-900}
	for ((i = 0; i < limit * 2; i++)); do
		rig_try_lock && return
		((i)) || rig_say "waiting for another rig's swap to go"
		sleep 0.5
	done
	rig_say "another rig still has its swap on"
	return 1
}

rig_try_lock() (
	flock 9
	if read -r pid start 2>/dev/null <"$RIG_BASE/.turn" &&
		[[ $pid != "$$" ]] && rig_is_alive "$pid" "$start"; then
		exit 1
	fi
	echo "$$ $(rig_start_time $$)" >"$RIG_BASE/.turn"
) 9>"$RIG_BASE/.lock"

rig_unlock() (
	flock 9
	read -r pid start 2>/dev/null <"$RIG_BASE/.turn" || exit 0
	[[ $pid != "$$" ]] || rm "$RIG_BASE/.turn"
) 9>"$RIG_BASE/.lock"

# mkswap and swapon with discard. The priority puts it before any other swap
# that the machine may have.
#
# rig_swapon [PRIORITY]
rig_swapon() {
	rig_lock
	mkswap "$RIG_DEV" >"$RIG_DIR/mkswap.log" 2>&1 || {
		cat "$RIG_DIR/mkswap.log" >&2
		return 1
	}
	swapon --discard --priority "${1:-32000}" "$RIG_DEV"
}

rig_swapoff() {
	rig_swapoff_dev "$RIG_DEV"
	rig_unlock
}

rig_swapoff_dev() {
	rig_is_swap "$1" || return 0
	swapoff "$1" || {
		rig_say "swapoff $1 failed; everything below it is left in place"
		return 1
	}
}

rig_is_swap() {
	awk -v d="$1" '$1 == d { found = 1 } END { exit !found }' /proc/swaps
}

# Bytes in use on our swap device.
rig_swap_used() {
	awk -v d="$RIG_DEV" '$1 == d { u = $4 } END { print u * 1024 }' \
		/proc/swaps
}

# Set vm.page-cluster (swap read-ahead) until the rig ends.
rig_page_cluster() {
	[[ -e $RIG_DIR/page-cluster ]] ||
		cat /proc/sys/vm/page-cluster >"$RIG_DIR/page-cluster"
	echo "$1" >/proc/sys/vm/page-cluster
}

# --- memory cgroup --------------------------------------------------------

rig_cgroup_path() {
	local kind root
	read -r kind root < <(rig_cgroup_root)
	echo "$root/thinswap-rig-${1##*/}"
}

# Make the cgroup. rig_cgroup LIMIT_BYTES
rig_cgroup() {
	local kind root
	read -r kind root < <(rig_cgroup_root)
	if [[ $kind == v2 ]] &&
		! grep -qw memory "$root/cgroup.subtree_control"; then
		echo +memory >"$root/cgroup.subtree_control" || {
			rig_say "memory cannot be delegated in $root"
			return 1
		}
	fi
	RIG_CGROUP=$(rig_cgroup_path "$RIG_DIR")
	mkdir "$RIG_CGROUP"
	rig_cgroup_limit "$1"
	rig_keep_statistics_fresh
}

# Reclaim decides by the cgroup's statistics whether to look at the active
# list, and they may be seconds old (kernel 6.18, on a busy machine: half of
# the memory had just become active, no page was looked at sixteen times in a
# row, and a process was killed for want of memory with all of the swap free;
# seen in the vmscan tracepoints). Reading memory.stat brings them up to date.
rig_keep_statistics_fresh() {
	# shellcheck disable=SC2016
	rig_spawn statistics bash -c '
		while mapfile -t <"$1/memory.stat"; do
			sleep 0.1
		done' statistics "$RIG_CGROUP"
}

# rig_cgroup_limit BYTES
rig_cgroup_limit() {
	if [[ -e $RIG_CGROUP/memory.limit_in_bytes ]]; then
		echo "$1" >"$RIG_CGROUP/memory.limit_in_bytes"
	else
		echo "$1" >"$RIG_CGROUP/memory.max"
	fi
}

# Run a command in the cgroup and wait for it; returns its status.
rig_in_cgroup() {
	rig_in_cgroup_bg "$@"
	wait "$RIG_PID"
}

# The same in the background; sets RIG_PID.
rig_in_cgroup_bg() {
	# shellcheck disable=SC2016
	bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' \
		in-cgroup "$RIG_CGROUP" "$@" &
	RIG_PID=$!
}

# Bytes of the cgroup that are in swap now.
rig_cgroup_swapped() {
	if [[ -e $RIG_CGROUP/memory.limit_in_bytes ]]; then
		awk '$1 == "swap" { print $2 }' "$RIG_CGROUP/memory.stat"
	else
		cat "$RIG_CGROUP/memory.swap.current"
	fi
}

# How many processes of the cgroup the kernel has killed for want of memory.
rig_cgroup_oom_kills() {
	awk '$1 == "oom_kill" { print $2 }' \
		"$RIG_CGROUP"/memory.{oom_control,events} 2>/dev/null || true
}

rig_cgroup_kill() {
	local cg=$1 i pid
	for ((i = 0; i < 500; i++)); do
		[[ $(cat "$cg/cgroup.procs") ]] || return 0
		while read -r pid; do
			kill -KILL "$pid" 2>/dev/null || true
		done <"$cg/cgroup.procs"
		sleep 0.02
	done
	rig_say "processes in $cg do not die"
}

rig_cgroup_remove() {
	local cg=$1 i
	for ((i = 0; i < 250; i++)); do
		rmdir "$cg" 2>/dev/null && return
		[[ -d $cg ]] || return 0
		sleep 0.02
	done
	rig_say "$cg cannot be removed"
}
