"""guerdon's estimators in verl's registry, verl's GDPO on guerdon's keys, and verl's filter of groups on `acc`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from verl_rows import DataProto, composed, compute_advantage, config, core_algos, objects

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.verl import ABSTAINED, ESTIMATORS, Estimator, compute_score_from, gdpo_overrides, register
from guerdon.errors import ConfigError
from guerdon.rewards.advantages import GDPO_TOKEN, GOPO, GRPO, SPECS, advantages


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(core_algos.ADV_ESTIMATOR_REGISTRY)
    register()
    yield
    core_algos.ADV_ESTIMATOR_REGISTRY.clear()
    core_algos.ADV_ESTIMATOR_REGISTRY.update(before)


def batch(totals: list[float], groups: list[str], lengths: list[int], **columns: Any) -> DataProto:
    """A batch as verl's trainer has it when advantages are due: the reward of a row lies on its last token."""
    longest, n = max(lengths), len(totals)
    mask = torch.tensor([[1] * length + [0] * (longest - length) for length in lengths])
    rewards = torch.zeros(n, longest)
    for row, (total, length) in enumerate(zip(totals, lengths, strict=True)):
        rewards[row, max(length - 1, 0)] = total
    tensors = {
        "token_level_rewards": rewards,
        "response_mask": mask,
        "prompts": torch.ones(n, 2, dtype=torch.long),
        "attention_mask": torch.cat([torch.ones(n, 2, dtype=torch.long), mask], dim=1),
    }
    extra = {key: np.array(values) for key, values in columns.items()}
    return DataProto(batch=TensorDict(tensors, batch_size=n), non_tensor_batch={"uid": objects(list(groups)), **extra})


def advantage_of(data: DataProto, estimator: str, *overrides: str) -> Any:
    """One advantage a row, from verl's own dispatch; 0 for a row without tokens."""
    algorithm = config(*overrides).algorithm
    out = compute_advantage(data, estimator, config=algorithm, norm_adv_by_std_in_grpo=True)
    assert out.batch["advantages"].isfinite().all()
    assert (out.batch["advantages"] == 0)[out.batch["response_mask"] == 0].all()
    return out.batch["advantages"][:, 0].numpy()


TOTALS, GROUPS, LENGTHS = [1.5, 1.0, 0.5, 0.0, 2.0, 2.0, 0.3, 0.3], list("aaaabbbb"), [3, 4, 2, 5, 3, 3, 6, 1]


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_an_estimator_gives_the_advantages_of_its_spec(name: str) -> None:
    spec = SPECS[name.removeprefix("guerdon_")]
    expected = advantages(TOTALS, GROUPS, spec=spec, num_tokens_N=LENGTHS)
    np.testing.assert_allclose(advantage_of(batch(TOTALS, GROUPS, LENGTHS), name), expected, atol=1e-6)


@pytest.mark.parametrize(("name", "theirs"), [("guerdon_grpo", "grpo"), ("guerdon_rloo", "rloo")])
def test_estimators_agree_with_verls_where_verl_has_the_method(name: str, theirs: str) -> None:
    ours = advantage_of(batch(TOTALS, GROUPS, LENGTHS), name)
    np.testing.assert_allclose(ours, advantage_of(batch(TOTALS, GROUPS, LENGTHS), theirs), atol=3e-4)  # eps 1e-4 against 1e-6


@pytest.mark.parametrize("name", ["guerdon_gopo", "guerdon_grpo", "guerdon_scalerl"])
def test_rows_that_abstained_and_padding_are_outside_their_group(name: str) -> None:
    full = batch([*TOTALS, ABSTAINED, 0.0], [*GROUPS, "a", "pad"], [*LENGTHS, 4, 0])
    found = advantage_of(full, name)
    np.testing.assert_allclose(found[:8], advantage_of(batch(TOTALS, GROUPS, LENGTHS), name), atol=1e-6)
    assert found[8:].tolist() == [0.0, 0.0]


def test_an_abstention_counts_as_nothing_for_verls_own_estimator() -> None:
    marked, zero = ([*TOTALS[:3], last, *TOTALS[4:]] for last in (ABSTAINED, 0.0))
    np.testing.assert_array_equal(advantage_of(batch(marked, GROUPS, LENGTHS), "grpo"), advantage_of(batch(zero, GROUPS, LENGTHS), "grpo"))


