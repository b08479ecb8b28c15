"""AsyncGRPO's own rollout worker, in the child process that it spawns, against a stand-in for vLLM's server."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from accelerate import PartialState
from tiny_trl import composed, make_dataset, make_tool_tokenizer
from trl.experimental.async_grpo import AsyncGRPOConfig, async_rollout_worker

import guerdon.rewards as R
from guerdon.backends.trl import reward_funcs
from guerdon.errors import ConfigError

SAYS = ["\\boxed{1}<|im_end|>", "\\boxed{9^{9^{9^9}}}<|im_end|>", "12<|im_end|>", "nothing<|im_end|>"]

REWARD_FILE = """
import guerdon.rewards as R

def shouts(rollout):
    return float(rollout.completion.isupper())

reward = R.math_equal() + 0.5 * R.from_function(shouts)
"""


@pytest.fixture
def server() -> Iterator[str]:
    """Answers /v1/completions with the next of SAYS, one token a character."""
    tokenizer, lock, count = make_tool_tokenizer(), threading.Lock(), iter(range(10**6))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                text = SAYS[next(count) % len(SAYS)]
            ids = tokenizer(text)["input_ids"]
            body = json.dumps({"choices": [{"token_ids": ids, "logprobs": {"token_logprobs": [-1.0] * len(ids)}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


def samples(funcs: list[Any], url: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The samples of the first group that the worker's child scores."""
    PartialState()  # as the trainer has, before it makes the worker
    monkeypatch.setattr(async_rollout_worker, "is_vllm_available", lambda: True)
    tokenizer = make_tool_tokenizer()
    worker = async_rollout_worker.AsyncRolloutWorker(
        model_name="tiny",
        dataset=make_dataset(chat=True).select([0]),  # 0+1=
        reward_funcs=funcs,
        processing_class=tokenizer,
        eos_token_ids=[tokenizer.eos_token_id],
        num_generations=4,
        max_inflight_tasks=4,
        vllm_server_url=url,
    )
    worker.start()
    try:
        return [worker.rollout_buffer.get(timeout=60) for _ in range(4)]
    finally:
        worker.stop()


@pytest.mark.parametrize("asynchronous", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["in threads", "on the loop"])
def test_the_spawned_child_scores_with_the_pickled_functions(asynchronous: bool, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    funcs = reward_funcs(composed(), weighted=True, asynchronous=asynchronous, deadline_s=20)
    got = {sample.completion[-1]["content"]: sample for sample in samples(funcs, server, monkeypatch)}
    assert got["\\boxed{1}"].metrics["rewards/math_equal"] == 1.0
    assert got["12"].metrics["rewards/math_equal"] == 0.0
    assert got["12"].metrics["rewards/dense"] == 1.0
    assert got["\\boxed{1}"].metrics["rewards/boxed_format"] == pytest.approx(0.2)
    assert got["\\boxed{9^{9^{9^9}}}"].metrics["rewards/math_equal"] == 0.0
    assert got["\\boxed{1}"].metrics["reward"] == pytest.approx(1.2 + 1 / 9 - 0.5 * 5 / 8)
    assert sum(sample.advantage for sample in got.values()) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
def test_a_reward_in_a_file_is_loaded_again_in_the_child(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rewards_of_mine.py"
    file.write_text(REWARD_FILE)
    got = samples(reward_funcs(f"{file}:reward", weighted=True), server, monkeypatch)
    assert {sample.metrics["rewards/shouts"] for sample in got} == {0.0}
    assert sorted(sample.metrics["rewards/math_equal"] for sample in got) == [0.0, 0.0, 0.0, 1.0]


def test_weights_that_the_configuration_cannot_carry_are_refused_with_the_fix() -> None:
    with pytest.raises(ConfigError, match="weighted=True"):
        reward_funcs(0.5 * R.exact()).config_kwargs(config=AsyncGRPOConfig)
    assert reward_funcs(0.5 * R.exact(), weighted=True).config_kwargs(config=AsyncGRPOConfig) == {}


def test_functions_pickle_one_by_one() -> None:
    for function in reward_funcs(composed()):
        copy = pickle.loads(pickle.dumps(function))
        assert copy.__name__ == function.__name__
