"""From hosts.txt to testbed.yaml to Ansible's inventory, and the sentences on the way."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.config import testbed
from fogctl.errors import FogError
from fogctl.pi.hosts_file import EXAMPLE, read, yaml_text
from fogctl.pi.inventory import inventory, require_hosts
from fogctl.testbed.model import Role, Testbed


def loaded(text: str, folder: Path) -> Testbed:
    file = folder / "testbed.yaml"
    file.write_text(yaml_text(read(text, "hosts.txt"), "shelf"))
    return testbed.load(file)


def test_the_example_becomes_a_testbed_that_loads(tmp_path: Path) -> None:
    bed = loaded(EXAMPLE, tmp_path)
    assert [(node.name, node.role.value, node.site) for node in bed.nodes] == [
        ("cloud", "control", "main"),
        ("pi1", "edge", "north"),
        ("pi2", "edge", "main"),
    ]
    assert [(host.node, host.user, host.address, host.port) for host in bed.hosts] == [
        ("cloud", "pi", "192.168.1.10", 22),
        ("pi1", "pi", "192.168.1.11", 22),
        ("pi2", "pi", "pi2.local", 22),
    ]
    assert bed.hosts[2].key == str(Path("~/.ssh/fog").expanduser())
    assert bed.latencies.rtt_ms("pi1", "pi2") == 0


def test_the_first_board_is_the_control_node_unless_another_is() -> None:
    assert [board.role for board in read("a 10.0.0.1\nb 10.0.0.2\n", "f")] == [Role.control, Role.edge]
    assert [board.role for board in read("a 10.0.0.1\nb 10.0.0.2 role=control\n", "f")] == [
        Role.edge,
        Role.control,
    ]


@pytest.mark.parametrize(
    ("where", "user", "address", "port"),
    [
        ("10.0.0.1", "pi", "10.0.0.1", 22),
        ("fog@10.0.0.1:2222", "fog", "10.0.0.1", 2222),
        ("fd00::1", "pi", "fd00::1", 22),
        ("root@[fd00::1]:2222", "root", "fd00::1", 2222),
        ("pi@fe80::1%eth0", "pi", "fe80::1%eth0", 22),
    ],
)
def test_a_host_is_user_address_and_port(
    where: str, user: str, address: str, port: int, tmp_path: Path
) -> None:
    (board,) = read(f"a {where}", "f")
    assert (board.user, board.address, board.port) == (user, address, port)
    (host,) = loaded(f"a {where}", tmp_path).hosts
    assert (host.user, host.address, host.port) == (user, address, port)


def test_a_file_written_on_another_system_is_read() -> None:
    boards = read("\ufeffcloud 10.0.0.1\r\npi1 10.0.0.2 site=north\r\n", "f")
    assert [(board.name, board.site) for board in boards] == [("cloud", "main"), ("pi1", "north")]


def test_a_host_name_alone_names_the_node() -> None:
    assert [board.name for board in read("Pi7.local site=north", "f")] == ["pi7"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no board"),
        ("192.168.1.11", "needs a name before it"),
        ("pi1 10.0.0.1 rolle=edge", 'did you mean "role"'),
        ("pi1 10.0.0.1 role=egde", 'did you mean "edge"'),
        ("pi1 10.0.0.1 edge", "is not a setting"),
        ("pi1 10.0.0.1 role=edge role=edge", "given twice"),
        ("Pi_1 10.0.0.1", "is not a host name"),
        ("pi1 -oProxyCommand", "neither a host name nor an IP address"),
        ("pi1 10.0.0.1:99999", "is not a port"),
        ("pi1 192.168.1.300", '"192.168.1.300" is not an IP address'),
        ("pi1 10.0.0.1 data=10.0.0", "is not an IP address"),
        ("pi1 10.0.0.1 data=fd00::1", "is an IPv6 address, but latencies are added to IPv4 only (write"),
        ("pi1 fd00:::1", "is not an IP address"),
        ("pi1 10.0.0.1 board=rpi4-3g", 'did you mean "rpi4-4g"'),
        ("a 10.0.0.1 data=10.1.0.1\nb 10.0.0.2 data=10.1.0.1", "is that of line 1 already"),
        ("pi1 Bad User@10.0.0.1", "is not a setting"),
        ("pi1 $x@10.0.0.1", "is not a user name"),
        ("pi1 10.0.0.1\npi1 10.0.0.2", "the name pi1 is taken by line 1"),
        ("pi1 10.0.0.1\npi2 10.0.0.1", "is the host of line 1 already"),
        ("a 10.0.0.1 role=control\nb 10.0.0.2 role=control", "control is taken by line 1"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(text: str, said: str) -> None:
    with pytest.raises(FogError, match=r"hosts\.txt") as caught:
        read(text, "hosts.txt", ["rpi4-4g", "rpi5-8g"])
    assert said in str(caught.value)
    assert text == "" or f"hosts.txt:{text.count(chr(10)) + 1}: " in str(caught.value)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused_in_sentences(text: str) -> None:
    try:
        boards = read(text, "hosts.txt")
    except FogError:
        return
    assert sum(board.role is Role.control for board in boards) == 1


def test_hosts_of_unknown_nodes_and_nodes_without_hosts_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "testbed.yaml"
    text = yaml_text(read("a 10.0.0.1\nb 10.0.0.2\n", "f"), "shelf")
    file.write_text(text.replace("  b: {address", "  c: {address"))
    with pytest.raises(FogError) as caught:
        testbed.load(file)
    assert 'there is no node "c"' in str(caught.value)
    assert "no host is given for b" in str(caught.value)


def test_an_ipv6_data_address_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "testbed.yaml"
    file.write_text(
        yaml_text(read("a 10.0.0.1 data=10.1.0.1\n", "f"), "shelf").replace("10.1.0.1", "fd00::1")
    )
    with pytest.raises(
        FogError, match=r'testbed\.yaml:\d+: hosts\.a\.data_address: "fd00::1" is an IPv6 address'
    ):
        testbed.load(file)


def test_two_nodes_at_one_data_address_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "testbed.yaml"
    text = yaml_text(read("a 10.0.0.1 data=10.1.0.1\nb 10.0.0.2 data=10.1.0.2\n", "f"), "shelf")
    file.write_text(text.replace("10.1.0.2", "10.1.0.1"))
    with pytest.raises(
        FogError, match=r"testbed\.yaml:\d+: hosts\.b\.data_address: 10\.1\.0\.1 is the data address of a"
    ):
        testbed.load(file)


def test_the_same_file_serves_another_kind_without_its_hosts(tmp_path: Path) -> None:
    file = tmp_path / "testbed.yaml"
    file.write_text(yaml_text(read("a 10.0.0.1\nb 10.0.0.2\n", "f"), "shelf").replace("k3s", "sim"))
    assert len(testbed.load(file).nodes) == 2


def test_a_testbed_without_hosts_has_no_machines(tmp_path: Path) -> None:
    file = tmp_path / "testbed.yaml"
    file.write_text("name: x\nkind: sim\nnodes: [{name: cloud, role: control, board: host}]\n")
    with pytest.raises(FogError, match="no machine is named"):
        require_hosts(testbed.load(file), file)


def test_the_inventory_groups_by_role_and_checks_host_keys(tmp_path: Path) -> None:
    bed = loaded("cloud root@10.0.0.1:2222\npi1 10.0.0.2 site=north key=/k\n", tmp_path)
    made = inventory(bed, tmp_path / "a folder" / "known_hosts")["all"]
    assert list(made["children"]["control"]["hosts"]) == ["cloud"]
    assert made["children"]["edge"]["hosts"]["pi1"] == {
        "ansible_host": "10.0.0.2",
        "ansible_port": 22,
        "ansible_user": "pi",
        "ansible_ssh_private_key_file": "/k",
        "fog_site": "north",
        "fog_board": "rpi4-4g",
    }
    options = shlex.split(made["vars"]["ansible_ssh_common_args"])
    assert "StrictHostKeyChecking=yes" in options
    assert f'UserKnownHostsFile="{tmp_path}/a folder/known_hosts"' in options
    assert options[:2] == ["-F", "none"]


def test_a_second_network_is_where_nodes_meet_and_ssh_does_not(tmp_path: Path) -> None:
    bed = loaded("cloud 10.0.0.1 data=192.168.7.1\npi1 10.0.0.2\n", tmp_path)
    assert [host.reached_at for host in bed.hosts] == ["192.168.7.1", "10.0.0.2"]
    made = inventory(bed, tmp_path / "known_hosts")["all"]["children"]
    assert made["control"]["hosts"]["cloud"]["ansible_host"] == "10.0.0.1"
    assert made["control"]["hosts"]["cloud"]["fog_data_address"] == "192.168.7.1"
    assert "fog_data_address" not in made["edge"]["hosts"]["pi1"]


def test_a_board_that_falls_silent_in_the_middle_is_given_up(tmp_path: Path) -> None:
    """OpenSSH itself waits for ever."""
    bed = loaded("cloud 10.0.0.1\n", tmp_path)
    options = inventory(bed, tmp_path / "known_hosts")["all"]["vars"]["ansible_ssh_common_args"]
    assert "ServerAliveInterval=15" in options
    assert "ServerAliveCountMax=12" in options
