"""Boards over SSH, given back: what k3s would have running is ended, and no file differs from before."""

from __future__ import annotations

from tests.vm.shelf import Shelf, snapshot

# What containers leave: a shim below k3s's own folder with a child, mounts, a namespace, rules, a bridge.
CONTAINERS = """
set -e
bin=/var/lib/rancher/k3s/data/0/bin; mkdir -p $bin /run/k3s/x /var/lib/kubelet/pods/x
shim=$bin/containerd-shim-runc-v2; cp /bin/sh $shim
systemd-run --quiet --collect --unit=shim --property=KillMode=none $shim -c 'sleep 4000; true'
mount -t tmpfs none /run/k3s/x; mount -t tmpfs none /var/lib/kubelet/pods/x
ip netns add cni-test; ip link add cni0 type bridge
iptables -N KUBE-TEST; iptables -A INPUT -j KUBE-TEST; iptables -N MINE
"""


def test_reset_gives_the_boards_back_as_they_were(shelf: Shelf) -> None:
    shelf.south.run("iptables -N BEFORE; iptables -X BEFORE")
    shelf.south.run(CONTAINERS)
    dry = shelf.asked(0, "pi", "reset", "--dry-run")
    assert dry["changed"] > 0
    shelf.south.run("test -e /etc/systemd/system/k3s-agent.service")
    told = shelf.asked(0, "pi", "reset")
    assert told["failures"] == {}
    assert shelf.south.run("pgrep -f [c]ontainerd-shim", check=False).stdout == ""
    assert "MINE" in shelf.south.run("iptables -S; iptables -X MINE").stdout
    shelf.south.run("systemctl stop shim; systemctl reset-failed shim", check=False)
    for board in shelf.boards:
        left = set(snapshot(board).splitlines()) ^ set(shelf.before[board.name].splitlines())
        assert left == set()


def test_resetting_again_finds_nothing_to_do(shelf: Shelf) -> None:
    assert shelf.asked(0, "pi", "reset")["changed"] == 0
