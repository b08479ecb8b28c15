"""The command line in this process and in another, and the files it reads."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from guerdon.cli import main
from guerdon.rewards.health import forget

REWARD = '''
import guerdon.rewards as R
from guerdon import Abstain, Rollout, Status, Verdict


def check(rollout):
    """Right if the completion is the answer; `?` breaks the check."""
    if rollout.answer is None:
        return Verdict.of(Status.BAD_REFERENCE, "missing_reference")
    if rollout.completion == "?":
        raise RuntimeError("broken")
    return float(rollout.completion == str(rollout.answer))


def short(rollout):
    return 1.0 / (1 + len(rollout.completion))


def siblings(rollouts):
    return [float(len(rollouts))] * len(rollouts)


def from_trl(completions, **columns):
    return [1.0] * len(completions)


def made():
    return reward


def made_with(*, weight):
    return weight * reward


class Called:
    def __call__(self, rollout):
        return 1.0


called, unnamed = Called(), lambda rollout: 1.0
right = R.from_function(check, name="right", outcome=True, reads=["answer"])
brief = R.from_function(short, name="brief")
reward = right + 0.5 * brief
counted = right + R.soft_overlong(max_tokens=10, cache=5)
grouped = right + R.from_function(siblings, name="siblings", batch=True, reads=["group"])
verifier = type("V", (), {"judge": lambda self, rollouts: []})()
text = "not a reward"


class Verifier:
    def judge(self, rollouts):
        raise NotImplementedError


class Own:
    name = "own"
    reads = frozenset()
    fingerprint = None

    def verdicts(self, rollouts):
        return [Verdict(1.0, Status.SCORED)] * len(rollouts)


own = Own()
'''


class Files:
    """A folder of a test, with the reward file in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "rewards.py").write_text(REWARD)

    def reward(self, name: str = "reward") -> str:
        return f"{self.folder / 'rewards.py'}:{name}"

    def write(self, rows: Iterable[Any], name: str = "rollouts.jsonl") -> str:
        """A file of rows: objects as JSON, texts as they are."""
        text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
        path = self.folder / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode("utf-8", "surrogateescape"))
        return str(path)

    def read(self, name: str) -> list[dict[str, Any]]:
        raw = (self.folder / name).read_bytes()
        return [json.loads(line) for line in (gzip.decompress(raw) if name.endswith(".gz") else raw).decode().splitlines()]

    def names(self) -> set[str]:
        """The files there are, the reward's own apart."""
        return {path.name for path in self.folder.iterdir()} - {"rewards.py", "__pycache__"}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def guerdon() -> Callable[..., Result]:
    """The command line in this process."""
    forget()

    def run(*args: str, input: bytes | None = None) -> Result:
        result = CliRunner().invoke(main, args, input=input)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    return run


@pytest.fixture
def refused(guerdon: Callable[..., Result]) -> Callable[..., str]:
    """Run a command that must fail with exit code 2, nothing on stdout and one line on stderr; that line."""

    def run(*args: str, input: bytes | None = None) -> str:
        result = guerdon(*args, input=input)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        assert result.stderr.endswith("\n")
        assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr.strip()

    return run


def process(*args: str, **options: Any) -> subprocess.Popen[bytes]:
    """The command line in a process of its own."""
    command = [sys.executable, "-c", "from guerdon.cli import main; main()", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
