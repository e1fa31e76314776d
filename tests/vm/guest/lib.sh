# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
# What scenarios share. They run in the guest under busybox sh, as
#   . /lib.sh
#   serve_thinswap 1G 128M; attach; swap_on
#   start_heartbeat
#   must ts-pager ...
#   swap_off; detach
# Paths of swapon and its like are written out: busybox would take its own.
# Everything printed goes to the console; result, note and fail go to the
# runner as lines of JSON. /settings holds what --set gave.
set -eu
for file in /settings /usr/lib/vm/settings; do
	# shellcheck source=/dev/null # made by the runner
	[ ! -e $file ] || . $file
done

PORT=/dev/ttyS1
# Of the product, so not for a peer.
case ${SERVER-} in
peer*) ;;
*) [ ! -e /etc/sysctl.conf ] || sysctl -q -p /etc/sysctl.conf ;;
esac
for sysctl in ${SYSCTL-}; do
	echo "${sysctl#*=}" >"/proc/sys/${sysctl%%=*}"
done
SOCKET=/run/server.sock
INDEX=0
DEVICE=/dev/nbd$INDEX
SERVER_PID=

# note KEY VALUE...: one line of JSON for the results
note() {
	line='{"event":"result"'
	while [ $# -ge 2 ]; do
		case $2 in
		'' | *[!0-9.]* | .* | *.) value="\"$2\"" ;;
		*) value=$2 ;;
		esac
		line="$line,\"$1\":$value"
		shift 2
	done
	echo "$line}" >$PORT
	echo "guest: $line}"
}

fail() {
	echo "guest: FAIL: $*"
	echo "{\"event\":\"fail\",\"why\":\"$*\"}" >$PORT
	exit 1
}

skip() {
	echo "{\"event\":\"skip\",\"why\":\"$*\"}" >$PORT
	exit 77
}

need() {
	for program; do
		command -v "$program" >/dev/null ||
			skip "$program is not in this build"
	done
}

must() {
	"$@" || fail "'$*' gave $?"
}

# value KEY FILE: the number behind KEY: in a /proc file
value() {
	sed -n "s/^$1:\{0,1\}[[:space:]]*\([0-9]*\).*/\1/p" "$2" | head -n 1
}

mem_mib() {
	echo $(($(value MemTotal /proc/meminfo) / 1024))
}

available_mib() {
	echo $(($(value MemAvailable /proc/meminfo) / 1024))
}

swap_used_kb() {
	echo $(($(value SwapTotal /proc/meminfo) - $(value SwapFree /proc/meminfo)))
}

# wait_until SECONDS WHAT COMMAND...: look once a second
wait_until() {
	limit=$1
	what=$2
	shift 2
	waited=0
	until "$@"; do
		waited=$((waited + 1))
		[ $waited -lt "$limit" ] || fail "$what: not after $limit s"
		sleep 1
	done
}

swap_holds() {
	[ "$(swap_used_kb)" -ge "$1" ]
}

ends() {
	! kill -0 "$1" 2>/dev/null
}

# make_cgroup NAME MEMORY: one with a limit, so that the rest of the machine
# has memory left
make_cgroup() {
	CGROUPS=/run/cgroup
	if [ ! -e $CGROUPS/cgroup.procs ]; then
		mkdir -p $CGROUPS
		mount -t cgroup2 none $CGROUPS || fail "no cgroup2"
		echo +memory >$CGROUPS/cgroup.subtree_control ||
			fail "no memory controller"
	fi
	mkdir -p $CGROUPS/"$1"
	echo "$2" >$CGROUPS/"$1"/memory.max
}

# in_cgroup NAME COMMAND...: to be run in a subshell or in the background
in_cgroup() {
	group=$1
	shift
	# shellcheck disable=SC2016 # for the inner shell
	sh -c 'echo $$ >"$0" && exec "$@"' "$CGROUPS/$group/cgroup.procs" "$@"
}

