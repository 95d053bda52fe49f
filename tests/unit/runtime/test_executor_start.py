"""An executor's start: it waits for its driver, and no two starts have the same number."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fogctl.runtime import executor_start
from fogctl.runtime.executor_start import PLACES, next_number


@given(st.lists(st.integers(0, PLACES - 1), max_size=30))
def test_no_two_starts_have_the_same_number(places: list[int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        numbers = [next_number(Path(folder, f"starts-{place}"), place) for place in places]
    assert len(set(numbers)) == len(places)


def test_a_counter_that_was_cut_off_in_a_write_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "starts").write_text("")
    assert next_number(tmp_path / "starts", 3) == 3
    assert next_number(tmp_path / "starts", 3) == PLACES + 3


def test_the_command_runs_when_the_driver_listens_and_not_before(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        argv = [sys.executable, "-I", "-S", executor_start.__file__, "127.0.0.1", str(port)]
        argv += [str(tmp_path / "starts"), "7", sys.executable, "-c", "import sys; print(sys.argv[1:])"]
        started = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        try:
            ended = threading.Event()
            threading.Thread(target=lambda: (started.wait(), ended.set()), daemon=True).start()
            assert not ended.wait(0.5), "it ran although nobody listened"
            reserved.listen()
            said = started.communicate(timeout=20)[0]
        finally:
            started.kill()
    assert said.strip() == "['--executor-id', '7']"
