#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# steady.sh PROGRAM - ten thousand steady overwrites make no page fault and no
# system call that changes the address space in a request thread (case 2)

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
need strace
need_no_sanitizer
program=$1

server_start 1G ram=256M
coproc steady { SERVER_SANITIZED='' "$program"; }
while read -r -u "${steady[0]}" word threads; do
	[[ $word != warm ]] || break
	echo "$word $threads"
done
[[ $word == warm ]] || fail "no steady state"

# Every reply is a sendto: it shows that strace sees the requests.
strace -f -p "$SERVER_PID" -o "$TMP/trace" \
	-e trace=%memory,sendto 2>"$TMP/strace.log" &
strace_pid=$!
until grep -q "Process $SERVER_PID attached" "$TMP/strace.log"; do
	kill -0 "$strace_pid" 2>/dev/null ||
		skip "strace cannot attach: $(tail -n 1 "$TMP/strace.log")"
	sleep 0.05
done
echo >&"${steady[1]}"
read -r -u "${steady[0]}" word
[[ $word == "done" ]] || fail "the overwrites did not end"
kill -INT "$strace_pid"
wait "$strace_pid" || true
echo >&"${steady[1]}"
# shellcheck disable=SC2154 # coproc sets it
wait "$steady_PID"

# Lines look like "TID name(...". What resumes was counted when it began.
awk -v threads="$threads" '
	BEGIN { n = split(threads, t); for (i = 1; i <= n; i++) mine[t[i]] = 1 }
	!($1 in mine) || $2 !~ /^[a-z0-9_]+\(/ { next }
	$2 ~ /^sendto\(/ { replies++; next }
	{ print; bad++ }
	END {
		print replies + 0, "replies,", bad + 0, "calls that change memory"
		exit replies < 10000 ? 2 : bad > 0
	}' "$TMP/trace" || case $? in
1) fail "request threads change the address space" ;;
*) fail "strace did not see the requests" ;;
esac
server_stop
