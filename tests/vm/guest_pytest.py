"""pytest inside the guest, followed from outside: each test's result as soon as the guest has it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.vm.guest import Guest
from tests.vm.guest_report import MARK
from tests.vm.project import CHECKOUT, PYTHON, copy_project

ROOT = Path(__file__).resolve().parents[2]
SUITE = "tests/integration"
ABOUT_THE_KERNEL = ("test_netem_*.py", "test_virtual_*.py", "test_ledger_*.py")
"""Files whose tests depend on the kernel; what runs on Spark or measures speed learns nothing in a guest."""
SECONDS_A_TEST = {"test_ledger_kill.py": 60, "test_virtual_repair.py": 20}
"""What tests of a file take there on average where that is not about ten seconds; only to share them out."""
# Per test, inside the guest: an emulated processor is ten to thirty times slower than the real one.
TEST_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended in the guest: passed, failed or skipped, with what it said."""

    test: str
    outcome: str
    seconds: float
    text: str


def collect() -> list[str]:
    """The ids of the suite's tests, asked of pytest on the host; the guest runs the same tree."""
    files = [
        str(path.relative_to(ROOT)) for name in ABOUT_THE_KERNEL for path in sorted((ROOT / SUITE).glob(name))
    ]
    if not files:
        return []
    argv = [
        sys.executable,
        "-m",
        "pytest",
        *files,
        "--collect-only",
        "-q",
        "-o",
        "addopts=--import-mode=importlib",
    ]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 5):
        raise RuntimeError(f"pytest cannot collect {SUITE}:\n{done.stdout}{done.stderr}")
    found = [line for line in done.stdout.splitlines() if line.startswith(f"{SUITE}/") and "::" in line]
    # The delay line in user space is for kernels without netem: it is tested on such a host, in real time.
    return [test for test in found if "[userspace" not in test]


def shares(tests: Sequence[str], guests: int) -> list[list[str]]:
    """Divide the tests among guests, file by file: the costliest first, always to who has least to do."""
    by_file: dict[str, list[str]] = {}
    for test in tests:
        by_file.setdefault(file_of(test), []).append(test)

    def cost(each: Sequence[str]) -> float:
        return sum(SECONDS_A_TEST.get(file_of(test), 10) for test in each)

    divided: list[list[str]] = [[] for _ in range(guests)]
    for file_tests in sorted(by_file.values(), key=cost, reverse=True):
        min(divided, key=cost).extend(file_tests)
    return [share for share in divided if share]


def file_of(test: str) -> str:
    """The name of a test's file."""
    return Path(test.split("::")[0]).name


class GuestRun:
    """pytest in the guest; `result` waits for a test's turn.

    An emulated machine may crash by itself. It is then replaced, once, and said to have been; tests that made
    it crash would crash the next one too.
    """

    def __init__(self, guest: Guest, tests: Sequence[str], say: Callable[[str], None]) -> None:
        self.tests = tuple(tests)
        self._guest = guest
        self._say = say
        self._outcomes: dict[str, Outcome] = {}
        self._output: list[str] = []
        self._news = threading.Condition()
        self._ended = self._replaced = False
        self._start(tests)

    def _start(self, tests: Sequence[str]) -> None:
        command = f"cd {CHECKOUT} && exec timeout -k 10 7200 {PYTHON} -m pytest -p tests.vm.guest_report -v"
        command += f" -o timeout={TEST_TIMEOUT_S} -o cache_dir=/tmp/pytest --rootdir={CHECKOUT} -- "
        quoted = " ".join("'" + test.replace("'", "'\\''") + "'" for test in tests)
        self._ended = False
        self._process = self._guest.popen(["sh", "-c", command + quoted])
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                # A machine that crashes may do so in the middle of a line.
                if line.startswith(MARK) and line.endswith("\n"):
                    outcome = Outcome(**json.loads(line.removeprefix(MARK)))
                    self._outcomes[outcome.test] = outcome
                else:
                    self._output.append(line)
                self._news.notify_all()
        self._process.wait()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def result(self, test: str) -> Outcome | None:
        """The test's outcome, waiting for it; None if the guest's pytest ended without one."""
        self._wait(lambda: test in self._outcomes)
        return self._outcomes.get(test)

    def finish(self) -> list[Outcome]:
        """Every outcome, once the guest's pytest has ended."""
        self._wait(lambda: False)
        return list(self._outcomes.values())

    def _wait(self, enough: Callable[[], bool]) -> None:
        """Until there is enough, or pytest has ended; a machine that is gone by then is replaced once."""
        with self._news:
            self._news.wait_for(lambda: enough() or self._ended)
            left = [test for test in self.tests if test not in self._outcomes]
        if not left or enough() or self._replaced or self._guest.alive():
            return
        self._replaced = True
        self._say(f"{self.lost()}\n{self._guest.name}: booting again for the {len(left)} tests that are left")
        self._guest.boot_again()
        copy_project(self._guest)
        self._start(left)
        self._wait(enough)

    def spent(self) -> str:
        """How long the tests of each file took, in words."""
        by_file: dict[str, list[float]] = {}
        for outcome in self._outcomes.values():
            by_file.setdefault(file_of(outcome.test), []).append(outcome.seconds)
        told = (f"{file} {sum(took):.0f} s for {len(took)}" for file, took in sorted(by_file.items()))
        return f"{self._guest.name}: {', '.join(told)}"

    def output(self) -> str:
        """What the guest's pytest printed."""
        with self._news:
            return "".join(line for line in self._output if line.strip())

    def lost(self) -> str:
        """Why there is no result: how the connection ended, what became of the machine, the last words."""
        code = self._process.poll()
        return (
            f"the guest's pytest ended without a result; ssh ended with code {code}\n"
            f"{self._guest.condition()}\n--- pytest\n{self.output()[-2000:]}"
        )

    def stop(self) -> None:
        """End the local end of the connection; the guest itself is thrown away."""
        if self._process.poll() is None:
            self._process.kill()
        self._reader.join(10)
