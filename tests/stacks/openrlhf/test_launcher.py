"""The launcher's patch on OpenRLHF's real experience maker, and its way into real Ray workers."""

from __future__ import annotations

import importlib
import json
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openrlhf_real import LABEL, NS, OUTS, Engine, Tokenizer, experiences, first_advantages, maker, prepared, rollouts, stub

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.openrlhf import launch, launcher
from guerdon.backends.openrlhf.launcher import SETTINGS, TARGET, Settings, patch
from guerdon.backends.openrlhf.specs import spec_of
from guerdon.errors import ConfigError

WEIGHTS = {"math": 1.0, "format": 0.5}


@pytest.fixture
def patched(stack: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`patched(advantage, weights)` patches the real class for one test."""
    monkeypatch.setattr(launcher, "_warned", set())

    def on(advantage: str, weights: dict[str, float | None] | None = None) -> None:
        cls = stack.Maker
        for name in ("__init__", "compute_advantages_and_returns"):
            monkeypatch.setattr(cls, name, getattr(cls, name))
        monkeypatch.setattr(cls, "guerdon", None, raising=False)
        patch(stack.maker_module, Settings(advantage, weights or WEIGHTS))

    return on


def outputs(stack: Any, mine: Path) -> list[dict[str, Any]]:
    """Two groups through the real file door; a row of the second has no format, and one abstains."""
    executor = stack.Executor([str(mine / "reward_file.py")])
    first = rollouts(stack, executor)
    second = rollouts(stack, executor, ["<think>a</think>\\boxed{4}</s>", "x</s>", "longer \\boxed{4}</s>", "y</s>"])
    (lost,) = rollouts(stack, executor, ["lost</s>"], label="")
    return [*first, *second[:3], lost]


@pytest.mark.parametrize("order", ["straight", "shuffled"])
@pytest.mark.parametrize(
    "advantage", ["gdpo", "gdpo_token", "gdpo,whiten=none", "gopo", "scalerl", "grpo", "gopo,center=none,rank_transform=identity"]
)
def test_the_trainers_advantages_are_guerdons_whatever_the_order(stack: Any, mine: Path, patched: Any, advantage: str, order: str) -> None:
    patched(advantage)
    found = experiences(stack, outputs(stack, mine))
    made = maker(stack, micro=3)
    batches = made.compute_advantages_and_returns(
        prepared(made, found, lambda b: random.Random(1).sample(b, len(b)) if order == "shuffled" else b)
    )
    reward = R.math_equal(name="math") + 0.5 * R.think_format(name="format")
    texts = [*OUTS, "<think>a</think>\\boxed{4}</s>", "x</s>", "longer \\boxed{4}</s>", "lost</s>"]
    rows = [
        Rollout(t.removesuffix("</s>"), answer=None if t == "lost</s>" else "4", group=i // 4, num_tokens=len(t))
        for i, t in enumerate(texts)
    ]
    expected = reward.score(rows).advantages(spec_of(advantage, "test"))
    advantages = first_advantages(batches)
    np.testing.assert_allclose([advantages[i] for i in range(8)], expected, atol=1e-5)
    assert advantages[7] == 0.0
    totals = {i: float(v) for b in batches for i, v in zip(b.index, b.info["reward"].reshape(-1), strict=True)}
    assert totals == {i: o["reward"][0] for i, o in enumerate(outputs(stack, mine))}
    assert made.args.algo.advantage.estimator == "reinforce"


def test_logs_show_the_spread_of_rewards_and_not_of_advantages(stack: Any, mine: Path, patched: Any) -> None:
    found = outputs(stack, mine)[:4]

    def spread() -> list[float]:
        made = maker(stack)
        return [
            float(v)
            for b in made.compute_advantages_and_returns(prepared(made, experiences(stack, found)))
            for v in b.info["group_reward_std"].reshape(-1)
        ]

    own = spread()
    patched("gopo")
    assert spread() == pytest.approx(own)


def test_weights_that_differ_by_row_come_with_the_rows(stack: Any, tmp_path: Path, patched: Any) -> None:
    (tmp_path / "mine.py").write_text(
        "import guerdon.rewards as R\nreward = R.by_column('kind', {'a': R.math_equal(), 'b': 0.25 * R.math_equal() + R.think_format()})\n"
    )
    (tmp_path / "reward_file.py").write_text(
        "from guerdon.backends.openrlhf import reward_func_from\nreward_func = reward_func_from('mine.py:reward')\n"
    )
    executor = stack.Executor([str(tmp_path / "reward_file.py")])
    found = [r for kind in "ab" for r in rollouts(stack, executor, label=f'{{"answer": "4", "kind": "{kind}"}}')]
    settings = Settings.of(executor.reward_func.reward, "dr_grpo")
    assert settings.weights == {"math_equal": None, "think_format": None}
    patched("dr_grpo", dict(settings.weights))
    made = maker(stack)
    advantages = first_advantages(made.compute_advantages_and_returns(prepared(made, experiences(stack, found))))
    assert [advantages[i] for i in range(8)] == pytest.approx([0.5, 0.5, -0.5, -0.5, 0.625, -0.375, 0.375, -0.625])


@pytest.mark.parametrize("advantage", ["gopo", "grpo,eps=0"])
def test_totals_that_are_equal_stay_equal_in_float32(stack: Any, tmp_path: Path, patched: Any, advantage: str) -> None:
    """0.3 + 0 and 0.1 + 0.2 are the same reward; the float32 of 0.1 and 0.2 is not the float32 of 0.3."""
    (tmp_path / "mine.py").write_text(
        "import guerdon.rewards as R\n"
        "reward = 0.0 * R.math_equal() + R.from_function(lambda r: float(r.completion.split()[0]), name='a')"
        " + R.from_function(lambda r: float(r.completion.split()[1]), name='b')\n"
    )
    (tmp_path / "reward_file.py").write_text(
        "from guerdon.backends.openrlhf import reward_func_from\nreward_func = reward_func_from('mine.py:reward')\n"
    )
    executor = stack.Executor([str(tmp_path / "reward_file.py")])
    found = experiences(stack, rollouts(stack, executor, ["0.3 0 4</s>", "0.1 0.2 4</s>", "0.2 0.1 4</s>", "0.1 0.1 4</s>"]))
    patched(advantage, dict(Settings.of(executor.reward_func.reward, advantage).weights))
    made = maker(stack)
    advantages = first_advantages(made.compute_advantages_and_returns(prepared(made, found)))
    assert advantages[0] == advantages[1] == advantages[2] > advantages[3]


def test_rollouts_without_the_components_are_refused_by_name(stack: Any, mine: Path, patched: Any) -> None:
    patched("gdpo", {"math": 1.0, "style": 1.0})
    made = maker(stack)
    with pytest.raises(ConfigError, match=r"no 'guerdon/style/scored'.*--guerdon.reward must be the reward"):
        made.compute_advantages_and_returns(prepared(made, experiences(stack, outputs(stack, mine))))


def test_an_advantage_that_would_be_clipped_is_said(stack: Any, mine: Path, patched: Any, caplog: pytest.LogCaptureFixture) -> None:
    patched("gopo,rank_span=30")
    made = maker(stack)
    made.compute_advantages_and_returns(prepared(made, experiences(stack, outputs(stack, mine))))
    assert "widen it" in caplog.text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"estimator": "dr_grpo"}, "pass reinforce"),
        ({"remote_url": None}, "--reward.remote_url"),
        ({"overlong_buffer_len": 8}, "overlong_buffer_len"),
        ({"stop_properly_penalty_coef": 0.5}, "stop_properly"),
    ],
)
def test_flags_that_would_bend_the_advantage_stop_the_trainer_before_models_load(
    stack: Any, patched: Any, flags: dict[str, Any], message: str
) -> None:
    patched("gdpo")
    with pytest.raises(ConfigError, match=message):
        maker(stack, init=True, **flags)
    maker(stack, init=True)


def test_canary_the_methods_have_the_signatures_the_patch_was_written_for(stack: Any, patched: Any) -> None:
    patched("gdpo")
    patch(stack.maker_module, Settings("gopo", WEIGHTS))  # once only
    assert stack.Maker.guerdon.advantage == "gdpo"


def test_another_signature_or_version_is_refused(stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(stack.Maker):  # type: ignore[name-defined, misc]
        def compute_advantages_and_returns(self, experiences: Any, extra: Any) -> Any: ...

    with pytest.raises(ConfigError, match="expected self, experiences"):
        patch(NS(RemoteExperienceMaker=Other), Settings("gdpo", WEIGHTS))  # type: ignore[arg-type]
    monkeypatch.setattr(launcher, "version", lambda _: "0.12.0")
    with pytest.raises(ConfigError, match=r"found 0\.12\.0"):
        patch(stack.maker_module, Settings("gdpo", WEIGHTS))


@pytest.fixture
def ray_session(tmp_path: Path) -> Iterator[Any]:
    import ray

    settings = Settings("gdpo", {"math_equal": 1.0, "think_format": 0.5})
    env = launch.runtime_env(settings)
    here = str(Path(__file__).parent)
    env["env_vars"] |= {"PYTHONPATH": here}
    ray.init(
        num_cpus=1, include_dashboard=False, logging_level="ERROR", log_to_driver=False, object_store_memory=200 * 2**20, runtime_env=env
    )
    yield ray
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_in_a_real_ray_worker_the_trainer_is_patched_and_an_async_actor_keeps_groups_apart(ray_session: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import guerdon.rewards as R\ndef size(rows): return [len(rows)] * len(rows)\n"
        "reward = R.math_equal() + 0.0 * R.from_function(size, batch=True, reads=['group'])\n"
    )
    (tmp_path / "agent.py").write_text(
        "from guerdon.backends.openrlhf import agent_executor\nAgentExecutor = agent_executor('mine.py:reward')\n"
    )
    agent_file = str(tmp_path / "agent.py")

    class Rollouts:
        async def __init__(self) -> None:
            from openrlhf_real import real

            self.stack = real()
            self.executor = self.stack.load_agent(agent_file)
            self.engine = Engine(OUTS, backwards=True)

        async def generate(self, *args: Any, **kwargs: Any) -> Any:
            return await self.engine.generate(*args, **kwargs)

        async def generate_responses(self, **call: Any) -> Any:
            return await self.stack.Actor.generate_responses(self, **call)

        async def maker(self) -> Any:
            stub()
            return importlib.import_module("openrlhf.trainer.ppo_trainer").RemoteExperienceMaker.guerdon

    actor = ray_session.remote(Rollouts).remote()
    call = {"prompt": "Q", "label": LABEL, "sampling_params": NS(max_tokens=64, logprobs=None), "max_length": 512}
    groups = ray_session.get(
        [actor.generate_responses.remote(**call, hf_tokenizer=Tokenizer(), num_samples=4) for _ in range(5)], timeout=120
    )
    for group in groups:
        assert sorted(row["reward"] for row in group) == [0.0, 0.0, 1.0, 1.0]
        assert [row["extra_logs"]["guerdon/size"] for row in group] == [4.0] * 4  # five groups of one prompt at once
    settings = ray_session.get(actor.maker.remote(), timeout=120)
    assert (settings.advantage, settings.weights["think_format"]) == ("gdpo", 0.5)


def test_a_module_imported_later_is_patched_on_import_and_a_mere_look_spends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import importlib.util

    name = "late_maker"
    (tmp_path / f"{name}.py").write_text("class RemoteExperienceMaker: ...\n")
    seen: list[types.ModuleType] = []
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(launcher, "TARGET", name)
    monkeypatch.setattr(launcher, "patch", lambda module, settings: seen.append(module))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setenv(SETTINGS, Settings("gdpo", WEIGHTS).text())
    launcher.install()
    launcher.install()
    assert sum(type(f).__name__ == "_Finder" for f in sys.meta_path) == 1
    assert importlib.util.find_spec(name) is not None
    importlib.import_module(name)
    assert [m.__name__ for m in seen] == [name]
    sys.modules.pop(name)
    assert TARGET == "openrlhf.trainer.ppo_utils.experience_maker"


def test_the_launcher_starts_ray_with_the_hook_and_hands_the_other_flags_on(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import ray

    started: dict[str, Any] = {}
    monkeypatch.setattr(ray, "init", lambda **kwargs: started.update(kwargs))
    monkeypatch.setattr(sys, "argv", ["launch"])
    stub()
    flags = [
        "--guerdon.reward",
        f"{mine}/mine.py:reward",
        "--guerdon.advantage",
        "gopo",
        "--algo.advantage.estimator",
        "reinforce",
        "--help",
    ]
    with pytest.raises(SystemExit):  # OpenRLHF's own parser saw --help
        launch.main([flag for flag in flags if flag != "--help"] + ["--no.such.flag"])
    assert "--no.such.flag" in capsys.readouterr().err
    assert started["runtime_env"]["worker_process_setup_hook"] == launcher.HOOK
    assert Settings(**json.loads(started["runtime_env"]["env_vars"][SETTINGS])).weights == WEIGHTS
