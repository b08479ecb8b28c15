"""CollapseMonitor in the real trainers: it reads what they log, warns, stops all ranks, and lives through checkpoints and pickles."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tiny_trl import QUIET, dense, digits, history, make_dataset, make_model, make_tokenizer, train
from transformers import TrainerCallback, TrainerControl, TrainerState
from trl import GRPOConfig, GRPOTrainer

import guerdon.rewards as R
from guerdon.backends.trl import CollapseMonitor, advantage_func, reward_funcs
from guerdon.backends.trl.collapse import KEYS, Alarm
from guerdon.errors import ConfigError
from guerdon.rewards.advantages import GOPO

pytestmark = pytest.mark.filterwarnings("ignore:.*activation_checkpointing:FutureWarning")
FAST = {"window": 4}


class Falling:
    """Logs a policy that gets worse by the step, whatever the model does."""

    __name__ = "falling"

    def __init__(self, *, from_step: int = 0) -> None:
        self.from_step = from_step

    def __call__(self, completions: Sequence[Any], trainer_state: Any, log_metric: Any, **columns: Any) -> list[float]:
        worse = 0.7 ** max(0, trainer_state.global_step - self.from_step)
        log_metric("guerdon/distinct_2", 0.8 * worse)
        log_metric("guerdon/group_reward_std", 0.4 * worse)
        return [digits(c) for c in completions]


NO_ENTROPY = {"keys": {"entropy": ("not/logged",)}}  # a random model's entropy does not fall
SICK = {**FAST, **NO_ENTROPY}


def test_it_is_a_callback_that_pickles() -> None:
    monitor = CollapseMonitor("stop", window=5)
    again = pickle.loads(pickle.dumps(monitor))
    assert isinstance(again, TrainerCallback)
    assert (again.action, again.detector.window) == ("stop", 5)


def test_all_but_the_outcome_is_logged_by_trl_alone(tmp_path: Path) -> None:
    """What the monitor reads is there: under guerdon's functions, with KL, in both trainers."""
    make_model(make_tokenizer()).save_pretrained(tmp_path / "model")
    reward = R.math_equal() + R.from_function(dense)
    for kind in ("grpo", "rloo"):
        monitor = CollapseMonitor()
        settings = {**QUIET, "output_dir": str(tmp_path), "max_steps": 2, "beta": 0.1}
        funcs = reward_funcs(reward)
        trainer = _trainer(kind, str(tmp_path / "model"), list(funcs), settings | {"reward_weights": funcs.weights}, [monitor])
        trainer.train()
        assert monitor.detector.seen == 2
        assert monitor.detector.tail[0].keys() == KEYS.keys()
        assert monitor.detector.chosen["spread"] == "guerdon/group_reward_std"
        assert history(trainer, "guerdon/collapse") == [0.0, 0.0]


def test_under_finished_advantages_it_reads_the_rewards(tmp_path: Path) -> None:
    func = advantage_func(R.math_equal() + R.from_function(dense), GOPO, num_generations=4)
    monitor = CollapseMonitor()
    trainer = train([func], tmp_path, steps=1, **func.config_kwargs())
    monitor.detector.update(1, trainer.state.log_history[0])
    assert monitor.detector.chosen["reward"] == "guerdon/reward"
    assert monitor.detector.tail[0]["reward"] > 0
    assert monitor.detector.tail[0]["spread"] > 0


def _trainer(kind: str, model: Any, funcs: list[Any], settings: dict[str, Any], callbacks: list[Any]) -> Any:
    from trl import RLOOConfig, RLOOTrainer

    config, cls = {"grpo": (GRPOConfig, GRPOTrainer), "rloo": (RLOOConfig, RLOOTrainer)}[kind]
    return cls(
        model=model,
        reward_funcs=funcs,
        args=config(**settings),
        train_dataset=make_dataset(),
        processing_class=make_tokenizer(),
        callbacks=callbacks,
    )


def run(monitor: Any, tmp_path: Path, funcs: Any = None, resume: Any = None, **settings: Any) -> Any:
    given = {**QUIET, "output_dir": str(tmp_path), "max_steps": 16, "max_completion_length": 4, **settings}
    trainer = _trainer("grpo", make_model(make_tokenizer()), funcs or [Falling()], given, [monitor])
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def test_warn_warns_once_logs_the_metric_and_trains_on(tmp_path: Path) -> None:
    monitor = CollapseMonitor(**SICK)
    with pytest.warns(UserWarning, match="collapse at step 8: distinct .* spread") as caught:
        trainer = run(monitor, tmp_path)
    assert len([w for w in caught if "CollapseMonitor" in str(w.message)]) == 1
    assert trainer.state.global_step == 16
    assert [alarm.step for alarm in monitor.alarms] == [8]
    assert history(trainer, "guerdon/collapse") == [0.0] * 7 + [1.0] * 9


def test_stop_ends_the_run_at_that_step(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="CollapseMonitor"):
        trainer = run(CollapseMonitor("stop", **SICK), tmp_path)
    assert trainer.state.global_step == 8