# show_tasks PID...: where the threads of a process are, on the console
show_tasks() {
	for pid; do
		for task in /proc/"$pid"/task/*; do
			echo "guest: $(cat "$task/comm") ${task##*/}" \
				"$(cut -d' ' -f3,41 "$task/stat")" \
				"$(tr '\n' ' ' <"$task/syscall")" \
				"$(cut -d' ' -f2 "$task/stack" | tr '\n' ' ')"
		done
	done
}

start_heartbeat() {
	heartbeat $PORT &
	HEARTBEAT_PID=$!
}

stop_heartbeat() {
	kill "$HEARTBEAT_PID"
	wait "$HEARTBEAT_PID" || true
	echo '{"event":"beat-stop"}' >$PORT
}

wait_for_socket() {
	tries=0
	until [ -S $SOCKET ]; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || fail "no server after 10 s"
		sleep 0.1
	done
	SERVER_PID=$(cat /run/server.pid)
}

# serve_peer ARG...: nbdkit as its users run it, in the background by itself,
# and not warmed up
serve_peer() {
	WARM_ROUNDS=0
	nbdkit --swap -U $SOCKET -P /run/server.pid "$@"
	wait_for_socket
}

# serve_plain ARG...: nbdkit with nothing locked, for tests of the harness
serve_plain() {
	WARM_ROUNDS=0
	harden -o nbdkit -f -U $SOCKET -P /run/server.pid "$@" &
	wait_for_socket
}

# serve_thinswap SIZE RAM [ARG...]: our plugin without the daemon. PROTECT
# names harden's options, so that a scenario can leave one out.
PROTECT=${PROTECT--f -o}
serve_thinswap() {
	size=$1
	ram=$2
	shift 2
	(
		# shellcheck disable=SC3045 # busybox has it
		ulimit -s 256
		export MALLOC_ARENA_MAX=1
		# shellcheck disable=SC2086 # options, one a word
		exec harden $PROTECT ${WRAP-} nbdkit -f -U $SOCKET -P /run/server.pid \
			thinswap "size=$size" "ram=$ram" "$@"
	) &
	wait_for_socket
}

# attach [OPTION...]: hand the server's socket to the kernel
# shellcheck disable=SC2120 # scenarios may pass options
attach() {
	must nbd-attach -w "${WARM_ROUNDS:-20}" "$@" $SOCKET $INDEX
	tries=0
	until [ -e /sys/block/nbd$INDEX/pid ]; do
		tries=$((tries + 1))
		[ $tries -lt 50 ] || fail "the kernel has not taken nbd$INDEX"
		sleep 0.1
	done
}

# Settings of the queue and the server's threads, for experiments.
tune() {
	[ -z "${RT-}" ] || serve_in_real_time
	[ -z "${WBT-}" ] || echo "$WBT" >/sys/block/nbd$INDEX/queue/wbt_lat_usec
	[ -z "${NR_REQUESTS-}" ] ||
		echo "$NR_REQUESTS" >/sys/block/nbd$INDEX/queue/nr_requests
}

# Put the threads that serve in the lowest real-time class, not the keeper:
# it allocates, and while it waits for memory in that class nobody else runs.
serve_in_real_time() {
	for task in /proc/"$SERVER_PID"/task/*; do
		[ "$(cat "$task/comm")" = ts-keeper ] ||
			must chrt -r -p 1 "${task##*/}"
	done
}

detach() {
	must nbd-attach -d $INDEX
	tries=0
	while [ -e /sys/block/nbd$INDEX/pid ]; do
		tries=$((tries + 1))
		[ $tries -lt 50 ] || fail "nbd$INDEX is still attached"
		sleep 0.1
	done
}

stop_server() {
	kill "$SERVER_PID"
	tries=0
	while [ -d "/proc/$SERVER_PID" ]; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || fail "the server does not stop"
		sleep 0.1
	done
}

swap_on() {
	must /usr/sbin/mkswap "$DEVICE"
	must /usr/sbin/swapon -d -p 100 "$DEVICE"
}

