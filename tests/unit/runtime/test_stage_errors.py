"""Sentences from what Spark really says: the texts were taken from failed queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from fogctl.runtime.stage_errors import explain

CODE = "/state/apps/heat/.source/ab/app.py"
IN_WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage \
failure: Task 0 in stage 3.0 failed 8 times, most recent failure: Lost task 0.7 in stage 3.0 (TID 31): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/usr/lib/python3/pyspark/worker.py", line 1830, in main
    process()
  File "/state/apps/heat/.source/ab/app.py", line 9, in convert
    return celsius(value)
  File "/state/apps/heat/.source/ab/app.py", line 5, in celsius
    return float(value)
ValueError: could not convert string to float: 'warm'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
SQLSTATE: XXKST
"""
IN_EXPRESSION = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[CAST_INVALID_INPUT] The value 'warm' of the type "STRING" cannot be cast to "DOUBLE" because it is malformed.
== DataFrame ==
"cast" was called from
/state/apps/heat/.source/ab/app.py:12
 SQLSTATE: 22018
"""


def test_a_function_that_raised_on_a_record_is_named_with_its_innermost_line() -> None:
    failure = explain(RuntimeError(IN_WORKER), CODE, "heat/app.py")
    assert failure.sentence == "heat/app.py:5: ValueError: could not convert string to float: 'warm'"
    assert failure.by_app


def test_an_expression_that_failed_on_a_record_is_named_with_its_line() -> None:
    failure = explain(RuntimeError(IN_EXPRESSION), CODE, "heat/app.py")
    assert failure.sentence.startswith("heat/app.py:12: [CAST_INVALID_INPUT] The value 'warm' of the type")
    assert failure.by_app


def test_what_the_code_raises_itself_is_named_with_its_line(tmp_path: Path) -> None:
    code = tmp_path / "app.py"
    code.write_text("def f():\n    return {}['key']\n")
    scope: dict[str, object] = {}
    exec(compile(code.read_text(), str(code), "exec"), scope)
    with pytest.raises(KeyError) as caught:
        scope["f"]()  # type: ignore[operator]
    assert explain(caught.value, str(code)).sentence == f"{code}:2: KeyError: 'key'"


def test_other_failures_are_one_line_and_not_the_apps() -> None:
    failure = explain(
        RuntimeError("An error occurred while calling o1.start.\n: java.net.Oh: no\n\tat x"), CODE
    )
    assert failure.sentence == "java.net.Oh: no"
    assert not failure.by_app
    assert "\n" not in explain(RuntimeError(""), CODE).sentence