@pytest.mark.parametrize(("answer", "steps"), [("stop", 8), (None, 10)])
def test_a_function_gets_the_alarm_instead_of_a_warning(answer: str | None, steps: int, tmp_path: Path) -> None:
    seen: list[Alarm] = []

    def act(alarm: Alarm) -> str | None:
        seen.append(alarm)
        return answer

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        trainer = run(CollapseMonitor(act, **SICK), tmp_path, max_steps=10)
    assert [alarm.kind for alarm in seen] == ["collapse"]
    assert trainer.state.global_step == steps


def sevens(rollout: Any) -> float:
    """The share of sevens: learned in 50 steps at this learning rate, by repeating one completion."""
    return rollout.completion.count("7") / max(1, len(rollout.completion))


@pytest.mark.slow  # 60 steps each
@pytest.mark.parametrize("verified", [False, True], ids=["no outcome", "the outcome says it is solved"])
def test_a_policy_that_comes_to_repeat_itself_raises_the_alarm_unless_that_solves_the_task(verified: bool, tmp_path: Path) -> None:
    monitor = CollapseMonitor(lambda alarm: None)
    funcs = reward_funcs(R.from_function(sevens, outcome=verified))
    trainer = run(monitor, tmp_path, list(funcs), max_steps=60, learning_rate=1e-2, max_completion_length=8)
    assert history(trainer, "guerdon/distinct_2")[0] > 0.9
    assert history(trainer, "guerdon/distinct_2")[-1] < 0.3
    assert history(trainer, "reward")[-1] > 0.9
    assert [alarm.kind for alarm in monitor.alarms] == ([] if verified else ["collapse"])


def test_a_healthy_tiny_run_raises_no_alarm(tmp_path: Path) -> None:
    monitor = CollapseMonitor(**FAST)
    funcs = reward_funcs(R.math_equal() + R.from_function(dense))
    trainer = run(monitor, tmp_path, list(funcs), learning_rate=1e-4, max_steps=12)
    assert monitor.alarms == []
    assert len(history(trainer, "guerdon/distinct_2")) == 12


@pytest.mark.parametrize("flag", [False, True])
def test_a_resumed_run_remembers(flag: bool, tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 6, "restore_callback_states_from_checkpoint": flag}
    whole = CollapseMonitor(**SICK)
    with pytest.warns(UserWarning, match="collapse at step 8"):
        run(whole, tmp_path, **saving)
    saved = json.loads((tmp_path / "checkpoint-6/trainer_state.json").read_text())["stateful_callbacks"]["CollapseMonitor"]
    assert saved["args"] == {"action": "warn", **json.loads(json.dumps(SICK))}
    with pytest.warns(UserWarning, match="collapse at step 8"):
        trainer = run(CollapseMonitor(**SICK), tmp_path, resume=str(tmp_path / "checkpoint-6"), **saving)
    monitor = next(c for c in trainer.callback_handler.callbacks if isinstance(c, CollapseMonitor))
    assert [alarm.step for alarm in monitor.alarms] == [8]
    assert monitor.detector.seen == 16


def test_a_function_lost_in_a_checkpoint_is_said() -> None:
    saved = CollapseMonitor(print, **FAST).state()
    with pytest.warns(UserWarning, match="a function is not kept"):
        restored = CollapseMonitor(**saved["args"])
    assert restored.action == "warn"


def test_wrong_actions_are_refused() -> None:
    with pytest.raises(ConfigError, match="'warn', 'stop' or a function"):
        CollapseMonitor("halt")
    with pytest.raises(ConfigError, match="window"):
        CollapseMonitor(window=1)


def test_a_log_without_numbers_changes_nothing() -> None:
    monitor, control, state = CollapseMonitor(), TrainerControl(), TrainerState()
    for logs in (None, {}, {"eval_entropy": 0.1}, {"train_loss": 0.1}):
        assert monitor.on_log(None, state, control, logs) is control
    assert monitor.detector.seen == 0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


RANK = """
import json, os, sys, warnings
sys.path.insert(0, {here!r})
os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false")
from test_collapse_real import CollapseMonitor, SICK, Falling, run
from pathlib import Path

rank = os.environ["RANK"]
seen = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    trainer = run(CollapseMonitor("stop", **SICK), Path({out!r}), per_device_train_batch_size=4, ddp_backend="gloo")
monitor = next(c for c in trainer.callback_handler.callbacks if isinstance(c, CollapseMonitor))
told = sum("CollapseMonitor" in str(w.message) for w in caught)
found = dict(step=trainer.state.global_step, told=told, tail=[sorted(r.items()) for r in monitor.detector.tail])
Path({out!r}, "rank" + rank + ".json").write_text(json.dumps(found))
"""


@pytest.mark.slow  # two more processes that load torch
def test_ranks_see_the_same_numbers_stop_together_and_only_the_first_warns(tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(textwrap.dedent(RANK.format(here=str(Path(__file__).parent), out=str(tmp_path))))
    base = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "LOCAL_WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    ranks = [subprocess.Popen([sys.executable, str(script)], env={**base, "RANK": r, "LOCAL_RANK": r}) for r in "01"]
    try:
        assert [rank.wait(timeout=240) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    first, second = (json.loads((tmp_path / f"rank{r}.json").read_text()) for r in "01")
    assert first["step"] == second["step"] == 8
    assert first["tail"] == second["tail"]
    assert (first["told"], second["told"]) == (1, 0)
