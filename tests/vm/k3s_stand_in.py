#!/usr/bin/python3 -IS
"""Stands in for k3s's place on a board: the commands that the playbooks call, and no Kubernetes behind them.

A server that knows its nodes and refuses a wrong token, agents that join over the network, `kubectl` for the
few questions about nodes, `ctr` and `crictl` for an OCI archive. The test puts its version into VERSION. Few
modules are imported, and a question is a line of JSON: an emulated processor takes seconds to load more.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

VERSION = "v0.0.0"
SETTINGS = Path("/etc/rancher/k3s/config.yaml")
DATA = Path("/var/lib/rancher/k3s")
PORT = 6443
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: default
clusters:
- name: default
  cluster:
    server: https://127.0.0.1:{port}
contexts:
- name: default
  context:
    cluster: default
    user: default
users:
- name: default
  user:
    username: admin
    password: {secret}
"""


def settings() -> dict[str, str]:
    """The plain `key: value` lines of config.yaml."""
    pairs = (line.partition(": ") for line in SETTINGS.read_text().splitlines() if ": " in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def token() -> str:
    return Path(settings()["token-file"]).read_text().strip()


def note(text: str) -> None:
    """What happened, in order, for the test to read."""
    with (DATA / "notes").open("a") as notes:
        notes.write(text + "\n")


nodes: dict[str, dict[str, object]] = {}
"""By name: when a node was heard of last, whether pods may be placed there, its version."""


def answer(asked: dict[str, str], secret: str) -> dict[str, object]:
    """What the server says to one question."""
    name, what = asked["node"], asked["what"]
    node = nodes.setdefault(name, {"seen": 0.0, "cordoned": False, "version": ""})
    if what == "join" and asked["token"] != secret:
        return {"refused": True}
    if what == "join":
        if node["version"] != asked["version"]:
            note(f"join {name} {asked['version']}")
        node.update(seen=time.monotonic(), version=asked["version"])
    elif what in ("drain", "uncordon"):
        note(f"{what} {name}")
        node["cordoned"] = what == "drain"
    if name == settings()["node-name"]:
        node["seen"] = time.monotonic()
    # As in Kubernetes, a node that falls silent counts as ready for a while.
    return {**node, "ready": 0 < float(str(node["seen"])) > time.monotonic() - 40}


def ask(where: str, what: str, node: str, **more: str) -> dict[str, object]:
    with socket.create_connection((where, PORT), timeout=20) as link, link.makefile("rw") as stream:
        stream.write(json.dumps({"what": what, "node": node, **more}) + "\n")
        stream.flush()
        found: dict[str, object] = json.loads(stream.readline())
        return found


def server() -> None:
    DATA.mkdir(parents=True, exist_ok=True)
    secret = token()
    note(f"server {VERSION}")
    file = Path("/etc/rancher/k3s/k3s.yaml")
    file.touch(mode=0o600)
    file.write_text(KUBECONFIG.format(port=PORT, secret=secret))
    listening = socket.create_server(("", PORT))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.connect(os.environ["NOTIFY_SOCKET"].replace("@", "\0", 1))
        systemd.send(b"READY=1")
    while True:
        link, _ = listening.accept()
        link.settimeout(20)
        try:
            with link, link.makefile("rw") as stream:
                if asked := stream.readline():  # nothing: somebody only looked whether we are here
                    stream.write(json.dumps(answer(json.loads(asked), secret)) + "\n")
        except OSError as error:
            print(f'level=error msg="{error}"', file=sys.stderr, flush=True)


def agent() -> None:
    where = settings()["server"].removeprefix("https://").removesuffix(f":{PORT}")
    DATA.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            said = ask(where, "join", settings()["node-name"], token=token(), version=VERSION)
        except OSError as error:
            print(f'level=error msg="{error}"', file=sys.stderr, flush=True)
        else:
            if "refused" in said:
                sys.exit('level=fatal msg="token CA hash does not match, or 401 Unauthorized"')
        time.sleep(2)


def kubectl(arguments: list[str]) -> None:
    local = "127.0.0.1"
    if arguments[:2] == ["get", "--raw"]:
        ask(local, "ready", settings()["node-name"])
    elif arguments[0] in ("drain", "uncordon"):
        ask(local, arguments[0], arguments[1])
    elif arguments[0] == "wait":
        node = ask(local, "look", arguments[-1].removeprefix("node/"))
        sys.exit(0 if node["ready"] else "error: timed out waiting for the condition")
    elif arguments[:2] == ["get", "lease"]:
        print(ask(local, "look", arguments[2])["seen"] or "", end="")
    elif arguments[:2] == ["get", "node"]:
        node = ask(local, "look", arguments[2])
        print("true" if node["cordoned"] else "", end="")
    else:
        sys.exit(f"the stand-in does not know kubectl {' '.join(arguments)}")


def load(archive: str) -> None:
    """Note each image of an OCI archive with the architecture that its configuration claims."""
    import tarfile

    with tarfile.open(archive) as tar:

        def read(name: str) -> dict[str, object]:
            member = tar.extractfile(name)
            assert member is not None
            found: dict[str, object] = json.load(member)
            return found

        def blob(entry: object) -> dict[str, object]:
            assert isinstance(entry, dict)
            return read("blobs/" + entry["digest"].replace(":", "/"))

        manifests = read("index.json")["manifests"]
        assert isinstance(manifests, list)
        for entry in manifests:
            name = entry["annotations"]["io.containerd.image.name"]
            spec = blob(blob(entry)["config"])
            images = DATA / "images.json"
            known = json.loads(images.read_text()) if images.exists() else {}
            images.write_text(json.dumps({**known, name: spec["architecture"]}))


def main(arguments: list[str]) -> None:
    """As k3s: what the first word says."""
    if arguments == ["--version"]:
        print(f"k3s version {VERSION} (stand-in)")
    elif arguments == ["server"]:
        server()
    elif arguments == ["agent"]:
        agent()
    elif arguments[0] == "kubectl":
        kubectl(arguments[1:])
    elif arguments[:5] == ["ctr", "--namespace", "k8s.io", "images", "import"]:
        load(arguments[5])
    elif arguments[:2] in (["crictl", "inspecti"], ["crictl", "rmi"]):
        images = DATA / "images.json"
        known = json.loads(images.read_text()) if images.exists() else {}
        if arguments[-1] not in known:
            sys.exit("no such image")
        if arguments[1] == "rmi":
            del known[arguments[-1]]
            images.write_text(json.dumps(known))
            return
        print(json.dumps({"info": {"imageSpec": {"architecture": known[arguments[-1]]}}}))
    else:
        sys.exit(f"the stand-in does not know {' '.join(arguments)}")


if __name__ == "__main__":
    main(sys.argv[1:])
