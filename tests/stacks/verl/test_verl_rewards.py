"""guerdon's reward function and manager in verl's own loaders, managers, worker and evaluation."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from verl_rows import MANAGER, composed, config, file_overrides, manager, rows, run, timed

from guerdon.backends.verl import ABSTAINED

REWARD = """
import math, time
import guerdon.rewards as R
from guerdon.backends.verl import acompute_score_from, compute_score_from

def moody(rollout):
    mood = rollout.completion.split()[0]
    if mood == "raises":
        raise ValueError("no")
    if mood == "hangs":
        time.sleep(8.0)
    return {"none": None, "nan": math.nan, "inf": math.inf}.get(mood, 0.5)

async def judged(rollout):
    return 0.25

reward = R.math_equal() + 0.2 * R.boxed_format()
moods = R.math_equal() + R.from_function(moody)
lengths = reward + R.soft_overlong(max_tokens=20, cache=10) + 0.5 * R.abstain_if_truncated(R.exact(name="whole"))
routed = R.by_column("data_source", {"gsm8k": R.math_equal(), "mmlu": R.choice()})
shaped = R.boxed_format()

def columns(r):
    return float((r.columns["index"], r.columns["n"], r.group, r.prompt[0].content) == (0, 7, "u", "2+2?"))

columns = R.from_function(columns)

compute_score = compute_score_from(reward)
acompute_score = acompute_score_from(R.math_equal() + R.from_function(judged))
compute_moods = compute_score_from(moods, deadline_s=1.0)
acompute_moods = acompute_score_from(moods, deadline_s=1.0)
compute_routed = compute_score_from(routed)
"""
TEXTS = ["so \\boxed{4}", "\\boxed{5}", "no idea"]
PKG = "reward.custom_reward_function.path=pkg://guerdon.backends.verl"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "verl_reward.py"
    path.write_text(REWARD)
    return path


def scores(outputs: list[dict[str, Any]]) -> list[float]:
    return [round(float(out["reward_score"]), 6) for out in outputs]


def infos(outputs: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of the rows' extra information, as verl makes them (from the keys of the first row)."""
    found = [out["reward_extra_info"] for out in outputs]
    return {key: np.array([info[key] for info in found]) for key in found[0]}


@pytest.mark.parametrize("name", ["naive", "dapo", "gdpo"])
def test_verls_managers_take_the_function_of_a_file(name: str, file: Path) -> None:
    outputs = run(*file_overrides(file), f"reward.reward_manager.name={name}", data=rows(TEXTS))
    assert scores(outputs) == [1.2, 0.2, 0.0]
    columns = infos(outputs)
    assert columns["acc"].tolist() == [1.0, 0.0, 0.0]
    assert columns["guerdon/boxed_format"].tolist() == [1.0, 1.0, 0.0]
    assert all(column.dtype == np.float64 for column in columns.values())


def test_verls_overlong_penalty_is_added_to_the_score(file: Path) -> None:
    buffer = "+reward.reward_kwargs.overlong_buffer_cfg"
    more = (f"{buffer}.enable=True", f"{buffer}.len=8", f"{buffer}.penalty_factor=1.0", f"{buffer}.log=False")
    length = len(TEXTS[0]) + 1
    outputs = run(
        *file_overrides(file),
        "reward.reward_manager.name=dapo",
        *more,
        f"+reward.reward_kwargs.max_resp_len={length}",
        data=rows(TEXTS[:1]),
    )
    assert scores(outputs) == [0.2]


def test_an_async_function_is_awaited_on_verls_loop(file: Path) -> None:
    overrides = file_overrides(file, "acompute_score")
    assert manager(*overrides).is_async_reward_score
    assert scores(run(*overrides, data=rows(TEXTS))) == [1.25, 0.25, 0.25]


@pytest.mark.parametrize("name", ["compute_score", "acompute_score"])
def test_the_package_is_a_reward_file_of_verl(name: str, file: Path) -> None:
    kwargs = "+reward.custom_reward_function.reward_kwargs"
    overrides = (PKG, f"reward.custom_reward_function.name={name}", f"{kwargs}.reward={file}:reward", f"{kwargs}.deadline_s=5")
    assert manager(*overrides).is_async_reward_score == (name == "acompute_score")
    assert scores(run(*overrides, data=rows(TEXTS))) == [1.2, 0.2, 0.0]


MOODY = [
    "fine \\boxed{4}",
    "hangs \\boxed{4}",
    "raises \\boxed{4}",
    "none \\boxed{4}",
    "nan \\boxed{4}",
    "inf \\boxed{4}",
    "fine \\boxed{5}",
]


