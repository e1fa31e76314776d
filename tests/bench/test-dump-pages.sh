#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test-dump-pages.sh - page files are whole, real and not alike
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
((EUID == 0)) || { echo "SKIP: needs root"; exit 77; }
[[ -r /proc/kpageflags ]] || { echo "SKIP: no /proc/kpageflags"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() { echo "FAILED: $*"; exit 1; }

share() { awk -v n="$1" '$1 == n { print int($2) }' "$tmp/summary"; }

for set in app data; do
	# Nothing of this shell's environment may be in a page.
	SECRET=thinswap-canary-$RANDOM$RANDOM "$here/dump-pages" --set "$set" \
		--size 16M "$tmp/$set" >"$tmp/summary" 2>"$tmp/log" ||
		fail "$set: $(cat "$tmp/log")"
	(($(stat -c %s "$tmp/$set") == 16 << 20)) || fail "$set: wrong size"
	! grep -q thinswap-canary "$tmp/$set" || fail "$set: environment leaked"
	(($(share pages) == 4096)) || fail "$set: $(cat "$tmp/summary")"
	(($(share zero) + $(share same) + $(share duplicate) < 1024)) ||
		fail "$set: mostly trivial: $(cat "$tmp/summary")"
	# Every language is there, in like parts.
	awk '$3 == "pages" && ($2 < 300) { exit 1 }' "$tmp/summary" ||
		fail "$set: uneven: $(cat "$tmp/summary")"
	small=$(gzip -1 <"$tmp/$set" | wc -c)
	((small > 1 << 20 && small < 12 << 20)) ||
		fail "$set: compresses to $small bytes"
	echo "ok: $set, $small bytes compressed"
done
! cmp -s "$tmp/app" "$tmp/data" || fail "both sets are the same"
! "$here/dump-pages" --size 5000 "$tmp/x" 2>/dev/null || fail "5000 accepted"
left=$(find "$tmp" -name '*.tmp')
[[ ! $left && ! -e $tmp/x ]] || fail "left behind: $left"
