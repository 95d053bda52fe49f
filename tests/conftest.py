"""How property tests run: no time limits, because machines are noisy; the same examples each time in CI."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fogctl", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("fogctl")
