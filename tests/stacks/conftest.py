"""Contract tests against the real code of the training stacks: `make stacks` runs each folder in a process of its own.

Every test here is marked `stacks`; a folder whose stack is not installed is not collected.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
collect_ignore = [folder.name for folder in HERE.iterdir() if folder.is_dir() and importlib.util.find_spec(folder.name) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.stacks)
