#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# map.sh - thinness can be seen: nbdinfo --map is exact to the slot

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
need nbdinfo qemu-io

# The map as "offset length type", one run a line.
map() {
	nbdinfo --map "$SERVER_URI" | awk '{ print $1, $2, $4 }'
}

io() {
	local cmd args=()

	for cmd; do
		args+=(-c "$cmd")
	done
	qemu-io -f raw "${args[@]}" "$SERVER_URI" >/dev/null
}

expect() {
	diff -u - <(map) >"$TMP/diff" ||
		fail "$1: the map differs: $(cat "$TMP/diff")"
}

server_start 1T
expect "new" <<'END'
0 1099511627776 hole,zero
END

# One slot, a run over a cluster's border, the last slot.
io 'write -P 0x11 1M 4k' 'write -P 0x22 2044k 8k' 'write -P 0x33 1099511623680 4k'
if is_thinswap; then
	expect "written" <<'END'
0 1048576 hole,zero
1048576 4096 data
1052672 1040384 hole,zero
2093056 8192 data
2101248 1099509522432 hole,zero
1099511623680 4096 data
END
fi

# A slot discarded in part stays, whole ones go.
io 'discard 1047552 2k' 'discard 2044k 4k'
if is_thinswap; then
	expect "discarded" <<'END'
0 1048576 hole,zero
1048576 4096 data
1052672 1044480 hole,zero
2097152 4096 data
2101248 1099509522432 hole,zero
1099511623680 4096 data
END
fi

# Written zeros are not data, whatever else they are called.
io 'write -P 0 512M 1M'
[[ $(map_bytes data) == $((3 * 4096)) ]] || ! is_thinswap ||
	fail "zeros count as data"

io 'discard 0 1G' 'discard 1099510579200 1M'
expect "dropped" <<'END'
0 1099511627776 hole,zero
END
server_stop
