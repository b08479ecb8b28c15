"""TRL reward functions as terms: `f(prompts=, completions=, completion_ids=, **columns) -> list[float | None]`.

Nothing of TRL is imported: this is only its calling convention. Guerdon's rewards inside TRL are another matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from guerdon.errors import ConfigError
from guerdon.rewards.function import FunctionReward, live, name_of
from guerdon.rewards.grading import caught
from guerdon.rewards.inputs import inputs_of
from guerdon.types import Message, Rollout, Verdict

__all__ = ["TRLReward", "from_trl"]


@dataclass(frozen=True)
class TRLReward(FunctionReward):
    """See `from_trl`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.batch or self.isolate is not None:
            raise ConfigError("from_trl: a TRL reward function takes a batch, in this process")

    def fill(self, rollouts: Sequence[Rollout], out: list[Verdict | None]) -> None:
        try:
            values: Any = live(self.function)(**trl_arguments(rollouts))
        except BaseException as error:
            values = caught(error)
        out[:] = self._batch(values, len(out))

    async def afill(self, rollouts: Sequence[Rollout], out: list[Verdict | None]) -> None:
        try:
            values: Any = await live(self.function)(**trl_arguments(rollouts))
        except BaseException as error:
            values = caught(error)
        out[:] = self._batch(values, len(out))


def trl_arguments(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """The keyword arguments TRL passes to a reward function: lists of equal length, chats as lists of message dicts."""
    columns = dict.fromkeys(name for r in rollouts for name in r.columns)
    arguments: dict[str, Any] = {name: [r.columns.get(name) for r in rollouts] for name in columns}
    if any(r.answer is not None for r in rollouts):
        arguments.setdefault("answer", [r.answer for r in rollouts])
    arguments["prompts"] = [r.prompt if isinstance(r.prompt, str) else _chat(r.prompt) for r in rollouts]
    arguments["completions"] = [r.completion if r.messages is None else _chat(r.messages) for r in rollouts]
    arguments["completion_ids"] = [list(r.token_ids or ()) for r in rollouts]
    return arguments


def _chat(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [{"role": m.role, "content": m.text} for m in messages]


def from_trl(f: Callable[..., Any] | str, *, name: str | None = None, outcome: bool = False, reads: Iterable[str] = ()) -> TRLReward:
    """A reward from a TRL reward function, `f(prompts=, completions=, completion_ids=, **columns) -> list[float | None]`.

    It gets what TRL would pass, but no `trainer_state`, `log_extra` or `log_metric`: those belong to a trainer.

    >>> def accuracy(completions, answer, **kwargs):
    ...     return [float(c == a) for c, a in zip(completions, answer)]
    >>> from_trl(accuracy, outcome=True)([Rollout("4", answer="4")])
    [1.0]
    """
    function = live(f)
    if not callable(function):
        raise ConfigError(f"from_trl: expected a function, got {type(function).__name__}")
    return TRLReward(f, name or name_of(function), True, outcome, inputs_of(reads))
