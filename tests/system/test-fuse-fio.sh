#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test-fuse-fio.sh - fio writes and verifies on the file of thinswap-fuse
#
# Usage: test-fuse-fio.sh THINSWAP-FUSE
#
# Random writes and trims of mixed sizes by several jobs, each block verified
# by its checksum: on the file with O_DIRECT, and through a loop device.
set -euo pipefail

fuse=$1
((EUID == 0)) || { echo "SKIP: needs root"; exit 77; }
[[ -c /dev/fuse ]] || { echo "SKIP: no /dev/fuse"; exit 77; }
command -v fio >/dev/null || { echo "SKIP: fio is not installed"; exit 77; }

dir=$(mktemp -d)
loop='' pid=''
cleanup() {
	[[ $loop ]] && losetup --detach "$loop"
	for ((i = 0; i < 100; i++)); do
		umount "$dir/mnt" 2>/dev/null && break
		sleep 0.05
	done
	[[ $pid ]] && wait "$pid"
	rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
mkdir "$dir/mnt"
setsid "$fuse" "$dir/mnt" size=512M ram=384M 2>"$dir/log" &
pid=$!
for ((i = 0; i < 500; i++)); do
	[[ -s $dir/mnt/swap ]] && break
	sleep 0.02
done

run() {
	fio --output="$dir/fio.log" --verify_state_save=0 --direct=1 --thread \
		--ioengine=libaio --iodepth=16 --numjobs=4 --size=64M \
		--offset_increment=64M --buffer_compress_percentage=60 \
		--refill_buffers --verify=crc32c --verify_fatal=1 \
		--verify_backlog=512 --randseed="$RANDOM" --group_reporting \
		"$@" || { tail -n 20 "$dir/fio.log"; exit 1; }
	grep -q 'err= 0' "$dir/fio.log"
	echo "ok: fio $*"
	written=$(stat --format=%b "$dir/mnt/swap")
	((written > 0)) || { echo "FAILED: fio wrote somewhere else"; exit 1; }
}

run --name=small --filename="$dir/mnt/swap" --rw=randwrite --bs=4k
run --name=mixed --filename="$dir/mnt/swap" --rw=randrw \
	--bsrange=512-256k --bs_unaligned=1
loop=$(losetup --find --show --direct-io=on --sector-size 4096 \
	"$dir/mnt/swap")
run --name=loop --filename="$loop" --rw=randrw --bsrange=4k-1m
run --name=trim --filename="$loop" --rw=randtrimwrite --bs=64k