def test_registering_again_changes_nothing_and_a_foreign_name_is_not_taken() -> None:
    register()
    assert core_algos.get_adv_estimator_fn("guerdon_gopo") == Estimator(GOPO)
    core_algos.ADV_ESTIMATOR_REGISTRY["guerdon_gopo"] = print
    with pytest.raises(ValueError, match="already been registered"):
        register()


def in_new_process(code: str, tmp_path: Path, **environment: str) -> str:
    import os

    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.split()[-1]


ASK = "import verl; from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY as a; print('guerdon_gopo' in a)"


@pytest.mark.parametrize(
    "how", ["entry point", pytest.param("external module", marks=pytest.mark.slow), pytest.param("neither", marks=pytest.mark.slow)]
)
def test_verl_registers_the_estimators_itself(how: str, tmp_path: Path) -> None:
    policy = {
        "entry point": {"VERL_USE_EXTERNAL_PLUGINS": "guerdon_of_this_test"},
        "external module": {"VERL_USE_EXTERNAL_MODULES": "guerdon.backends.verl.plugin", "VERL_USE_EXTERNAL_PLUGINS": "none"},
        "neither": {"VERL_USE_EXTERNAL_PLUGINS": "none"},
    }[how]
    info = tmp_path / "guerdon_of_this_test-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guerdon_of_this_test\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[verl.plugins]\nguerdon_of_this_test = guerdon.backends.verl.plugin\n")
    assert in_new_process(ASK, tmp_path, **policy) == str(how != "neither")


# verl's GDPO

REWARD = R.math_equal() + 0.2 * R.boxed_format() + 0.5 * R.from_function(lambda rollout: len(rollout.completion) / 10, name="length")
COMPLETIONS = ["so \\boxed{4}", "\\boxed{5}", "4", "perhaps \\boxed{4}", "I say \\boxed{7}", "no", "\\boxed{4}", "it is \\boxed{4}"]


def scored(reward: Any, truths: list[Any]) -> tuple[list[dict[str, float]], Any]:
    """The rows that verl gets, and the same batch in guerdon."""
    compute = compute_score_from(reward)
    rows: list[Any] = [compute("d", text, truth, {}) for text, truth in zip(COMPLETIONS, truths, strict=True)]
    rollouts = [
        Rollout(text, answer=truth, group=group, num_tokens=length, columns={"data_source": "d"})
        for text, truth, group, length in zip(COMPLETIONS, truths, GROUPS, LENGTHS, strict=True)
    ]
    return rows, reward.score(rollouts)


def test_verls_gdpo_on_our_keys_is_our_gdpo() -> None:
    rows, scores = scored(REWARD, ["4"] * 8)
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    data = batch(columns["score"], GROUPS, LENGTHS, **columns)
    found = advantage_of(data, "gdpo", *gdpo_overrides(REWARD))
    assert np.abs(found).max() > 0.5
    np.testing.assert_allclose(found, scores.advantages(GDPO_TOKEN), atol=1e-5)


def test_verls_gdpo_counts_an_abstention_as_zero_where_ours_leaves_the_row_out() -> None:
    rows, scores = scored(REWARD, [None, *["4"] * 7])
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    found = advantage_of(batch(columns["score"], GROUPS, LENGTHS, **columns), "gdpo", *gdpo_overrides(REWARD))
    ours = scores.advantages(GDPO_TOKEN)
    assert (ours[0], columns["guerdon/abstained"][0]) == (0.0, 1.0)
    assert abs(found[0]) > 0.1


def test_the_overrides_compose_in_verls_configuration() -> None:
    reward = R.by_column("data_source", {"a": R.math_equal(name="it's:1"), "b": R.math_equal() + 0.2 * R.boxed_format()})
    algorithm = composed(*gdpo_overrides(reward)).algorithm
    assert list(algorithm.gdpo_reward_keys) == ["guerdon/it's:1", "guerdon/math_equal", "guerdon/boxed_format"]
    assert list(algorithm.gdpo_reward_weights) == [1.0, 1.0, 0.2]


def test_the_default_trainer_of_this_verl_hands_gdpo_no_components() -> None:
    """When this fails, verl has mended it, and `gdpo_overrides` need not select the other trainer."""
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

    data = batch(TOTALS, GROUPS, LENGTHS)
    del data.batch["prompts"], data.batch["attention_mask"]  # it fetches neither, nor any column but uid
    keys = [f"{group}_{row}_0" for row, group in enumerate(GROUPS)]
    with pytest.raises((KeyError, AssertionError)):
        compute_advantage_for_multi_trajectories(data, keys, "gdpo", config=config(*gdpo_overrides(REWARD)).algorithm)
    ranked = compute_advantage_for_multi_trajectories(batch(TOTALS, GROUPS, LENGTHS), keys, "guerdon_gopo", config=None)
    assert ranked.batch["advantages"][:4, 0].tolist() == pytest.approx([2.0, 2 / 3, -2 / 3, -2.0])


