#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# steady.sh PROGRAM - ten thousand steady overwrites make no page fault and no
# system call that changes the address space in a request thread (case 2)

# shellcheck source=lib.sh
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

# recvfrom is what every request begins with: it shows that strace sees them.
strace -f -p "$SERVER_PID" -o "$TMP/trace" \
	-e trace=mmap,munmap,mremap,brk,madvise,recvfrom 2>"$TMP/strace.log" &
strace_pid=$!
for tid in $threads; do
	until grep -q "Process $tid attached" "$TMP/strace.log"; do
		kill -0 "$strace_pid" 2>/dev/null ||
			skip "strace cannot attach: $(tail -n 1 "$TMP/strace.log")"
		sleep 0.05
	done
done
echo >&"${steady[1]}"
read -r -u "${steady[0]}" word
[[ $word == done ]] || fail "the overwrites did not end"
kill -INT "$strace_pid"
wait "$strace_pid" || true
wait "$steady_PID"

awk -v threads="$threads" '
	BEGIN { n = split(threads, t); for (i = 1; i <= n; i++) mine[t[i]] = 1 }
	!($1 in mine) { next }
	/recvfrom\(/ { requests++; next }
	/(mmap|munmap|mremap|brk|madvise)\(/ { print; bad++ }
	END {
		print requests + 0, "receives,", bad + 0, "calls that map"
		exit !(requests >= 10000 && bad == 0)
	}' "$TMP/trace" || fail "request threads change the address space"
server_stop
