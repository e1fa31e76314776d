#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# qemu.sh - qemu's own NBD client: convert, compare, and single requests

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
need qemu-img qemu-io

io() {
	local args=() cmd out

	for cmd; do
		args+=(-c "$cmd")
	done
	out=$(qemu-io -f raw "${args[@]}" "$SERVER_URI" 2>&1) ||
		fail "qemu-io ${args[*]}: $out"
	! grep -Eq 'failed|mismatch|error' <<<"$out" ||
		fail "qemu-io ${args[*]}: $out"
}

server_start 128M

# Patterns at odd places: sub-slot, over slot, cluster and 1 MiB borders.
io 'write -P 0x11 0 4k' 'write -P 0x22 512 512' 'read -P 0x22 512 512' \
	'read -P 0x11 0 512' 'read -P 0x11 1024 3k'
io 'write -P 0x33 2093568 7k' 'read -P 0x33 2093568 7k' \
	'read -P 0 2093056 512' 'read -P 0 2100736 512'
io 'write -P 0x44 4M 1M' 'write -z 4608k 64k' 'read -P 0 4608k 64k' \
	'read -P 0x44 4M 512k' 'read -P 0x44 4672k 448k'
io 'write -z -u 4M 64k' 'read -P 0 4M 64k' 'discard 4160k 64k' \
	'read -P 0 4160k 64k' 'read -P 0x44 4224k 384k'
io 'write -f -P 0x55 127M 1M' 'flush' 'read -P 0x55 127M 1M'
# Many at once, on one connection.
io 'aio_write -P 0x66 8M 4k' 'aio_write -P 0x77 8196k 4k' \
	'aio_write -P 0x88 8200k 128k' 'aio_flush' \
	'aio_read -P 0x66 8M 4k' 'aio_read -P 0x77 8196k 4k' \
	'aio_read -P 0x88 8200k 128k' 'aio_flush'

make_image "$TMP/image"
qemu-img convert -n -f raw -O raw -m 8 -W "$TMP/image" "$SERVER_URI"
qemu-img compare -q -f raw -F raw "$TMP/image" "$SERVER_URI" ||
	fail "the converted image differs"
qemu-img convert -f raw -O qcow2 -m 8 -W "$SERVER_URI" "$TMP/back.qcow2"
qemu-img compare -q -f qcow2 -F raw "$TMP/back.qcow2" "$TMP/image" ||
	fail "the image that came back differs"

# The comparison would have seen one byte.
io 'write -P 0x99 100000001 1'
if qemu-img compare -q -f raw -F raw "$TMP/image" "$SERVER_URI"; then
	fail "a changed byte was not seen"
fi
server_stop
