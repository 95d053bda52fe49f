#!/bin/sh
# memory-cgroup.sh [WORD…]
# Prints "memory on" where the kernel has memory cgroups, else "memory off": v2 lists the controller, v1 has it in a
# hierarchy and enabled. Then "boot FILE", the file that holds the kernel command line, where there is one; and
# "menu old" if GRUB's menu starts no kernel with one of the words, or any without memory cgroups.
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
menu=${GRUB_MENU:-/boot/grub/grub.cfg}
starts_with() { grep -Eqs "^[[:space:]]*linux.*[[:space:]]$1([[:space:]]|\$)" "$menu"; }
for word in "$@"; do
    if ! starts_with "$word" || starts_with cgroup_disable=memory; then
        echo "menu old"
        break
    fi
done
