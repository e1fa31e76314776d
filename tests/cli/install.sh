#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# install.sh - `meson install` puts everything, `ninja uninstall` removes it
#
# Usage: install.sh BUILD_DIR
#
# Installs what is built under a directory of its own (DESTDIR), looks for
# each kind of file, and uninstalls. The log of a real installation, by which
# `ninja uninstall` finds its files, is put back afterwards.
set -euo pipefail

build=$1
log=$build/meson-logs/install-log.txt
dest=$(mktemp -d /tmp/thinswap-install.XXXXXX)
saved=$dest.log
failed=0

# shellcheck disable=SC2317 # called by the trap
cleanup() {
	rm -f "$log"
	if [ -e "$saved" ]; then
		mv "$saved" "$log"
	fi
	rm -rf "$dest"
}
trap cleanup EXIT
if [ -e "$log" ]; then
	cp -p "$log" "$saved"
fi

fail() {
	echo "FAIL: $*"
	failed=1
}

option() {
	meson introspect --buildoptions "$build" |
		/usr/bin/python3 -c 'import json, sys
print(next(o["value"] for o in json.load(sys.stdin)
           if o["name"] == sys.argv[1]))' "$1"
}

DESTDIR=$dest meson install -C "$build" --no-rebuild >"$dest.out" 2>&1 ||
	{ cat "$dest.out"; fail "meson install"; }
rm -f "$dest.out"

files=$(cd "$dest" && find . ! -type d | sort)
echo "$files"

want() {
	grep -qE "$1" <<<"$files" || fail "nothing like $1 was installed"
}
want '/doc/thinswap/thinswap\.toml$'
if [ "$(option man)" != disabled ] && command -v pod2man >/dev/null; then
	for page in "$build"/man/*.[1-9]; do
		page=${page##*/}
		want "/man${page##*.}/${page//./\\.}\$"
	done
fi
if [ -e "$build/systemd/thinswap.service" ]; then
	want '/thinswap\.service$'
	want '/59-thinswap\.rules$'
	want '/60-thinswap\.conf$'
	want '/thinswap\.conf$'
	# What the unit starts is what was installed.
	daemon=$(sed -n 's/^ExecStart=@\{0,1\}\([^ ]*\).*/\1/p' \
		"$build/systemd/thinswap.service")
	if [ -x "$build/daemon/thinswapd" ]; then
		[ -x "$dest$daemon" ] || fail "the unit's $daemon is missing"
	fi
fi
# A configuration that somebody wrote is never overwritten or removed.
if grep -q '^\./etc/thinswap\.toml$' <<<"$files"; then
	fail "/etc/thinswap.toml is not ours to install"
fi

[ -n "$files" ] || fail "nothing was installed"
ninja -C "$build" uninstall >/dev/null || fail "ninja uninstall"
left=$(find "$dest" ! -type d)
[ -z "$left" ] || fail "left behind: $left"
exit "$failed"
