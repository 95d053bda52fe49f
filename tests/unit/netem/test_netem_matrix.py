"""The latency matrix: validation, symmetry, round trips, the nodes that are near and far."""

import io
import json
import math
import pickle

import pytest
from fognetem import LatencyMatrix, Path
from fognetem.matrix import changed_pairs
from hypothesis import given
from hypothesis import strategies as st
from netem_values import matrices, paths


def rtts(values: dict[tuple[str, str], float], nodes: str) -> LatencyMatrix:
    return LatencyMatrix(tuple(nodes), tuple((a, b, Path(rtt)) for (a, b), rtt in values.items()))


NETWORK = rtts({("a", "b"): 10, ("a", "c"): 300, ("b", "c"): 80, ("c", "d"): 5}, "abcd")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rtt_ms", math.nan),
        ("rtt_ms", -1),
        ("rtt_ms", math.inf),
        ("rtt_ms", "80"),
        ("rtt_ms", True),
        ("rtt_ms", 4e6),
        ("jitter_ms", 11),
        ("jitter_ms", -0.5),
        ("loss", 1.01),
        ("loss", -0.1),
        ("loss", math.nan),
        ("rate_bit_s", 0),
        ("rate_bit_s", math.nan),
        ("reorder", 1),
    ],
)
def test_path_refuses_impossible_value_and_names_the_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field) as refused:
        Path(**{"rtt_ms": 10, field: value})  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


def test_equality_is_by_meaning_not_by_spelling() -> None:
    one = LatencyMatrix(("a", "b", "c"), (("a", "b", Path(10)), ("b", "c", Path(20))))
    other = LatencyMatrix(("a", "b", "c"), (("c", "b", Path(20.0)), ("b", "a", Path(10)), ("a", "c", Path())))
    assert one == other
    assert hash(one) == hash(other)
    assert one != one.with_path("a", "c", Path(1))


@pytest.mark.parametrize(
    ("nodes", "paths", "said"),
    [
        (("a", "a"), (), '"a" is named twice'),
        (("a", ""), (), "non-empty"),
        (("a", "b"), (("a", "x", Path(1)),), 'unknown node "x"'),
        (("a", "b"), (("a", "a", Path(1)),), "to itself"),
        (("a", "b"), (("a", "b", Path(1)), ("b", "a", Path(2))), "a–b|b–a"),
    ],
)
def test_matrix_refuses_contradictions_in_one_sentence(
    nodes: tuple[str, ...], paths: tuple, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        LatencyMatrix(nodes, paths)


def test_max_rtt_of_a_set_and_from_an_origin() -> None:
    assert NETWORK.max_rtt_ms() == 300
    assert NETWORK.max_rtt_ms(["a", "b"]) == 10
    assert NETWORK.max_rtt_ms(["b", "c", "d"]) == 80
    assert NETWORK.max_rtt_ms(["b", "d"], origin="c") == 80
    assert NETWORK.max_rtt_ms(["a"]) == 0
    with pytest.raises(ValueError, match='unknown node "x"'):
        NETWORK.max_rtt_ms(["a", "x"])


def test_nearest_and_farthest_go_by_the_largest_rtt_to_the_set() -> None:
    assert NETWORK.nearest("a", among=["b", "c"]) == "b"
    assert NETWORK.nearest(["b", "c"], among=["a", "d"]) == "d"  # d–c 5 against a–c 300
    assert NETWORK.farthest(["a", "b", "c"]) == "a"
    assert NETWORK.farthest("a", among=["b", "c", "d"]) == "c"
    with pytest.raises(ValueError, match="no node"):
        NETWORK.nearest("a", among=[])


@given(st.data())
def test_every_pair_reads_the_same_both_ways_and_survives_json_and_pickle(data: st.DataObject) -> None:
    matrix = data.draw(matrices())
    for a in matrix.nodes:
        for b in matrix.nodes:
            assert matrix.path(a, b) == matrix.path(b, a)
    assert LatencyMatrix.from_dict(json.loads(json.dumps(matrix.to_dict()))) == matrix
    assert pickle.loads(pickle.dumps(matrix)) == matrix


@given(st.data())
def test_csv_gives_the_round_trip_times_back_exactly(data: st.DataObject) -> None:
    matrix = data.draw(matrices())
    text = io.StringIO()
    matrix.to_csv(text)
    text.seek(0)
    again = LatencyMatrix.from_csv(text)
    assert again.nodes == matrix.nodes
    assert all(again.rtt_ms(a, b) == matrix.rtt_ms(a, b) for a, b, _ in matrix.pairs())


@given(st.data())
def test_changed_pairs_turn_the_old_matrix_into_the_new_one(data: st.DataObject) -> None:
    old = data.draw(matrices())
    new = old
    for a, b in data.draw(st.lists(st.sampled_from([(a, b) for a, b, _ in old.pairs()]), max_size=4)):
        new = new.with_path(a, b, data.draw(paths()))
    rebuilt = old
    for a, b, before, after in changed_pairs(old, new):
        assert before == old.path(a, b) != after
        rebuilt = rebuilt.with_path(b, a, after)
    assert rebuilt == new


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        (
            ",a,b\na,0,10\nb,12,0\n",
            'asymmetric: row "a", column "b" says 10 ms, row "b", column "a" says 12 ms',
        ),
        (",a,b\na,0,-1\nb,-1,0\n", 'row "a", column "b": an RTT must be finite and not negative'),
        (",a,b\na,0,nan\nb,0,0\n", 'row "a", column "b"'),
        (",a,b\na,0,10s\nb,10,0\n", 'row "a", column "b": "10s" is not a time in ms'),
        (",a,b\na,0,10\n", 'row of node "b" is missing'),
        (",a,b\na,0,10\nc,10,0\n", 'row "c" is not a column'),
        (",a,b\na,0\nb,10,0\n", 'row "a" has 1 values'),
        (",a,b\na,5,10\nb,10,0\n", 'row "a", column "a"'),
        (",a,b\na,0,\nb,,0\n", 'row "a", column "b" is empty'),
        (",a,a\na,0,1\na,1,0\n", '"a" is named twice'),
    ],
)
def test_bad_csv_is_refused_with_row_and_column(tmp_path, text: str, said: str) -> None:
    file = tmp_path / "latencies.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"latencies\.csv: ") as refused:
        LatencyMatrix.from_csv(file)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_csv_takes_units_comments_and_half_a_matrix(tmp_path) -> None:
    file = tmp_path / "latencies.csv"
    file.write_text("# from the lab\n, a, b, c\na, 0, 80ms, 1.5 ms\nb, , 0, 20\nc, , ,\n")
    matrix = LatencyMatrix.from_csv(file)
    assert [path.rtt_ms for _, _, path in matrix.pairs()] == [80, 1.5, 20]


def test_missing_csv_is_one_sentence(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.csv: cannot be read"):
        LatencyMatrix.from_csv(tmp_path / "nowhere.csv")
