"""The parts of a placement problem: operators, workers, and the array types all of placement uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SEPARABLE = ("cpu", "io", "net")
"""The paper's three costs: each worker's load depends on that worker's own tasks alone."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: `parallelism` identical tasks and what each task costs per dimension."""

    id: str
    name: str
    parallelism: int
    cpu: float
    io: float
    net: float
    outbound: str = ""


@dataclass(frozen=True, slots=True)
class Worker:
    """One machine: task slots and capacities (a load is a sum of task costs divided by the capacity)."""

    name: str
    slots: int
    cpu: float = 1.0
    io: float = 1.0
    net: float = 1.0
