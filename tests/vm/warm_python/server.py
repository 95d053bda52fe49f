# mypy: ignore-errors
"""Runs scripts in forks of a Python that has imported what Ansible's modules import.

An emulated processor takes three seconds to import what a module needs and one to run it. A script still is a
process of its own, with the client's files, environment, folder, mask, personality and control group.
"""

import contextlib
import ctypes
import os
import platform
import sys
import traceback
import types
from pathlib import Path

FOLDER = Path(sys.argv[1])
PIDFD_OPEN, PIDFD_GETFD = 434, 438  # the same on every processor
OFTEN_IMPORTED = (
    "__future__", "abc", "array", "ast", "atexit", "base64", "bz2", "codecs", "collections.abc",
    "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "email.message", "email.parser",
    "email.utils", "encodings.utf_8", "enum", "errno", "fcntl", "fnmatch", "functools", "gettext",
    "glob", "grp", "gzip", "hashlib", "http.client", "importlib.util", "inspect", "io", "ipaddress",
    "itertools", "json", "json.decoder", "json.encoder", "keyword", "linecache", "locale", "logging",
    "logging.handlers", "lzma", "operator", "os.path", "pathlib", "pickle", "pkgutil", "platform",
    "posixpath", "pwd", "queue", "random", "re", "runpy", "select", "selectors", "shlex", "shutil",
    "signal", "socket", "ssl", "stat", "string", "struct", "subprocess", "syslog", "tempfile",
    "textwrap", "threading", "time", "token", "tokenize", "typing", "unicodedata", "urllib.error",
    "urllib.parse", "urllib.request", "uuid", "warnings", "weakref", "zipfile", "zipimport", "zlib",
)  # fmt: skip


def main() -> None:
    for name in OFTEN_IMPORTED:
        __import__(name)
    request = FOLDER / "request"
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    request.unlink(missing_ok=True)
    os.mkfifo(request, 0o600)
    # Open for writing too: the end of one client is not the end of the requests.
    asked = os.fdopen(os.open(request, os.O_RDWR), "r")
    while line := asked.readline():
        if os.fork() == 0:
            attend(int(line))
        reap()


def reap() -> None:
    """Forget the attendants that are done."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def attend(client: int) -> None:
    """Have the client's script run, and tell the client how it ended."""
    worker = os.fork()
    if worker == 0:
        become(client)
        run()
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    try:
        (FOLDER / str(client)).write_text(f"{code if code >= 0 else 128 - code}\n")
    finally:
        os._exit(0)


def become(client: int) -> None:
    """Take over the client's files, environment, folder, mask, personality and control group."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.syscall(PIDFD_OPEN, client, 0)
    for number in (0, 1, 2):
        file = libc.syscall(PIDFD_GETFD, handle, number, 0)
        os.dup2(file, number)
        os.close(file)
    os.close(handle)
    theirs = Path(f"/proc/{client}")
    libc.personality(int((theirs / "personality").read_text(), 16))
    platform._uname_cache = None  # it may be told another machine's name now
    words = (theirs / "environ").read_bytes().split(b"\0")
    os.environb.clear()
    os.environb.update(word.split(b"=", 1) for word in words if b"=" in word)
    status = (theirs / "status").read_text().splitlines()
    os.umask(next(int(line.split()[1], 8) for line in status if line.startswith("Umask:")))
    group = (theirs / "cgroup").read_text().strip().rpartition("::")[2]
    with contextlib.suppress(OSError):
        Path(f"/sys/fs/cgroup{group}/cgroup.procs").write_text(str(os.getpid()))
    os.chdir(theirs / "cwd")


def run() -> None:
    """Run what comes in, as `python3` without arguments does."""
    code = 1
    try:
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        sys.argv[:] = [""]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__builtins__ = __builtins__
        exec(compile(sys.stdin.read(), "<stdin>", "exec"), main.__dict__)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
