"""The current tree inside a guest: copied at each start, so that tests never run yesterday's code."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tomllib
from pathlib import Path

from tests.vm.guest import Guest
from tests.vm.image import VENV

ROOT = Path(__file__).resolve().parents[2]
CHECKOUT = "/opt/fogctl"
PYTHON = f"/{VENV}/bin/python"
NOT_COPIED = {".git", ".venv", ".cache", "__pycache__", "build", "dist"}


def files() -> list[Path]:
    """The tree's files, relative to its root: what git knows or would add, or all but caches without git."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        found = [Path(name) for name in listed.stdout.split("\0") if name]
    else:
        found = [file.relative_to(ROOT) for file in ROOT.rglob("*")]
    return [f for f in found if not NOT_COPIED.intersection(f.parts) and (ROOT / f).is_file()]


def archive() -> bytes:
    """A tar of the tree and of what `pip install -e .` would have written for it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    sources = settings["tool"]["hatch"]["build"]["dev-mode-dirs"]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:

        def add(name: str, text: str, mode: int = 0o644) -> None:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), mode
            tar.addfile(entry, io.BytesIO(text.encode()))

        for file in files():
            tar.add(ROOT / file, f"{CHECKOUT}/{file}", recursive=False)
        site = f"{CHECKOUT}/.install"
        info = f"{site}/{project['name']}-{project['version']}.dist-info"
        add(f"{site}/_{project['name']}.pth", "".join(f"{CHECKOUT}/{folder}\n" for folder in sources))
        add(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n",
        )
        add(f"{info}/RECORD", "")
        scripts = project.get("scripts", {})
        add(
            f"{info}/entry_points.txt",
            "[console_scripts]\n" + "".join(f"{k} = {v}\n" for k, v in scripts.items()),
        )
        for name, target in {**scripts, "pytest": "pytest:console_main"}.items():
            module, function = target.split(":")
            body = f"#!{PYTHON}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
            add(f"{VENV}/bin/{name}", body, 0o755)
    return buffer.getvalue()


def copy_project(guest: Guest) -> None:
    """Put the tree at CHECKOUT with a .venv in which `fogctl` and `pytest` work as on the host."""
    guest.run(
        f"tar -C / -xf - && cp -r {CHECKOUT}/.install/. /{VENV}/lib/python3*/site-packages/ "
        f"&& ln -sfn /{VENV} {CHECKOUT}/.venv && ln -sf /{VENV}/bin/fogctl /usr/local/bin/fogctl",
        stdin=archive(),
    )
