#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# udev-apply.sh - the udev rule at work, among the system's own (case 13)
#
# Usage: udev-apply.sh RULES_FILE
#
# A loop device with a swap header on it is shown to `udevadm test`, in a
# mount namespace of its own, once without the rule and once with it: without
# it the contents are probed, with it nothing is.
set -euo pipefail

rules=$1

skip() {
	echo "SKIP: $*"
	exit 77
}
command -v udevadm >/dev/null || skip "udevadm is not installed"
[ -e /lib/udev/rules.d/60-persistent-storage.rules ] ||
	skip "the system has no 60-persistent-storage.rules"
[ "$(id -u)" = 0 ] || skip "loop devices need root"
unshare -m true 2>/dev/null || skip "mount namespaces need CAP_SYS_ADMIN"

dir=$(mktemp -d /run/thinswap-udev.XXXXXX)
dev=
# shellcheck disable=SC2317 # called by the trap
cleanup() {
	if [ -n "$dev" ]; then
		losetup -d "$dev"
	fi
	rm -rf "$dir"
}
trap cleanup EXIT
truncate -s 16M "$dir/swap"
mkswap -q "$dir/swap" >/dev/null
dev=$(losetup -f --show "$dir/swap" 2>/dev/null) ||
	skip "no loop device can be had"

# The properties that the rules give the device, with or without ours.
properties() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare -m bash -euc '
		mkdir -p /run/udev/rules.d
		mount -t tmpfs none /run/udev/rules.d
		if [ -n "$1" ]; then
			cp "$1" /run/udev/rules.d/
		fi
		udevadm test --action=change "/sys/block/$2" 2>/dev/null
	' -- "$1" "${dev#/dev/}"
}

without=$(properties "")
with=$(properties "$rules")
failed=0
expect() { # TEXT PATTERN yes|no
	local found=no

	if grep -qE "$2" <<<"$1"; then
		found=yes
	fi
	if [ "$found" != "$3" ]; then
		echo "FAIL: $2: $found, wanted $3"
		failed=1
	fi
}
expect "$without" '^ID_FS_TYPE=swap$' yes
expect "$without" '^THINSWAP=1$' no
expect "$with" '^THINSWAP=1$' yes
expect "$with" '^UDISKS_IGNORE=1$' yes
expect "$with" '^ID_FS_' no
expect "$with" '/dev/disk/by-uuid/' no
expect "$with" '^SYSTEMD_READY=0$' no
exit "$failed"
