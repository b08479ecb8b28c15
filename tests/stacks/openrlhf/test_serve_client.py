"""OpenRLHF's own HTTP client against `guerdon serve` as a process."""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

for extra in ("openrlhf", "fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(extra)

REWARD = """
import time
import guerdon.rewards as R

def hang(rollout):
    while "HANG" in rollout.completion:
        pass
    if "RAISE" in rollout.completion:
        raise RuntimeError("broken")
    return {"NAN": float("nan"), "INF": float("inf"), "NONE": None}.get(rollout.completion.split()[0], 0.0)

def slow(rollouts):
    time.sleep(0.5)
    return [0.0] * len(rollouts)

reward = R.math_equal() + 0.25 * R.boxed_format()
faulty = R.math_equal() + 0.5 * R.from_function(hang, name="user")
slowly = R.math_equal() + R.from_function(slow, name="slow", batch=True)
"""


@contextmanager
def serving(folder: Path, name: str = "reward", *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    file = folder / "served_reward.py"
    file.write_text(REWARD)
    command = [sys.executable, "-m", "guerdon", "serve", f"{file}:{name}", "--port", "0", "--workers", "1", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+:\d+", process.stdout.readline())
            assert found
            yield found[0], process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("serve")) as (found, _):
        yield f"{found}/get_reward"


def fetch(url: str | list[str], rows: list[tuple[str, str, Any]]) -> list[dict[str, Any]]:
    """One request a row, all at once, as OpenRLHF's rollout actors ask."""
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    executor = SingleTurnAgentExecutor(url)

    async def main() -> list[dict[str, Any]]:
        answers = await asyncio.gather(*(executor._fetch_rewards_via_http([p + c], [p], [label]) for p, c, label in rows))
        return [answer for (answer,) in answers]

    return asyncio.run(main())


def test_a_step_of_single_samples(url: str) -> None:
    rows = [("2+2? ", f"\\boxed{{{i % 8}}}", "4") for i in range(128)]
    answers = fetch(url, rows)
    assert [a["rewards"] for a in answers] == [[1.25 if i % 8 == 4 else 0.25] for i in range(128)]
    assert [a["scores"] for a in answers] == [[float(i % 8 == 4)] for i in range(128)]
    assert len({tuple(a["extra_logs"]) for a in answers}) == 1
    assert answers[4]["extra_logs"]["guerdon/math_equal"] == [1.0]


@pytest.mark.parametrize("label", ['{"answer": "4", "data_source": "gsm8k"}', {"answer": "4"}, 4, ["4"], "", None, "{not json"], ids=str)
def test_labels_of_every_kind_get_a_finite_answer(url: str, label: Any) -> None:
    [answer] = fetch(url, [("2+2? ", "\\boxed{4}", label)])
    flat = [answer["rewards"][0], answer["scores"][0], *(value for (value,) in answer["extra_logs"].values())]
    assert all(isinstance(value, float) and math.isfinite(value) for value in flat)
    if label in ("", None):
        assert answer["extra_logs"]["guerdon/abstained"] == [1.0]


def test_several_addresses_share_the_rows(url: str) -> None:
    assert [a["rewards"] for a in fetch([url, url], [("", "\\boxed{4}", "4")] * 4)] == [[1.25]] * 4


def test_execute_carries_reward_score_and_components_to_the_trainer(url: str) -> None:
    from openrlhf.utils.agent import SingleTurnAgentExecutor

    class Tokenizer:
        """Characters as tokens, and an end token that is decoded with them."""

        def __call__(self, text: str, **_: Any) -> dict[str, Any]:
            import torch

            return {"input_ids": torch.tensor([[ord(c) for c in text]])}

        def decode(self, ids: list[int], **_: Any) -> str:
            return "".join(map(chr, ids)) + "</s>"

    class Engine:
        async def generate(self, *_: Any, **__: Any) -> Any:
            said = [ord(c) for c in "It is \\boxed{4}"]
            return SimpleNamespace(outputs=[SimpleNamespace(token_ids=said, text="", finish_reason="stop", logprobs=None)])

    params = SimpleNamespace(max_tokens=32, logprobs=None)
    output = asyncio.run(SingleTurnAgentExecutor(url).execute("2+2? ", "4", params, 128, Tokenizer(), Engine()))
    assert (output["reward"], output["scores"]) == ([1.25], [1.0])
    assert output["extra_logs"]["guerdon/boxed_format"] == [1.0]


def test_a_reward_that_hangs_raises_or_returns_nonsense_on_some_rows_delays_no_step(tmp_path: Path) -> None:
    texts = ["HANG", "RAISE", "NAN", "INF", "NONE"]
    rows = [("", f"{texts[i % 16] if i % 16 < 5 else i} \\boxed{{4}}", "4") for i in range(64)]
    with serving(tmp_path, "faulty", "--timeout", "1") as (url, _):
        start = time.monotonic()
        answers = fetch(f"{url}/get_reward", rows)
    assert time.monotonic() - start < 60
    abstained = [i for i, a in enumerate(answers) if a["extra_logs"]["guerdon/abstained"] == [1.0]]
    assert abstained == [i for i in range(64) if i % 16 < 4]
    assert all(answers[i]["extra_logs"]["guerdon/rows/error"] == [1.0] and answers[i]["rewards"] == [0.0] for i in abstained)
    assert all(a["rewards"] == [1.0] and a["scores"] == [1.0] for i, a in enumerate(answers) if i not in abstained)


def test_a_tower_of_powers_among_the_rows_delays_no_step(url: str) -> None:
    rows = [("", "\\boxed{9^{9^{9^9}}}" if i % 16 == 0 else "\\boxed{4}", "4") for i in range(64)]
    start = time.monotonic()
    answers = fetch(url, rows)
    assert time.monotonic() - start < 30
    assert [a["rewards"] for i, a in enumerate(answers) if i % 16] == [[1.25]] * 60


def test_sigterm_answers_what_was_sent(tmp_path: Path) -> None:
    with serving(tmp_path, "slowly", "--batch-size", "16") as (url, process):
        import threading

        threading.Timer(1.0, process.send_signal, (signal.SIGTERM,)).start()
        answers = fetch(f"{url}/get_reward", [("", "\\boxed{4}", "4")] * 64)
        assert process.wait(20) == 0
    assert [a["rewards"] for a in answers] == [[1.0]] * 64


def test_a_killed_worker_costs_no_row(tmp_path: Path) -> None:
    with serving(tmp_path, "slowly", "--batch-size", "16", "--workers", "2") as (url, process):
        import threading

        def kill() -> None:
            below = [int(p) for p in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
            os.kill(max(below), signal.SIGKILL)

        threading.Timer(1.0, kill).start()
        answers = fetch(f"{url}/get_reward", [("", "\\boxed{4}", "4")] * 64)
        assert process.poll() is None
    assert [a["rewards"] for a in answers] == [[1.0]] * 64
    assert all(a["extra_logs"]["guerdon/abstained"] == [0.0] for a in answers)
