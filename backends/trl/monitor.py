"""`CollapseMonitor`: the collapse alarms as a callback of TRL's (and any transformers) trainer. Importing this loads transformers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from guerdon.backends.trl.collapse import Alarm, CollapseDetector
from guerdon.errors import ConfigError

__all__ = ["CollapseMonitor"]

METRIC = "guerdon/collapse"


class CollapseMonitor(TrainerCallback, ExportableState):
    """Warns of a policy that collapses, leaves its reference or games its reward: `callbacks=[CollapseMonitor()]`.

    `action` is what an alarm does, once an episode: "warn" issues a UserWarning, "stop" warns and ends training after the
    step, a function gets the `Alarm` (which it may hand to a tracker; it may return "stop") instead of the warning. Every training log
    gets `guerdon/collapse`, the number of alarms that hold, in `trainer.state.log_history`; trackers that the trainer itself set up
    have read the log by then and do not show it. `settings` are those of `CollapseDetector`, whose windows count logs: with
    `logging_steps=10`, TRL's default, the first alarm cannot come before step 200.

    The trainer calls it on every rank, with numbers that it has reduced over all: "stop" stops all ranks at the same step. Warnings come
    from rank 0; a function is called on every rank. What was seen goes into checkpoints and comes back with `resume_from_checkpoint`
    (not `alarms`, nor a function). Picklable if the function is.
    """

    def __init__(self, action: str | Callable[[Alarm], Any] | None = "warn", **settings: Any) -> None:
        if action is None:
            warnings.warn("CollapseMonitor: a function is not kept in a checkpoint, so alarms only warn", UserWarning, stacklevel=2)
            action = "warn"
        if action not in ("warn", "stop") and not callable(action):
            raise ConfigError(f"CollapseMonitor: action expects 'warn', 'stop' or a function of an Alarm; got {action!r}")
        self.action, self.settings = action, settings
        self.detector = CollapseDetector(**settings)
        self.alarms: list[Alarm] = []

    def state(self) -> dict[str, Any]:
        """For checkpoints: arguments, and what was seen."""
        action = self.action if isinstance(self.action, str) else None
        return {"args": {"action": action, **self.settings}, "attributes": {"memory": self.detector.state()}}

    @property
    def memory(self) -> dict[str, Any]:
        """What the detector has seen."""
        return self.detector.state()

    @memory.setter
    def memory(self, state: Mapping[str, Any]) -> None:
        self.detector.restore(state)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Takes up its memory where a run is resumed, whether or not the trainer restores callbacks itself."""
        saved = (state.stateful_callbacks or {}).get(type(self).__name__) if state.global_step else None
        if isinstance(saved, dict) and not self.detector.seen:
            self.memory = saved.get("attributes", {}).get("memory", self.memory)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        """Reads one log."""
        before = self.detector.seen
        begun = self.detector.update(state.global_step, logs or {})
        if self.detector.seen == before or logs is None:
            return control
        self.alarms += begun
        logs[METRIC] = float(self.detector.active)
        if state.log_history and state.log_history[-1].get("step") == state.global_step:
            state.log_history[-1][METRIC] = logs[METRIC]
        for alarm in begun:
            self._act(alarm, state, control)
        return control

    def _act(self, alarm: Alarm, state: Any, control: Any) -> None:
        first = getattr(state, "is_world_process_zero", True)
        if callable(self.action):
            stop = self.action(alarm) == "stop"
        else:
            stop = self.action == "stop"
            if first:
                warnings.warn(f"CollapseMonitor: {alarm}", UserWarning, stacklevel=2)
        if stop:
            control.should_training_stop = True
