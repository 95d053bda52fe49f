"""The ledger on a host: what was recorded first is what comes back, also after power was lost half-way."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fogctl import data


def load_ledger() -> ModuleType:
    """The collection's own module, which runs on hosts and is no package of ours."""
    file = data.path("playbooks") / "ansible_collections/fogctl/pi/plugins/module_utils/ledger.py"
    spec = importlib.util.spec_from_file_location("fogctl_pi_ledger", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


ledger_module = load_ledger()


@pytest.fixture
def ledger(tmp_path: Path):  # type: ignore[no-untyped-def]
    return ledger_module.Ledger(str(tmp_path / "ledger"))


def test_a_changed_file_comes_back_with_mode_and_time(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "cmdline.txt"
    file.write_text("console=tty1 root=/dev/sda2\n")
    file.chmod(0o640)
    os.utime(file, ns=(1_000_000_007, 2_000_000_009))
    assert ledger.record("file", str(file))
    file.write_text("something else")
    file.chmod(0o600)
    done, left = ledger.restore()
    assert (done, left) == ([f"restored {file}"], [])
    assert file.read_text() == "console=tty1 root=/dev/sda2\n"
    assert (file.stat().st_mode & 0o777, file.stat().st_mtime_ns) == (0o640, 2_000_000_009)
    assert not ledger.folder.exists()


def test_only_the_first_record_counts(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    file.write_text("first")
    assert ledger.record("file", str(file))
    file.write_text("second")
    assert not ledger.record("file", str(file))
    ledger.restore()
    assert file.read_text() == "first"


def test_what_was_not_there_goes_with_the_folders_made_for_it(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "new" / "folder" / "file"
    tree = tmp_path / "data"
    ledger.record("file", str(file))
    ledger.record("tree", str(tree))
    file.parent.mkdir(parents=True)
    file.write_text("x")
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "file").write_text("x")
    ledger.restore()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "tree"])
def test_folders_made_for_what_was_never_made_go_too(kind: str, ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    wanted = tmp_path / "share" / "fogctl" / "dashboard.json"
    assert ledger.record(kind, str(wanted))
    wanted.parent.mkdir(parents=True)  # and there the run ended
    assert ledger.restore(check=True) == ([f"removed {wanted.parent}"], [])
    assert wanted.parent.exists()
    assert ledger.restore() == ([f"removed {wanted.parent}"], [])
    assert not (tmp_path / "share").exists()


def test_a_folder_in_which_somebody_else_put_something_stays(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "new" / "file"
    ledger.record("file", str(file))
    file.parent.mkdir()
    file.write_text("x")
    (tmp_path / "new" / "theirs").write_text("y")
    ledger.restore()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["theirs"]


def test_a_tree_that_was_there_is_not_touched(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("x")
    ledger.record("tree", str(tmp_path / "theirs"))
    ledger.restore()
    assert (tmp_path / "theirs" / "file").read_text() == "x"


def test_a_link_comes_back_as_a_link(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    link = tmp_path / "link"
    link.symlink_to("somewhere")
    ledger.record("file", str(link))
    link.unlink()
    link.write_text("a file now")
    ledger.restore()
    assert str(link.readlink()) == "somewhere"


def test_check_mode_writes_and_restores_nothing(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    assert ledger.record("file", str(file), check=True)
    assert not ledger.folder.exists()
    ledger.record("file", str(file))
    file.write_text("x")
    assert ledger.restore(check=True) == ([f"removed {file}"], [])
    assert file.exists()
    assert ledger.entries()


def test_power_lost_between_record_and_change_restores_to_the_same(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    file.write_text("as it was")
    ledger.record("file", str(file))
    assert ledger.restore() == ([], [])
    assert file.read_text() == "as it was"


def test_a_line_that_was_cut_short_is_no_entry(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    ledger.record("file", str(file))
    with ledger.file.open("a") as stream:
        stream.write('{"kind": "file", "na')
    assert [entry["name"] for entry in ledger.entries()] == [str(file)]
    ledger.record("file", str(tmp_path / "b"))
    assert len(ledger.entries()) == 2


def test_what_cannot_be_restored_is_said_and_stays_in_the_ledger(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "a"
    file.write_text("x")
    ledger.record("file", str(file))
    ledger.add({"kind": "spell", "name": "abracadabra"})
    file.write_text("y")
    done, left = ledger.restore()
    assert done == [f"restored {file}"]
    assert len(left) == 1
    assert "newer fogctl" in left[0]
    assert [entry["kind"] for entry in map(json.loads, ledger.file.read_text().splitlines())] == ["spell"]


def test_only_additions_count_as_new_packages() -> None:
    simulated = (
        "Reading package lists...\n"
        "Inst libc6 [2.36-9] (2.36-10 Debian:12/stable [arm64])\n"
        "Inst prometheus-node-exporter (1.5.0-1+b6 Debian:12.1/stable [arm64])\n"
        "Conf prometheus-node-exporter (1.5.0-1+b6 Debian:12.1/stable [arm64])\n"
    )
    assert ledger_module.new_packages(simulated) == ["prometheus-node-exporter"]


def test_the_ledger_is_for_root_only(ledger, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "secret"
    file.write_text("x")
    ledger.record("file", str(file))
    assert ledger.folder.stat().st_mode & 0o777 == 0o700


class Machine:
    """In place of systemd, dpkg and apt: units with their state, packages, and the commands that were run."""

    def __init__(self) -> None:
        self.units: dict[str, list[str]] = {}
        """By name: enabled (as systemd says it), active."""
        self.packages: set[str] = set()
        self.needed: set[str] = set()
        self.ran: list[str] = []

    def said(self, argv: list[str]) -> str:
        if argv[0] == "dpkg-query":
            return "installed" if argv[-1] in self.packages else ""
        enabled, active = self.units.get(argv[-1], ["", "inactive"])
        return enabled if argv[1] == "is-enabled" else active

    def run(self, argv: list[str], **_: str) -> str:
        self.ran.append(" ".join(argv))
        if argv[:2] == ["apt-get", "-s"]:
            return "".join(f"Inst {name} (1.0 Debian)\n" for name in (*argv[5:], "libdep"))
        if argv[0] == "apt-get" and "install" in argv:
            self.packages |= {*argv[6:], "libdep"}
        if argv[:2] == ["dpkg", "--purge"]:
            if self.needed & {*argv[2:]}:
                raise ledger_module.LedgerError("dpkg --purge: dependency problems")
            self.packages -= {*argv[2:]}
        if argv[0] == "systemctl" and len(argv) == 3:
            unit = self.units[argv[2]]
            words = {"enable": (0, "enabled"), "disable": (0, "disabled"), "mask": (0, "masked")}
            words |= {"unmask": (0, "disabled"), "start": (1, "active"), "stop": (1, "inactive")}
            if argv[1] in words:
                place, word = words[argv[1]]
                unit[place] = word
        return ""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(ledger_module, "run", made.run)
    monkeypatch.setattr(ledger_module, "_said", made.said)
    return made


@pytest.mark.parametrize("before", [["enabled", "active"], ["disabled", "inactive"], ["masked", "inactive"]])
@pytest.mark.parametrize("after", [["enabled", "active"], ["disabled", "inactive"], ["masked", "inactive"]])
def test_a_service_is_as_it_was(before: list[str], after: list[str], ledger, machine: Machine) -> None:  # type: ignore[no-untyped-def]
    machine.units["a.service"] = [*before]
    ledger.record("service", "a.service")
    machine.units["a.service"] = [*after]
    told = ledger.restore(check=True)
    assert machine.units["a.service"] == after  # a dry run touches nothing
    assert ledger.restore() == told == ([] if before == after else ["restored the service a.service"], [])
    assert machine.units["a.service"] == before


def test_a_service_that_goes_on_reads_its_old_settings_again(  # type: ignore[no-untyped-def]
    ledger, machine: Machine, tmp_path: Path
) -> None:
    machine.units["ssh.service"] = ["enabled", "active"]
    ledger.record("service", "ssh.service")
    ledger.record("file", str(tmp_path / "new.conf"))
    (tmp_path / "new.conf").write_text("x")
    assert ledger.restore() == ([f"removed {tmp_path}/new.conf"], [])
    assert machine.ran[-1] == "systemctl try-reload-or-restart ssh.service"


def test_packages_go_with_what_came_with_them_and_nothing_else(ledger, machine: Machine) -> None:  # type: ignore[no-untyped-def]
    machine.packages = {"bash"}
    ledger.install(["prometheus"])
    assert machine.packages == {"bash", "prometheus", "libdep"}
    assert ledger.restore() == (["removed the packages prometheus libdep"], [])
    assert machine.packages == {"bash"}


def test_a_package_that_something_else_needs_by_now_stays_and_is_told(ledger, machine: Machine) -> None:  # type: ignore[no-untyped-def]
    ledger.install(["prometheus"])
    machine.needed = {"libdep"}
    done, left = ledger.restore()
    assert (done, len(left)) == ([], 1)
    assert "dependency problems" in left[0]
    machine.needed = set()
    assert ledger.restore()[1] == []  # running it again goes on
    assert not ledger.folder.exists()


def test_users_that_a_package_brought_go_after_it(ledger, machine: Machine, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    names = {"/etc/passwd": ["root"], "/etc/group": ["root"]}
    monkeypatch.setattr(ledger_module, "names_in", lambda file, **_: list(names[file]))
    install = machine.run

    def run(argv: list[str], **more: str) -> str:
        if argv[0] == "apt-get" and "install" in argv and "-s" not in argv:
            names["/etc/passwd"].append("prometheus")
            names["/etc/group"] += ["prometheus", "watchers"]
        if argv[0] == "userdel":
            names["/etc/passwd"].remove(argv[1])
            names["/etc/group"].remove(argv[1])
        if argv[0] == "groupdel":
            names["/etc/group"].remove(argv[1])
        return install(argv, **more)

    monkeypatch.setattr(ledger_module, "run", run)
    ledger.install(["prometheus"])
    done, left = ledger.restore()
    assert (done, left) == (["removed the packages prometheus libdep", "removed the users prometheus"], [])
    assert names == {"/etc/passwd": ["root"], "/etc/group": ["root"]}


def test_kernel_settings_swap_and_modules_are_as_they_were(  # type: ignore[no-untyped-def]
    ledger, machine: Machine, monkeypatch, tmp_path: Path
) -> None:
    setting, area, module = tmp_path / "setting", tmp_path / "swapfile", tmp_path / "sch_netem"
    setting.write_text("0\n")
    area.touch()
    in_use = [str(area)]
    monkeypatch.setattr(ledger_module, "sysctl_path", lambda _: setting)
    monkeypatch.setattr(ledger_module, "swap_areas", lambda: list(in_use))
    monkeypatch.setattr(ledger_module, "module_loaded", lambda _: module.exists())
    for kind, name in (("sysctl", "net.ipv4.ip_forward"), ("swap", "swap"), ("module", "sch_netem")):
        assert ledger.record(kind, name)
    setting.write_text("1\n")
    in_use.clear()
    module.touch()
    unloaded: list[list[str]] = []

    def unload(argv: list[str], **_: object) -> None:
        unloaded.append(argv)
        module.unlink()

    monkeypatch.setattr(ledger_module.subprocess, "run", unload)
    done, left = ledger.restore()
    assert (sorted(done), left) == (
        ["restored net.ipv4.ip_forward", f"swap is on again: {area}", "unloaded sch_netem"],
        [],
    )
    assert setting.read_text() == "0"
    assert machine.ran == [f"swapon {area}"]
    assert unloaded == [["modprobe", "-r", "-q", "sch_netem"]]


def test_a_module_that_something_else_uses_by_now_is_not_told_as_unloaded(ledger, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    loaded = False
    monkeypatch.setattr(ledger_module, "module_loaded", lambda _: loaded)
    ledger.record("module", "ifb")
    loaded = True
    monkeypatch.setattr(ledger_module.subprocess, "run", lambda *_, **__: None)
    assert ledger.restore() == ([], [])


@pytest.mark.parametrize("again", [False, True])
def test_users_of_an_installation_that_lost_power_go_and_people_stay(  # type: ignore[no-untyped-def]
    again: bool, ledger, machine: Machine, monkeypatch, tmp_path: Path
) -> None:
    files = {"users": tmp_path / "passwd", "groups": tmp_path / "group"}
    monkeypatch.setattr(ledger_module, "ACCOUNTS", {kind: str(file) for kind, file in files.items()})
    for file in files.values():
        file.write_text("root:x:0:0\npi:x:1000:1000\n")
    install = machine.run
    lost = ["power"]

    def run(argv: list[str], **more: str) -> str:
        if argv[0] == "apt-get" and "install" in argv and "-s" not in argv:
            if "prometheus" not in files["users"].read_text():
                for file in files.values():
                    file.write_text(file.read_text() + "prometheus:x:110:110\n")
            if lost:
                raise SystemExit(lost.pop())
        if argv[0] in ("userdel", "groupdel"):
            for file in files.values():
                kept = [line for line in file.read_text().splitlines() if not line.startswith(argv[1])]
                file.write_text("\n".join(kept) + "\n")
        return install(argv, **more)

    monkeypatch.setattr(ledger_module, "run", run)
    written = ledger._write_users

    def write(label: str, state: dict[str, object]) -> None:
        if "before" in state or not lost_power:
            written(label, state)

    lost_power = True  # so nothing is written after it
    monkeypatch.setattr(ledger, "_write_users", write)
    with pytest.raises(SystemExit):
        ledger.install(["prometheus"])
    lost_power = False
    if again:
        ledger.install(["prometheus"])
    for file in files.values():
        file.write_text(file.read_text() + "anna:x:1001:1001\n")
    machine.packages |= {"prometheus", "libdep"}
    done, left = ledger.restore()
    assert (done, left) == (["removed the packages prometheus libdep", "removed the users prometheus"], [])
    assert all("prometheus" not in file.read_text() for file in files.values())
    assert all("anna" in file.read_text() for file in files.values())