# verl's sampling


def replay_buffer(metric: str | None) -> Any:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    return ReplayBuffer("sync", {}, None, "drop", {}, poll_interval=0.01, refill_fn=print, filter_groups_metric=metric, train_batch_size=2)


@pytest.mark.parametrize("metric", ["acc", "reward"])
def test_groups_are_filtered_by_outcome_and_not_by_shaping(metric: str, queue: Any) -> None:
    compute = compute_score_from(REWARD)
    groups = {"same": ["so \\boxed{4}", "\\boxed{4}"], "mixed": ["\\boxed{4}", "\\boxed{5}"], "wrong": ["no", "not it"]}
    for uid, texts in groups.items():
        queue.put("train", uid, {"is_prompt": True, "status": "finished", "global_steps": 1})
        for session, text in enumerate(texts):
            row: Any = compute("d", text, "4", {})
            scores = torch.tensor([0.0, row["score"]])
            queue.put("train", f"{uid}_{session}_0", {"seq_len": 2}, extra_fields={"reward_extra_info": row}, rm_scores=scores)
    buffer = replay_buffer(metric)
    buffer._sync_metadata_from_transfer_queue()
    dropped, _ = buffer._dapo_filtered_keys("train")
    assert dropped == ({"same", "wrong"} if metric == "acc" else set())


def test_where_abstaining_raises_the_default_trainer_goes_on_with_the_siblings(queue: Any) -> None:
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

    from guerdon import OnAbstain

    compute = compute_score_from(R.math_equal(), on_abstain=OnAbstain("raise"))
    worker = object.__new__(AgentLoopWorkerTQ.__ray_metadata__.modified_class)
    worker.config = config("actor_rollout_ref.rollout.n=3")

    async def agent_loop(sampling: Any, *, session_id: int, uid: str, **_: Any) -> None:
        compute("d", "\\boxed{4}", None if session_id == 1 else "4", {})
        queue.put("train", f"{uid}_{session_id}_0", {"seq_len": 2})

    worker._run_agent_loop = agent_loop
    asyncio.run(worker._run_prompt({"uid": "u"}, {}, {"validate": False}))
    queue.put("train", "u", {"is_prompt": True, "global_steps": 1})
    assert queue.tags["train"]["u"]["status"] == "failure"
    buffer = replay_buffer(None)
    buffer._materialize_batch = lambda partition, uids, snapshot: SimpleNamespace(keys=sorted(snapshot))
    found, _ = buffer.sample(global_steps=1, partition_id="train", batch_size=1)
    assert found.keys == ["u_0_0", "u_2_0"]


def test_a_new_spec_is_registered_by_its_value() -> None:
    from dataclasses import replace

    core_algos.register_adv_est("mine")(Estimator(replace(GRPO, ddof=0)))
    assert advantage_of(batch([1.0, 0.0], ["a", "a"], [1, 1]), "mine") == pytest.approx([1.0, -1.0], abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_rewards_of_another_float_type_lose_no_row_but_the_marked_ones(dtype: Any) -> None:
    """The mark holds in bfloat16; in float16, where it is 0, the row counts as 0 and its neighbours keep their advantages."""
    data = batch([1.0, 0.0, 1.0, ABSTAINED], list("aaaa"), [2, 3, 2, 3])
    rewards, mask = data.batch["token_level_rewards"].to(dtype), data.batch["response_mask"]
    found = ESTIMATORS["guerdon_dr_grpo"](rewards, mask, list("aaaa"))[0][:, 0].tolist()
    expected = [0.5, -0.5, 0.5, -0.5] if dtype is torch.float16 else [1 / 3, -2 / 3, 1 / 3, 0.0]
    assert found == pytest.approx(expected, abs=1e-6)


def test_grpo_without_the_std_is_not_given_with_it() -> None:
    data = batch(TOTALS, GROUPS, LENGTHS)
    with pytest.raises(ConfigError, match="guerdon_dr_grpo"):
        advantage_of(data, "guerdon_grpo", "algorithm.norm_adv_by_std_in_grpo=False")
    advantage_of(data, "guerdon_dr_grpo", "algorithm.norm_adv_by_std_in_grpo=False")
