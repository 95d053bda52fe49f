"""What a board's card holds so that Ansible's modules start faster on an emulated processor."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent / "warm_python"
_PLACES = {
    "server.py": "/usr/lib/guest/server.py",
    "python3": "/usr/lib/guest/python3",
    "guest-warm.service": "/etc/systemd/system/guest-warm.service",
}
FILES = {place: (_HERE / name).read_bytes() for name, place in _PLACES.items()}
SET_UP = """
set -e
python3 -c pass  # whatever Python keeps of its own modules is there from now on
chmod 755 /usr/lib/guest/python3; ln -sf /usr/lib/guest/python3 /usr/bin/python3
systemctl daemon-reload; systemctl enable --quiet --now guest-warm
until [ -e /run/guest-warm/request ]; do sleep 0.5; done
"""
"""To be run once: scripts that come in run in forks of a Python that is there already, over reboots too."""
