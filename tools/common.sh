# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# common.sh - what quickstart and check share: paths, root, build
#
# Source it with $0 in tools/; it changes into the source directory.

# su without "-" keeps a user's PATH.
PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$(readlink -f "$0")")/.." || exit

step() { printf '\n== %s\n' "$*"; }

need_root() {
	((EUID == 0)) && return
	echo "$1 must run as root: sudo $1" >&2
	return 1
}

# build DIR [MESON-SETUP-OPTION...]: configure once, compile what changed.
build() {
	local dir=$1
	shift
	if [[ ! -e $dir/build.ninja ]]; then
		# A set-up that was interrupted leaves a half-made directory.
		rm -rf "$dir/meson-private"
		meson setup "$dir" "$@" || return 1
	fi
	ninja -C "$dir"
}
