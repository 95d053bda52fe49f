"""The planner is pure and complete: what it plans can be written down and read back."""

import builtins
import json
import socket
from dataclasses import asdict, fields

import pytest
from fognetem import STEP_TYPES, Endpoint, Kernel, LatencyMatrix, Path, UserSpace, difference, plan
from fognetem.kernel import ChangeDestination, ShapeInterface
from fognetem.matrix import changed_pairs
from fognetem.userspace import ChangePaths, StartDelayLine
from hypothesis import given
from hypothesis import strategies as st
from netem_values import matrices


def endpoints(matrix: LatencyMatrix) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(n, f"fog-t-{n}", "data0", f"10.77.0.{i + 1}") for i, n in enumerate(matrix.nodes))


def backends(matrix: LatencyMatrix) -> tuple[Kernel, UserSpace]:
    return Kernel(endpoints(matrix)), UserSpace(endpoints(matrix), "/run/nowhere")


@given(matrices())
def test_planning_is_repeatable_and_touches_nothing(matrix: LatencyMatrix) -> None:
    with pytest.MonkeyPatch.context() as patch:

        def forbidden(*_: object, **__: object) -> None:
            raise AssertionError("the planner did I/O")

        patch.setattr(builtins, "open", forbidden)
        patch.setattr(socket, "socket", forbidden)
        for backend in backends(matrix):
            assert plan(matrix, backend) == plan(matrix, backend)
            assert difference(matrix, matrix, backend) == []
            for step in plan(matrix, backend):
                assert step.describe()


def thawed(value: object) -> object:
    return tuple(thawed(item) for item in value) if isinstance(value, list) else value


@given(matrices())
def test_every_step_survives_being_written_as_json(matrix: LatencyMatrix) -> None:
    changed = matrix.with_path(matrix.nodes[0], matrix.nodes[1], Path(rtt_ms=77.5, jitter_ms=2))
    for backend in backends(matrix):
        for step in [*plan(matrix, backend), *difference(matrix, changed, backend)]:
            kind = {cls.__name__: cls for cls in STEP_TYPES}[type(step).__name__]
            written = json.loads(
                json.dumps({field.name: getattr(step, field.name) for field in fields(step)})
            )
            again = kind(**{key: thawed(value) for key, value in written.items()})
            assert again == step
            assert hash(again) == hash(step)


@given(matrices())
def test_kernel_plan_shapes_every_impaired_direction_once(matrix: LatencyMatrix) -> None:
    backend = Kernel(endpoints(matrix))
    node_at = {endpoint.address: endpoint.node for endpoint in backend.endpoints}
    node_in = {endpoint.namespace: endpoint.node for endpoint in backend.endpoints}
    planned = {}
    for step in plan(matrix, backend):
        assert isinstance(step, ShapeInterface)
        for number, address, path in step.destinations:
            assert backend.endpoints[number - 1].address == address
            planned[node_in[step.namespace], node_at[address]] = Path(*path)
    expected = {}
    for a, b, path in matrix.paths:
        expected[a, b] = expected[b, a] = path
    assert planned == expected


@given(matrices())
def test_delay_line_gets_exactly_the_matrix(matrix: LatencyMatrix) -> None:
    start, *rules = plan(matrix, UserSpace(endpoints(matrix), "/run/nowhere"))
    assert isinstance(start, StartDelayLine)
    assert LatencyMatrix(matrix.nodes, tuple((a, b, Path(*p)) for a, b, p in start.paths)) == matrix
    assert len(rules) == len(matrix.nodes)


@given(st.data())
def test_difference_carries_every_changed_pair_and_nothing_else(data: st.DataObject) -> None:
    old = data.draw(matrices(3))
    new = old.with_path(old.nodes[0], old.nodes[2], Path(5)).with_path(old.nodes[1], old.nodes[2], Path(9, 1))
    wanted = {(a, b): (before, after) for a, b, before, after in changed_pairs(old, new)}
    kernel, userspace = backends(old)
    (step,) = difference(old, new, userspace) or [None]
    assert step is None or isinstance(step, ChangePaths)
    if step is not None:
        assert {(a, b): (Path(*x), Path(*y)) for a, b, x, y in step.changes} == wanted
    steps = difference(old, new, kernel)
    assert len(steps) == 2 * len(wanted)
    for each in steps:
        assert isinstance(each, ChangeDestination)
        sender = next(e.node for e in kernel.endpoints if e.namespace == each.namespace)
        receiver = kernel.endpoints[each.number - 1].node
        pair = (sender, receiver) if (sender, receiver) in wanted else (receiver, sender)
        assert wanted[pair] == (Path(*each.before), Path(*each.after))


def test_planner_refuses_what_does_not_fit_together() -> None:
    matrix = LatencyMatrix.uniform("ab", Path(10))
    here = endpoints(matrix)
    with pytest.raises(ValueError, match='node "b" of the latency matrix has no endpoint'):
        plan(matrix, Kernel(here[:1]))
    with pytest.raises(ValueError, match="same address"):
        plan(matrix, Kernel((here[0], Endpoint("b", "x", "data0", here[0].address))))
    with pytest.raises(ValueError, match="not an IPv4 address"):
        Endpoint("a", "x", "data0", "::1")
    with pytest.raises(ValueError, match="same nodes"):
        difference(LatencyMatrix.uniform("abc", Path(10)), matrix, UserSpace(here, "/run/nowhere"))


def test_steps_hold_plain_values_only() -> None:
    def plain(value: object) -> bool:
        if isinstance(value, tuple):
            return all(map(plain, value))
        return value is None or isinstance(value, str | int | float | bool)

    matrix = LatencyMatrix.uniform("abc", Path(10, 1, 0.1, 1e6))
    for backend in backends(matrix):
        for step in plan(matrix, backend):
            assert all(plain(value) for value in asdict(step).values())  # type: ignore[call-overload]
