#!/bin/sh
# Prints "on" where the kernel has memory cgroups: v2 lists the controller, v1 has it in a hierarchy and enabled.
if grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null ||
    awk '$1 == "memory" && $2 != 0 && $4 == 1 {found = 1} END {exit !found}' /proc/cgroups; then
    echo on
else
    echo off
fi
