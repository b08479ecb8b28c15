"""Makes `verl_rows` importable. Importing that imports verl, so nothing here does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore = ["verl_rows.py"]


@pytest.fixture
def queue() -> Any:
    """An empty TransferQueue in memory, which verl's trainer then uses."""
    from verl_rows import MemoryQueue

    return MemoryQueue.installed()
