"""GRPOTrainer trains on guerdon's functions: plain and conversational, sum and GDPO, and the totals are guerdon's own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_trl import composed, dense, digits, history, make_dataset, rescored, train

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.trl import reward_funcs
from guerdon.rewards.advantages import GDPO, GRPO

pytestmark = pytest.mark.filterwarnings("ignore:.*activation_checkpointing:FutureWarning")


@pytest.mark.parametrize("chat", [False, True], ids=["plain", "conversational"])
@pytest.mark.parametrize("aggregation", ["sum", "gdpo"])
def test_grpo_trains_four_steps_on_the_rewards_that_guerdon_computes(chat: bool, aggregation: Any, tmp_path: Path) -> None:
    reward = composed()
    funcs = reward_funcs(reward)
    trainer = train(funcs, tmp_path, dataset=make_dataset(chat=chat), **funcs.config_kwargs(aggregation))
    assert trainer.state.global_step == 4
    assert trainer.reward_func_names == ["math_equal", "boxed_format", "soft_overlong", "dense", "repetition"]
    ours = rescored(trainer, reward)
    for k, name in enumerate(ours.names):
        assert list(trainer._logs["rewards"][name]) == pytest.approx(ours.values_NK[:, k].tolist(), abs=1e-6)
    trl_gdpo = replace(GDPO, eps=1e-4, whiten_eps=1e-4)
    advantages = ours.advantages(GRPO if aggregation == "sum" else trl_gdpo)
    assert trainer.watched[-1] == pytest.approx(advantages.tolist(), abs=1e-5)
    assert max(map(abs, advantages)) > 0.1
    for entry in trainer.state.log_history[:4]:
        assert entry["guerdon/abstained"] == 0.0
        assert entry["guerdon/seconds"] > 0
        assert "guerdon/outcome" in entry
        assert {
            f"guerdon/math_equal/{s}" for s in ("error", "bad_reference", "timeout", "no_answer", "unparseable", "unscored")
        } <= entry.keys()


def test_rows_without_a_reference_are_left_out_and_counted(tmp_path: Path) -> None:
    funcs = reward_funcs(R.math_equal() + R.from_function(dense), max_broken=1.0)
    dataset = make_dataset().map(lambda row, i: {"answer": None if i % 2 else row["answer"]}, with_indices=True)
    trainer = train(funcs, tmp_path, dataset=dataset, **funcs.config_kwargs())
    shares = history(trainer, "guerdon/abstained")
    assert sum(shares) > 0
    assert set(shares) <= {0.0, 0.5, 1.0}
    assert history(trainer, "guerdon/math_equal/bad_reference") == shares
    for step, share in zip(trainer.watched, shares, strict=True):
        assert sum(a == 0.0 for a in step) >= 8 * share


def test_a_group_term_sees_every_sibling(tmp_path: Path) -> None:
    seen: list[list[int]] = []

    def siblings(rollouts: list[Rollout]) -> list[float]:
        seen.append([rollout.group for rollout in rollouts])
        return [digits(r.completion) for r in rollouts]

    funcs = reward_funcs(R.from_function(siblings, batch=True, reads={"group"}) + 0.1 * R.distinct())
    train(
        funcs, tmp_path, steps=1, dataset=make_dataset().map(lambda row: {"prompt": "the same"}), num_generations=4, **funcs.config_kwargs()
    )
    assert seen == [[0] * 8], "one prompt twice: not told apart without num_generations"
    funcs = reward_funcs(R.from_function(siblings, batch=True, reads={"group"}), num_generations=4)
    train(
        funcs, tmp_path, steps=1, dataset=make_dataset().map(lambda row: {"prompt": "the same"}), num_generations=4, **funcs.config_kwargs()
    )
    assert seen[1:] == [[0] * 4 + [1] * 4]


def test_evaluation_has_its_own_group_size(tmp_path: Path) -> None:
    funcs = reward_funcs(R.from_function(dense) + 0.1 * R.distinct())
    trainer = train(
        funcs,
        tmp_path,
        steps=1,
        trainer={"eval_dataset": make_dataset(4)},
        num_generations_eval=2,
        per_device_eval_batch_size=4,
        **funcs.config_kwargs(),
    )
    assert math.isfinite(trainer.evaluate()["eval_rewards/distinct/mean"])


def test_the_table_of_completions_says_why(tmp_path: Path) -> None:
    funcs = reward_funcs(R.math_equal() + 0.2 * R.boxed_format())
    trainer = train(funcs, tmp_path, steps=1, log_completions=True, **funcs.config_kwargs())
    whys = list(trainer._logs["extra"]["guerdon/why"])
    assert len(whys) == 8
    assert all("math_equal" in why and "boxed_format scored (no_box)" in why for why in whys)


def test_asynchronous_functions_train_and_score_each_batch_once(tmp_path: Path) -> None:
    scored: list[int] = []

    async def slow(rollouts: list[Rollout]) -> list[float]:
        scored.append(len(rollouts))
        return [digits(r.completion) for r in rollouts]

    funcs = reward_funcs(R.from_function(slow, batch=True) + 0.2 * R.boxed_format(), asynchronous=True)
    trainer = train(funcs, tmp_path, steps=2, **funcs.config_kwargs())
    assert scored == [8, 8]
    assert max(map(abs, trainer.watched[-1])) > 0.1


def test_terms_read_the_tokens_that_trl_counts(tmp_path: Path) -> None:
    def tokens(rollout: Rollout) -> float:
        assert rollout.num_tokens == len(rollout.token_ids or ())
        return float(rollout.num_tokens)

    def cut(rollout: Rollout) -> float:
        return float(rollout.truncated is True)

    reward = R.from_function(tokens, reads={"num_tokens", "token_ids"}) + 0.0 * R.from_function(cut, reads={"truncated"})
    funcs = reward_funcs(reward, eos_token_id=[0, 1])
    trainer = train(funcs, tmp_path, **funcs.config_kwargs())
    assert history(trainer, "rewards/tokens/mean") == pytest.approx(history(trainer, "completions/mean_length"))
    assert history(trainer, "rewards/cut/mean") == pytest.approx(history(trainer, "completions/clipped_ratio"))
