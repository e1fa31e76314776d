#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test_pager.sh - the verifying pager can fail, and counts what is wrong
#
# Usage: test_pager.sh PAGER        (no root, no swap)
set -euo pipefail
pager=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
	echo "FAILED: $*"
	exit 1
}

# Any real content will do here: the program itself, many times.
for ((i = 0; i < 64; i++)); do
	cat "$pager"
done >"$dir/pages"

run() {
	status=0
	"$pager" --pages "$dir/pages" --size 4M --seed 7 "$@" \
		>"$dir/out" 2>"$dir/err" || status=$?
}

run --touches 5000
[[ $status == 0 ]] || fail "undamaged: status $status"
grep -qx '0 pages wrong' "$dir/out" || fail "undamaged: $(cat "$dir/out")"
grep -q '5000 touches' "$dir/out" || fail "touches are not counted"
grep -q '^seed *7$' "$dir/out" || fail "the seed is not told"

for n in 1 5 1024; do
	run --touches 5000 --damage "$n" --json
	[[ $status == 1 ]] || fail "$n damaged: status $status"
	grep -q "\"wrong_pages\": $n}" "$dir/out" || fail "$n damaged:" \
		"$(cat "$dir/out")"
	grep -q 'is wrong: 1 bytes from byte' "$dir/err" ||
		fail "$n damaged: not described"
done

# A signal ends the touching, not the check of all that is left.
"$pager" --pages "$dir/pages" --size 4M --seconds 600 --damage 5 --json \
	--progress >"$dir/out" 2>"$dir/err" &
until grep -q touches "$dir/err"; do
	sleep 0.1
done
kill -USR1 $!
status=0
wait $! || status=$?
[[ $status == 1 ]] || fail "SIGUSR1: status $status"
grep -q '"wrong_pages": 5}' "$dir/out" || fail "SIGUSR1: $(cat "$dir/out")"

# The same seed touches the same pages.
run --touches 3000 --json
first=$(grep -o '"rewrites": [0-9]*' "$dir/out")
run --touches 3000 --json
[[ $first == "$(grep -o '"rewrites": [0-9]*' "$dir/out")" ]] ||
	fail "a seed does not repeat a run"

for bad in '--size 4095' '--size 1X' '--size -1' '--rewrite 101' \
	'--damage 9999' '--pages /nonexistent'; do
	# shellcheck disable=SC2086 # two words
	run --touches 1 $bad
	[[ $status == 2 ]] || fail "$bad: status $status"
done
echo "ok"
