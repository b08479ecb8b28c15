"""Reward file and HTTP against OpenRLHF's real client, file loader, sampler and experience maker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from openrlhf_real import LABEL, NS, OUTS, experiences, first_advantages, maker, prepared, rollouts

from guerdon.backends.openrlhf import reward_func_from

TOTALS, OUTCOMES = [1.5, 1.0, 0.5, 0.0], [1.0, 1.0, 0.0, 0.0]


@pytest.fixture
def serve() -> Iterator[Any]:
    """`serve(reward_func)` gives the address of a server that answers OpenRLHF's requests with it."""
    servers = []

    def start(reward_func: Any) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = json.dumps(reward_func(body["query"], body["prompts"], body["labels"])).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/get_reward"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("door", ["file", "http"])
def test_rewards_outcomes_and_components_reach_the_experience(stack: Any, mine: Path, serve: Any, door: str) -> None:
    where = str(mine / "reward_file.py") if door == "file" else serve(reward_func_from(f"{mine}/mine.py:reward"))
    found = experiences(stack, rollouts(stack, stack.Executor([where])))
    assert [e.rewards.item() for e in found] == TOTALS
    assert [e.scores.item() for e in found] == OUTCOMES
    assert [e.info["guerdon/format"].item() for e in found] == [1.0, 0.0, 1.0, 0.0]
    assert [e.info["guerdon/abstained"].item() for e in found] == [0.0] * 4
    assert len({frozenset(e.info) for e in found}) == 1


def test_lists_batch_balance_and_give_the_advantages_of_plain_numbers(stack: Any, mine: Path) -> None:
    import torch

    outputs = rollouts(stack, stack.Executor([str(mine / "reward_file.py")]))
    plain = [{**o, "reward": o["reward"][0], "extra_logs": {k: v[0] for k, v in o["extra_logs"].items()}} for o in outputs]
    advantages = []
    for found in (outputs, plain):
        made = maker(stack, "group_norm")
        batches = made.compute_advantages_and_returns(prepared(made, experiences(stack, found)))
        advantages.append(first_advantages(batches))
        args = NS(actor=NS(num_nodes=1, num_gpus_per_node=1), ds=NS(ring_attn_size=1, tensor_parallel_size=1))
        balanced = stack.balance(batches, args)
        assert sum(len(b.rewards) for b in balanced) == 4
        logged = torch.cat([torch.tensor(b.info["guerdon/format"], dtype=torch.float) for b in balanced])  # as PolicyModelActor does
        assert logged.mean().item() == 0.5
    assert advantages[0] == pytest.approx(advantages[1])
    assert advantages[0][0] == pytest.approx(1.1619, abs=1e-4)


def test_micro_batches_of_any_composition_keep_the_keys(stack: Any, mine: Path) -> None:
    outputs = rollouts(stack, stack.Executor([str(mine / "reward_file.py")]), [*OUTS, "x" * 40])
    joined = stack.Experience.concat_experiences(experiences(stack, outputs), 0)
    assert all(len(value) == 5 for value in joined.info.values())


