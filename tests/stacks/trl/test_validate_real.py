"""The traps of `validate` bite in the real TRL as the table says, the mended settings do not, and its defaults are the ones we read."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import math
from pathlib import Path
from typing import Any

import pytest
from tiny_trl import QUIET, digits, history, make_dataset, make_model, make_tokenizer, train
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.gmpo import GMPOConfig

import guerdon.rewards as R
from guerdon.backends.recipes import RECIPES
from guerdon.backends.trl import advantage_func, reward_funcs, validate
from guerdon.backends.trl.settings import CHOICES, DEFAULTS
from guerdon.backends.trl.traps_inputs import TRAINER_ARGUMENTS
from guerdon.backends.trl.validate import inspect
from guerdon.errors import ConfigError, MissingInput
from guerdon.rewards.advantages import GOPO

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*activation_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The `vllm_importance_sampling_cap`:FutureWarning"),
]
CONFIGS: dict[Any, Any] = {"grpo": GRPOConfig, "gmpo": GMPOConfig, "rloo": RLOOConfig}
ROOMY = {"per_device_train_batch_size": 16, "num_generations": 4, "steps_per_generation": 2, "loss_type": "grpo"}


def own(completions: list[Any], **columns: Any) -> list[float]:
    return [digits(completion) for completion in completions]


def config(tmp_path: Path, kind: str = "grpo", **settings: Any) -> Any:
    return CONFIGS[kind](output_dir=str(tmp_path), **{**QUIET, **settings})


def make_trainer(args: Any, cls: Any = GRPOTrainer, **kwargs: Any) -> Any:
    tokenizer = make_tokenizer()
    given = {"model": make_model(tokenizer), "reward_funcs": [own], "processing_class": tokenizer, "train_dataset": make_dataset()}
    return cls(args=args, **{**given, **kwargs})


def codes(settings: Any, **others: Any) -> set[str]:
    return {finding.code for finding in inspect(settings, **others)}


@pytest.mark.parametrize("kind", ["grpo", "gmpo", "rloo"])
def test_our_defaults_are_trls(kind: Any) -> None:
    real = {field.name: field.default for field in dataclasses.fields(CONFIGS[kind])}
    ours = dict(DEFAULTS[kind])
    assert {name: real[name] for name in ours} == ours


@pytest.mark.parametrize("kind", ["grpo", "gmpo", "rloo"])
def test_no_setting_of_trl_is_taken_for_a_misspelling(kind: Any) -> None:
    foreign = DEFAULTS["grpo"].keys() - DEFAULTS[kind].keys()
    settings = {field.name: field.default for field in dataclasses.fields(CONFIGS[kind]) if field.name not in foreign}
    assert "misspelt" not in codes(settings, trainer=kind)


@pytest.mark.parametrize("name", ["async_grpo.AsyncGRPOConfig", "online_dpo.OnlineDPOConfig", "sdpo.SDPOConfig", "a2po.A2POConfig"])
def test_configurations_of_other_trainers_are_not_judged_by_grpos_traps(name: str, tmp_path: Path) -> None:
    module, _, cls = name.partition(".")
    config_class = getattr(importlib.import_module(f"trl.experimental.{module}"), cls)
    funcs = reward_funcs(R.math_equal() + 0.2 * R.boxed_format(), weighted=True)
    assert funcs.validate(config_class(output_dir=str(tmp_path), use_cpu=True, bf16=False), make_dataset()) == ()


def test_trainer_arguments_are_trls() -> None:
    import inspect as signatures

    assert set(signatures.signature(GRPOTrainer.__init__).parameters) - {"self"} == TRAINER_ARGUMENTS
    rloo = set(signatures.signature(RLOOTrainer.__init__).parameters) - {"self"}
    assert TRAINER_ARGUMENTS - rloo == {"tools", "rollout_func", "environment_factory"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_type": "drgrpo"}, "Unknown loss type"),
        ({"scale_rewards": "groups"}, "scale_rewards"),
        ({"importance_sampling_level": "seq"}, "importance sampling level"),
        ({"multi_objective_aggregation": "normalise_then_sum"}, "multi_objective_aggregation"),
        ({"top_entropy_quantile": -0.1}, "quantile"),
    ],
)
def test_misspelt_settings_are_taken_and_stop_the_first_step(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert codes(config(tmp_path, **settings)) & {"misspelt", "entropy-quantile"}
    with pytest.raises((ValueError, RuntimeError), match=message):
        train([own], tmp_path, steps=1, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loss_type", "importance_sampling_level", "multi_objective_aggregation", "scale_rewards"])
def test_every_choice_that_we_list_trains(name: str, tmp_path: Path) -> None:
    for choice in CHOICES[name]:
        assert train([own], tmp_path, steps=1, **{name: choice}).state.global_step == 1


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"num_generations": 5}, "batch-division"),
        ({"num_generations": 1}, "batch-division"),
        ({"generation_batch_size": 12}, "batch-division"),
        ({"generation_batch_size": 16, "steps_per_generation": 2}, "generation-batch-twice"),
        ({"eval_strategy": "steps", "per_device_eval_batch_size": 6}, "eval-division"),
        ({"use_cpu": False, "bf16": None}, "bf16-without-gpu"),
        ({"max_prompt_length": 8}, "prompt-length"),
    ],
)
def test_configurations_that_we_refuse_trl_refuses(settings: dict[str, Any], code: str, tmp_path: Path) -> None:
    assert code in codes({**QUIET, **settings}, gpu=False)
    with pytest.raises((ValueError, TypeError)):
        config(tmp_path, **settings)


def test_bf16_is_allowed_on_a_cpu_that_was_asked_for(tmp_path: Path) -> None:
    assert config(tmp_path, bf16=None).bf16 is True
    assert "bf16-without-gpu" not in codes({**QUIET, "bf16": None}, gpu=False)


def test_rloo_refuses_settings_of_grpo(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        config(tmp_path, "rloo", loss_type="grpo")


@pytest.mark.parametrize(
    ("settings", "kwargs", "code", "error"),
    [
        ({}, {"tokenizer": None}, "trainer-argument", TypeError),
        ({}, {"ref_model": None}, "trainer-argument", TypeError),
        ({"beta": 0.04}, {}, "reference-in-memory", OSError),
        ({"sync_ref_model": True}, {}, "sync-without-kl", ValueError),
        ({"reward_weights": [1.0, 1.0]}, {}, "weights-length", ValueError),
        ({"loss_type": "vespo", "use_vllm": True}, {}, "vespo-vllm", ValueError),
    ],
)
def test_trainers_that_we_refuse_trl_refuses(
    settings: dict[str, Any], kwargs: dict[str, Any], code: str, error: Any, tmp_path: Path
) -> None:
    args = config(tmp_path, **settings)
    assert code in codes(args, funcs=[own], trainer_kwargs={"model": make_model(make_tokenizer()), **kwargs})
    with pytest.raises(error):
        make_trainer(args, **kwargs)


@pytest.mark.parametrize(
    ("funcs", "dataset", "settings", "code", "error"),
    [
        ((own,), {}, {}, "functions-not-a-list", (AttributeError, TypeError)),
        ([own], {"prompts": ["x"] * 16}, {}, "column-clash", TypeError),
        ([own], {"completions": ["x"] * 16}, {}, "column-clash", TypeError),
        (reward_funcs(R.exact()), {}, {"remove_unused_columns": True}, "columns-removed", MissingInput),
    ],
)
def test_data_and_functions_that_we_refuse_stop_the_first_step(
    funcs: Any, dataset: dict[str, Any], settings: dict[str, Any], code: str, error: Any, tmp_path: Path
) -> None:
    data = make_dataset(**dataset)
    assert code in codes(config(tmp_path, **settings), funcs=funcs, train_dataset=data)
    with pytest.raises(error):
        train(funcs, tmp_path, steps=1, dataset=data, **settings)


def test_a_column_without_prompt_stops_the_first_step(tmp_path: Path) -> None:
    data = make_dataset().rename_column("prompt", "question")
    assert "no-prompt" in codes(config(tmp_path), train_dataset=data)
    with pytest.raises(KeyError):
        train([own], tmp_path, steps=1, dataset=data)


def test_hidden_columns_never_arrive(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def look(completions: list[Any], **columns: Any) -> list[float]:
        seen.update(columns)
        return [0.0] * len(completions)

    data = make_dataset(log_metric=["mine"] * 16, completion=["mine"] * 16, kept=["mine"] * 16)
    assert "column-hidden" in codes(config(tmp_path), train_dataset=data)
    train([look], tmp_path, steps=1, dataset=data)
    assert seen["kept"] == ["mine"] * 8
    assert callable(seen["log_metric"])
    assert "completion" not in seen


def test_functions_of_one_name_share_a_metric(tmp_path: Path) -> None:
    def other(completions: list[Any], **columns: Any) -> list[float]:
        return [10.0] * len(completions)

    other.__name__ = "own"
    assert "same-name" in codes(config(tmp_path), funcs=[own, other])
    entry = train([own, other], tmp_path, steps=1).state.log_history[0]
    assert sum(key.endswith("/mean") and key.startswith("rewards/") for key in entry) == 1
    assert 4.9 < entry["rewards/own/mean"] < 5.6


def test_weights_that_are_not_passed_are_1(tmp_path: Path) -> None:
    funcs = reward_funcs(R.exact() + 0.2 * R.think_format())
    with pytest.raises(ConfigError, match="weights-not-passed"):
        validate(config(tmp_path, **ROOMY), funcs=funcs)
    assert make_trainer(config(tmp_path), reward_funcs=list(funcs)).reward_weights.tolist() == [1.0, 1.0]


def test_finished_advantages_are_divided_unless_scaling_is_off(tmp_path: Path) -> None:
    func = advantage_func(R.from_function(lambda rollout: digits(rollout.completion), name="dense"), GOPO, num_generations=4)
    assert "finished-scaled" in codes(config(tmp_path), funcs=[func])
    assert "finished-scaled" not in codes(config(tmp_path, **func.config_kwargs()), funcs=[func])
    scaled = train([func], tmp_path, steps=1)
    kept = train([func], tmp_path, steps=1, **func.config_kwargs())
    assert max(map(abs, kept.watched[0])) > 1.9
    assert max(map(abs, scaled.watched[0])) < 1.6


def test_pairs_get_0_707(tmp_path: Path) -> None:
    settings = {"num_generations": 2}
    assert "two-generations" in codes(config(tmp_path, **settings))
    seen = {round(abs(a), 1) for a in train([own], tmp_path, steps=1, **settings).watched[0]}
    assert 0.7 in seen
    assert seen <= {0.0, 0.7}


def constant_groups(completions: list[Any], prompts: list[Any], **columns: Any) -> list[float]:
    """The first group all 0, every other group 0, 1, 2, 3."""
    return [0.0 if i < 4 else float(i % 4) for i in range(len(completions))]


def test_under_gdpo_the_share_of_groups_without_spread_is_not_counted_and_scaling_is_not_read(tmp_path: Path) -> None:
    gdpo = {"multi_objective_aggregation": "normalize_then_sum"}
    assert {"gdpo-zero-std", "gdpo-scale", "gdpo-one-function"} <= codes(
        config(tmp_path, **gdpo, scale_rewards="none"), funcs=[constant_groups]
    )
    plain = train([constant_groups], tmp_path, steps=1)
    ours = train([constant_groups], tmp_path, steps=1, **gdpo)
    unscaled = train([constant_groups], tmp_path, steps=1, scale_rewards="none", **gdpo)
    assert history(plain, "frac_reward_zero_std") == [0.5]
    assert history(ours, "frac_reward_zero_std") == [0.0]
    assert unscaled.watched == ours.watched


def test_dapo_keeps_groups_without_spread(tmp_path: Path) -> None:
    trainer = train([constant_groups], tmp_path, steps=1, loss_type="dapo")
    assert "dapo-sampling" in codes({**ROOMY, "loss_type": "dapo"})
    assert trainer.watched[0][:4] == [0.0] * 4
    assert len(trainer.watched[0]) == 8


def test_the_default_loss_is_dapo(tmp_path: Path) -> None:
    assert config(tmp_path).loss_type == "dapo"
    assert "default-loss" in codes({})


def test_masked_completions_stay_in_the_baseline(tmp_path: Path) -> None:
    settings = {"mask_truncated_completions": True, "max_completion_length": 2}
    assert "truncated-baseline" in codes(config(tmp_path, **settings))
    trainer = train([constant_groups], tmp_path, steps=1, **settings)
    assert history(trainer, "completions/clipped_ratio")[0] > 0.5
    assert trainer.watched[0][4:] == pytest.approx([-1.1618, -0.3873, 0.3873, 1.1618], abs=1e-3)


def test_a_cap_of_cispo_below_1_scales_the_loss(tmp_path: Path) -> None:
    assert "cispo-cap" in codes(config(tmp_path, loss_type="cispo"))
    norms = [
        history(train([own], tmp_path, steps=1, loss_type="cispo", max_grad_norm=1e9, **cap), "grad_norm")[0]
        for cap in ({}, {"epsilon_high": 5.0})
    ]
    assert norms[0] == pytest.approx(0.2 * norms[1], rel=1e-3)


def test_a_temperature_of_0_makes_the_policy_nan(tmp_path: Path) -> None:
    settings = {"loss_type": "sapo", "sapo_temperature_pos": 0.0}
    assert "sapo-temperature" in codes(config(tmp_path, **settings))
    trainer = train([own], tmp_path, steps=1, **settings)
    assert any(bool(parameter.isnan().any()) for parameter in trainer.model.parameters())


def test_rloo_takes_kl_off_the_reward_by_default(tmp_path: Path) -> None:
    assert config(tmp_path, "rloo").beta == 0.05
    assert "rloo-kl" in codes({}, trainer="rloo")
    with pytest.raises(OSError, match="Repo id"):  # the reference that a model in memory does not have
        make_trainer(config(tmp_path, "rloo"), RLOOTrainer)


def test_a_ratio_of_1_makes_gates_idle(tmp_path: Path) -> None:
    assert "ratio-is-one" in codes(config(tmp_path))
    assert "ratio-is-one" not in codes(config(tmp_path, steps_per_generation=2))
    narrow, wide = (train([own], tmp_path, steps=2, epsilon=epsilon) for epsilon in (1e-6, 0.5))
    assert history(narrow, "loss") == history(wide, "loss")
    narrow, wide = (train([own], tmp_path, steps=4, num_iterations=2, epsilon=epsilon) for epsilon in (1e-6, 0.5))
    assert history(narrow, "clip_ratio/region_mean")[-1] > 0
    assert history(wide, "clip_ratio/region_mean")[-1] == 0


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"importance_sampling_level": "sequence"}, "gspo-loss"),
        ({"loss_type": "luspo"}, "luspo-level"),
        ({"loss_type": "vespo", "importance_sampling_level": "sequence"}, "vespo-level"),
    ],
)
def test_what_trl_warns_of_we_name(settings: dict[str, Any], code: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    logging.getLogger("accelerate").propagate = True
    make_trainer(config(tmp_path, **settings))
    assert code in codes(config(tmp_path, **settings))
    assert any("importance_sampling_level" in record.getMessage() for record in caplog.records)


def test_the_deprecated_cap_wins_over_the_new_name(tmp_path: Path) -> None:
    args = config(tmp_path, use_vllm=True, vllm_importance_sampling_cap=7.0, vllm_importance_sampling_clip_max=2.0)
    assert args.vllm_importance_sampling_clip_max == 7.0
    assert "cap-renamed" in codes(args)


@pytest.mark.parametrize("name", RECIPES)
def test_what_a_recipe_translates_to_is_a_configuration_without_traps(name: str, tmp_path: Path) -> None:
    translation = RECIPES[name]().trl()
    kind = {"GRPOConfig": "grpo", "GMPOConfig": "gmpo", "RLOOConfig": "rloo"}[translation.target.rsplit(".")[-1]]
    group = translation.settings.get("num_generations", 8)
    args = config(
        tmp_path, kind, **{"num_generations": group, "use_vllm": True, **translation.settings, "per_device_train_batch_size": 2 * group}
    )
    assert [finding for finding in inspect(args) if finding.severity != "note"] == []


@pytest.mark.parametrize("aggregation", ["sum", "gdpo"])
def test_good_settings_are_silent_and_train(aggregation: Any, tmp_path: Path) -> None:
    funcs = reward_funcs(R.math_equal() + 0.2 * R.boxed_format())
    settings = {**ROOMY, **funcs.config_kwargs(aggregation)}
    args, data = config(tmp_path, **settings), make_dataset()
    found = validate(args, funcs=funcs, train_dataset=data, trainer_kwargs={"model": make_model(make_tokenizer()), "args": args})
    assert all(finding.severity == "note" for finding in found)
    trainer = train(funcs, tmp_path, steps=1, dataset=data, **settings)
    assert math.isfinite(history(trainer, "loss")[0])
