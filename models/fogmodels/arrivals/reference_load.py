"""How hard a process loads a reference server: MAP/M/1 means, many processes and loads at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def trace_load(times: Matrix, loads: Matrix, runs: int, seed: int) -> Matrix:
    """Mean response time (in mean services) of a window of mean 1 at each load, exponential service."""
    rng = np.random.default_rng(seed)
    total = np.zeros(loads.size)
    for _ in range(runs):
        work = rng.standard_exponential(times.size)
        for i, load in enumerate(loads):
            steps = work[:-1] * load - times[:-1]
            walk = np.cumsum(steps)
            waiting = walk - np.minimum(np.minimum.accumulate(walk), 0.0)
            total[i] += 1.0 + float(waiting.sum()) / (load * times.size)
    return total / runs


def map_load(D0: Matrix, D1: Matrix, loads: Matrix) -> Matrix:
    """The same for processes of mean 1: D0 and D1 of shape (processes, n, n); (processes, loads) out.

    The fluid queue of `fogmodels.queueing.single_server` for exponential service, where rising and
    falling phases are equally many, iterated for all problems in one stack. It guides a fit, so
    1e-6 is accurate enough here.
    """
    processes, n = D0.shape[0], D0.shape[1]
    count = processes * loads.size
    rate = np.tile(1.0 / loads, processes)[:, None, None]
    hidden, begin = np.repeat(D0, loads.size, axis=0), np.repeat(D1, loads.size, axis=0)
    eye = np.eye(n)
    top = np.abs(np.diagonal(hidden, axis1=1, axis2=2)).max(axis=1)[:, None, None]
    moved = top / n
    fall, finish = hidden - moved, rate * eye + moved
    shift = np.maximum(top + moved, rate)
    A = (shift + rate) * eye
    D = shift * eye - fall
    D_inverse = np.linalg.inv(D)
    D_begin = D_inverse @ begin
    W = np.linalg.inv(A - finish @ D_begin)
    V = np.linalg.inv(D - begin @ finish / (shift + rate))
    E, F = eye - 2 * shift * V, eye - 2 * shift * W
    G, H = 2 * shift * D_begin @ W, 2 * shift * W @ finish @ D_inverse
    for _ in range(40):
        inverse = np.linalg.inv(eye - G @ H)
        left = E @ inverse
        right = F + (F @ H) @ (inverse @ G)
        step = right @ H @ E
        G, H = G + left @ G @ F, H + step
        E, F = left @ E, right @ F
        if np.abs(step).max() <= 1e-9:
            break
    psi = H / H.sum(axis=2, keepdims=True)
    decay = np.linalg.inv(rate * eye - psi @ begin)
    # Stationary vector of the falling phases' generator: solve with one column replaced by ones.
    generator = hidden + begin @ psi
    generator[:, :, -1] = 1.0
    last = np.zeros((count, n, 1))
    last[:, -1, 0] = 1.0
    idle = np.linalg.solve(np.swapaxes(generator, 1, 2), last)[:, None, :, 0]
    density = idle @ begin
    once = density @ decay
    mean = (once @ decay).sum(axis=(1, 2)) / once.sum(axis=(1, 2))
    return np.asarray(mean * rate[:, 0, 0]).reshape(processes, loads.size)
