"""`advantage_func` without a trainer: what it refuses, and that what it returns is centred within each group."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.trl import advantage_func
from guerdon.errors import ConfigError
from guerdon.rewards.advantages import (
    BATCH,
    DR_GRPO,
    GDPO,
    GDPO_TOKEN,
    GOPO,
    GRPO,
    REINFORCE_PP,
    REINFORCE_PP_BASELINE,
    RLOO,
    SCALERL,
    SPECS,
)

CENTRED = {"grpo": GRPO, "dr_grpo": DR_GRPO, "gdpo": GDPO, "gopo": GOPO, "rloo": RLOO, "batch": BATCH, "scalerl": SCALERL}


def first(rollout: Rollout) -> float | None:
    if rollout.completion == "broken":
        raise RuntimeError("no")
    return None if rollout.completion == "absent" else float(rollout.completion)


def second(rollout: Rollout) -> float:
    return float(len(rollout.completion))


REWARD = 0.7 * R.from_function(first) + 0.3 * R.from_function(second)


@pytest.mark.parametrize("spec", [GDPO_TOKEN, REINFORCE_PP, REINFORCE_PP_BASELINE, replace(GOPO, center="none")])
def test_specs_that_are_not_centred_within_each_group_are_refused(spec: Any) -> None:
    with pytest.raises(ConfigError, match="not centred within each group"):
        advantage_func(R.exact(), spec)


def test_every_named_spec_is_either_centred_or_refused() -> None:
    assert SPECS.keys() - CENTRED.keys() == {"gdpo_token", "reinforce_pp", "reinforce_pp_baseline"}


@pytest.mark.parametrize("arguments", [("gopo",), (GOPO, "ppo")])
def test_wrong_arguments_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match="expects"):
        advantage_func(R.exact(), arguments[0], **({"trainer": arguments[1]} if len(arguments) > 1 else {}))


completion = st.one_of(st.integers(-50, 50).map(str), st.sampled_from(["absent", "broken", "0.5"]))


@pytest.mark.parametrize("trainer", ["grpo", "rloo"])
@pytest.mark.parametrize("name", list(CENTRED))
@given(completions=st.lists(completion, min_size=8, max_size=8))
def test_the_trainer_recovers_the_advantages_of_the_spec(name: str, trainer: Any, completions: list[str]) -> None:
    """Centred within each group, so that subtracting its mean (GRPO) or the mean of the others (RLOO) gives them back."""
    function = advantage_func(REWARD, CENTRED[name], num_generations=4, trainer=trainer, max_broken=1.0)
    returned = function(prompts=["p"] * 4 + ["q"] * 4, completions=completions)
    want = REWARD.score([Rollout(c, "pq"[i // 4]) for i, c in enumerate(completions)], warn_broken=1.0, max_broken=1.0).advantages(
        CENTRED[name]
    )
    for g in (0, 4):
        group = returned[g : g + 4]
        for i, value in enumerate(group):
            baseline = sum(group) / 4 if trainer == "grpo" else (sum(group) - value) / 3
            assert value - baseline == pytest.approx(want[g + i], abs=1e-6, rel=1e-9)


def test_a_row_without_a_total_is_0_and_not_none() -> None:
    found = advantage_func(REWARD, GRPO)(prompts=["p"] * 4, completions=["1", "broken", "2", "3"])
    assert found[1] == 0.0
    assert None not in found


def test_the_group_size_tells_neighbours_with_one_prompt_apart() -> None:
    call = {"prompts": ["p"] * 4, "completions": ["1", "2", "30", "40"]}
    assert advantage_func(REWARD, GOPO, num_generations=2)(**call) == [-2.0, 2.0, -2.0, 2.0]
    assert advantage_func(REWARD, GOPO)(**call) != [-2.0, 2.0, -2.0, 2.0]


def test_the_log_holds_the_reward_behind_the_advantages() -> None:
    metrics: dict[str, float] = {}
    call = {"prompts": ["p"] * 2 + ["q"] * 2, "completions": ["1", "3", "5", "5"]}
    advantage_func(REWARD, GRPO)(**call, log_metric=metrics.__setitem__)
    assert metrics["guerdon/reward"] == pytest.approx(0.7 * 3.5 + 0.3)
    assert metrics["guerdon/first/mean"] == 3.5
    assert metrics["guerdon/frac_reward_zero_std"] == 0.5
    assert metrics["guerdon/abstained"] == 0.0


def test_each_metric_is_logged_once() -> None:
    names: list[str] = []
    call = {"prompts": ["p"] * 2 + ["q"] * 2, "completions": ["1", "3", "5", "5"]}
    advantage_func(REWARD, GRPO)(**call, log_metric=lambda name, value: names.append(name))
    assert len(set(names)) == len(names)


def test_a_watched_number_that_float32_cannot_bear_costs_no_row() -> None:
    watched = R.from_function(lambda r: 1e300, name="large")
    call = {"prompts": ["p"] * 2, "completions": ["1", "3"]}
    assert advantage_func(REWARD + 0.0 * watched, GRPO)(**call) == advantage_func(REWARD, GRPO)(**call)


def test_it_pickles() -> None:
    function = advantage_func(0.5 * R.exact() + R.boxed_format(), GDPO, num_generations=2)
    call = {"prompts": ["p"] * 2, "completions": ["\\boxed{1}", "1"], "answer": ["1"] * 2}
    assert pickle.loads(pickle.dumps(function))(**call) == function(**call)


@pytest.mark.parametrize(
    ("trainer", "settings", "message"),
    [
        ("grpo", {"scale_rewards": "group"}, "scale_rewards"),
        ("grpo", {"scale_rewards": "none", "multi_objective_aggregation": "normalize_then_sum"}, "normalize_then_sum"),
        ("grpo", {"scale_rewards": "none", "num_generations": 4}, "num_generations is 4"),
        ("grpo", {"normalize_advantages": False}, "trainer='rloo'"),
        ("rloo", {"scale_rewards": "none"}, "trainer='grpo'"),
        ("rloo", {"normalize_advantages": True}, "normalize_advantages"),
    ],
)
def test_validate_refuses_arguments_that_would_change_the_advantages(trainer: Any, settings: dict[str, Any], message: str) -> None:
    function = advantage_func(R.exact(), GOPO, num_generations=2, trainer=trainer)
    base = {"per_device_train_batch_size": 8, "num_generations": 2, "beta": 0.0}
    with pytest.raises(ConfigError, match=message):
        function.validate({**base, **settings})
    function.validate({**base, **function.config_kwargs()})
