#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# swapheader.sh - mkswap's header for native and large pages, and what it
# takes on the device (case 46)

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
need mkswap nbdcopy nbdinfo cmp

# The page size whose last ten bytes hold the signature.
header_page() {
	local page

	for page in 4096 8192 16384 32768 65536; do
		[[ $(dd if="$1" bs=1 skip=$((page - 10)) count=10 status=none |
			tr -d '\0') != SWAPSPACE2 ]] || echo "$page"
	done
}

# check PAGE_BYTES [MKSWAP OPTION...]
check() {
	local page=$1 slots data
	shift

	rm -f "$TMP/swap" "$TMP/back"
	truncate -s 64M "$TMP/swap"
	chmod 600 "$TMP/swap"
	mkswap "$@" "$TMP/swap" >/dev/null 2>"$TMP/mkswap.log" ||
		fail "mkswap: $(cat "$TMP/mkswap.log")"
	slots=$(used_slots "$TMP/swap")

	server_start 64M
	nbdcopy "$TMP/swap" "$SERVER_URI"
	data=$(map_bytes data)
	! is_thinswap || ((data == slots * 4096)) ||
		fail "$slots slots used, $data bytes of data on the device"
	nbdcopy "$SERVER_URI" "$TMP/back"
	cmp "$TMP/swap" "$TMP/back" || fail "the header changed"
	[[ $(header_page "$TMP/back") == "$page" ]] ||
		fail "the header is not at page size $page"
	server_stop
	echo "pages of $page bytes: header takes $slots slots"
}

check "$(getconf PAGESIZE)"
# A large page's header begins in its first slot and ends in its last.
for page in 4096 16384 65536; do
	check "$page" --pagesize "$page"
done
