"""Each trap of TRL bites on a configuration that falls into it, and not on the mended one. Neither torch nor trl is needed."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import OnAbstain
from guerdon.backends.recipes import RECIPES
from guerdon.backends.trl import advantage_func, reward_funcs, validate
from guerdon.backends.trl.settings import CHOICES, DEFAULTS, read_settings
from guerdon.backends.trl.validate import TRAPS, Finding, inspect
from guerdon.errors import ConfigError, MissingInput
from guerdon.rewards.advantages import GOPO

ROOT = Path(__file__).parents[2]
REWARD = R.exact() + 0.2 * R.think_format()
FUNCS = reward_funcs(REWARD)
ROUTED = reward_funcs(R.by_column("kind", {"a": R.exact(), "b": 0.5 * R.exact()}))
GOPO_FUNC = advantage_func(R.exact(), GOPO, num_generations=8)
ROWS = [{"prompt": "2+2?", "answer": "4"}]
MATH = reward_funcs(R.math_equal())
PROSE = "He has 2 + 3 = 5.\n#### 5"
"""A whole solution, as GSM8K has them: no reference of `math_equal`."""
ROOMY = {"per_device_train_batch_size": 32, "num_iterations": 2, "loss_type": "grpo"}
"""Several prompts a step, off policy, a loss that was chosen: nothing to remark."""


class TrainingArguments:
    """Stands for transformers' class, from which all of TRL's configurations derive."""

    per_device_train_batch_size = 1
    num_generations = 8
    loss_type = "sigmoid"
    remove_unused_columns = True


class AsyncGRPOConfig(TrainingArguments):
    """A trainer whose batches and losses are its own."""


def own(completions: list[Any], **columns: Any) -> list[float]:
    return [0.0] * len(completions)


def answers(*given: Any, times: int = 16) -> list[dict[str, Any]]:
    """Rows with these answers, over and over."""
    return [{"prompt": "2+3?", "answer": answer} for answer in given] * times


def model(path: str = "") -> Any:
    return SimpleNamespace(config=SimpleNamespace(_name_or_path=path))


def conf(**settings: Any) -> dict[str, Any]:
    return {**ROOMY, **settings}


SEQUENCE = {"importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4}
GDPO = {"multi_objective_aggregation": "normalize_then_sum"}
VESPO = {"loss_type": "vespo", "use_vllm": True}
KL = {"beta": 0.04}
RLOO = {"trainer": "rloo"}
WEIGHTS = {"reward_weights": [1.0, 0.2]}

# code: what falls into the trap, and the same mended; each is (settings, the other arguments)
CASES: dict[str, list[tuple[tuple[Any, dict[str, Any]], tuple[Any, dict[str, Any]]]]] = {
    "misspelt": [
        ((conf(loss_type="drgrpo"), {}), (conf(loss_type="grpo"), {})),
        ((conf(scale_rewards="groups"), {}), (conf(scale_rewards=False), {})),
        ((conf(scale_rewards="True"), {}), (conf(scale_rewards=True), {})),
        ((conf(importance_sampling_level="seq"), {}), (conf(importance_sampling_level="token"), {})),
        ((conf(multi_objective_aggregation="normalise_then_sum"), {}), (conf(**GDPO), {})),
        ((conf(use_vllm=True, vllm_importance_sampling_mode="truncate"), {}), (conf(use_vllm=True), {})),
        ((conf(use_vllm=True, vllm_mode="colocated"), {}), (conf(use_vllm=True, vllm_mode="server"), {})),
        ((conf(loss_type=None), {}), (conf(), {})),
        ((conf(num_generation=4), {}), (conf(num_generations=4), {})),
        ((conf(scale_reward="none"), {}), (conf(scale_rewards="none", entropy_coef=0.01), {})),
    ],
    "vespo-vllm": [((conf(**VESPO), {}), (conf(**VESPO, vllm_importance_sampling_mode="token_truncate"), {}))],
    "sapo-temperature": [((conf(loss_type="sapo", sapo_temperature_neg=0.0), {}), (conf(loss_type="sapo", sapo_temperature_neg=1.05), {}))],
    "entropy-quantile": [((conf(top_entropy_quantile=20), {}), (conf(top_entropy_quantile=0.2), {}))],
    "sync-without-kl": [((conf(sync_ref_model=True), {}), (conf(sync_ref_model=True, **KL), {}))],
    "rloo-grpo-setting": [((conf(beta=0.0), RLOO), ({"beta": 0.0, "num_generations": 2}, RLOO))],
    "gspo-loss": [((conf(**SEQUENCE, loss_type="dapo"), {}), (conf(**SEQUENCE, loss_type="grpo"), {}))],
    "gspo-epsilon": [((conf(importance_sampling_level="sequence"), {}), (conf(**SEQUENCE), {}))],
    "luspo-level": [((conf(loss_type="luspo"), {}), (conf(**SEQUENCE, loss_type="luspo"), {}))],
    "vespo-level": [((conf(loss_type="vespo", importance_sampling_level="sequence"), {}), (conf(loss_type="vespo"), {}))],
    "dr-grpo-scale": [((conf(loss_type="dr_grpo"), {}), (conf(loss_type="dr_grpo", scale_rewards="none"), {}))],
    "dr-grpo-kl": [((conf(loss_type="dr_grpo", **KL), {}), (conf(loss_type="dr_grpo", beta=0), {}))],
    "sapo-order": [((conf(loss_type="sapo", sapo_temperature_pos=2.0), {}), (conf(loss_type="sapo", sapo_temperature_neg=2.0), {}))],
    "cispo-cap": [
        ((conf(loss_type="cispo"), {}), (conf(loss_type="cispo", epsilon_high=5.0), {})),
        ((conf(loss_type="cispo", epsilon_high=0.28), {}), (conf(loss_type="cispo", epsilon_high=1.28), {})),
    ],
    "delta-below-clip": [((conf(delta=1.2), {}), (conf(delta=4.0), {}))],
    "entropy-share": [((conf(top_entropy_quantile=0.8), {}), (conf(top_entropy_quantile=0.2), {}))],
    "cap-renamed": [
        ((conf(use_vllm=True, vllm_importance_sampling_cap=2.0), {}), (conf(use_vllm=True, vllm_importance_sampling_clip_max=2.0), {}))
    ],
    "gdpo-scale": [((conf(**GDPO, scale_rewards="none"), {}), (conf(**GDPO), {}))],
    "no-effect": [
        ((conf(vllm_importance_sampling_clip_max=5.0), {}), (conf(vllm_importance_sampling_clip_max=5.0, use_vllm=True), {})),
        ((conf(loss_type="sapo", epsilon_high=0.3), {}), (conf(loss_type="grpo", epsilon_high=0.3), {})),
        ((conf(sapo_temperature_pos=1.0), {}), (conf(sapo_temperature_pos=1.0, loss_type="sapo"), {})),
        ((conf(ref_model_sync_steps=64, **KL), {}), (conf(ref_model_sync_steps=64, sync_ref_model=True, **KL), {})),
        ((conf(entropy_target=0.5), {}), (conf(entropy_target=0.5, use_adaptive_entropy=True), {})),
    ],
    "rloo-kl": [(({"num_generations": 2}, RLOO), ({"num_generations": 2, "beta": 0.05}, RLOO))],
    "default-loss": [(({"num_generations": 4}, {}), ({"num_generations": 4, "loss_type": "grpo"}, {}))],
    "dapo-sampling": [((conf(loss_type="dapo"), {}), (conf(loss_type="grpo"), {}))],
    "truncated-baseline": [((conf(mask_truncated_completions=True), {}), (conf(), {}))],
    "two-generations": [((conf(num_generations=2), {}), (conf(num_generations=2, scale_rewards="none"), {}))],
    "gdpo-zero-std": [((conf(**GDPO), {}), (conf(), {}))],
    "ratio-is-one": [((conf(num_iterations=1), {}), (conf(num_iterations=1, steps_per_generation=2), {}))],
    "generation-batch-twice": [((conf(generation_batch_size=64, steps_per_generation=2), {}), (conf(steps_per_generation=2), {}))],
    "batch-division": [
        ((conf(num_generations=5), {}), (conf(num_generations=4), {})),
        ((conf(num_generations=1), {}), (conf(num_generations=2), {})),
        ((conf(generation_batch_size=48), {}), (conf(generation_batch_size=64), {})),
        ((conf(per_device_train_batch_size=4, num_generations=16), {}), (conf(num_generations=16), {"num_processes": 4})),
    ],
    "eval-division": [
        (
            (conf(eval_strategy="steps", num_generations=16), {}),
            (conf(eval_strategy="steps", num_generations=16, num_generations_eval=4), {}),
        )
    ],
    "bf16-without-gpu": [((conf(), {"gpu": False}), (conf(use_cpu=True), {"gpu": False}))],
    "one-prompt": [
        ((conf(per_device_train_batch_size=8), {}), (conf(per_device_train_batch_size=16), {})),
        (
            ({"steps_per_generation": 2, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}, {}),
            ({"steps_per_generation": 2, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 8}, {}),
        ),
    ],
    "split-groups": [
        ((conf(per_device_train_batch_size=4), {"num_processes": 4}), (conf(per_device_train_batch_size=8), {"num_processes": 4}))
    ],
    "trainer-argument": [
        ((conf(), {"trainer_kwargs": {"tokenizer": 1}}), (conf(), {"trainer_kwargs": {"processing_class": 1}})),
        ((conf(), {"trainer_kwargs": {"ref_model": 1}}), (conf(), {"trainer_kwargs": {"callbacks": []}})),
        (({"beta": 0.0}, {**RLOO, "trainer_kwargs": {"tools": []}}), (conf(), {"trainer_kwargs": {"tools": []}})),
    ],
    "prompt-length": [((conf(max_prompt_length=512), {}), (conf(), {}))],
    "reference-in-memory": [
        ((conf(**KL), {"trainer_kwargs": {"model": model()}}), (conf(**KL), {"trainer_kwargs": {"model": model("/models/tiny")}})),
        ((conf(**KL), {"trainer_kwargs": {"model": model()}}), (conf(beta=0.0), {"trainer_kwargs": {"model": model()}})),
    ],
    "sync-with-adapter": [
        ((conf(sync_ref_model=True, **KL), {"trainer_kwargs": {"peft_config": 1}}), (conf(**KL), {"trainer_kwargs": {"peft_config": 1}}))
    ],
    "functions-not-a-list": [((conf(), {"funcs": (own,)}), (conf(), {"funcs": [own]}))],
    "weights-length": [((conf(reward_weights=[1.0]), {"funcs": FUNCS}), (conf(**WEIGHTS), {"funcs": FUNCS}))],
    "weights-not-passed": [
        ((conf(), {"funcs": FUNCS}), (conf(**FUNCS.config_kwargs()), {"funcs": FUNCS})),
        ((conf(), {"funcs": [*FUNCS, own]}), (conf(reward_weights=[1.0, 0.2, 3.0]), {"funcs": [*FUNCS, own]})),
        ((AsyncGRPOConfig(), {"funcs": FUNCS}), (AsyncGRPOConfig(), {"funcs": reward_funcs(REWARD, weighted=True)})),
    ],
    "weights-differ": [
        ((conf(reward_weights=[1.0, 1.0]), {"funcs": FUNCS}), (conf(**WEIGHTS), {"funcs": FUNCS})),
        (
            (conf(reward_weights=[1.0, 1.0, 3.0]), {"funcs": [*FUNCS, own]}),
            (conf(reward_weights=[1, 0.2, 3.0]), {"funcs": [*FUNCS, own]}),
        ),
    ],
    "same-name": [((conf(), {"funcs": [own, own]}), (conf(), {"funcs": [own, *FUNCS]}))],
    "gdpo-one-function": [((conf(**GDPO), {"funcs": [own]}), (conf(**GDPO, **WEIGHTS), {"funcs": FUNCS}))],
    "gdpo-by-row": [
        ((conf(**GDPO), {"funcs": ROUTED}), (conf(), {"funcs": ROUTED})),
        ((conf(**GDPO, **WEIGHTS), {"funcs": reward_funcs(REWARD, on_abstain=OnAbstain("fill"))}), (conf(**GDPO), {"funcs": FUNCS})),
    ],
    "finished-scaled": [
        ((conf(), {"funcs": [GOPO_FUNC]}), (conf(**GOPO_FUNC.config_kwargs()), {"funcs": [GOPO_FUNC]})),
        ((conf(**GDPO), {"funcs": GOPO_FUNC}), (conf(scale_rewards="none"), {"funcs": GOPO_FUNC})),
        (({"beta": 0.0, "normalize_advantages": True}, {"funcs": [GOPO_FUNC]}), (conf(scale_rewards="none"), {"funcs": [GOPO_FUNC]})),
        ((AsyncGRPOConfig(), {"funcs": [GOPO_FUNC]}), (AsyncGRPOConfig(), {"funcs": [own]})),
    ],
    "finished-beside-others": [
        (
            (conf(scale_rewards="none"), {"funcs": [GOPO_FUNC, own]}),
            (conf(scale_rewards="none", reward_weights=[1.0, 0.0]), {"funcs": [GOPO_FUNC, own]}),
        ),
        (
            (conf(scale_rewards="none", reward_weights=[0.5]), {"funcs": [GOPO_FUNC]}),
            (conf(scale_rewards="none", reward_weights=[1.0]), {"funcs": [GOPO_FUNC]}),
        ),
    ],
    "column-clash": [
        ((conf(), {"train_dataset": [{**ROWS[0], "completions": "x"}]}), (conf(), {"train_dataset": ROWS})),
        ((conf(), {"train_dataset": {"prompts": ["x"]}}), (conf(), {"train_dataset": {"prompt": ["x"]}})),
    ],
    "column-hidden": [
        ((conf(), {"train_dataset": [{**ROWS[0], "log_metric": "x"}]}), (conf(), {"train_dataset": ROWS})),
        (
            (conf(), {"train_dataset": [{**ROWS[0], "environments": 1}], "trainer_kwargs": {"environment_factory": own}}),
            (conf(), {"train_dataset": [{**ROWS[0], "environments": 1, "completion": "x"}]}),
        ),
    ],
    "no-prompt": [((conf(), {"train_dataset": [{"question": "x"}]}), (conf(), {"train_dataset": ROWS}))],
    "columns-removed": [
        ((conf(**WEIGHTS, remove_unused_columns=True), {"funcs": FUNCS}), (conf(**WEIGHTS, remove_unused_columns=False), {"funcs": FUNCS}))
    ],
    "missing-column": [
        (
            (conf(**WEIGHTS), {"funcs": FUNCS, "train_dataset": SimpleNamespace(column_names=["prompt", "solution"])}),
            (conf(**WEIGHTS), {"funcs": FUNCS, "train_dataset": SimpleNamespace(column_names=["prompt", "answer"])}),
        ),
        (
            (conf(**GOPO_FUNC.config_kwargs()), {"funcs": GOPO_FUNC, "train_dataset": [{"prompt": "x"}]}),
            (conf(**GOPO_FUNC.config_kwargs()), {"funcs": GOPO_FUNC, "train_dataset": ROWS}),
        ),
        (
            (conf(**WEIGHTS), {"funcs": FUNCS, "trainer_kwargs": {"train_dataset": ROWS, "eval_dataset": [{"prompt": "x"}]}}),
            (conf(**WEIGHTS), {"funcs": FUNCS, "trainer_kwargs": {"train_dataset": ROWS, "eval_dataset": ROWS}}),
        ),
        (
            (conf(**WEIGHTS), {"funcs": FUNCS, "train_dataset": [{"prompt": "x"}]}),
            (conf(**WEIGHTS), {"funcs": FUNCS, "train_dataset": [{"prompt": "x"}], "trainer_kwargs": {"rollout_func": own}}),
        ),
        (
            (conf(**WEIGHTS), {"funcs": FUNCS, "train_dataset": {"prompt": ["x"]}}),
            (conf(**WEIGHTS), {"funcs": FUNCS, "trainer_kwargs": {"eval_dataset": {"easy": SimpleNamespace(column_names=["prompt"])}}}),
        ),
        (
            (conf(**WEIGHTS), {"funcs": FUNCS, "train_dataset": [{**ROWS[0], "answer": None}] * 3}),
            (conf(**WEIGHTS), {"funcs": FUNCS, "train_dataset": [{**ROWS[0], "answer": None}] * 2 + ROWS}),
        ),
    ],
    "bad-references": [
        ((conf(), {"funcs": MATH, "train_dataset": answers(PROSE)}), (conf(), {"funcs": MATH, "train_dataset": answers("5")})),
        ((conf(), {"funcs": [*MATH, own], "train_dataset": answers(PROSE)}), (conf(), {"funcs": [own], "train_dataset": answers(PROSE)})),
    ],
}


def codes(settings: Any, others: dict[str, Any]) -> list[str]:
    return [finding.code for finding in inspect(settings, **{"gpu": True, **others})]


def test_every_trap_has_a_case() -> None:
    assert CASES.keys() == {trap.code for trap in TRAPS}
    assert len({trap.code for trap in TRAPS}) == len(TRAPS)


@pytest.mark.parametrize(("code", "case"), [(code, case) for code, cases in CASES.items() for case in cases])
def test_trap_is_named_where_it_bites_and_not_where_it_is_mended(code: str, case: Any) -> None:
    falls, mended = case
    assert code in codes(*falls)
    assert code not in codes(*mended)


@pytest.mark.parametrize("code", CASES)
def test_severity_decides_between_error_warning_and_silence(code: str) -> None:
    (settings, others), _ = CASES[code][0]
    severity = next(trap.severity for trap in TRAPS if trap.code == code)
    rest = [trap.code for trap in TRAPS if trap.code != code]
    if severity == "error":
        with pytest.raises(ConfigError, match=rf"\[{code}\]"):
            validate(settings, **{"gpu": True, **others}, ignore=rest)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = validate(settings, **{"gpu": True, **others}, ignore=rest)
    assert {finding.code for finding in found} == {code}
    assert len(caught) == (len(found) if severity == "warning" else 0)
    assert all(f"[{code}]" in str(one.message) and one.filename == __file__ for one in caught)


@pytest.mark.parametrize("code", CASES)
def test_messages_say_what_to_do(code: str) -> None:
    (settings, others), _ = CASES[code][0]
    finding = next(f for f in inspect(settings, **{"gpu": True, **others}) if f.code == code)
    does = (
        "set ", "pass ", "leave ", "make ", "write ", "rename ", "say ", "use ", "did you mean", "raise ", "filter ", "swap ",
        "save_pretrained", "it is ", "keeps ", "read ", "scale ", "R.",
    )  # fmt: skip
    assert any(word in finding.message for word in does), finding.message
    assert str(finding) == f"[{code}] {finding.message}"


def test_all_errors_are_listed_at_once_and_columns_alone_are_a_missing_input() -> None:
    with pytest.raises(ConfigError) as raised:
        validate(conf(loss_type="drgrpo", num_generations=5), trainer_kwargs={"tokenizer": 1})
    assert all(code in str(raised.value) for code in ("misspelt", "batch-division", "trainer-argument"))
    assert not isinstance(raised.value, MissingInput)
    with pytest.raises(MissingInput, match="'answer'"):
        validate(conf(**WEIGHTS), funcs=FUNCS, train_dataset=[{"prompt": "x"}], gpu=True)


GOOD: dict[str, tuple[Any, dict[str, Any]]] = {
    "grpo": (conf(), {}),
    "dr_grpo": (conf(loss_type="dr_grpo", scale_rewards="none", beta=0.0), {}),
    "gspo": (conf(**SEQUENCE), {}),
    "cispo": (conf(loss_type="cispo", epsilon_high=5.0), {}),
    "sapo": (conf(loss_type="sapo"), {}),
    "vespo with vLLM": (conf(**VESPO, vllm_importance_sampling_mode="token_truncate"), {}),
    "gdpo": (conf(**FUNCS.config_kwargs("gdpo")), {"funcs": FUNCS, "train_dataset": ROWS}),
    "components": (conf(**FUNCS.config_kwargs()), {"funcs": FUNCS, "train_dataset": ROWS}),
    "finished advantages": (conf(**GOPO_FUNC.config_kwargs()), {"funcs": [GOPO_FUNC], "train_dataset": ROWS}),
    "another trainer": (AsyncGRPOConfig(), {"funcs": reward_funcs(REWARD, weighted=True), "train_dataset": ROWS}),
    "rloo": ({"beta": 0.05, "num_generations": 4}, {"trainer": "rloo", "train_dataset": ROWS}),
    "two processes": (conf(per_device_train_batch_size=8), {"num_processes": 2}),
    "a trainer": (conf(**WEIGHTS), {"trainer_kwargs": {"model": "org/model", "reward_funcs": FUNCS, "train_dataset": ROWS, "args": None}}),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_configurations_are_silent(name: str) -> None:
    settings, others = GOOD[name]
    found = inspect(settings, **{"gpu": True, **others})
    assert [f for f in found if f.severity != "note"] == []


@pytest.mark.parametrize("name", RECIPES)
def test_what_recipes_translate_to_is_silent(name: str) -> None:
    translation = RECIPES[name]().trl()
    group = translation.settings.get("num_generations", 8)
    settings = {**translation.settings, "per_device_train_batch_size": 4 * group, "use_vllm": True}
    kind: Any = {"GRPOConfig": "grpo", "GMPOConfig": "gmpo", "RLOOConfig": "rloo"}[translation.target.rsplit(".")[-1]]
    found = inspect(settings, trainer=kind, gpu=True)
    assert [f for f in found if f.severity != "note"] == []


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        ({}, (8, 8)),
        ({"gradient_accumulation_steps": 4}, (32, 32)),
        ({"steps_per_generation": 3, "gradient_accumulation_steps": 4}, (24, 24)),
        ({"generation_batch_size": 64, "per_device_train_batch_size": 4}, (64, 64)),
        ({"per_device_train_batch_size": "8"}, (None, None)),
        (SimpleNamespace(per_device_train_batch_size=2, steps_per_generation=4, generation_batch_size=16, world_size=2), (8, 16)),
    ],
)
def test_batches_are_counted_as_trl_does(config: Any, rows: tuple[int | None, int | None]) -> None:
    settings = read_settings(config)
    assert (settings.local_rows, settings.generation_rows) == rows


def test_the_number_of_processes_comes_from_the_argument_the_object_or_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert read_settings({}).world == 4
    assert read_settings(SimpleNamespace(world_size=2)).world == 2
    assert read_settings(SimpleNamespace(world_size=2), num_processes=8).world == 8


class RLOOConfig:
    beta = 0.05


class GMPOConfig:
    epsilon = 0.4


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (RLOOConfig(), "rloo"),
        (GMPOConfig(), "gmpo"),
        (AsyncGRPOConfig(), "other"),
        (SimpleNamespace(), "grpo"),
        ({"normalize_advantages": True}, "rloo"),
        ({}, "grpo"),
    ],
)
def test_the_trainer_is_recognised(config: Any, kind: str) -> None:
    assert read_settings(config).kind == kind


def test_an_object_is_not_blamed_for_defaults() -> None:
    settings = SimpleNamespace(**{**DEFAULTS["grpo"], **ROOMY, "generation_batch_size": 32, "steps_per_generation": 1, "bf16": True})
    assert [f for f in inspect(settings, gpu=False) if f.severity != "note"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((None,), {}), "expected a GRPOConfig"),
        (((SimpleNamespace,), {}), "expected a GRPOConfig"),
        ((({},), {"num_processes": 0}), "num_processes"),
        ((({},), {"trainer": "ppo"}), "trainer"),
        ((({},), {"ignore": "gspo"}), "gspo"),
    ],
)
def test_wrong_arguments_are_refused_with_the_fix(arguments: Any, message: str) -> None:
    positional, named = arguments
    with pytest.raises(ConfigError, match=message):
        validate(*positional, **named)


@pytest.mark.parametrize(
    "config",
    [
        {"reward_weights": "1.0,0.2"}, {"num_generations": None}, {"epsilon": "0.2", "importance_sampling_level": "sequence"},
        {"top_entropy_quantile": None}, {"loss_type": ["grpo"]}, {"scale_rewards": {}}, {"vllm_importance_sampling_mode": None, **VESPO},
        {"reward_weights": 3}, {"per_device_train_batch_size": 0}, {"generation_batch_size": 7, "per_device_train_batch_size": 0},
    ],
)  # fmt: skip
def test_junk_in_a_configuration_never_breaks_the_inspection(config: dict[str, Any]) -> None:
    assert all(isinstance(f, Finding) for f in inspect(config, funcs=FUNCS, train_dataset=[], trainer_kwargs={"model": object()}))


def test_streamed_data_without_known_columns_say_nothing() -> None:
    streamed = SimpleNamespace(column_names=None)
    assert inspect(conf(**WEIGHTS), funcs=FUNCS, train_dataset=streamed, gpu=True) == inspect(conf(**WEIGHTS), funcs=FUNCS, gpu=True)


def test_validating_loads_neither_torch_nor_trl() -> None:
    code = (
        "import sys; from guerdon.backends.trl.validate import inspect; inspect({}); import guerdon.backends.trl.collapse; "
        "sys.exit(int(bool({'torch', 'trl', 'transformers'} & sys.modules.keys())))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_choices_are_settings_with_a_default() -> None:
    assert CHOICES.keys() <= DEFAULTS["grpo"].keys()


def test_the_page_lists_every_trap_and_what_it_does() -> None:
    page = (ROOT / "docs" / "trl_validate.md").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^### (Error|Warning|Note)s\n(.*?)(?=^##)", page, re.MULTILINE | re.DOTALL))
    for severity, part in parts.items():
        rows = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", part, re.MULTILINE)
        assert rows == [(trap.code, trap.bites) for trap in TRAPS if trap.severity == severity.lower()]
    assert len(parts) == 3


# -- references


def found(reward: Any, rows: list[dict[str, Any]]) -> list[Finding]:
    funcs = reward_funcs(reward)
    kept = inspect(conf(**funcs.config_kwargs()), funcs=funcs, train_dataset=rows, gpu=True)
    return [finding for finding in kept if finding.severity != "note"]


def test_references_that_cannot_be_used_are_named_with_the_fix() -> None:
    with pytest.raises(ConfigError, match=r"on 64 of the 64 rows.*row 0: .*pass only what follows ####.*guerdon audit answers") as raised:
        MATH.validate(conf(**MATH.config_kwargs()), train_dataset=answers(PROSE, times=1000))
    assert not isinstance(raised.value, MissingInput)
    MATH.validate(conf(**MATH.config_kwargs()), train_dataset=answers(PROSE), ignore=["bad-references"])


BAD: dict[str, tuple[Any, Any, Any]] = {
    "math_equal": (R.math_equal(), PROSE, "5"),
    "choice": (R.choice(), "forty", "B"),
    "exact": (R.exact(), ["5"], "5"),
    "json_schema": (R.json_schema(), "{oops", {"type": "object", "pattern": "(a+)+$"}),
    "instructions": (
        R.instructions(),
        {"instruction_id_list": ["no:such"]},
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    ),
    "code_tests": (R.code_tests(column="answer"), {"inputs": ["1"], "outputs": []}, {"inputs": ["1"], "outputs": ["1"]}),
}


@pytest.mark.parametrize("name", BAD)
def test_each_verifier_of_guerdons_judges_its_references(name: str) -> None:
    reward, bad, good = BAD[name]
    (finding,) = found(reward, answers(bad))
    assert (finding.code, finding.severity) == ("bad-references", "error")
    assert name in finding.message
    assert found(reward, answers(good)) == []


@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        (answers(PROSE, times=1), "error"),
        (answers(PROSE, "5", "6"), "warning"),
        (answers(PROSE, *"123456789"), None),
        (answers(PROSE, "5", times=1), None),  # of two rows a half says nothing
    ],
)
def test_the_share_of_bad_references_decides(rows: list[dict[str, Any]], severity: str | None) -> None:
    assert [finding.severity for finding in found(R.math_equal() + R.think_format(), rows)] == [severity] * (severity is not None)


@pytest.mark.parametrize(
    ("reward", "severity"),
    [
        (R.gate(R.math_equal(), on=R.think_format()), "error"),
        (R.think_format() + 0.0 * R.math_equal(), "warning"),
        (R.think_format() + R.optional(R.math_equal()), "warning"),
        (R.any_of(R.exact(), R.math_equal()), "warning"),
    ],
)
def test_it_is_an_error_only_where_rows_are_lost_by_it(reward: Any, severity: str) -> None:
    assert [finding.severity for finding in found(reward, answers(PROSE))] == [severity]
    if severity == "warning":
        assert found(reward, answers(PROSE, "5")) == []


def test_references_are_judged_on_the_rows_of_their_route() -> None:
    routed = R.by_column("kind", {"a": R.math_equal(), "b": R.exact()})
    a, b = {"prompt": "p", "answer": "5", "kind": "a"}, {"prompt": "p", "answer": PROSE, "kind": "b"}
    assert found(routed, [a, b] * 16) == []
    lost = {**a, "answer": PROSE}
    (finding,) = found(routed, [b, lost] * 16)
    assert finding.severity == "error"
    assert "math_equal cannot use the reference, column 'answer', on 16 of the 16 rows looked at; the first is row 1:" in finding.message
    assert [f.severity for f in found(routed, [b] * 30 + [lost] * 2)] == ["warning"]  # two rows are no reason to stop


CALLED: list[Any] = []
"""By what must not be: an exception alone would be caught."""


class Costly:
    """A verifier of the user's, which must not be called before training."""

    reads = frozenset({"answer"})

    def judge(self, rollouts: Any) -> Any:
        CALLED.append("called")
        raise AssertionError


