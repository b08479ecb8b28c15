"""Makes the loaders of other stacks' code importable, and holds the batches that loss tests share."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore = ["stack_code.py", "batches.py", "serve_process.py"]


@pytest.fixture(autouse=True)
def _no_word_of_a_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL's settings are judged alike whether another test has loaded torch or not."""
    if request.path.name.startswith("test_trl_"):
        importlib.import_module("guerdon.backends.trl.validate")
        monkeypatch.setattr(sys.modules["guerdon.backends.trl.validate"], "gpu_visible", lambda: None)
