#!/bin/sh
# Stops k3s with everything that it started: its units leave containers alive on purpose (KillMode=process).
# Ends with 1 and a line "left THING" for each that it could not stop or remove; running it again goes on.
set -u
status=0
failed() {
    echo "left $*"
    status=1
}

for unit in k3s k3s-agent; do
    systemctl stop "$unit.service" 2>/dev/null
    if systemctl is-active --quiet "$unit.service"; then failed "service $unit"; fi
done

# Each container hangs below a shim that was started from k3s's own data folder: those, with their children.
children() {
    for child in $(ps -o pid= --ppid "$1"); do
        children "$child"
        echo "$child"
    done
}
shims() { ps -e -o pid= -o args= | awk '$2 ~ "^/var/lib/rancher/k3s/data/.*/bin/containerd-shim" {print $1}'; }
for shim in $(shims); do
    # shellcheck disable=SC2046  # one word a process
    kill -9 $(children "$shim") "$shim" 2>/dev/null
done
# Processes end after they are killed, not at once, and hold mounts until then.
tries=0
while [ -n "$(shims)" ] && [ "$tries" -lt 20 ]; do
    sleep 0.5
    tries=$((tries + 1))
done
for shim in $(shims); do failed "container process $shim"; done

# Innermost first.
awk '{print $2}' /proc/self/mounts | sort -r | while read -r place; do
    case "$place" in
    /run/k3s/* | /var/lib/kubelet/* | /var/lib/rancher/* | /run/netns/cni-*) umount -f "$place" 2>/dev/null ;;
    esac
done
for namespace in $(ip -o netns list | awk '$1 ~ /^cni-/ {print $1}'); do
    ip netns delete "$namespace" || failed "network namespace $namespace"
done
for device in cni0 flannel.1 flannel-v6.1 kube-ipvs0 flannel-wg flannel-wg-v6; do
    ip link delete "$device" 2>/dev/null
done
for tables in iptables ip6tables; do
    if command -v "$tables-save" >/dev/null; then
        "$tables-save" | grep -Ev 'KUBE-|CNI-|cni0|[Ff]lannel|FLANNEL-' | "$tables-restore" ||
            failed "rules of k3s in $tables"
    fi
done
rm -rf /run/k3s /run/flannel
exit "$status"
