#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the scenario at every boot of the systemd guest. The scenario finds
# the number of this boot in $BOOT and ends with again, leave or by itself.
PORT=/dev/ttyS1
# Kept open: at each first open the port starts anew and drops what is in it.
exec 3>$PORT
stty -F $PORT raw -echo
state=/var/lib/vm-scenario
mkdir -p $state
BOOT=$(($(cat $state/boot 2>/dev/null || echo 0) + 1))
echo $BOOT >$state/boot
sync
echo "{\"event\":\"boot\",\"n\":$BOOT}" >$PORT
echo 30 >/proc/sys/kernel/hung_task_timeout_secs
export BOOT PORT
bash /usr/lib/vm/scenario
status=$?
echo "guest: scenario ended with $status"
# 99: the scenario is rebooting the machine and goes on after it.
[ $status -eq 99 ] && exit 0
echo "{\"event\":\"done\",\"status\":$status}" >$PORT
sleep 1
systemctl poweroff --force --force
