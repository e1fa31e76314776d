#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nopoints.sh - what is shipped has no fault points; the test's library has
#
# Usage: nopoints.sh TEST_PROGRAM SHIPPED...
set -euo pipefail

points() { readelf --wide --sections "$1" | grep -c ts_fault_points; }

command -v readelf >/dev/null || { echo "readelf is not installed"; exit 77; }
if (($(points "$1" || true) != 1)); then
	echo "no fault points in $1: this test cannot tell"
	exit 1
fi
shift
for shipped; do
	if (($(points "$shipped" || true) != 0)); then
		echo "fault points in $shipped"
		exit 1
	fi
done
