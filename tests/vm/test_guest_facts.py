"""The guest is what other tests take it for: Debian's kernel, sch_netem, cgroup v2 and its controllers."""

from __future__ import annotations

import json

import pytest

from tests.vm.guest import Guest, GuestError

MODULES = (
    "sch_netem",
    "ifb",
    "veth",
    "bridge",
    "nfnetlink_queue",
    "xt_NFQUEUE",
    "sch_htb",
    "cls_u32",
    "cls_flower",
)


def test_kernel_is_the_one_debian_ships(guest: Guest) -> None:
    release = guest.run(["uname", "-r"]).stdout.strip()
    owner = guest.run(["dpkg-query", "-S", f"/boot/vmlinuz-{release}"]).stdout
    assert owner.startswith(f"linux-image-{release}")
    assert "Debian" in guest.run(["uname", "-v"]).stdout


@pytest.mark.parametrize("module", MODULES)
def test_kernel_module_loads(guest: Guest, module: str) -> None:
    guest.run(["modprobe", module])
    assert guest.run(["test", "-d", f"/sys/module/{module}"]).code == 0


def test_netem_delays_a_ping(guest: Guest) -> None:
    guest.run(
        "ip netns add facts && ip link add facts0 type veth peer name facts1 netns facts && "
        "ip addr add 10.99.0.1/24 dev facts0 && ip link set facts0 up && "
        "ip -n facts addr add 10.99.0.2/24 dev facts1 && ip -n facts link set facts1 up && "
        "tc qdisc add dev facts0 root netem delay 100ms"
    )
    try:
        said = guest.run("ping -q -c 20 -i 0.3 10.99.0.2").stdout
    finally:
        guest.run("ip link del facts0; ip netns del facts", check=False)
    least_ms = float(said.rsplit("=", 1)[1].split("/")[0])
    assert 100 <= least_ms < 120


def test_control_groups_are_v2_alone_with_cpu_and_memory(guest: Guest) -> None:
    assert guest.run("stat -fc %T /sys/fs/cgroup").stdout.strip() == "cgroup2fs"
    assert "cgroup " not in guest.run("grep -o ' - cgroup .*' /proc/mounts || true").stdout
    controllers = guest.run(["cat", "/sys/fs/cgroup/cgroup.controllers"]).stdout.split()
    assert {"cpu", "memory"} <= set(controllers)


def test_guest_has_no_failed_unit_and_no_way_out(guest: Guest) -> None:
    assert guest.run("systemctl list-units --failed --no-legend --plain").stdout == ""
    assert guest.run("ip route show default").stdout == ""


def test_a_failing_command_raises_with_its_output_or_returns_its_code(guest: Guest) -> None:
    with pytest.raises(GuestError, match="no such thing"):
        guest.run("echo no such thing; exit 7")
    assert guest.run("exit 7", check=False).code == 7


def test_doctor_runs_with_stock_tools_and_finds_netem_and_cgroup_v2(guest: Guest) -> None:
    done = guest.run(["fogctl", "doctor", "-o", "json"], check=False)
    assert done.code == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)
