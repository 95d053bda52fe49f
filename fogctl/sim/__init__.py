"""The simulator: stages, lag, shares, latencies and stalls as a model; same metrics as a live testbed."""

from fogctl.sim.parameters import StageParameters, Stalls
from fogctl.sim.simulation import Simulation
from fogctl.sim.streams import Counted, Timed
from fogctl.sim.target import SimTarget

__all__ = ["Counted", "SimTarget", "Simulation", "StageParameters", "Stalls", "Timed"]
