#!/bin/sh
# Prints whatever fogctl could have left on this host, a line "left THING" each; prints nothing when it is clean.
# A unit file's own name in the ledger decides what is ours; by now the ledger is gone, and so should these be.
for path in /var/lib/fogctl-pi /usr/local/sbin/fog-* /etc/systemd/system/fog-* /etc/systemd/system/*/fog-* \
    /etc/sysctl.d/*fogctl* /etc/modules-load.d/fogctl* /etc/modprobe.d/fogctl* /etc/ssh/sshd_config.d/*fogctl* \
    /etc/default/grub.d/*fogctl* /etc/systemd/timesyncd.conf.d/fogctl* /etc/prometheus/fogctl* \
    /etc/default/*fogctl*; do
    if [ -e "$path" ] || [ -L "$path" ]; then echo "left $path"; fi
done
if command -v tc >/dev/null; then
    tc qdisc show | awk '$3 == "f060:" && $6 == "root" {print "left latencies on " $5}'
fi
systemctl list-units --all --plain --no-legend 'fog-*' | awk '{print "left unit " $1}'
grep -l 'fogctl' /etc/fstab /boot/firmware/cmdline.txt 2>/dev/null | sed 's/^/left /'
exit 0
