"""Which nodes an app's stages run on: what stages need, what nodes have left, and the plan between."""

from fogctl.placement.demand import StageDemand, neutral, profiled
from fogctl.placement.plan import Planned, Strategy, plan
from fogctl.placement.profile import Profile, StageProfile
from fogctl.placement.room import Room, rooms

__all__ = [
    "Planned",
    "Profile",
    "Room",
    "StageDemand",
    "StageProfile",
    "Strategy",
    "neutral",
    "plan",
    "profiled",
    "rooms",
]
