"""`guerdon serve` as a process, asked by OpenRLHF's real HTTP client."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openrlhf_real import experiences, rollouts

from guerdon.backends.openrlhf import reward_func_from


@pytest.fixture
def address(mine: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "guerdon", "serve", str(mine / "mine.py:reward"), "--port", "0", "--workers", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        line = server.stdout.readline()
        found = re.search(r"http://[\d.]+:\d+", line)
        assert found, line
        yield f"{found.group()}/get_reward"
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=30)


def test_the_server_answers_as_the_reward_file_does(stack: Any, mine: Path, address: str) -> None:
    served = experiences(stack, rollouts(stack, stack.Executor([address])))
    filed = experiences(stack, rollouts(stack, stack.Executor([str(mine / "reward_file.py")])))
    for one, other in zip(served, filed, strict=True):
        assert (one.rewards.item(), one.scores.item()) == (other.rewards.item(), other.scores.item())
        assert {k: v.item() for k, v in one.info.items()} == {k: v.item() for k, v in other.info.items()}
    assert set(reward_func_from(f"{mine}/mine.py:reward")._answers.keys) <= set(served[0].info)
