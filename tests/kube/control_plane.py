"""A real Kubernetes control plane for tests: etcd, API server, scheduler and controllers, in a folder."""

from __future__ import annotations

import itertools
import json
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from tests.kube.api import Api, Call
from tests.kube.certificates import Authority, Pair
from tests.kube.leash import Leashed

PATIENCE_S = 180.0
SERVICES = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
"""Where the API server is for pods; no kube-proxy runs here, so only a plane in a namespace answers there."""
SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
HEART_BEATS = {"--node-monitor-period": "1s", "--node-monitor-grace-period": "12s"}
"""A node is lost when it was silent for so long: sooner than in production, or tests would wait minutes."""
WITHOUT_RESIZE = ("--emulated-version=kube=1.33", "--feature-gates=kube:InPlacePodVerticalScaling=false")
"""As late as 1.33 a cluster could be without it; from 1.35 on none is."""
SERVER_PORTS = (20_000, 32_768)
CONTEXT = "fog-test"
CONTROLLERS = ("kube-scheduler", "kube-controller-manager")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a control plane lives: on the host's loopback unless said otherwise."""

    address: str = "127.0.0.1"
    listen: str = "127.0.0.1"
    port: int = 0
    """0: one that is free now."""
    also: tuple[str, ...] = ()
    """More addresses and names it answers to."""
    wrap: Callable[[list[str]], list[str]] = field(default=lambda argv: argv)
    """Turns a command into one that runs there."""
    inside: Callable[[], AbstractContextManager[object]] = nullcontext
    """In the body, sockets that this process opens are there."""


