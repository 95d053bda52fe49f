"""What a host was like before fogctl changed it: written down before each change, restored from there.

A ledger is a folder with `ledger.jsonl`, one entry a line in the order of the changes, and `originals/` with
the files as they were. Restoring walks it backwards. It runs on the host, so it needs Python 3.9 and no more.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

FOLDER = "/var/lib/fogctl-pi"
KINDS = ("file", "tree", "packages", "service", "sysctl", "module", "swap")
"""What a role can ask to record; users that a package brings are recorded with it."""

INSTALL = ("apt-get", "-o", "Dpkg::Options::=--force-confold", "install", "-y", "--no-install-recommends")

ACCOUNTS = {"users": "/etc/passwd", "groups": "/etc/group"}
FIRST_OF_PEOPLE = 1000
"""Debian numbers accounts of its packages below, those of people from here on."""

Entry = dict[str, Any]


class LedgerError(Exception):
    """A host that cannot be recorded or restored; the message is one sentence."""


class Ledger:
    """The entries of one host; every one is on the disk before the change that it is about."""

    def __init__(self, folder: str = FOLDER) -> None:
        self.folder = Path(folder)
        self.file = self.folder / "ledger.jsonl"
        self.originals = self.folder / "originals"

    def entries(self) -> list[Entry]:
        """All entries, oldest first; a last line that power loss cut short is no entry."""
        if not self.file.exists():
            return []
        found = []
        for line in self.file.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
        return found

    def knows(self, kind: str, name: str) -> bool:
        """Whether the original state is recorded: only the first record counts."""
        return any(entry["kind"] == kind and entry["name"] == name for entry in self.entries())

    def add(self, entry: Entry) -> None:
        """Append an entry and wait until the disk has it."""
        self.originals.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self._write([*self.entries(), entry])

    def _write(self, entries: list[Entry]) -> None:
        text = "".join(json.dumps(each) + "\n" for each in entries)
        fresh = self.file.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self.file)
        _sync_folder(self.folder)

    def record(self, kind: str, name: str, check: bool = False) -> bool:
        """Write down the state of one thing; True if it was not known before."""
        if self.knows(kind, name):
            return False
        entry: Entry = {"kind": kind, "name": name}
        if kind in ("file", "tree"):
            entry.update(self._path_state(kind, name, check))
        elif kind == "packages":
            entry["added"] = would_install(name.split())
        elif kind == "service":
            entry.update(service_state(name))
        elif kind == "sysctl":
            entry["value"] = sysctl_value(name)
        elif kind == "module":
            entry["loaded"] = module_loaded(name)
        elif kind == "swap":
            entry["areas"] = swap_areas()
        else:
            raise LedgerError(f"there is no kind {kind!r}; possible: {', '.join(KINDS)}")
        if not check:
            self.add(entry)
        return True

    def install(self, names: list[str]) -> None:
        """Install packages; what they add is written down first, and who was here before they bring users."""
        label = " ".join(names)
        run(["apt-get", "update", "-q"])
        self.record("packages", label)
        known = next(
            (each for each in self.entries() if (each["kind"], each["name"]) == ("users", label)), {}
        )
        # After a run that was cut off: the list of before that one.
        before = known.get("before") or {
            kind: [name for name in names_in(file) if name not in known.get(kind, ())]
            for kind, file in ACCOUNTS.items()
        }
        self._write_users(label, {"users": [], "groups": [], "before": before})
        try:
            run([*INSTALL, *names], DEBIAN_FRONTEND="noninteractive")
        finally:
            came = {
                kind: [name for name in names_in(file) if name not in before[kind]]
                for kind, file in ACCOUNTS.items()
            }
            self._write_users(label, came)

    def _write_users(self, label: str, state: Entry) -> None:
        """Write down the users of some packages in place of what was known of them; none: no entry."""
        entries = [each for each in self.entries() if (each["kind"], each["name"]) != ("users", label)]
        if any(state.values()):
            # In front of the packages: restoring goes backwards, and packages go before their users.
            place = [(each["kind"], each["name"]) for each in entries].index(("packages", label))
            entries.insert(place, {"kind": "users", "name": label, **state})
        self._write(entries)

    def _path_state(self, kind: str, name: str, check: bool) -> Entry:
        path = Path(name)
        if not path.is_absolute():
            raise LedgerError(f"{name} is not an absolute path")
        missing = [str(parent) for parent in path.parents if not parent.exists()]
        if not os.path.lexists(path):
            return {"was": "absent", "missing_parents": missing}
        if kind == "tree":
            return {"was": "there", "missing_parents": []}
        if path.is_symlink():
            return {"was": "link", "target": str(path.readlink()), "missing_parents": []}
        if not path.is_file():
            raise LedgerError(f"{name} is not a file")
        copy = f"{len(self.entries()):04d}"
        found = path.stat()
        if not check:
            self.originals.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept = self.originals / copy
            shutil.copyfile(path, kept)
            kept.chmod(0o600)
            with kept.open("rb") as stream:
                os.fsync(stream.fileno())
            _sync_folder(self.originals)
        owner = {"mode": found.st_mode & 0o7777, "uid": found.st_uid, "gid": found.st_gid}
        return {"was": "file", "copy": copy, "mtime_ns": found.st_mtime_ns, "missing_parents": [], **owner}

    def restore(self, check: bool = False) -> tuple[list[str], list[str]]:
        """Undo everything, newest first: what was restored, and a sentence for each thing that was not."""
        done: list[str] = []
        left: list[str] = []
        kept: list[Entry] = []
        for entry in reversed(self.entries()):
            try:
                said = self._restore(entry, check)
            except (LedgerError, OSError) as error:
                left.append(f"{entry['kind']} {entry['name']}: {error}")
                kept.insert(0, entry)
            else:
                done += [said] if said else []
        if not check:
            if any("/systemd/system/" in said for said in done):
                run(["systemctl", "daemon-reload"])
            if left:
                self._write(kept)
            else:
                shutil.rmtree(self.folder, ignore_errors=True)
        return done, left

    def _restore(self, entry: Entry, check: bool) -> str:
        kind, name = entry["kind"], entry["name"]
        if kind == "file":
            return self._restore_file(entry, check)
        if kind == "tree":
            return _restore_tree(entry, check)
        if kind == "packages":
            return _restore_packages(entry, check)
        if kind == "service":
            return _restore_service(entry, check)
        if kind == "sysctl":
            return _restore_sysctl(entry, check)
        if kind == "module":
            return _restore_module(entry, check)
        if kind == "swap":
            return _restore_swap(entry, check)
        if kind == "users":
            return _restore_users(entry, check)
        raise LedgerError(f"there is no kind {kind!r}; {name} was recorded by a newer fogctl")

    def _restore_file(self, entry: Entry, check: bool) -> str:
        path = Path(entry["name"])
        if entry["was"] == "absent":
            if not os.path.lexists(path):
                return _restore_parents(entry, check)
            if not check:
                path.unlink()
                _remove_empty(entry["missing_parents"])
            return f"removed {path}"
        if entry["was"] == "link":
            if path.is_symlink() and str(path.readlink()) == entry["target"]:
                return ""
            if not check:
                path.unlink(missing_ok=True)
                path.symlink_to(entry["target"])
            return f"restored the link {path}"
        original = self.originals / entry["copy"]
        if _same_file(path, original, entry):
            return ""
        if not check:
            fresh = path.with_name(f".{path.name}.fogctl")
            shutil.copyfile(original, fresh)
            with contextlib.suppress(PermissionError):  # a FAT boot partition knows neither owners nor modes
                os.chown(fresh, entry["uid"], entry["gid"])
            with contextlib.suppress(PermissionError):
                fresh.chmod(entry["mode"])
            os.utime(fresh, ns=(entry["mtime_ns"], entry["mtime_ns"]))
            fresh.replace(path)
            _sync_folder(path.parent)
        return f"restored {path}"


def _same_file(path: Path, original: Path, entry: Entry) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    found = path.stat()
    return (
        found.st_mode & 0o7777 == entry["mode"]
        and (found.st_uid, found.st_gid) == (entry["uid"], entry["gid"])
        and found.st_mtime_ns == entry["mtime_ns"]
        and path.read_bytes() == original.read_bytes()
    )


def _restore_tree(entry: Entry, check: bool) -> str:
    path = Path(entry["name"])
    if entry["was"] == "there":
        return ""
    if not os.path.lexists(path):
        return _restore_parents(entry, check)
    if not check:
        shutil.rmtree(path)
        _remove_empty(entry["missing_parents"])
    return f"removed {path}"


def _restore_parents(entry: Entry, check: bool) -> str:
    """Remove the folders of something that was never made: the run may have ended in between."""
    folders = [folder for folder in entry["missing_parents"] if Path(folder).is_dir()]
    if not folders or any(Path(folders[0]).iterdir()):
        return ""
    if not check:
        _remove_empty(folders)
    return f"removed {folders[0]}"


def _remove_empty(folders: list[str]) -> None:
    """Remove folders that were made for a file, innermost first, unless something else lives there now."""
    for folder in folders:
        try:
            Path(folder).rmdir()
        except OSError:
            return


def _restore_packages(entry: Entry, check: bool) -> str:
    there = [name for name in entry["added"] if package_state(name) not in ("", "not-installed")]
    if not there:
        return ""
    if not check:
        # dpkg, not apt-get: it refuses where something else has come to need the package.
        run(["dpkg", "--purge", *there], DEBIAN_FRONTEND="noninteractive")
    return f"removed the packages {' '.join(there)}"


def _restore_service(entry: Entry, check: bool) -> str:
    name, before = entry["name"], {"enabled": entry["enabled"], "active": entry["active"]}
    now = service_state(name)
    known = now["enabled"] != "not-found"
    actions: list[list[str]] = []
    if known and now["active"] and not before["active"]:
        actions.append(["stop"])
    if known and now["enabled"] == "enabled" and before["enabled"] != "enabled":
        actions.append(["disable"])
    if known and now["enabled"] == "masked" and before["enabled"] != "masked":
        actions.append(["unmask"])
    if before["enabled"] == "enabled" and now["enabled"] != "enabled":
        actions.append(["enable"])
    if before["enabled"] == "masked" and now["enabled"] != "masked":
        actions.append(["mask"])
    if before["active"] and not now["active"]:
        actions.append(["start"])
    if before["active"] and now["active"]:
        # Its settings may be among the files that were just restored.
        actions.append(["try-reload-or-restart"])
    changed = [action for action in actions if action != ["try-reload-or-restart"]]
    if not check and actions:
        run(["systemctl", "daemon-reload"])
        for action in actions:
            run(["systemctl", *action, name])
    return f"restored the service {name}" if changed else ""


def _restore_sysctl(entry: Entry, check: bool) -> str:
    name = entry["name"]
    if entry["value"] is None or sysctl_value(name) in (entry["value"], None):
        return ""
    if not check:
        sysctl_path(name).write_text(entry["value"], encoding="utf-8")
    return f"restored {name}"


def _restore_module(entry: Entry, check: bool) -> str:
    name = entry["name"]
    if entry["loaded"] or not module_loaded(name):
        return ""
    if not check:
        # A module that something else has come to use stays until the next boot; nothing asks for it then.
        subprocess.run(["modprobe", "-r", "-q", name], check=False, capture_output=True)
        if module_loaded(name):
            return ""
    return f"unloaded {name}"


def _restore_swap(entry: Entry, check: bool) -> str:
    now = swap_areas()
    gone = [area for area in entry["areas"] if area not in now and Path(area).exists()]
    for area in gone if not check else []:
        run(["swapon", area])
    return f"swap is on again: {' '.join(gone)}" if gone else ""


def _restore_users(entry: Entry, check: bool) -> str:
    there, groups = (_came(entry, kind) for kind in ACCOUNTS)
    if not check:
        for name in there:
            run(["userdel", name])
        for name in groups:
            if name in names_in(ACCOUNTS["groups"]):  # userdel takes a user's own group with it
                run(["groupdel", name])
    return f"removed the users {' '.join(there or groups)}" if there or groups else ""


def _came(entry: Entry, kind: str) -> list[str]:
    """The users or groups of an entry that are still there."""
    file = ACCOUNTS[kind]
    if "before" not in entry:
        return [name for name in entry[kind] if name in names_in(file)]
    # Installing was cut off, so who came is not written down; people who came since then stay.
    return [name for name in names_in(file, below=FIRST_OF_PEOPLE) if name not in entry["before"][kind]]


def names_in(file: str, below: float = float("inf")) -> list[str]:
    """The users of /etc/passwd or the groups of /etc/group, with numbers below a limit."""
    lines = [line.split(":") for line in Path(file).read_text(encoding="utf-8").splitlines()]
    return [parts[0] for parts in lines if len(parts) > 2 and parts[2].isdigit() and int(parts[2]) < below]


def sysctl_path(name: str) -> Path:
    """Where the kernel shows a setting."""
    return Path("/proc/sys") / name.replace(".", "/")


def sysctl_value(name: str) -> str | None:
    """A setting's value; None if this kernel has no such setting."""
    try:
        return sysctl_path(name).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def module_loaded(name: str) -> bool:
    """Whether a kernel module is loaded (or built in)."""
    return Path("/sys/module", name.replace("-", "_")).is_dir()


