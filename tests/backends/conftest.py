"""Makes the loaders of other stacks' code importable, and holds the batches that loss tests share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore = ["stack_code.py", "batches.py", "serve_process.py"]
