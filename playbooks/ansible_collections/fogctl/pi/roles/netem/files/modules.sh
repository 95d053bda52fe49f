#!/bin/sh
# modules.sh MODULE…: a line "lacks MODULE" for each that the kernel has not got, "idle MODULE" if it is not loaded.
for module in "$@"; do
    if [ -d "/sys/module/$module" ]; then
        continue
    fi
    if modprobe --dry-run --quiet "$module"; then
        echo "idle $module"
    else
        echo "lacks $module"
    fi
done
exit 0
