"""The newest profile of each deployed app, kept with the testbed's state: what the agent places by."""

from __future__ import annotations

from pathlib import Path

from fogctl.errors import FogError
from fogctl.placement.profile import Profile, read_profile, write_profile

FILE = "profile.json"


def keep(state: Path, profile: Profile) -> None:
    """Keep an app's profile for as long as the app is deployed; `state` is the testbed's folder."""
    write_profile(profile, state / "apps" / profile.app / FILE)


def kept(state: Path, app: str) -> Profile | None:
    """The profile that was kept last; None if there is none, or none that can be read."""
    file = state / "apps" / app / FILE
    if not file.exists():
        return None
    try:
        return read_profile(file)
    except FogError:  # an older version's, say: the agent does without
        return None