swap_off() {
	start=$(cut -d. -f1 /proc/uptime)
	must /usr/sbin/swapoff "$DEVICE"
	note swapoff_s $(($(cut -d. -f1 /proc/uptime) - start))
}

# The server's memory as the kernel sees it, for the results.
note_server() {
	status=/proc/$SERVER_PID/status
	note server_rss_kb "$(value VmRSS "$status")" \
		server_locked_kb "$(value VmLck "$status")" \
		server_swapped_kb "$(value VmSwap "$status")" \
		server_threads "$(value Threads "$status")"
}

RUNTIME=/run/thinswap

thinswap_() {
	thinswap --runtime-dir $RUNTIME "$@"
}

# state KEY: one value of `thinswap status`
state() {
	thinswap_ status --json | sed -n "s/.*\"$1\": *\"*\([a-z0-9]*\).*/\1/p"
}

# stat NAME: one number of `thinswap stats`, by its name for Prometheus
stat() {
	thinswap_ stats --format prometheus 2>/dev/null |
		sed -n "s/^thinswap_$1 \([0-9]*\).*/\1/p"
}

# The product: thinswapd does all of it by itself. SPILL and SPILL_SIZE give
# it a second tier; WRAP is what it is run under.
start_thinswapd() {
	need thinswapd
	cat >/run/thinswap.toml <<-EOF
		[device]
		path = "nbd$INDEX"
		size = "$1"
		${CONNECTIONS:+connections = $CONNECTIONS}
		${RAM:+[ram]}
		${RAM:+budget = "$RAM"}
		[spill]
		path = "${SPILL-}"
		${SPILL_SIZE:+size = "$SPILL_SIZE"}
		[tuning]
		realtime = "${REALTIME:-auto}"
		standby = "${STANDBY:-auto}"
		${TIMEOUT:+timeout = $TIMEOUT}
	EOF
	# shellcheck disable=SC2086 # options, one a word
	${WRAP-} thinswapd --config /run/thinswap.toml --runtime-dir $RUNTIME &
	DAEMON_PID=$!
	tries=0
	until grep -q "^$DEVICE" /proc/swaps; do
		tries=$((tries + 1))
		[ -d "/proc/$DAEMON_PID" ] || fail "thinswapd has ended"
		# shellcheck disable=SC2046 # pids, one a word
		[ $tries -ne 200 ] || show_tasks $(pidof nbdkit thinswapd mkswap swapon)
		[ $tries -lt 600 ] || fail "no swap after 60 s"
		sleep 0.1
	done
	SERVER_PID=$(cut -d' ' -f1 /run/thinswap/nbdkit.pid)
}

stop_thinswapd() {
	kill "$DAEMON_PID"
	wait "$DAEMON_PID" || fail "thinswapd ended with $?"
	! grep -q "^$DEVICE" /proc/swaps || fail "swap is still on"
	[ ! -e /sys/block/nbd$INDEX/pid ] || fail "nbd$INDEX is still attached"
	! pidof nbdkit >/dev/null || fail "nbdkit is still there"
}

queue() {
	cat /sys/block/nbd$INDEX/queue/"$1"
}

# The limits of the queue, as swap needs them (case 29), and for the results.
check_queue() {
	[ "$(queue rotational)" = 0 ] || fail "rotational is $(queue rotational)"
	[ "$(queue discard_max_bytes)" -gt 0 ] || fail "no discard"
	[ "$(queue logical_block_size)" = 4096 ] ||
		fail "block size $(queue logical_block_size)"
	# Whole clusters of swap-out in one request: 64 pages are a batch.
	[ "$(queue max_sectors_kb)" -ge 64 ] ||
		fail "requests of $(queue max_sectors_kb) KiB at most"
	note max_sectors_kb "$(queue max_sectors_kb)" \
		max_hw_sectors_kb "$(queue max_hw_sectors_kb)" \
		discard_max_bytes "$(queue discard_max_bytes)" \
		discard_granularity "$(queue discard_granularity)" \
		max_segments "$(queue max_segments)" \
		nr_requests "$(queue nr_requests)"
}

