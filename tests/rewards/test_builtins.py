"""Every built-in reward keeps the contract, from wherever it is called."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import signal
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guerdon.rewards as R
from guerdon import Rollout, Verdict
from guerdon.testing import check_reward
from guerdon.verifiers.json_schema import JsonSchemaVerifier

from .service_stub import Service

INSTRUCTIONS = {
    "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
    "kwargs": [{}, {"relation": "at least", "num_words": 2}],
}
SCHEMA = {"type": "object", "required": ["a"]}
TESTS = {"test_list": ["assert f(2) == 4", "assert f(3) == 9"]}


def bright(rollout: Rollout) -> float:
    return float("!" in rollout.completion)


def short(completions: list[Any], **kwargs: Any) -> list[float | None]:
    return [None if not c else float(len(c) < 20) for c in completions]


SERVICE = Service()  # a thread of this process; the other processes ask it too

LOCAL = ("from_function", "from_trl")  # functions of this module, which another process cannot import

BUILTINS: dict[str, R.Term] = {
    "math_equal": R.math_equal(),
    "choice": R.choice(column="letter"),
    "code_tests": R.code_tests(timeout_s=5.0),
    "exact": R.exact(),
    "json_schema": R.json_schema(column="schema"),
    "instructions": R.instructions(column="instructions"),
    "think_format": R.think_format(),
    "tags": R.tags("think", "answer"),
    "boxed_format": R.boxed_format(),
    "soft_overlong": R.soft_overlong(max_tokens=8, cache=4),
    "length_penalty": R.length_penalty(safe_tokens=2, max_tokens=8, scale=0.5),
    "cosine_length": R.cosine_length(on=R.exact(), max_tokens=8),
    "repetition": R.repetition(),
    "distinct": R.distinct(),
    "duplicate_penalty": R.duplicate_penalty(),
    "gate": R.gate(R.exact(), on=R.think_format()),
    "all_of": R.all_of(R.exact(), R.math_equal()),
    "any_of": R.any_of(R.exact(), R.math_equal()),
    "clip": R.clip(R.exact(), high=0.5),
    "by_status": R.by_status(R.exact(), {"correct": 1, "incorrect": -1}),
    "by_column": R.by_column("letter", {"A": R.exact(), "B": 0.5 * R.math_equal()}),
    "scale_by_column": R.scale_by_column(R.exact(), "difficulty"),
    "abstain_if_truncated": R.abstain_if_truncated(R.exact()),
    "optional": R.optional(R.exact()),
    "from_function": R.from_function(bright),
    "verified": R.verified("guerdon.verifiers.exact:ExactVerifier"),
    "from_trl": R.from_trl(short),
    "judge": R.judge(endpoint=SERVICE.url, model="judge"),
    "remote": R.remote(SERVICE.url, columns=("answer",), batch_size=4),
    "sum": 0.8 * R.gate(R.math_equal(), on=R.think_format()) + 0.2 * R.think_format() + R.soft_overlong(max_tokens=8, cache=4),
}


def rollout(completion: str, answer: str, i: int) -> Rollout:
    columns = {"letter": "AB"[i % 2], "schema": SCHEMA, "instructions": INSTRUCTIONS, "difficulty": 0.5 + i, "tests": TESTS}
    tokens = len(completion.split())
    return Rollout(completion, prompt=f"p{i // 4}", answer=answer, num_tokens=tokens, truncated=i % 5 == 0, columns=columns)


COMPLETIONS = [
    ("<think>2+2</think><answer>4</answer>", "4"),
    ("<think>2+2</think>\\boxed{4}", "4"),
    ("The answer is (A).", "A"),
    ("The answer is 5", "4"),
    ('{"a": 1}', "1/2"),
    ("\\boxed{\\frac{1}{2}}", "0.5"),
    ("one two three four five six seven eight nine ten", "4"),
    ("no, never!", "4"),
    ("```python\ndef f(x):\n    return x * x\n```", "4"),
]
ROWS = [rollout(c, a, i) for i, (c, a) in enumerate(COMPLETIONS)]


def totals(reward: R.Term, rows: list[Rollout]) -> list[float | None]:
    return reward.score(rows, warn_broken=1.0, max_broken=1.0).totals()


def test_every_factory_is_in_the_table() -> None:
    assert set(BUILTINS) | {"WeightedSum", "Leaf", "Combinator", "Term"} >= set(R.__all__)


@pytest.mark.parametrize("name", BUILTINS)
def test_it_keeps_the_contract_in_threads_loops_and_another_process(name: str) -> None:
    check_reward(BUILTINS[name], ROWS, another_process=name not in LOCAL)


@pytest.mark.parametrize("name", BUILTINS)
def test_it_has_a_fingerprint(name: str) -> None:
    assert BUILTINS[name].fingerprint is not None


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_all_score_alike_in_a_process_pool(method: str) -> None:
    shared = {n: reward for n, reward in BUILTINS.items() if n not in LOCAL}
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as executor:
        there = {n: executor.submit(reward, ROWS) for n, reward in shared.items()}
        assert {n: future.result(timeout=120) for n, future in there.items()} == {n: reward(ROWS) for n, reward in shared.items()}


@pytest.mark.stacks
def test_all_score_alike_in_a_ray_actor() -> None:
    ray = pytest.importorskip("ray", reason="needs guerdon[ray]")
    shared = {n: reward for n, reward in BUILTINS.items() if n not in LOCAL}

    class Scorer:
        def score(self, reward: R.Term, rows: list[Rollout]) -> list[float | None]:
            return reward(rows)

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        actor = ray.remote(Scorer).remote()
        assert {n: ray.get(actor.score.remote(r, ROWS), timeout=120) for n, r in shared.items()} == {n: r(ROWS) for n, r in shared.items()}
    finally:
        ray.shutdown()


def test_the_callers_alarm_is_left_alone() -> None:
    fired: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: fired.append(1))
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        for reward in BUILTINS.values():
            totals(reward, ROWS)
        handler = signal.getsignal(signal.SIGALRM)
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not fired
    assert callable(handler)
    assert 0 < left < 60


@given(st.lists(st.text(alphabet=st.characters(), max_size=60), min_size=1, max_size=6))
def test_order_and_length_are_kept_for_any_text(completions: list[str]) -> None:
    rows = [rollout(c, "4", i) for i, c in enumerate(completions)]
    for name, reward in BUILTINS.items():
        if name not in ("math_equal", "all_of", "any_of", "by_column", "sum"):
            assert len(totals(reward, rows)) == len(rows), name
            if "group" not in reward.reads:
                assert totals(reward, rows[::-1]) == totals(reward, rows)[::-1], name


def test_a_row_that_hangs_in_one_thread_does_not_hold_up_another() -> None:
    verifier = JsonSchemaVerifier.of({"type": "string", "pattern": "^(a+)+$"}, timeout_s=1.0)
    reward = R.verified(verifier, name="json_schema")
    found: list[Verdict] = []
    hanging = threading.Thread(target=lambda: found.extend(reward.verdicts([rollout('"' + "a" * 40 + '!"', "", 0)])))
    hanging.start()
    meanwhile = 0
    while hanging.is_alive():
        assert reward([rollout('"aaa"', "", 0)]) == [1.0]
        meanwhile += 1
    assert found[0].reason == "checker_timeout"
    assert meanwhile > 10


def test_scoring_inside_a_running_loop_gives_the_same() -> None:
    async def main() -> list[list[float | None]]:
        return [totals(reward, ROWS) for reward in BUILTINS.values()]

    assert asyncio.run(main()) == [totals(reward, ROWS) for reward in BUILTINS.values()]
