"""The stack, imported once: `stack` is OpenRLHF's real code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore = ["openrlhf_real.py"]


@pytest.fixture(scope="session")
def stack() -> Any:
    from openrlhf_real import real

    return real()


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with a reward, and the reward file beside it."""
    (tmp_path / "mine.py").write_text(
        "import guerdon.rewards as R\nreward = 1.0 * R.math_equal(name='math') + 0.5 * R.think_format(name='format')\n"
    )
    (tmp_path / "reward_file.py").write_text(
        "from guerdon.backends.openrlhf import reward_func_from\nreward_func = reward_func_from('mine.py:reward', deadline_s=20)\n"
    )
    return tmp_path
