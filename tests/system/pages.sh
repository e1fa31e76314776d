# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# pages.sh - find the page file for tests, or make it
#
# Source it, then: file=$(ts_pages app) or $(ts_pages data).
#
# THINSWAP_PAGES may name a page file, or the directory of app.bin and
# data.bin (default /var/tmp/thinswap-pages). A missing one is dumped from
# live programs once, which takes about a minute, and kept.

TS_DUMP_PAGES=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../bench/dump-pages")

ts_pages() {
	local where=${THINSWAP_PAGES:-/var/tmp/thinswap-pages} file
	if [[ -f $where ]]; then
		echo "$where"
		return
	fi
	file=$where/$1.bin
	if [[ ! -s $file ]]; then
		mkdir -p "$where"
		"$TS_DUMP_PAGES" --set "$1" "$file" >&2
	fi
	echo "$file"
}
