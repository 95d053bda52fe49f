"""MAP: validation, closed-form statistics and composition, judged by sampling and independent formulas."""

import numpy as np
import pytest
from fogmodels.arrivals import MAP
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm


def random_map(seed: int, states: int) -> MAP:
    rng = np.random.default_rng(seed)
    D1 = rng.exponential(size=(states, states)) * (rng.random((states, states)) < 0.7) + 1e-3
    D0 = rng.exponential(size=(states, states)) * (rng.random((states, states)) < 0.7)
    np.fill_diagonal(D0, 0)
    np.fill_diagonal(D0, -(D0.sum(axis=1) + D1.sum(axis=1)))
    return MAP(D0, D1)


maps = st.builds(random_map, st.integers(0, 10**6), st.integers(1, 5))


@settings(max_examples=20, deadline=None)
@given(maps)
def test_moments_are_those_of_the_density(process: MAP) -> None:
    # Gauss' rule over the survival function, on pieces that grow from its fastest phase to its slowest.
    rates = np.abs(np.linalg.eigvals(process.D0).real)
    edges = np.r_[0.0, np.geomspace(0.01 / rates.max(), 50 / rates.min(), 60)]
    nodes, weights = np.polynomial.legendre.leggauss(12)
    halves = np.diff(edges) / 2
    times = (halves[:, None] * nodes + (edges[:-1] + halves)[:, None]).ravel()
    weights = (halves[:, None] * weights).ravel()
    survival = (process.phase_at_arrivals @ expm(process.D0 * times[:, None, None])).sum(axis=1)
    mean = float(weights @ survival)
    second = float(weights @ (2 * times * survival))
    assert process.mean == pytest.approx(mean, rel=1e-4)
    assert process.scv == pytest.approx(second / mean**2 - 1, rel=1e-3, abs=1e-3)


@settings(max_examples=25, deadline=None)
@given(maps, st.integers(1, 40))
def test_autocorrelation_is_the_covariance_of_the_embedded_chain(process: MAP, lag: int) -> None:
    inverse = np.linalg.inv(-process.D0)
    power = np.linalg.matrix_power(inverse @ process.D1, lag)
    product = process.phase_at_arrivals @ inverse @ power @ inverse @ np.ones(process.states)
    variance = process.moment(2) - process.mean**2
    assert process.acf([lag])[0] == pytest.approx((product - process.mean**2) / variance, abs=1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_samples_have_the_stated_mean_variance_and_correlation(seed: int) -> None:
    slow = MAP([[-5, 0], [0, -0.4]], [[4.8, 0.2], [0.05, 0.35]])
    process = random_map(seed, 3).scaled(1.0).superposed(slow.scaled(2.0))
    values = process.sample(300_000, np.random.default_rng(seed))
    centred = values - values.mean()
    assert values.mean() == pytest.approx(process.mean, rel=0.03)
    assert values.var() / values.mean() ** 2 == pytest.approx(process.scv, rel=0.05)
    for lag in (1, 3):
        seen = float(np.mean(centred[:-lag] * centred[lag:]) / values.var())
        assert seen == pytest.approx(process.acf([lag])[0], abs=0.02)


def test_vectorised_sampling_follows_the_plain_loop() -> None:
    from fogmodels.arrivals.sampling import _walk

    process = random_map(11, 4)
    rates = -np.diag(process.D0)
    hidden = process.D0 / rates[:, None]
    np.fill_diagonal(hidden, 0)
    table = np.cumsum(np.concatenate([process.D1 / rates[:, None], hidden], axis=1), axis=1)
    uniforms = np.random.default_rng(0).random(997)
    path, outcome = _walk((np.arange(4)[:, None] + table).ravel(), 4, 2, uniforms)
    state = 2
    for step, u in enumerate(uniforms):
        assert path[step] == state
        chosen = int(np.searchsorted(table[state], u, side="right"))
        assert outcome[step] == chosen
        state = chosen % 4


def test_renewal_sampling_matches_erlang() -> None:
    erlang = MAP.renewal([1, 0, 0], [[-3, 3, 0], [0, -3, 3], [0, 0, -3]])
    values = erlang.sample(100_000, np.random.default_rng(0))
    assert values.mean() == pytest.approx(1.0, rel=0.01)
    assert values.var() == pytest.approx(1 / 3, rel=0.03)
    assert np.allclose(erlang.acf(5), 0, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(maps, st.integers(0, 10**6))
def test_composition_multiplies_moments_and_products(one: MAP, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.2, 5, 2)
    switch = rng.dirichlet([1, 1], size=2) * 0.98 + 0.01
    two = MAP(np.diag(-rates), switch * rates[:, None])
    both = one.composed(two)
    for k, factorial in ((1, 1), (2, 2), (3, 6)):
        assert both.moment(k) == pytest.approx(one.moment(k) * two.moment(k) / factorial, rel=1e-8)
    lag = 3
    product = (1 + one.scv * one.acf([lag])[0]) * (1 + two.scv * two.acf([lag])[0])
    assert 1 + both.scv * both.acf([lag])[0] == pytest.approx(product, rel=1e-8)


def test_superposition_adds_rates_and_thinning_keeps_its_share() -> None:
    one, two = random_map(5, 3), random_map(6, 2)
    assert one.superposed(two).rate == pytest.approx(one.rate + two.rate)
    assert one.thinned(0.25).rate == pytest.approx(one.rate / 4)
    assert one.scaled(7.0).mean == pytest.approx(7.0)
    assert one.scaled(7.0).scv == pytest.approx(one.scv)
    thinned_poisson = MAP.poisson(3.0).thinned(0.5)
    assert thinned_poisson.scv == pytest.approx(1.0)


def test_process_whose_arrivals_all_end_in_one_phase_is_accepted() -> None:
    process = MAP([[-2.0, 2.0], [0.0, -1.0]], [[0.0, 0.0], [0.5, 0.5]])
    assert process.phase_at_arrivals == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("D0", "D1", "says"),
    [
        ([[-1]], [[2]], "sum to zero"),
        ([[-1, 0], [0, -1]], [[1, 0], [0, 1]], "irreducible"),
        ([[-1, -1], [0, -1]], [[2, 0], [1, 0]], "negative"),
        ([[np.nan]], [[1]], "finite"),
        ([[-np.inf]], [[np.inf]], "finite"),
        ([[-1, 1]], [[0, 0]], "square"),
        ([[-1]], [[0.5, 0.5]], "one shape"),
        ([], [], "square"),
        ([[-1, 1], [1, -1]], [[0, 0], [0, 0]], "nothing ever arrives"),
        ("no", [[1]], "numbers"),
    ],
)
def test_what_is_no_process_is_refused_in_one_sentence(D0: object, D1: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MAP(D0, D1)  # type: ignore[arg-type]


def test_bad_arguments_are_refused() -> None:
    process = MAP.poisson(1.0)
    rng = np.random.default_rng(0)
    for call in (
        lambda: process.sample(-1, rng),
        lambda: process.scaled(0.0),
        lambda: process.thinned(1.5),
        lambda: process.acf([-1]),
        lambda: process.acf([1.5]),  # type: ignore[list-item]
        lambda: process.moment(0),
        lambda: MAP.poisson(float("nan")),
        lambda: random_map(1, 2).composed(random_map(2, 2)),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()
    assert process.sample(0, rng).size == 0
