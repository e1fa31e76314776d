#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# copy.sh - nbdcopy there, from server to server and back, all connections,
# compared byte for byte; holes stay holes on the way

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
need nbdcopy nbdinfo cmp

make_image "$TMP/image"
allocated=$(($(stat -c '%b * %B' "$TMP/image")))

server_start 128M
first=$SERVER_URI
nbdcopy --connections=4 "$TMP/image" "$first"
data=$(map_bytes data)
slots=$(used_slots "$TMP/image")
! is_thinswap || ((data == slots * 4096)) ||
	fail "$slots slots used, $data bytes of data on the device"
nbdcopy --connections=4 "$first" "$TMP/back"
cmp "$TMP/image" "$TMP/back" || fail "what came back differs"
back=$(($(stat -c '%b * %B' "$TMP/back")))
# A file system may need a block of its own for the list of a file's parts.
! is_thinswap || ((back <= allocated + 65536)) ||
	fail "the copy takes $back bytes, the image $allocated"

server_start 128M
nbdcopy --connections=4 --request-size=4096 "$first" "$SERVER_URI"
nbdcopy "$SERVER_URI" - | cmp - "$TMP/image" ||
	fail "the server to server copy differs"

# Over old data, holes and zeros must be written too.
nbdcopy --connections=4 "$TMP/image" "$SERVER_URI"
truncate -s 0 "$TMP/back"
truncate -s 128M "$TMP/back"
nbdcopy --connections=4 "$TMP/back" "$SERVER_URI"
nbdcopy "$SERVER_URI" - | cmp - "$TMP/back" || fail "old data shines through"
(($(map_bytes hole,zero) == 128 * 1024 * 1024)) ||
	fail "a device copied full of holes is not one hole"
server_stop
echo "$data bytes of data copied there and back"
