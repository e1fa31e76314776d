#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# fio.sh - fio's nbd engine, a connection a job, everything verified by crc32c

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"
need fio qemu-io
fio --enghelp | grep -qw nbd || skip "this fio has no nbd engine"

# run NAME OPTION... - four jobs, each on its own 32 MiB
run() {
	local name=$1 status=0
	shift
	(cd "$TMP" && fio --name="$name" --ioengine=nbd --uri="$SERVER_URI" \
		--thread --numjobs=4 --size=32m --offset_increment=32m \
		--iodepth=16 --refill_buffers --buffer_compress_percentage=60 \
		--randseed=18 --verify=crc32c --verify_fatal=1 \
		--group_reporting --minimal "$@") \
		>"$TMP/fio.out" 2>&1 || status=$?
	# fio has been seen to report an error and exit with 0.
	! grep -Eqi 'verify:|err=' "$TMP/fio.out" || status=1
	return "$status"
}

pass() {
	run "$@" || fail "fio $*: $(tail -n 5 "$TMP/fio.out")"
}

server_start 128M
pass small --rw=randwrite --bs=4k
pass mixed --rw=randrw --bs=64k
pass odd --rw=randwrite --bs=1536
pass ranges --rw=write --bsrange=4k-128k
# A block's trim and its write may overtake each other when both are in flight.
pass trims --rw=randtrimwrite --bs=16k --iodepth=1

# fio would have seen one changed byte.
pass before --rw=randwrite --bs=4k --do_verify=0
qemu-io -f raw -c 'write -P 0x5a 70000001 1' "$SERVER_URI" >/dev/null
if run before --rw=randwrite --bs=4k --verify_only; then
	fail "a changed byte was not seen"
fi
server_stop
