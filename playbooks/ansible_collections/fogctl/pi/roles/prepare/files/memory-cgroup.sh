#!/bin/sh
# Prints "memory on" where the kernel has memory cgroups, else "memory off": v2 lists the controller, v1 has it in a
# hierarchy and enabled. Then "boot FILE", the file that holds the kernel command line, where there is one.
if grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null ||
    awk '$1 == "memory" && $2 != 0 && $4 == 1 {found = 1} END {exit !found}' /proc/cgroups; then
    echo memory on
else
    echo memory off
fi
for file in /boot/firmware/cmdline.txt /boot/cmdline.txt /etc/default/grub; do
    if [ -e "$file" ]; then
        echo "boot $file"
        break
    fi
done
