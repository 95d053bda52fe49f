"""Makes this folder's shared strategies importable by its tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
