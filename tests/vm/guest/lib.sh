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

# The product: thinswapd does all of it by itself.
start_thinswapd() {
	need thinswapd
	cat >/run/thinswap.toml <<-EOF
		[device]
		path = "nbd$INDEX"
		size = "$1"
		${CONNECTIONS:+connections = $CONNECTIONS}
		[ram]
		budget = "$RAM"
		[tuning]
		realtime = "${REALTIME:-auto}"
		standby = "${STANDBY:-auto}"
		${TIMEOUT:+timeout = $TIMEOUT}
	EOF
	thinswapd --config /run/thinswap.toml --runtime-dir /run/thinswap &
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

# swap_start SIZE: swap from what SERVER asks for: thinswapd (the product),
# plugin (ours without the daemon), or a peer
swap_start() {
	RAM=${RAM:-$(($(mem_mib) / 2))M}
	case ${SERVER:-thinswapd} in
	thinswapd) start_thinswapd "$1" ;;
	plugin) serve_thinswap "$1" "$RAM" ;;
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

# run_pager MIB [ARG...]: the verifying pager; its JSON goes to the results
run_pager() {
	mib=$1
	shift
	# /run is ramfs here, so the report cannot be swapped out
	ts-pager --pages /cold/pages --size "${mib}M" --json --progress "$@" \
		>/run/pager.json || fail "ts-pager gave $?: $(cat /run/pager.json)"
	printf '{"event":"pager","report":%s}\n' \
		"$(tr -d '\n' </run/pager.json)" >$PORT
}

# The rest is for the systemd guest only.

# wait_booted: until all jobs of the boot are done; nothing may have failed
wait_booted() {
	tries=0
	while [ -n "$(systemctl list-jobs --no-legend)" ]; do
		tries=$((tries + 1))
		[ $tries -lt 120 ] || fail "jobs after 120 s: $(systemctl \
			list-jobs --no-legend | tr '\n' ';')"
		sleep 1
	done
	failed=$(systemctl --failed --no-legend --plain | cut -d' ' -f1 |
		tr '\n' ' ')
	[ -z "$failed" ] || fail "failed units: $failed"
	! journalctl -b --no-pager -q | grep -q 'ordering cycle' ||
		fail "ordering cycle"
}

boot_seconds() {
	finished=$(systemctl show -P FinishTimestampMonotonic)
	echo $((finished / 1000000))
}

# leave reboot|poweroff: how the machine goes down is part of the scenario;
# the runner gives it 30 s
leave() {
	echo "{\"event\":\"leaving\",\"how\":\"$1\",\"limit_s\":30}" >$PORT
	systemctl --no-block "$1"
	exit 99
}
