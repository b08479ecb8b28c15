"""Rewards that hang, raise, return None, NaN or infinity for some rows: the step ends, the others train, and the log counts them."""

from __future__ import annotations

import asyncio
import math
import time
from pathlib import Path
from typing import Any

import pytest
from tiny_trl import dense, history, make_dataset, train
from trl import GRPOTrainer

import guerdon.rewards as R
from guerdon import Abstain, Rollout
from guerdon.backends.trl import advantage_func, reward_funcs
from guerdon.errors import BrokenRewardError, MissingInput
from guerdon.rewards.advantages import GOPO

pytestmark = pytest.mark.filterwarnings("ignore:.*activation_checkpointing:FutureWarning")


def hang(rollout: Rollout) -> float:
    time.sleep(60)  # in a daemon thread that is left behind
    return 0.0


def fail(rollout: Rollout) -> float:
    raise RuntimeError("no")


def abstain(rollout: Rollout) -> float:
    raise Abstain("not this one")


BAD: dict[str, tuple[Any, str]] = {
    "hang": (hang, "error"),
    "raise": (fail, "error"),
    "nan": (lambda rollout: math.nan, "error"),
    "inf": (lambda rollout: math.inf, "error"),
    "float64 beyond float32": (lambda rollout: 1e300, "error"),
    "text": (lambda rollout: "0.5", "error"),
    "abstain": (abstain, "unscored"),
    "none": (lambda rollout: None, "none"),
}


def on_bad_rows(bad: Any) -> Any:
    """A dense reward that goes wrong on completions of which a third are."""

    def own(rollout: Rollout) -> Any:
        return bad(rollout) if is_bad(rollout.completion) else dense(rollout)

    return own


def is_bad(completion: str) -> bool:
    return sum(map(ord, completion)) % 3 == 0


@pytest.mark.parametrize("how", list(BAD))
@pytest.mark.parametrize("route", ["functions", "advantages"])
def test_bad_rows_are_left_out_and_counted_and_the_others_train(how: str, route: str, tmp_path: Path) -> None:
    bad, status = BAD[how]
    reward = R.from_function(on_bad_rows(bad), name="own") + 0.0 * R.boxed_format()
    start = time.monotonic()
    if route == "functions":
        funcs = reward_funcs(reward, deadline_s=1.0, max_broken=1.0)
        trainer = train(funcs, tmp_path, steps=1, **funcs.config_kwargs())
    else:
        function = advantage_func(reward, GOPO, deadline_s=1.0, max_broken=1.0)
        trainer = train([function], tmp_path, steps=1, **function.config_kwargs())
    assert time.monotonic() - start < 30.0
    texts, advantages = list(trainer._logs["completion"]), trainer.watched[-1]
    lost = [is_bad(text) for text in texts]
    assert 0 < sum(lost) < 8
    if how == "hang":  # a sync function is called row by row: those after the first that hangs are late too
        lost = [any(lost[: i + 1]) for i in range(8)]
    assert [a == 0.0 for a, gone in zip(advantages, lost, strict=True) if gone] == [True] * sum(lost)
    for group in (0, 4):
        kept = [a for a, gone in zip(advantages[group : group + 4], lost[group : group + 4], strict=True) if not gone]
        assert sum(kept) == pytest.approx(0.0, abs=1e-5)
    assert all(map(math.isfinite, advantages))
    shares = {s: history(trainer, f"guerdon/own/{s}")[0] for s in ("error", "unscored")}
    assert shares == {s: sum(lost) / 8 if s == status else 0.0 for s in shares}
    if status != "none":
        assert history(trainer, "guerdon/abstained")[0] == sum(lost) / 8


NINES = "\\boxed{9^{9^{9^9}}}"


def nines_call() -> dict[str, Any]:
    """64 completions, one of which no computer can evaluate."""
    return {
        "prompts": [str(i // 8) for i in range(64)],
        "completions": [NINES if i == 17 else f"\\boxed{{{i % 2}}}" for i in range(64)],
        "completion_ids": [[5] * 9] * 64,
        "answer": ["1"] * 64,
    }


@pytest.mark.parametrize("mode", ["sync", "async", "worker thread"])
def test_a_tower_of_nines_delays_the_batch_by_no_more_than_the_deadline(mode: str) -> None:
    funcs = reward_funcs(R.math_equal() + 0.2 * R.boxed_format(), deadline_s=5.0, asynchronous=mode == "async")
    call = nines_call()

    async def asynchronous() -> list[Any]:
        return await asyncio.gather(*(f(**call) if mode == "async" else asyncio.to_thread(f, **call) for f in funcs))

    start = time.monotonic()
    correct, boxed = [f(**call) for f in funcs] if mode == "sync" else asyncio.run(asynchronous())
    assert time.monotonic() - start < 6.5
    assert [v for i, v in enumerate(correct) if i != 17] == [float(i % 2) for i in range(64) if i != 17]
    assert correct[17] in (0.0, None)
    assert boxed[:17] == [1.0] * 17


def test_asynchronous_functions_do_not_block_the_loop_that_they_run_on() -> None:
    def slow(rollout: Rollout) -> float:
        time.sleep(0.5)
        return 1.0

    funcs = reward_funcs(R.from_function(slow), asynchronous=True, deadline_s=5.0)
    beats = 0

    async def main() -> Any:
        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.01)
                beats += 1

        beating = asyncio.ensure_future(beat())
        found = await funcs[0](completions=["x"])
        beating.cancel()
        return found

    assert asyncio.run(main()) == [1.0]
    assert beats > 5


def test_a_tower_of_nines_in_a_step_of_the_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    funcs = reward_funcs(R.math_equal() + R.from_function(dense), deadline_s=5.0)
    calculate = GRPOTrainer._calculate_rewards

    def with_nines(self: Any, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        return calculate(self, inputs, prompts, [NINES, *completions[1:]], ids)

    monkeypatch.setattr(GRPOTrainer, "_calculate_rewards", with_nines)
    start = time.monotonic()
    trainer = train(funcs, tmp_path, steps=1, **funcs.config_kwargs())
    assert time.monotonic() - start < 30.0
    assert history(trainer, "guerdon/seconds")[0] < 6.0


def test_a_column_that_the_data_lack_stops_the_run_and_says_the_fix(tmp_path: Path) -> None:
    funcs = reward_funcs(R.math_equal(column="solution"))
    with pytest.raises(MissingInput, match=r"reads column 'solution'.*column="):
        train(funcs, tmp_path, steps=1, **funcs.config_kwargs())


def test_a_reward_that_is_broken_stops_the_run(tmp_path: Path) -> None:
    funcs = reward_funcs(R.math_equal(), max_broken=0.01)
    with pytest.raises(BrokenRewardError, match="missing_reference"):
        train(funcs, tmp_path, steps=1, dataset=make_dataset(answer=[""] * 16), **funcs.config_kwargs())
