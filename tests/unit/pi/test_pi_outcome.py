"""One sentence for each host that failed, whatever Ansible's events look like."""

from __future__ import annotations

from typing import Any

from fogctl.pi.outcome import Outcome
from fogctl.pi.provision import Run


def event(kind: str, host: str, task: str = "prepare : Do it", **res: Any) -> dict[str, Any]:
    data = {
        "host": host,
        "task": task,
        "task_action": res.pop("action", "ansible.builtin.command"),
        "res": res,
    }
    return {"event": kind, "event_data": data}


def test_changes_are_counted_and_named() -> None:
    seen = Outcome()
    seen.take(event("runner_on_ok", "pi1", changed=True))
    seen.take(event("runner_on_ok", "pi1", changed=False))
    assert (seen.hosts["pi1"].ok, seen.changed, seen.hosts["pi1"].changes) == (2, 1, ["Do it"])


def test_an_assertion_speaks_for_itself_and_another_task_says_its_name() -> None:
    seen = Outcome()
    seen.take(event("runner_on_failed", "pi1", action="ansible.builtin.assert", msg="the disk is full"))
    seen.take(event("runner_on_failed", "pi2", msg="non-zero return code", stderr="warning\nno space left"))
    assert seen.failures == {"pi1": "the disk is full", "pi2": "Do it: no space left"}


def test_the_failed_item_of_a_loop_is_the_one_told() -> None:
    seen = Outcome()
    results = [{"failed": False, "msg": "fine"}, {"failed": True, "msg": "b is missing"}]
    seen.take(event("runner_on_failed", "pi1", msg="One or more items failed", results=results))
    assert seen.failures == {"pi1": "Do it: b is missing"}


def test_of_facts_that_cannot_be_collected_the_module_is_told() -> None:
    broken = {
        "failed": True,
        "msg": "Task failed: Module result deserialization failed: No start of json char found",
        "module_stderr": "Traceback (most recent call last):\nOSError: [Errno 28] No space left on device\n",
    }
    seen = Outcome()
    seen.take(event("runner_on_failed", "pi1", msg="These failed: setup.", failed_modules={"setup": broken}))
    assert seen.failures == {"pi1": "Do it: OSError: [Errno 28] No space left on device"}


def test_a_disk_so_full_that_python_finds_no_place_for_a_byte_is_told_as_such() -> None:
    python = "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/home/pi']"
    seen = Outcome()
    seen.take(event("runner_on_failed", "pi1", msg="MODULE FAILURE", module_stderr=f"Traceback\n{python}\n"))
    assert seen.failures["pi1"].startswith(
        "Do it: No space left on the disk, or it is read-only: nothing can"
    )
    assert seen.failures["pi1"].endswith("['/tmp', '/home/pi']")


def test_an_unreachable_host_is_told_in_one_line() -> None:
    seen = Outcome()
    seen.take(event("runner_on_unreachable", "pi1", msg="Failed to connect\nvia ssh: timed out"))
    assert seen.hosts["pi1"].unreachable
    assert seen.failures == {"pi1": "cannot be reached: timed out"}


def test_of_a_loop_that_reached_nobody_ssh_is_told_and_not_the_loop() -> None:
    seen = Outcome()
    items = [{"unreachable": True, "msg": "Failed to connect to the host via ssh: Connection refused"}]
    seen.take(event("runner_on_unreachable", "pi1", msg="All items completed", results=items))
    assert seen.failures == {"pi1": "cannot be reached: Connection refused"}


def test_a_hidden_failure_stays_hidden() -> None:
    seen = Outcome()
    seen.take(event("runner_on_failed", "pi1", censored="the output has been hidden", msg="token 123"))
    assert "123" not in seen.failures["pi1"]
    assert "secret" in seen.failures["pi1"]


def test_a_rescued_failure_is_none() -> None:
    seen = Outcome()
    seen.take(event("runner_on_failed", "pi1", msg="not yet"))
    seen.take(event("runner_on_failed", "pi2", msg="never"))
    seen.rescued({"failures": {"pi2": 1}, "dark": {}})
    assert list(seen.failures) == ["pi2"]


def test_a_dry_run_is_ansibles_check_mode_and_stopping_is_the_default() -> None:
    from pathlib import Path

    wanted = Run("prepare", {}, {}, ["pi1", "pi2"], check=True, tags=["time", "cmdline"])
    assert wanted.arguments() == ["--limit", "pi1,pi2", "--check", "--tags", "cmdline,time"]
    assert wanted.environment(Path("/c"), Path("/s"))["ANSIBLE_ANY_ERRORS_FATAL"] == "True"