@pytest.mark.parametrize("door", ["compute_moods", "acompute_moods", "manager"])
def test_rows_that_hang_raise_or_are_not_finite_end_in_time_are_counted_and_leave_others_alone(door: str, file: Path) -> None:
    guerdon = "+reward.reward_kwargs.guerdon"
    overrides = (
        (*MANAGER, f"{guerdon}.reward={file}:moods", f"{guerdon}.deadline_s=1.0") if door == "manager" else file_overrides(file, door)
    )
    outputs, seconds = timed(*overrides, data=rows(MOODY))
    assert seconds < 4.0
    found = [out["reward_score"] for out in outputs]
    assert found == [1.5, ABSTAINED, ABSTAINED, 1.0, ABSTAINED, ABSTAINED, 0.5]
    columns = infos(outputs)
    assert columns["guerdon/rows/error"].tolist() == columns["guerdon/abstained"].tolist() == [0, 1, 1, 0, 1, 1, 0]
    assert columns["acc"].tolist() == [1, 1, 1, 1, 1, 1, 0]
    assert columns["guerdon/moody/scored"].tolist() == [1, 0, 0, 0, 0, 0, 1]


def test_rows_of_several_data_sources_become_columns(file: Path) -> None:
    overrides = file_overrides(file, "compute_routed")
    outputs = run(*overrides, data=rows(["\\boxed{4}", "(4)", "x"], source=["gsm8k", "mmlu", "?"]))
    columns = infos(outputs)
    assert columns["guerdon/rows/bad_reference"].tolist() == [0.0, 1.0, 1.0]
    assert columns["guerdon/math_equal/scored"].tolist() == [1.0, 0.0, 0.0]


def test_the_reward_tensor_stays_finite(file: Path) -> None:
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager

    data = rows(MOODY)
    outputs = run(*file_overrides(file, "compute_moods"), data=data)
    tensor = NaiveRewardManager.assemble_rm_scores(data, [out["reward_score"] for out in outputs])
    assert tensor.isfinite().all()
    assert (tensor == ABSTAINED).sum() == 4


# the manager


def test_the_manager_gives_token_counts_and_truncation(file: Path) -> None:
    overrides = (*MANAGER, f"+reward.reward_kwargs.guerdon.reward={file}:lengths", "actor_rollout_ref.rollout.response_length=18")
    texts = ["4" + " " * 15, "4" + " " * 9, "4" + " " * 20]
    whole, fits, cut = (out["reward_extra_info"] for out in run(*overrides, data=rows(texts, ends=True)))
    assert whole["guerdon/soft_overlong"] == pytest.approx(-0.7)  # 17 tokens, the end of sequence among them
    assert fits["guerdon/soft_overlong"] == pytest.approx(-0.1)
    assert (cut["guerdon/soft_overlong"], cut["guerdon/abstained"]) == (-1.0, 0.0)  # too long, but it ended by itself
    (open_ended,) = run(*overrides, data=rows(["4" + " " * 20], ends=False))
    assert open_ended["reward_extra_info"]["guerdon/rows/unscored"] == 1.0
    assert open_ended["reward_score"] == ABSTAINED


def test_the_manager_gives_columns_prompt_and_group(file: Path) -> None:
    overrides = (*MANAGER, f"+reward.reward_kwargs.guerdon.reward={file}:columns")
    data = rows(
        ["x"],
        uid=["u"],
        n=[np.int64(7)],
        raw_prompt=[np.array([{"role": "user", "content": "2+2?"}], dtype=object)],
        tool_extra_fields=[{"turn_scores": [1.0]}],
        __num_turns__=[2],
    )
    before = json.dumps(data.non_tensor_batch["extra_info"][0])
    assert scores(run(*overrides, data=data)) == [1.0]
    assert json.dumps(data.non_tensor_batch["extra_info"][0]) == before


@pytest.mark.parametrize("policy", ["fill", "raise"])
def test_the_managers_policy_for_abstentions(policy: str, file: Path) -> None:
    from guerdon.errors import AbstentionError

    guerdon = "+reward.reward_kwargs.guerdon"
    overrides = (*MANAGER, f"{guerdon}.reward={file}:moods", f"{guerdon}.on_abstain={policy}", f"{guerdon}.fill=-2.0")
    if policy == "fill":
        assert scores(run(*overrides, data=rows(["raises \\boxed{4}"]))) == [-2.0]
    else:
        with pytest.raises(AbstentionError):
            run(*overrides, data=rows(["raises \\boxed{4}"]))


