"""Isolated user functions: killable, importable, and never the caller's `__main__`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import guerdon.rewards as R
from guerdon import Rollout, Status
from guerdon.errors import ConfigError
from guerdon.loading import load

SOURCE = """
import time
from guerdon import Abstain

def f(rollout):
    if rollout.completion == "hang":
        while True: pass
    if rollout.completion == "sleep":
        time.sleep(30)
    if rollout.completion == "exit":
        import os; os._exit(3)
    if rollout.completion == "abstain":
        raise Abstain("why")
    if rollout.completion == "none":
        return None
    return len(rollout.completion)

def batch(rollouts):
    return [len(r.completion) for r in rollouts]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return str(path)


def test_an_isolated_function_is_killed_at_its_limit_and_only_its_row_is_lost(file: str) -> None:
    reward = R.from_function(f"{file}:f", isolate=0.5)
    start = time.monotonic()
    verdicts = reward.verdicts([Rollout(t) for t in ("ab", "hang", "sleep", "exit", "abstain", "none", "abc")])
    assert time.monotonic() - start < 10
    assert [v.score for v in verdicts] == [2.0, None, None, None, None, None, 3.0]
    assert [v.reason for v in verdicts[1:4]] == ["checker_timeout", "checker_timeout", "lost_worker"]
    assert [v.status for v in verdicts[4:6]] == [Status.UNSCORED, Status.NOT_APPLICABLE]


def test_an_isolated_batch_function_gets_the_whole_batch(file: str) -> None:
    assert R.from_function(f"{file}:batch", batch=True, isolate=True)([Rollout("a"), Rollout("bb")]) == [1.0, 2.0]


@pytest.mark.parametrize("isolate", [0.0, -1.0])
def test_the_limit_must_be_positive(file: str, isolate: float) -> None:
    with pytest.raises(ConfigError, match="isolate"):
        R.from_function(f"{file}:f", isolate=isolate)


def test_a_function_that_no_other_process_can_import_is_refused_with_the_fix() -> None:
    with pytest.raises(ConfigError, match=r"file\.py:function"):
        R.from_function(lambda r: 1.0, name="f", isolate=True)


def test_an_async_function_cannot_be_isolated_by_import_string_either(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text("async def f(rollout):\n    return 1.0\n")
    with pytest.raises(ConfigError, match="sync function"):
        R.from_function(f"{tmp_path / 'later.py'}:f", isolate=True)


def test_a_function_of_a_file_loaded_by_path_may_be_isolated(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("import guerdon.rewards as R\n\ndef f(rollout):\n    return 1.0\n\nreward = R.from_function(f, isolate=True)\n")
    assert load(f"{path}:reward")([Rollout("x")]) == [1.0]
