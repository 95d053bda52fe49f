"""Judging a measurement: right, off, silent, lopsided, lossy."""

import random

import pytest
from fognetem import LatencyMatrix, Path
from fognetem.measure import FRAME_BYTES, Measurement, Samples
from fognetem.verify import judge, plausible

BASELINE = 0.1


def samples(rtt: float, count: int = 20, lost: int = 0, skew: float = 0.0, jitter: float = 0.0) -> Samples:
    rng = random.Random(7)
    seen = Samples(sent=count)
    for number in range(count):
        there = rtt / 2 + skew + BASELINE / 2 + rng.uniform(-jitter, jitter) / 2
        back = rtt / 2 - skew + BASELINE / 2 + rng.uniform(-jitter, jitter) / 2
        if number < lost:
            continue
        seen.there.append(there)
        seen.back.append(back)
        seen.round_trips.append(there + back)
    return seen


def judged(path: Path, seen: Samples, tolerance_ms: float = 2.0, busy: float = 0.5):
    matrix = LatencyMatrix(("a", "b"), (("a", "b", path),))
    return judge(matrix, Measurement({("a", "b"): seen}, BASELINE, busy, 1.0, 0.0, None), tolerance_ms)


def test_the_measurements_own_cost_is_taken_off() -> None:
    result = judged(Path(80), samples(80), tolerance_ms=0.01)
    assert result.ok
    assert result.pairs[0].measured_ms == pytest.approx(80)
    assert "the one pair is within" in result.sentence()


def test_a_pair_that_is_off_is_named_with_measured_and_asked_and_how_busy_the_host_was() -> None:
    result = judged(Path(150), samples(187.4), busy=0.98)
    assert not result.ok
    assert "a–b measured 187.4 ms, asked 150 ms ± 2 ms" in result.sentence()
    assert "98% busy: free a core" in result.sentence()


def test_silence_is_wrong_unless_everything_should_be_lost() -> None:
    assert not judged(Path(10), samples(10, lost=20)).ok
    assert "did not answer" in judged(Path(10), samples(10, lost=20)).sentence()
    assert judged(Path(10, loss=1), samples(10, lost=20)).ok


def test_a_lopsided_path_is_wrong_even_if_the_sum_is_right() -> None:
    assert "not symmetric" in judged(Path(80), samples(80, skew=10)).sentence()


def test_loss_where_none_was_asked_is_wrong() -> None:
    assert "lost 3 of" in judged(Path(10), samples(10, lost=3)).sentence()


def test_jitter_is_measured_and_widens_what_is_allowed() -> None:
    pair = judged(Path(80, 40), samples(80, count=400, jitter=40)).pairs[0]
    assert pair.jitter_ms == pytest.approx(40, rel=0.25)
    assert pair.allowed_ms > 2
    assert pair.ok


def test_sending_time_of_the_probe_on_a_slow_path_is_not_an_error() -> None:
    sending = 2 * FRAME_BYTES * 8000 / 64_000
    assert judged(Path(20, rate_bit_s=64_000), samples(20 + sending), tolerance_ms=0.01).ok


def test_plausible_losses_follow_the_binomial() -> None:
    assert plausible(10, 100, 0.1)
    assert plausible(0, 40, 0.001)
    assert not plausible(40, 100, 0.1)
    assert not plausible(0, 1000, 0.1)
    assert not plausible(1, 1000, 0.0)
    assert plausible(7, 7, 1.0)


@pytest.mark.parametrize("tolerance", [0, -1, float("nan")])
def test_a_senseless_tolerance_is_refused(tolerance: float) -> None:
    from fognetem import verify

    with pytest.raises(ValueError, match="tolerance"):
        verify(LatencyMatrix(("a", "b")), (), tolerance)
