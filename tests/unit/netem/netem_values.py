"""Hypothesis strategies for paths and matrices."""

from fognetem import LatencyMatrix, Path
from hypothesis import strategies as st


@st.composite
def paths(draw: st.DrawFn) -> Path:
    rtt = draw(st.integers(0, 600_000)) / 1000
    jitter = rtt * draw(st.sampled_from([0.0, 0.25, 1.0]))
    loss = draw(st.sampled_from([0.0, 0.001, 0.25, 1.0]))
    rate = draw(st.sampled_from([None, 64_000.0, 1.5e6, 1e9]))
    return Path(rtt, jitter, loss, rate, draw(st.booleans()))


@st.composite
def matrices(draw: st.DrawFn, fewest: int = 2) -> LatencyMatrix:
    count = draw(st.integers(fewest, 6))
    nodes = tuple(f"n{i}" for i in range(count))
    pairs = [(a, b) for i, a in enumerate(nodes) for b in nodes[i + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    entries = []
    for a, b in chosen:
        turned = draw(st.booleans())
        entries.append((b, a, draw(paths())) if turned else (a, b, draw(paths())))
    return LatencyMatrix(nodes, tuple(entries))