class Jail:
    """A sandbox that must not be started."""

    def start(self) -> Any:
        CALLED.append("started")
        raise AssertionError


def never(*arguments: Any) -> float:
    CALLED.append(arguments)
    return 0.0


HUMAN_EVAL = {
    "prompt": 'def add(a, b):\n    """Add."""\n',
    "tests": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    "entry_point": "add",
    "answer": "5",
}


def test_nothing_of_the_users_is_called_and_no_program_is_run() -> None:
    sandbox: Any = Jail()
    verifier = R.verified(Costly())
    reward = R.code_tests(sandbox=sandbox) + verifier + R.from_function(never) + R.math_equal()
    assert found(reward, [HUMAN_EVAL] * 16) == []
    assert CALLED == []


def test_judging_references_leaves_no_trace_in_the_watch_over_broken_rows() -> None:
    from guerdon.rewards import health

    health.forget()
    found(R.math_equal(), answers(PROSE))
    assert not health._rows


def test_chats_are_read_as_such() -> None:
    chat = [{"prompt": [{"role": "user", "content": "2+3?"}], "answer": PROSE}] * 16
    assert [finding.code for finding in found(R.math_equal(), chat)] == ["bad-references"]
    assert found(R.math_equal(), [{**row, "answer": "5"} for row in chat]) == []