def test_dynamic_filtering_reads_the_outcome_and_not_the_shaped_total(stack: Any, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The formats of the second group differ and its outcomes do not: it holds no signal, and is replaced."""
    executor = stack.Executor([str(mine / "reward_file.py")])
    wrong, right = "<think>a</think>\\boxed{5}</s>", "<think>a</think>\\boxed{4}</s>"
    groups = iter(
        [
            rollouts(stack, executor),
            rollouts(stack, executor, [wrong, wrong, "no</s>", "no</s>"]),
            rollouts(stack, executor, [right, "no</s>"] * 2),
        ]
    )
    monkeypatch.setattr(stack.generator_module, "ray", NS(wait=lambda refs, **_: (refs[:1], refs[1:]), get=lambda ref: ref))
    generator = stack.Generator.__new__(stack.Generator)
    generator.args = NS(algo=NS(dynamic_filtering_range=(0.2, 0.8)))
    generator._dispatch_prompts_to_vllm = lambda prompts, labels, **_: [next(groups) for _ in prompts]
    data = iter([(None, [f"p{i}"], ["l"], [None]) for i in range(3)])
    accepted, consumed, _ = generator._generate_vllm(data, num_prompts=2, dynamic_filtering=True, max_len=512)
    assert (len(accepted), consumed) == (8, 3)


HOSTILE = """
import math, threading, time
import guerdon.rewards as R
forever = threading.Event()
def user(rollout):
    text = rollout.completion
    if "hang" in text: forever.wait(60)
    if "raise" in text: raise RuntimeError("boom")
    if "exit" in text: raise SystemExit(3)
    if "nan" in text: return math.nan
    if "inf" in text: return math.inf
    if "huge" in text: return 1e39
    if "text" in text: return "high"
    if "none" in text: return None
    return 0.25
reward = R.math_equal(name="math") + R.from_function(user)
"""
BROKEN = ("hang", "raise", "exit", "nan", "inf", "huge", "text")


@pytest.mark.filterwarnings("ignore:reward .* could not be scored:RuntimeWarning")
@pytest.mark.parametrize("door", ["file", "http"])
def test_a_reward_that_breaks_on_some_rows_costs_those_rows_and_no_others(stack: Any, tmp_path: Path, serve: Any, door: str) -> None:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    (tmp_path / "reward_file.py").write_text(
        "from guerdon.backends.openrlhf import reward_func_from\nreward_func = reward_func_from('hostile.py:reward', deadline_s=1.5)\n"
    )
    where = str(tmp_path / "reward_file.py") if door == "file" else serve(reward_func_from(f"{tmp_path}/hostile.py:reward", deadline_s=1.5))
    texts = ["\\boxed{4}</s>", "\\boxed{5}</s>", "none \\boxed{4}</s>", *(f"{what} \\boxed{{4}}</s>" for what in BROKEN)]
    start = time.monotonic()
    found = experiences(stack, rollouts(stack, stack.Executor([where]), texts))
    assert time.monotonic() - start < 6
    assert [e.rewards.item() for e in found] == [1.25, 0.25, 1.0] + [0.0] * 7
    assert [e.info["guerdon/abstained"].item() for e in found] == [0.0] * 3 + [1.0] * 7
    assert [e.info["guerdon/rows/error"].item() for e in found] == [0.0] * 3 + [1.0] * 7
    assert [e.scores.item() for e in found] == [1.0, 0.0] + [1.0] * 8
    joined = stack.Experience.concat_experiences(found, 0)
    assert joined.rewards.isfinite().all()
    assert all(value.isfinite().all() for value in joined.info.values())
    assert joined.info["guerdon/abstained"].mean().item() == pytest.approx(0.7)


def test_no_label_and_broken_labels_are_bad_references_and_never_a_wrong_answer(stack: Any, mine: Path) -> None:
    executor = stack.Executor([str(mine / "reward_file.py")])
    for label in ("", None, json.dumps({"answer": None, "data_source": "x"})):
        (found,) = experiences(stack, rollouts(stack, executor, OUTS[:1], label=label))
        assert found.info["guerdon/rows/bad_reference"].item() == 1.0
        assert found.info["guerdon/abstained"].item() == 1.0
    (found,) = experiences(stack, rollouts(stack, executor, OUTS[:1], label=LABEL))
    assert found.info["guerdon/abstained"].item() == 0.0


def test_without_guerdon_an_exception_leaves_the_micro_batch_without_rewards(stack: Any, tmp_path: Path) -> None:
    """What the door protects from: should OpenRLHF come to handle it, this says so."""
    (tmp_path / "reward_file.py").write_text("def reward_func(queries, prompts, labels):\n    raise ValueError\n")
    (bad,) = experiences(stack, rollouts(stack, stack.Executor([str(tmp_path / "reward_file.py")]), OUTS[:1]))
    assert bad.rewards is None
