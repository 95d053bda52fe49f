#!/bin/sh
# leftovers.sh [k3s] [SHA256=FILE…]: whatever fogctl could have left on this host, a line "left THING" each; prints
# nothing when it is clean. A unit file's own name in the ledger decides what is ours; by now the ledger is gone, and
# so should these be. `k3s`: it ran here and was ours, so nothing of it may be left. SHA256=FILE: a file without a mark
# of ours, and the checksum it had before.
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
grep -l 'fogctl' /etc/fstab 2>/dev/null | sed 's/^/left our lines in /'

k3s() {
    ps -e -o pid= -o args= |
        awk '$2 ~ "^/var/lib/rancher/k3s/data/.*/bin/containerd-shim" {print "left container process " $1}'
    for device in cni0 flannel.1 flannel-v6.1 kube-ipvs0 flannel-wg flannel-wg-v6; do
        if ip link show "$device" >/dev/null 2>&1; then echo "left link $device"; fi
    done
    ip netns list | awk '$1 ~ /^cni-/ {print "left network namespace " $1}'
    for tables in iptables ip6tables; do
        if command -v "$tables-save" >/dev/null; then
            "$tables-save" 2>/dev/null | awk -v tables="$tables" '
                /^:(KUBE|CNI|FLANNEL)-/ || / -j (KUBE|CNI|FLANNEL)-/ {found++}
                END {if (found) print "left " found " rules of k3s in " tables}'
        fi
    done
    for path in /run/k3s /run/flannel; do
        if [ -e "$path" ]; then echo "left $path"; fi
    done
}

for asked in "$@"; do
    case "$asked" in
    k3s) k3s ;;
    *=*)
        file=${asked#*=}
        if ! echo "${asked%%=*}  $file" | sha256sum --status --check 2>/dev/null; then
            echo "left our words in $file"
        fi
        ;;
    esac
done
exit 0
