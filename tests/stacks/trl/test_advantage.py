"""Advantages that guerdon computes reach TRL's loss unchanged, and equal TRL's own where TRL has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_trl import composed, dense, history, make_dataset, rescored, train

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.trl import advantage_func, reward_funcs
from guerdon.errors import ConfigError
from guerdon.rewards.advantages import BATCH, GDPO, GOPO, GRPO, RLOO, AdvantageSpec

pytestmark = pytest.mark.filterwarnings("ignore:.*activation_checkpointing:FutureWarning")

TRL_GDPO = replace(GDPO, eps=1e-4, whiten_eps=1e-4)


@pytest.mark.parametrize("spec", [GOPO, GDPO, RLOO, BATCH], ids=["gopo", "gdpo", "leave-one-out", "batch"])
def test_grpo_trains_with_the_advantages_of_the_spec(spec: AdvantageSpec, tmp_path: Path) -> None:
    reward = composed()
    function = advantage_func(reward, spec, num_generations=4)
    trainer = train([function], tmp_path, steps=1, **function.config_kwargs())
    ours = rescored(trainer, reward)
    assert trainer.watched[-1] == pytest.approx(ours.advantages(spec).tolist(), abs=1e-6)
    assert max(map(abs, trainer.watched[-1])) > 0.1
    assert history(trainer, "guerdon/reward") == pytest.approx([ours.total_N.mean()])
    assert history(trainer, "guerdon/reward_std") == pytest.approx([ours.total_N.std(ddof=1)])
    assert history(trainer, "guerdon/dense/mean") == pytest.approx([ours.values_NK[:, ours.names.index("dense")].mean()])
    assert history(trainer, "guerdon/frac_reward_zero_std") == history(trainer, "frac_reward_zero_std")


@pytest.mark.parametrize(("native", "spec"), [("gdpo", TRL_GDPO), ("sum", GRPO)], ids=["gdpo", "grpo"])
def test_both_routes_give_the_same_advantages_from_the_same_seed(native: str, spec: AdvantageSpec, tmp_path: Path) -> None:
    funcs = reward_funcs(composed())
    by_trl = train(funcs, tmp_path, steps=2, **funcs.config_kwargs(native))  # type: ignore[arg-type]
    function = advantage_func(composed(), spec)
    injected = train([function], tmp_path, steps=2, **function.config_kwargs())
    assert by_trl._logs["completion"] == injected._logs["completion"]
    for theirs, ours in zip(by_trl.watched, injected.watched, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)
        assert max(map(abs, theirs)) > 0.1


@pytest.mark.parametrize("spec", [GOPO, GDPO], ids=["gopo", "gdpo"])
def test_rloo_trains_with_the_advantages_of_the_spec(spec: AdvantageSpec, tmp_path: Path) -> None:
    reward = composed()
    function = advantage_func(reward, spec, trainer="rloo")
    trainer = train([function], tmp_path, kind="rloo", steps=1, beta=0.0, **function.config_kwargs())
    assert trainer.watched[-1] == pytest.approx(rescored(trainer, reward).advantages(spec).tolist(), abs=1e-6)
    assert max(map(abs, trainer.watched[-1])) > 0.1


def test_rows_without_a_total_get_no_advantage_and_the_others_stay_centred(tmp_path: Path) -> None:
    def refuses(rollout: Rollout) -> float:
        if len(rollout.completion) % 2:
            raise RuntimeError("odd")
        return dense(rollout)

    function = advantage_func(R.from_function(refuses), GOPO, max_broken=1.0)
    trainer = train([function], tmp_path, steps=3, **function.config_kwargs())
    broken = [len(text) % 2 == 1 for text in trainer._logs["completion"]]
    assert history(trainer, "guerdon/abstained")[-1] == sum(broken) / 8
    assert [a for a, b in zip(trainer.watched[-1], broken, strict=True) if b] == [0.0] * sum(broken)
    assert sum(trainer.watched[-1][:4]) == pytest.approx(0.0, abs=1e-6)
    assert any(a != 0.0 for step in trainer.watched for a in step)


def test_validate_refuses_settings_that_would_normalise_again(tmp_path: Path) -> None:
    from trl import GRPOConfig, RLOOConfig

    function = advantage_func(composed(), GOPO, num_generations=4)
    common = {
        "output_dir": str(tmp_path),
        "use_cpu": True,
        "bf16": False,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 2,
    }
    data = make_dataset()
    function.validate(GRPOConfig(**common, **function.config_kwargs()), data)
    with pytest.raises(ConfigError, match="scale_rewards"):
        function.validate(GRPOConfig(**common, num_generations=4), data)
    with pytest.raises(ConfigError, match="num_generations is 8"):
        function.validate(GRPOConfig(**common, **{**function.config_kwargs(), "num_generations": 8}), data)
    with pytest.raises(ConfigError, match="trainer='rloo'"):
        function.validate(RLOOConfig(**common, num_generations=4), data)