# -- columns


def test_a_column_of_another_name_is_to_be_told_to_the_term_that_reads_it() -> None:
    (finding,) = found(R.math_equal(name="right") + R.think_format(), [{"prompt": "p", "solution": "5", "level": 3}])
    assert "set column= of right, as in R.math_equal(column='solution')" in finding.message
    (finding,) = found(R.scale_by_column(R.think_format(), "level"), ROWS)
    assert "set column= of think_format" in finding.message
    assert "R." not in finding.message


def test_a_column_that_is_there_and_empty_is_called_empty() -> None:
    with pytest.raises(MissingInput, match="column 'answer' is empty on all 64 rows"):
        MATH.validate(conf(**MATH.config_kwargs()), answers(None, times=100))
    (finding,) = found(R.exact(column="solution"), [{"prompt": "p", "solution": None}] * 9)
    assert "column 'solution' is empty on all 9 rows" in finding.message


# -- the functions' own


def test_keywords_reach_validate_from_the_functions() -> None:
    for function in (MATH, advantage_func(R.math_equal(), GOPO)):
        settings = {**ROOMY, **function.config_kwargs()}
        with pytest.raises(ConfigError, match="processing_class"):
            function.validate(settings, ROWS, trainer_kwargs={"tokenizer": 1})
        function.validate(settings, ROWS, trainer_kwargs={"tokenizer": 1}, ignore=["trainer-argument"])
        with pytest.raises(ConfigError, match="use_cpu"):
            function.validate(settings, ROWS, gpu=False)
        with pytest.raises(ConfigError, match="rloo-grpo-setting"):
            function.validate(settings, ROWS, trainer="rloo")
        with pytest.raises(ConfigError, match="batch"):
            function.validate({**settings, "generation_batch_size": 32}, ROWS, num_processes=3)
        with pytest.raises(MissingInput, match="eval_dataset"):
            function.validate(settings, ROWS, [{"prompt": "x"}])
        with pytest.raises(MissingInput, match="eval_dataset"):
            function.validate(settings, trainer_kwargs={"eval_dataset": [{"prompt": "x"}]})
        with pytest.raises(TypeError, match="unknown"):
            function.validate(settings, unknown=1)


def test_functions_of_the_users_beside_ours_are_counted_where_the_trainer_is_given() -> None:
    settings = conf(reward_weights=[1.0, 0.5])
    with pytest.raises(ConfigError, match="2 entries for 1"):
        MATH.validate(settings, ROWS)
    MATH.validate(settings, ROWS, trainer_kwargs={"reward_funcs": [*MATH, own]})
