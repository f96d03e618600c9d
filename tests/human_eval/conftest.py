"""human_eval/ is no package: its files import each other by their bare names, and so do these tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "human_eval"))