def test_a_response_that_cannot_be_decoded_is_a_counted_row(file: Path) -> None:
    from verl_rows import Letters

    class Breaks(Letters):
        def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
            raise TypeError("no such token")

    overrides = (*MANAGER, f"+reward.reward_kwargs.guerdon.reward={file}:reward")
    (output,) = run(*overrides, data=rows(["x"]), tokenizer=Breaks())
    assert output["reward_extra_info"]["guerdon/rows/error"] == 1.0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ((), "no reward was named"),
        (("+reward.reward_kwargs.guerdon.reward=FILE:nothing",), "no 'nothing'"),
        (("+reward.reward_kwargs.guerdon.reward=FILE:reward", "+reward.reward_kwargs.guerdon.timeout=3"), "unknown option 'timeout'"),
        (
            (
                "+reward.reward_kwargs.guerdon.reward=FILE:shaped",
                "algorithm.filter_groups.enable=True",
                "algorithm.filter_groups.metric=acc",
            ),
            "metric=acc: no row has it; nothing in the reward gives an outcome",
        ),
        (
            (
                "+reward.reward_kwargs.guerdon.reward=FILE:reward",
                "algorithm.adv_estimator=gdpo",
                "+algorithm.gdpo_reward_keys=[guerdon/mathequal]",
            ),
            "guerdon/mathequal: no row has it",
        ),
    ],
)
def test_configuration_faults_end_the_run_before_the_first_rollout(overrides: tuple[str, ...], message: str, file: Path) -> None:
    from guerdon.errors import ConfigError

    with pytest.raises(ConfigError, match=message):
        manager(*MANAGER, *(override.replace("FILE", str(file)) for override in overrides))


def test_a_fault_in_a_reward_file_ends_the_run_before_the_first_rollout(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(
        "import guerdon.rewards as R\nfrom guerdon.backends.verl import compute_score_from\n"
        "compute_score = compute_score_from(R.math_equal() + R.soft_overlong(max_tokens=8, cache=2))\n"
    )
    with pytest.raises(RuntimeError, match="Error loading module") as raised:
        manager(*file_overrides(path))
    assert "GuerdonRewardManager" in str(raised.value.__cause__)


# evaluation and metrics


def test_main_eval_takes_the_mean_of_outcomes(file: Path) -> None:
    from verl.trainer.main_eval import process_item

    overrides = [f"+{override}" for override in file_overrides(file)]
    found = process_item._function(config(*overrides, name="evaluation"), "gsm8k", TEXTS[:2], {"ground_truth": "4"})
    assert found == ("gsm8k", 0.5)


def test_counts_and_components_are_in_verls_validation_metrics(file: Path) -> None:
    from types import SimpleNamespace

    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    outputs = run(*file_overrides(file, "compute_moods"), data=rows(MOODY[2:4]))
    found = infos(outputs)
    data = {"reward": [out["reward_score"] for out in outputs], **{key: column.tolist() for key, column in found.items()}}
    metrics = PPOTrainer._val_metrics_update(SimpleNamespace(), ["gsm8k", "gsm8k"], ["u1", "u2"], data, [])
    assert metrics["val-core/gsm8k/acc/mean@1"] == 1.0
    assert metrics["val-aux/gsm8k/guerdon/abstained/mean@1"] == metrics["val-aux/gsm8k/guerdon/rows/error/mean@1"] == 0.5
    assert metrics["val-aux/gsm8k/guerdon/moody/scored/mean@1"] == 0.0
    assert all(math.isfinite(value) for value in metrics.values())


DOCS = Path(__file__).parents[3] / "docs" / "verl.md"


def commands() -> list[tuple[str, list[str]]]:
    """Configuration and overrides of every command on the page."""
    found = re.findall(r"python -m verl\.trainer\.(\w+) \\\n((?:.+\n)+?)```", DOCS.read_text())
    return [({"main_ppo": "ppo_trainer", "main_eval": "evaluation"}[main], lines.replace("\\\n", " ").split()) for main, lines in found]


@pytest.mark.parametrize(("name", "overrides"), commands())
def test_the_commands_of_the_page_compose(name: str, overrides: list[str]) -> None:
    found = composed(*overrides, name=name)
    assert OmegaConf.select(found, "reward.custom_reward_function.name") is not None


def test_the_example_is_a_reward_file_of_verl() -> None:
    example = Path(__file__).parents[3] / "examples" / "verl_reward.py"
    (output,) = run(*file_overrides(example), data=rows(["\\boxed{4}"], source="openai/gsm8k"))
    assert (output["reward_score"], output["reward_extra_info"]["acc"]) == (1.2, 1.0)