class ControlPlane:
    """One cluster's control plane, as long as the `with` body lasts; RBAC is on."""

    def __init__(self, binary: Path, folder: Path, place: Place | None = None) -> None:
        self._binary = binary
        self._folder = folder
        self.place = place or Place()
        self._port = self.place.port or _free_port(self.place.listen)
        self._running: dict[str, Leashed] = {}
        self.when_api_is_back: list[Callable[[], None]] = []
        """Called whenever the API server was started again."""
        self._changing = threading.Lock()
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep_controllers, daemon=True)
        self.authority = Authority(folder / "pki")
        self.ca_file = self.authority.certificate
        self.url = f"https://{self.place.address}:{self._port}"
        self._admin = self.authority.client("fog-test-admin", "system:masters")
        self.kubeconfig = self.kubeconfig_for("admin", self._admin)
        self._token_key = self.authority.signing_key("service-accounts")
        addresses = [self.place.address, "127.0.0.1", "localhost", SERVICE_ADDRESS, *SERVICE_NAMES]
        self._server = self.authority.server("kube-apiserver", [*addresses, *self.place.also])
        self._to_kubelets = self.authority.client("fog-test-to-kubelets", "system:masters")
        self.api = Api(self.place.address, self._port, self.ca_file, self._admin, self.place.inside)

    def __enter__(self) -> Self:
        try:
            self._start("etcd", str(self._made("etcd")))
            self._until("etcd", (self._folder / "etcd" / "client").exists, "opens its socket")
            self.start_api()
            self._start_controllers()
            self._until(
                "kube-controller-manager",
                lambda: self._has_account("default"),
                "makes the default account",
            )
            self._keeper.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End every program; the folder stays, with their logs."""
        self._over.set()
        if self._keeper.is_alive():
            self._keeper.join()
        for name in (*CONTROLLERS, "kube-apiserver", "etcd"):
            if program := self._running.pop(name, None):
                program.end()

    @property
    def processes(self) -> dict[str, int]:
        """The process number of every program that runs."""
        return {name: program.pid for name, program in self._running.items()}

    # The API server

    def stop_api(self) -> None:
        """Kill the API server; etcd and everything in it stay."""
        self._running.pop("kube-apiserver").end()

    def start_api(self, *, without_resize: bool = False) -> None:
        """Start the API server, also as one that is too old to resize pods; returns when it is ready.

        Scheduler and controllers start with it, as in k3s, where all are one process. By themselves they come
        back up to a minute later, and act on old news till then.
        """
        self._start("kube-apiserver", *self._api_flags(), *(WITHOUT_RESIZE if without_resize else ()))
        self._until("kube-apiserver", self._ready, "is ready")
        with self._changing:
            for name in CONTROLLERS:
                if running := self._running.get(name):
                    running.end()
                    self._start_controller(name)
        for follow in self.when_api_is_back:
            follow()

    def restart_api(self, *, without_resize: bool = False) -> None:
        """Kill the API server and start it again; returns when it is ready."""
        self.stop_api()
        self.start_api(without_resize=without_resize)

    @contextmanager
    def too_old_to_resize(self) -> Iterator[None]:
        """In the body the API server is as that of a cluster before pods could be resized in place."""
        self.restart_api(without_resize=True)
        try:
            yield
        finally:
            self.restart_api()

    def _api_flags(self) -> list[str]:
        place = self.place
        loopback = place.address.startswith("127.")
        return _flags(
            {
                "--advertise-address": place.address,
                "--allow-privileged": "true",
                "--authorization-mode": "Node,RBAC",
                "--bind-address": place.listen,
                "--cert-dir": str(self._folder / "pki"),
                "--client-ca-file": str(self.ca_file),
                "--enable-admission-plugins": "NodeRestriction",
                # Endpoints on loopback are refused by the API server itself.
                "--endpoint-reconciler-type": "none" if loopback else "lease",
                "--etcd-servers": f"unix://{self._folder}/etcd/client",
                "--kubelet-certificate-authority": str(self.ca_file),
                "--kubelet-client-certificate": str(self._to_kubelets.certificate),
                "--kubelet-client-key": str(self._to_kubelets.key),
                "--kubelet-preferred-address-types": "InternalIP",
                "--secure-port": str(self._port),
                "--service-account-issuer": "https://kubernetes.default.svc",
                "--service-account-key-file": str(self._token_key),
                "--service-account-signing-key-file": str(self._token_key),
                "--service-cluster-ip-range": SERVICES,
                "--shutdown-delay-duration": "0s",
                "--tls-cert-file": str(self._server.certificate),
                "--tls-private-key-file": str(self._server.key),
            }
        )

    def _ready(self) -> bool:
        try:
            return self.api.call(Call("GET", "/readyz"))[0][0] == HTTPStatus.OK
        except AssertionError:
            return False

    def _start_controllers(self) -> None:
        for name in CONTROLLERS:
            self.kubeconfig_for(name, self.authority.client(f"system:{name}"))
            self._start_controller(name)

    def _start_controller(self, name: str) -> None:
        kubeconfig = self._folder / f"{name}.kubeconfig"
        flags = {"--kubeconfig": str(kubeconfig), "--leader-elect": "false", "--secure-port": "0"}
        if name == "kube-controller-manager":
            flags |= {
                "--root-ca-file": str(self.ca_file),
                "--service-account-private-key-file": str(self._token_key),
                "--use-service-account-credentials": "true",
                **HEART_BEATS,
            }
        self._start(name, *_flags(flags))

    def _keep_controllers(self) -> None:
        """Start again what ended, as the kubelet of a control plane does.

        The scheduler ends itself if a pod is not where it put it, as happens when the API server dies between
        storing that and saying so.
        """
        while not self._over.wait(0.5):
            with self._changing:
                for name in CONTROLLERS:
                    if not self._running[name].running:
                        self._running[name].wait()
                        self._start_controller(name)

    # Asking it

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """What kubectl says; it must succeed."""
        done = self._asked(*arguments, stdin=stdin, kubeconfig=kubeconfig)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout

    def refused(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """What kubectl complains of; it must fail."""
        done = self._asked(*arguments, stdin=stdin, kubeconfig=kubeconfig)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} succeeded: {done.stdout.strip()}"
        return done.stderr.strip()

    def read(self, *arguments: str) -> dict[str, Any]:
        """The answer to `kubectl get ARGUMENTS` as a value."""
        if (answer := self.api.read(arguments)) is not None:
            return answer
        found = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        assert isinstance(found, dict)
        return found

    def get(self, *paths: str) -> list[dict[str, Any]]:
        """What the API server has there, as values."""
        return self.api.get(*paths)

    def remove(self, *paths: str) -> None:
        """Have what the API server has there removed; what is not there already is fine."""
        self.api.remove(*paths)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Have these objects, made or changed."""
        self.api.apply(*objects)

    @contextmanager
    def namespace(self) -> Iterator[str]:
        """A namespace of the caller's own; after the body it goes, in its own time, with its contents."""
        name = f"test-{os.getpid()}-{next(_numbers)}"
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            until(lambda: self._has_account(name), f"namespace {name} has its default account")
            yield name
        finally:
            self.remove(f"/api/v1/namespaces/{name}")

    def _has_account(self, namespace: str) -> bool:
        asked = Call("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
        return self.api.call(asked)[0][0] == HTTPStatus.OK

    def _asked(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        chosen = [
            "--kubeconfig",
            str(kubeconfig or self.kubeconfig),
            "--cache-dir",
            str(self._folder / "kubectl"),
        ]
        return subprocess.run(
            self.place.wrap([str(self._binary), "kubectl", *chosen, *arguments]),
            input=stdin or "",
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def kubeconfig_for(self, name: str, pair: Pair) -> Path:
        """A kubeconfig file (0600) for whoever holds that certificate."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": CONTEXT, "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}
            ],
            "users": [
                {
                    "name": name,
                    "user": {"client-certificate": str(pair.certificate), "client-key": str(pair.key)},
                }
            ],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": name}}],
            "current-context": CONTEXT,
        }
        file = self._folder / f"{name}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(content, indent=1))
        return file

    # Programs

    def _made(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _start(self, name: str, *arguments: str) -> None:
        argv = self.place.wrap([str(self._binary), name, *arguments])
        self._running[name] = Leashed(argv, self._made("logs") / f"{name}.log")

    def _until(self, name: str, true: Callable[[], object], what: str) -> None:
        program = self._running[name]

        def done() -> bool:
            assert program.running, f"{name} ended:\n{program.complaint()}"
            return bool(true())

        until(done, f"{name} {what}", otherwise=program.complaint)


def until(
    true: Callable[[], object],
    what: str,
    patience_s: float = PATIENCE_S,
    pause_s: float = 0.1,
    otherwise: Callable[[], str] = lambda: "",
) -> None:
    """Return as soon as something is true; fail, saying what was waited for, if it does not become so."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, f"not within {patience_s:.0f} s: {what}\n{otherwise()}".strip()
        time.sleep(pause_s)


def _flags(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]


def _free_port(address: str) -> int:
    """Below those that connections are given: while the API server is down nobody gets its port by chance."""
    for port in random.sample(range(*SERVER_PORTS), k=100):
        with socket.socket() as taken, suppress(OSError):
            taken.bind((address, port))
            return port
    raise AssertionError(f"none of a hundred ports on {address} is free")


def names_of(listed: Mapping[str, Any]) -> Sequence[str]:
    """The names of the objects of a list."""
    return [item["metadata"]["name"] for item in listed["items"]]
