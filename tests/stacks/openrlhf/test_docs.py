"""The page on OpenRLHF names flags that exist, and its files load in OpenRLHF."""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from openrlhf_real import rollouts

PAGE = (Path(__file__).parents[3] / "docs" / "openrlhf.md").read_text()
OLD = {"--remote_rm_url", "--agent_func_path"}  # named as gone


def test_every_flag_of_the_page_is_one_of_openrlhfs() -> None:
    source = Path(str(distribution("openrlhf").locate_file("openrlhf/cli/train_ppo_ray.py"))).read_text()
    known = set(re.findall(r'"(--[\w.]+)"', source)) | {"--guerdon.reward", "--guerdon.advantage", "--port", "--stack"}
    named = set(re.findall(r"(?<![\w-])--[a-z][\w.]*\w", PAGE))
    assert len(named) > 25
    assert named - known == OLD


def blocks() -> list[str]:
    return [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if ">>>" not in block]


@pytest.mark.parametrize("door", ["file", "agent", "aggregate"])
def test_the_files_of_the_page_work_as_printed(stack: Any, tmp_path: Path, door: str) -> None:
    mine, reward_file = blocks()[:2]
    agent, aggregate = (next(b for b in blocks() if text in b) for text in ('agent_executor("my.py:reward")', "aggregate="))
    (tmp_path / "my.py").write_text(mine)
    (tmp_path / "reward_file.py").write_text(reward_file)
    (tmp_path / "agent.py").write_text(agent if door == "agent" else agent + aggregate)
    executor = stack.Executor([str(tmp_path / "reward_file.py")]) if door == "file" else stack.load_agent(str(tmp_path / "agent.py"))
    found = [row["scores"] for row in rollouts(stack, executor)]
    assert found == ([[1.0], [1.0], [0.0], [0.0]] if door == "file" else [1.0, 1.0, 0.0, 0.0])
