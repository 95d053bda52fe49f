#!/bin/sh
# Takes out of a finished base what an image that is never updated in place has no use for. $1: its root.
set -e
root=$1
# usrmerge has done its work, and usr-is-merged stands for it; then nothing needs the whole of Perl.
perl=$(chroot "$root" dpkg-query -W -f '${Package} ' perl 'perl-modules-*' 'libperl5*' 'lib*-perl' 2>/dev/null || true)
chroot "$root" dpkg --purge usrmerge $perl
# Where packages came from is nobody's business; logs, caches and indexes are this machine's.
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/etc/hostname "$root"/etc/resolv.conf
rm -rf "$root"/var/log/* "$root"/var/cache/debconf/* "$root"/var/lib/dpkg/*-old
rm -rf "$root"/usr/share/bug "$root"/usr/share/lintian "$root"/usr/share/zoneinfo/right
# Of Java: what only its compiler reads, and class data for heaps that no board has (32 GB).
rm -f "$root"/usr/lib/jvm/*/lib/ct.sym "$root"/usr/lib/jvm/*/lib/server/classes_nocoops.jsa
ln -sf python3 "$root/usr/bin/python"
