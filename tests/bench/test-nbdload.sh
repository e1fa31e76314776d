#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# test-nbdload.sh - the load generator finds every wrong page, and no other
#
# Usage: test-nbdload.sh NBDLOAD
#
# nbdkit's own plugins play the server: memory must pass all phases, null (it
# forgets) and a server that flips one bit of one page must be caught.
set -euo pipefail
nbdload=$1
for tool in nbdkit nbdinfo; do
	command -v "$tool" >/dev/null || { echo "SKIP: no $tool"; exit 77; }
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# 2048 pages, all different, none zero.
awk 'BEGIN { for (i = 0; i < 2048; i++) printf "%-4095d\n", i }' \
	>"$tmp/pages"

# run EXPECTED-STATUS SERVER... -- PHASE...: its output in $tmp/out
run() {
	local want=$1 server=() status=0
	shift
	while [[ $1 != -- ]]; do server+=("$1"); shift; done
	shift
	# shellcheck disable=SC2016 # nbdkit sets unixsocket in its own shell
	nbdkit -U - "${server[@]}" --run \
		'"$NBDLOAD" --socket "$unixsocket" --pages "$PAGES" '"$*" \
		>"$tmp/out" 2>"$tmp/err" || status=$?
	if ((status != want)); then
		echo "FAILED: status $status, not $want: ${server[*]} -- $*"
		cat "$tmp/out" "$tmp/err"
		exit 1
	fi
	echo "ok: ${server[*]} -- $*"
}
export NBDLOAD=$nbdload PAGES=$tmp/pages

expect() {
	grep -q -- "$1" "$tmp/out" || {
		echo "FAILED: no $1 in"
		cat "$tmp/out" "$tmp/err"
		exit 1
	}
}

# shellcheck disable=SC2054 # the commas belong to the phases
all=(fill:bs=64K check:bs=64K overwrite:bs=4K,requests=3000 check:bs=4K
	mixed:bs=8K,requests=2000 randread:bs=4K,seconds=0.2 check:bs=64K
	discard:bs=1M check:bs=64K fill:bs=2M seqread:bs=2M zero:bs=64K
	check:bs=4K fill:bs=4K,rounds=2 check:bs=64K)
run 0 memory 8M -- --verify "${all[@]}"
run 0 memory 8M -- --verify --connections 5 --depth 3 "${all[@]}"
run 0 memory 32M -- --size 33554432 --verify "${all[@]}"
expect '"phase": "overwrite", "bs": 4096, .*"requests": 3000, "pages": 3000'
expect '"phase": "fill", "bs": 4096, .*"pages": 16384'
run 0 memory 32M -- --size 33554432 --verify --unique "${all[@]}"

# Everything is wrong on a server that forgets ...
run 1 null 8M -- fill:bs=64K check:bs=64K
expect '"phase": "check".*"wrong_pages": 2048'
# ... and one page where one bit is flipped.
cat >"$tmp/flip.sh" <<'END'
#!/bin/bash
case $1 in
get_size) echo 8388608 ;;
can_write) exit 0 ;;
pread) dd if="$FLIP" skip="$4" count="$3" iflag=skip_bytes,count_bytes \
	status=none ;;
pwrite) dd of="$FLIP" seek="$4" oflag=seek_bytes conv=notrunc status=none
	[[ $4 != 1048576 ]] || printf '!' |
		dd of="$FLIP" seek=1052777 bs=1 conv=notrunc status=none ;;
*) exit 2 ;;
esac
END
chmod +x "$tmp/flip.sh"
truncate -s 8M "$tmp/flip"
export FLIP=$tmp/flip
run 1 sh "$tmp/flip.sh" -- fill:bs=1M check:bs=1M
expect '"phase": "check".*"wrong_pages": 1,'
# A device of twice the file's size whose halves are the same memory: pages
# come again after 8 MiB, so this shows only where none are equal.
cat >"$tmp/alias.sh" <<'END'
#!/bin/bash
case $1 in
get_size) echo 16777216 ;;
can_write) exit 0 ;;
pread) dd if="$FLIP" skip=$(($4 % 8388608)) count="$3" \
	iflag=skip_bytes,count_bytes status=none ;;
pwrite) dd of="$FLIP" seek=$(($4 % 8388608)) oflag=seek_bytes conv=notrunc \
	status=none ;;
*) exit 2 ;;
esac
END
chmod +x "$tmp/alias.sh"
run 0 sh "$tmp/alias.sh" -- --size 16777216 --connections 1 --depth 1 \
	fill:bs=1M check:bs=1M
run 1 sh "$tmp/alias.sh" -- --size 16777216 --connections 1 --depth 1 \
	--unique fill:bs=1M check:bs=1M
expect '"phase": "check".*"wrong_pages": 2048'
# Without a check nobody looks, and errors end the program.
run 0 null 8M -- fill:bs=64K randread:bs=4K,requests=10
run 1 memory 4M -- fill:bs=64K
run 1 --filter=error memory 8M error-pwrite=EIO error-pwrite-rate=1% -- \
	fill:bs=4K
run 2 null 8M -- fill:bs=5000
run 2 null 8M -- nonsense
