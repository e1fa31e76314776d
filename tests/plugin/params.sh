#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# params.sh - parameters: what is taken, and that a wrong one is refused with
# a sentence naming the key, the value and what is allowed

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
need nbdinfo
need_thinswap
need_no_tsan

# run PARAM... - a captive server that says its size
run() {
	# A path of our own: for "-" it makes a directory, which stays when the
	# start is refused.
	rm -f "$TMP/captive"
	# shellcheck disable=SC2016 # nbdkit sets $uri
	"${NBDKIT[@]}" --unix "$TMP/captive" "${PLUGIN_WORDS[@]}" "$@" \
		--run 'LD_PRELOAD= nbdinfo --size "$uri"'
}

# takes BYTES PARAM...
takes() {
	local want=$1 got
	shift

	got=$(run "$@" 2>"$TMP/err") || fail "$* refused: $(cat "$TMP/err")"
	[[ $got == "$want" ]] || fail "$*: $got bytes, not $want"
}

# refuses PATTERN PARAM... - the message must match all of the words that
# PATTERN lists, separated by ';' (extended expressions, any case)
refuses() {
	local word words pattern=$1
	shift

	if run "$@" >/dev/null 2>"$TMP/err"; then
		fail "$* was taken"
	fi
	! grep -Eq 'Segmentation|core dumped|Sanitizer|Assertion' "$TMP/err" ||
		fail "$*: crashed: $(cat "$TMP/err")"
	IFS=';' read -ra words <<<"$pattern"
	for word in "${words[@]}"; do
		grep -Eiq -- "$word" "$TMP/err" ||
			fail "$*: no '$word' in: $(cat "$TMP/err")"
	done
}

K=1024 M=$((1024 * 1024)) G=$((1024 * 1024 * 1024))
takes $((64 * M)) size=64M
takes $((64 * M)) size=$((64 * M))
takes $((128 * K)) size=128K
takes $((3 * 1024 * G)) size=3T ram=256M level=3
takes $((8 * 1024 * 1024 * G)) size=8P

# What is allowed: a range, or how such a value is written.
allowed='(known are |allowed are .* to |must be .* from .* to |write a |write [a-z] or )'
refuses "size;(missing|required|needed)" ram=64M
refuses "size;0;$allowed" size=0
refuses "size;banana;$allowed" size=banana
refuses "size;-1;$allowed" size=-1
refuses "size;64X;$allowed" size=64X
refuses "size;16P;$allowed" size=16P
refuses "size;16E;$allowed" size=16E
refuses "size;99999999999999999999999;more than" size=99999999999999999999999
refuses "size;$allowed" size=
refuses "size;4GB;$allowed" size=4GB
refuses "size;50%;$allowed" size=50%
refuses "size;1e9;$allowed" size=1e9
refuses "ram;banana;$allowed" size=64M ram=banana
refuses "ram;0;$allowed" size=64M ram=0
refuses "ram;4096;$allowed" size=64M ram=4096
refuses "ram;16E;$allowed" size=64M ram=16E
refuses "level;fast;$allowed" size=64M level=fast
refuses "level;1000;$allowed" size=64M level=1000
refuses "level;-99999999;$allowed" size=64M level=-99999999
refuses "level;3x;$allowed" size=64M level=3x
refuses "level;$allowed" size=64M level=
refuses "ram_limt;size.*ram.*level" size=64M ram_limt=1G

"${NBDKIT[@]}" --dump-plugin "${PLUGIN_WORDS[@]}" >"$TMP/dump"
for line in 'name=thinswap' 'version=[0-9]+\.[0-9]+\.[0-9]+' \
	'thread_model=parallel' 'errno_is_preserved=1' \
	'thinswap_version=[0-9]+\.[0-9]+\.[0-9]+' \
	'thinswap_default_ram=[0-9]+' 'thinswap_default_level=-?[0-9]+'; do
	grep -Eqx -- "$line" "$TMP/dump" ||
		fail "--dump-plugin shows no $line: $(cat "$TMP/dump")"
done

"${NBDKIT[@]}" "${PLUGIN_WORDS[@]}" --help >"$TMP/help"
for key in size ram level; do
	grep -q "$key=" "$TMP/help" || fail "--help does not explain $key"
done