def swap_areas() -> list[str]:
    """The files and partitions that are swapped to."""
    lines = Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]
    return [line.split()[0] for line in lines if line.split()]


def service_state(name: str) -> Entry:
    """Whether a unit is enabled (as systemd says it) and active."""
    enabled = _said(["systemctl", "is-enabled", name]) or "not-found"
    return {"enabled": enabled, "active": _said(["systemctl", "is-active", name]) == "active"}


def package_state(name: str) -> str:
    """dpkg's word for a package: installed, config-files, not-installed; empty if never heard of."""
    return _said(["dpkg-query", "-W", "-f", "${db:Status-Status}", name])


def would_install(names: list[str]) -> list[str]:
    """The packages that installing these would add, dependencies included; upgrades are not additions."""
    told = run(["apt-get", "-s", "-q", "--no-install-recommends", "install", *names])
    return new_packages(told)


def new_packages(simulated: str) -> list[str]:
    """The additions in what `apt-get -s install` prints: `Inst name (version …)`, no `[old version]`."""
    found = []
    for line in simulated.splitlines():
        words = line.split()
        if len(words) > 2 and words[0] == "Inst" and not words[2].startswith("["):
            found.append(words[1])
    return found


def run(argv: list[str], **environment: str) -> str:
    """Run a command; LedgerError with its last line if it fails."""
    done = subprocess.run(
        argv, check=False, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C", **environment}
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}").splitlines()[-1]
        raise LedgerError(f"{' '.join(argv[:3])}: {said}")
    return done.stdout


def _said(argv: list[str]) -> str:
    done = subprocess.run(
        argv, check=False, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    return done.stdout.strip()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
