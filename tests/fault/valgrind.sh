#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# valgrind.sh - a short model run under valgrind
#
# Usage: valgrind.sh TS-MODEL
set -euo pipefail

skip() { echo "$*"; exit 77; }

command -v valgrind >/dev/null || skip "valgrind is not installed"
# A program that watches its own memory cannot be watched by another.
libs=$(ldd "$1")
if [[ $libs == *libasan* || $libs == *libtsan* ]]; then
	skip "built with a sanitizer"
fi
export MALLOC_PERTURB_=0
exec valgrind --quiet --error-exitcode=1 --leak-check=full \
	--errors-for-leak-kinds=definite --fair-sched=yes \
	"$1" exact --threads 2 --ops 60 --size 8M --ram 8M
