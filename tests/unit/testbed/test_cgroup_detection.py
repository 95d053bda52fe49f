"""Which hierarchy has a controller, read from the mount tables of real hosts."""

from __future__ import annotations

import pytest

from fogctl.errors import FogError
from fogctl.testbed import cgroups
from fogctl.testbed.cgroups import Hierarchies, Hierarchy, detect

DEBIAN_12 = """\
25 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
28 23 0:26 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
29 23 0:27 / /sys/fs/pstore rw,relatime shared:10 - pstore pstore rw
"""
UBUNTU_20_HYBRID = """\
32 25 0:27 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
33 32 0:28 / /sys/fs/cgroup/unified rw,relatime shared:10 - cgroup2 cgroup2 rw,nsdelegate
34 32 0:29 / /sys/fs/cgroup/systemd rw,relatime shared:11 - cgroup cgroup rw,xattr,name=systemd
37 32 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:15 - cgroup cgroup rw,cpu,cpuacct
38 32 0:34 / /sys/fs/cgroup/cpuset rw,relatime shared:16 - cgroup cgroup rw,cpuset
41 32 0:37 / /sys/fs/cgroup/memory rw,relatime shared:19 - cgroup cgroup rw,memory
"""
CENTOS_7_LEGACY = """\
26 24 0:22 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:8 - tmpfs tmpfs ro,mode=755
27 26 0:23 / /sys/fs/cgroup/systemd rw,relatime shared:9 - cgroup cgroup rw,xattr,name=systemd
29 26 0:25 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 - cgroup cgroup rw,cpuacct,cpu
33 26 0:29 / /sys/fs/cgroup/memory rw,relatime shared:14 - cgroup cgroup rw,memory
"""
SEPARATE_MOUNTS = """\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
CONTAINER = """\
961 955 0:26 /../../.. / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate
"""


def test_a_version_2_host_has_everything_in_one_tree() -> None:
    found = detect(
        DEBIAN_12, lambda root: {"/sys/fs/cgroup": "cpuset cpu io memory hugetlb pids rdma misc\n"}[root]
    )
    tree = Hierarchy("/sys/fs/cgroup", 2)
    assert found == Hierarchies(cpu=tree, memory=tree, usage=tree)
    assert found.used == (tree,)
    assert found.controllers(tree) == ("cpu", "memory")


def test_a_hybrid_host_has_its_controllers_in_version_1() -> None:
    found = detect(UBUNTU_20_HYBRID, lambda _: "\n")
    assert found.cpu == Hierarchy("/sys/fs/cgroup/cpu,cpuacct", 1)
    assert found.memory == Hierarchy("/sys/fs/cgroup/memory", 1)
    assert found.usage == Hierarchy("/sys/fs/cgroup/unified", 2)
    assert found.controllers(Hierarchy("/sys/fs/cgroup/unified", 2)) == ()


def test_a_hybrid_host_whose_memory_moved_to_version_2_is_split() -> None:
    without_memory = "\n".join(line for line in UBUNTU_20_HYBRID.splitlines() if "/memory" not in line)
    found = detect(without_memory, lambda _: "memory pids\n")
    assert found.cpu == Hierarchy("/sys/fs/cgroup/cpu,cpuacct", 1)
    assert found.memory == Hierarchy("/sys/fs/cgroup/unified", 2)
    assert found.controllers(Hierarchy("/sys/fs/cgroup/unified", 2)) == ("memory",)


def test_a_version_1_host_counts_cpu_time_where_it_limits_it() -> None:
    found = detect(CENTOS_7_LEGACY, lambda _: pytest.fail("there is no version 2 tree to read"))
    assert found.cpu == found.usage == Hierarchy("/sys/fs/cgroup/cpu,cpuacct", 1)
    assert len(found.used) == 2


def test_a_mounted_version_2_tree_without_controllers_is_not_mistaken_for_one_with() -> None:
    found = detect(SEPARATE_MOUNTS, lambda _: "")
    assert found.cpu == Hierarchy("/sys/fs/cgroup/cpu", 1)
    assert found.memory == Hierarchy("/sys/fs/cgroup/memory", 1)
    assert len(found.used) == 3


def test_nothing_mounted_is_nothing_found_and_refused_with_the_remedy() -> None:
    found = detect("25 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n", lambda _: "")
    assert found == Hierarchies()
    with pytest.raises(FogError, match=r"cpu controller.*mount") as refused:
        found.require(memory=True)
    assert refused.value.exit_code == 3


def test_a_pi_without_memory_controller_is_told_the_kernel_command_line() -> None:
    found = detect(DEBIAN_12, lambda _: "cpuset cpu io pids\n")
    found.require(memory=False)
    with pytest.raises(FogError, match="cgroup_enable=memory"):
        found.require(memory=True)


def test_a_blank_in_a_mount_point_is_read_as_one() -> None:
    line = "28 23 0:26 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n"
    assert detect(line, lambda root: "cpu" if root == "/mnt/my groups" else "").cpu == Hierarchy(
        "/mnt/my groups", 2
    )


@pytest.mark.parametrize(
    ("version", "text", "quota"),
    [
        (2, "20000 100000\n", 20_000),
        (2, "max 100000\n", None),
        (2, "5000 50000\n", 10_000),
        (1, "20000\n", 20_000),
        (1, "-1\n", None),
    ],
)
def test_quotas_read_back(version: int, text: str, quota: int | None) -> None:
    assert cgroups.read_quota(version, text) == quota


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("quota", [1_000, 20_000, 400_000, None])
def test_a_quota_written_is_the_quota_read(version: int, quota: int | None) -> None:
    assert cgroups.read_quota(version, cgroups.cpu_files(version, quota)[-1][1]) == quota


def test_the_smallest_share_is_what_the_kernel_accepts() -> None:
    assert cgroups.quota_us(0.000_001) == 1_000
    assert cgroups.quota_us(0.2) == 20_000
    assert cgroups.quota_us(4) == 400_000


def test_memory_limits_include_swap_and_keep_version_1_order() -> None:
    assert cgroups.memory_files(2, 100) == [("memory.max", "100", True), ("memory.swap.max", "0", False)]
    names = [name for name, _, _ in cgroups.memory_files(1, 100)]
    assert names == ["memory.memsw.limit_in_bytes", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]


@pytest.mark.parametrize(
    ("text", "limit"), [("max\n", None), ("9223372036854771712\n", None), ("67108864\n", 67108864)]
)
def test_memory_limits_read_back(text: str, limit: int | None) -> None:
    assert cgroups.read_limit(text) == limit