# swap_start SIZE: swap from what SERVER asks for: thinswapd (the product),
# plugin (ours without the daemon), or a peer
swap_start() {
	case ${SERVER:-thinswapd} in
	thinswapd) start_thinswapd "$1" ;;
	plugin) serve_thinswap "$1" "${RAM:-$(($(mem_mib) / 4))M}" ;;
	peer) serve_peer memory "$1" allocator=zstd ;;
	peer-sparse) serve_peer memory "$1" ;;
	*) fail "SERVER is ${SERVER}" ;;
	esac
	if [ "${SERVER:-thinswapd}" != thinswapd ]; then
		# shellcheck disable=SC2119
		attach
		swap_on
	fi
	tune
	note_server
}

swap_stop() {
	note_server
	if [ "${SERVER:-thinswapd}" = thinswapd ]; then
		stop_thinswapd
	else
		swap_off
		detach
		stop_server
	fi
}

# report_pager: what the pager wrote to /run/pager.json goes to the results
report_pager() {
	printf '{"event":"pager","report":%s}\n' \
		"$(tr -d '\n' </run/pager.json)" >$PORT
}

# run_pager MIB [ARG...]: the verifying pager; its JSON goes to the results
run_pager() {
	mib=$1
	shift
	# /run is ramfs here, so the report cannot be swapped out
	ts-pager --pages /cold/pages --size "${mib}M" --json --progress "$@" \
		>/run/pager.json || fail "ts-pager gave $?: $(cat /run/pager.json)"
	report_pager
}

# The rest is for the systemd guest only; written for bash there.

# wait_jobs: until all jobs of the boot are done
wait_jobs() {
	wait_until 120 "the jobs of the boot" no_jobs
	! journalctl -b --no-pager -q | grep -q 'ordering cycle' ||
		fail "ordering cycle"
	note boot "$BOOT" boot_s "$(boot_seconds)"
}

no_jobs() {
	[ -z "$(systemctl list-jobs --no-legend)" ]
}

# wait_booted: the same, and nothing may have failed
wait_booted() {
	wait_jobs
	failed=$(systemctl --failed --no-legend --plain | cut -d' ' -f1 |
		tr '\n' ' ')
	[ -z "$failed" ] || fail "failed units: $failed"
}

boot_seconds() {
	finished=$(systemctl show -P FinishTimestampMonotonic)
	echo $((finished / 1000000))
}

has_swap() {
	grep -q ^/dev/nbd /proc/swaps
}

swap_is_on() {
	has_swap || fail "no swap: $(systemctl status thinswap --no-pager |
		tail -n 20 | tr '"\n' "';")"
}

# eat_in_scope MIB LIMIT ARG...: the verifying pager in a scope, which systemd
# ends at shutdown at the same time as it stops swap
eat_in_scope() {
	mib=$1
	limit=$2
	shift 2
	systemd-run --quiet --scope --unit=eater -p MemoryMax="${limit}M" \
		ts-pager --pages /usr/lib/vm/pages --size "${mib}M" --json \
		--sample 4M "$@" >/run/pager.json &
	pager=$!
}

# eat MIB LIMIT ARG...: the same as a service, ended before swap is
eat() {
	mib=$1
	limit=$2
	shift 2
	systemd-run --quiet --wait --collect --unit=eater \
		-p MemoryMax="${limit}M" -p StandardOutput=file:/run/pager.json \
		ts-pager --pages /usr/lib/vm/pages --size "${mib}M" --json \
		--sample 4M "$@" &
	pager=$!
}

eater_is_right() {
	wait "$pager" || fail "the pager: $(cat /run/pager.json)"
	report_pager
}

# leave reboot|poweroff: how the machine goes down is part of the scenario;
# the runner gives it 30 s
leave() {
	note leaving_with_swap_kb "$(swap_used_kb)" \
		spilled "$(stat spilled_pages_total)"
	echo "{\"event\":\"leaving\",\"how\":\"$1\",\"limit_s\":30}" >$PORT
	systemctl --no-block "$1"
	exit 99
}
