# What fogctl wants to know of a host, one `key=value` a line; changes nothing but a file that it removes again.
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
say() { printf '%s=%s\n' "$1" "$2"; }
say started "$(date +%s.%N)"
say hostname "$(hostname)"
say machine_id "$(cat /etc/machine-id 2>/dev/null)"
say model "$(tr -d '\0' 2>/dev/null </proc/device-tree/model)"
say machine "$(uname -m)"
say kernel "$(uname -r)"
say userland_bits "$(getconf LONG_BIT)"
say init "$(cat /proc/1/comm)"
if [ -r /etc/os-release ]; then
    say os "$(. /etc/os-release && echo "$PRETTY_NAME")"
    say os_family "$(. /etc/os-release && echo "$ID $ID_LIKE")"
fi
say controllers "$(cat /sys/fs/cgroup/cgroup.controllers 2>/dev/null)"
say memory_cgroup_v1 "$(awk '$1 == "memory" {print $4 " " $2}' /proc/cgroups 2>/dev/null)"
say cmdline "$(cat /proc/cmdline)"
for file in /boot/firmware/cmdline.txt /boot/cmdline.txt /etc/default/grub; do
    if [ -e "$file" ]; then say boot_file "$file"; fi
done
for module in sch_netem ifb sch_htb cls_u32 br_netfilter overlay zram; do
    if [ -d "/sys/module/$module" ] || modprobe --dry-run --quiet "$module" 2>/dev/null; then say module "$module"; fi
done
say clock_synchronised "$(timedatectl show --property=NTPSynchronized --value 2>/dev/null)"
df -Pk / | awk 'NR == 2 {print "disk_kib=" $2 "\ndisk_free_kib=" $4}'
awk '$2 == "/" {options = $4} END {print "root_options=" options}' /proc/mounts
awk '/^MemTotal:/ {print "memory_kib=" $2}' /proc/meminfo
awk 'NR > 1 {print "swap=" $1 " " $3}' /proc/swaps
say python "$(command -v python3)"
say k3s "$(k3s --version 2>/dev/null | head -n 1)"
if [ "$(id -u)" = 0 ]; then say root yes; sudo=; elif sudo -n true 2>/dev/null; then say root yes; sudo='sudo -n'; else say root no; sudo=; fi
if $sudo test -e /var/lib/fogctl-pi/ledger.jsonl; then say prepared yes; else say prepared no; fi
if command -v vcgencmd >/dev/null; then say throttled "$($sudo vcgencmd get_throttled 2>/dev/null)"; fi
# 16 MiB, written through to the card; not where that would fill it, nor where nothing can be written.
if [ "$(df -Pk /var/tmp | awk 'NR == 2 {print $4}')" -gt 131072 ] &&
    scratch=$(mktemp /var/tmp/fogctl-probe.XXXXXX 2>/dev/null); then
    trap 'rm -f "$scratch"' EXIT
    before=$(date +%s%N)
    if dd if=/dev/zero of="$scratch" bs=1M count=16 conv=fsync 2>/dev/null; then
        say written "16777216 $(($(date +%s%N) - before))"
    fi
fi
say ended "$(date +%s.%N)"
