"""`reward_funcs`: a guerdon reward as the list of reward functions that TRL's trainers take, one for each component.

They score a batch once between them, within a deadline, and raise for faults of the configuration only. Advantages are TRL's: see
`guerdon.backends.trl.advantage` to bring your own.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Unpack

from guerdon.abstention import OnAbstain
from guerdon.backends.trl.configs import sum_keywords, validate_function
from guerdon.backends.trl.distributed import rank_and_world, score_whole_groups
from guerdon.backends.trl.memo import Memo, shared
from guerdon.backends.trl.metrics import log_scores
from guerdon.backends.trl.rows import DEADLINE_S, LARGEST, OWN, Scoring, make_scoring
from guerdon.errors import ConfigError
from guerdon.rewards.components import Component
from guerdon.rewards.term import Term

if TYPE_CHECKING:
    from guerdon.backends.trl.findings import Finding
    from guerdon.backends.trl.validate import Options
    from guerdon.rewards.scores import Scores

__all__ = ["AsyncRewardFunction", "RewardFuncs", "RewardFunction", "Settings", "component_values", "reward_funcs"]


@dataclass(frozen=True)
class Settings:
    """What the functions of one list have in common. `token` names the list across processes."""

    scoring: Scoring
    on_abstain: OnAbstain
    weighted: bool
    token: str

    @property
    def carrier(self) -> tuple[int, float]:
        """The component that holds the total of a row that is filled, and what TRL multiplies it by."""
        weights = [config_weight(c) for c in self.scoring.components]
        carrier = next((k for k, w in enumerate(weights) if w != 0), 0)
        return carrier, 1.0 if self.weighted else weights[carrier] or 1.0


def config_weight(component: Component) -> float | None:
    """The weight that TRL's `reward_weights` can carry; None where it differs between rows."""
    weights = {weight for _, weight in component.shares}
    return weights.pop() if len(weights) == 1 else None


def component_values(settings: Settings, scores: Scores) -> list[list[float | None]]:
    """What each component's function returns: K lists of N. None where the component has no score, and in the whole row where it has
    no total, so that TRL leaves the row out."""
    import numpy as np

    as_is_K = [not settings.weighted and config_weight(c) is not None for c in settings.scoring.components]
    values_NK = scores.values_NK * np.where(as_is_K, 1.0, scores.weights_NK)
    cells_NK = values_NK.astype(object)
    cells_NK[np.isnan(values_NK) | ~scores.valid_N[:, None]] = None
    columns: list[list[float | None]] = cells_NK.T.tolist()
    totals = settings.on_abstain.apply(scores.totals())
    if settings.on_abstain.policy == "fill":  # the whole total in one component, the others None
        carrier, share = settings.carrier
        for i, (total, valid) in enumerate(zip(totals, scores.valid_N.tolist(), strict=True)):
            if not valid and total is not None:
                columns[carrier][i] = total / share
    return columns


class _Function:
    """One component of a reward, as TRL calls it: `f(completions=, prompts=, completion_ids=, **columns)`. Not to be changed."""

    gathers = True

    def __init__(self, settings: Settings, index: int) -> None:
        self.settings = settings
        self.index = index
        self.__name__ = settings.scoring.components[index].name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"

    @property
    def weight(self) -> float:
        """Its entry in `reward_weights`: the weight in the reward, or 1 where the values carry it."""
        weight = config_weight(self.settings.scoring.components[self.index])
        return 1.0 if weight is None or self.settings.weighted else weight

    @property
    def by_row(self) -> bool:
        """Whether its weight differs between rows, so that the values carry it."""
        return config_weight(self.settings.scoring.components[self.index]) is None

    @property
    def carries_filling(self) -> bool:
        """Whether it holds the totals that `OnAbstain("fill")` gives."""
        return self.settings.on_abstain.policy == "fill" and self.settings.carrier[0] == self.index

    def _memo(self) -> Memo:
        self._kept = shared(self.settings.token, len(self.settings.scoring.components))  # lives as long as one of its readers
        return self._kept

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def _read(self, prompts: Any, completions: Sequence[Any], ids: Any, arguments: Mapping[str, Any]) -> list[float | None]:
        score = partial(self._score, prompts, completions, ids, arguments)
        return self._memo().read(self.index, _batch(completions, prompts, ids, arguments), score)

    def _score(self, prompts: Any, completions: Any, ids: Any, arguments: Mapping[str, Any]) -> list[list[float | None]]:
        scoring, start = self.settings.scoring, time.perf_counter()
        read = partial(scoring.rollouts, completions, prompts, ids, arguments)
        split = scoring.reads_group and rank_and_world()[1] > 1
        if split and not self.gathers:
            self._require_whole_groups(len(completions))
        scores = score_whole_groups(scoring, read) if split and self.gathers else scoring.score(read())
        log_scores(scoring, scores, time.perf_counter() - start, arguments, completions, ids)
        return component_values(self.settings, scores)

    def _require_whole_groups(self, n: int) -> None:
        sizes = self.settings.scoring.group_sizes
        if not sizes or all(n % size for size in sizes):
            raise ConfigError(
                f"TRL: {self.settings.scoring.reward.name!r} reads the group, and asynchronous functions exchange no rows between ranks; "
                f"got {n} completions on this rank and num_generations {list(sizes) or 'unknown'}: pass num_generations=, and make the "
                "completions of a rank a multiple of it, or leave asynchronous=True out"
            )


class RewardFunction(_Function):
    """See `reward_funcs`. The caller waits for it."""

    def __call__(
        self, /, prompts: Sequence[Any] | None = None, completions: Sequence[Any] = (), completion_ids: Any = None, **arguments: Any
    ) -> list[float | None]:
        """The component's score of each completion, None where it has none or the row has no total."""
        return self._read(prompts, completions, completion_ids, arguments)


class AsyncRewardFunction(_Function):
    """See `reward_funcs`. Leaves the caller's event loop to other async rewards: it scores in a thread, so that no term can block it."""

    gathers = False  # ranks may come to it in another order

    async def __call__(
        self, /, prompts: Sequence[Any] | None = None, completions: Sequence[Any] = (), completion_ids: Any = None, **arguments: Any
    ) -> list[float | None]:
        """The component's score of each completion, None where it has none or the row has no total."""
        return await _in_thread(partial(self._read, prompts, completions, completion_ids, arguments))


async def _in_thread(work: Callable[[], list[float | None]]) -> list[float | None]:
    """In a daemon thread, unlike `asyncio.to_thread`: the interpreter does not wait for it at its end."""
    import asyncio

    future: Future[list[float | None]] = Future()
    future.set_running_or_notify_cancel()  # a caller that is cancelled leaves it running for the others

    def main() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(main,), name="guerdon-trl", daemon=True).start()
    return await asyncio.wrap_future(future)


def _batch(completions: Sequence[Any], prompts: Any, ids: Any, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """The objects that tell one call from another: the list of completions, and every cell of it and of the columns."""
    columns = (values for name, values in arguments.items() if name not in OWN)
    lists = (values if isinstance(values, list | tuple) else (values,) for values in (completions, prompts, ids, *columns))
    return (completions, *chain.from_iterable(lists))


class RewardFuncs(list[Any]):
    """The functions of `reward_funcs`, with what the trainer's arguments need to agree with them. A list, as TRL asks for."""

    def __init__(self, functions: Sequence[_Function]) -> None:
        super().__init__(functions)
        self.settings = functions[0].settings

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuilt, (list(self), self.settings))

    @property
    def reward(self) -> Term:
        """The reward that they score."""
        return self.settings.scoring.reward

    @property
    def weights(self) -> list[float]:
        """TRL's `reward_weights`. With functions of your own beside these: `[*funcs, own]` and `[*funcs.weights, 1.0]`."""
        return [f.weight if isinstance(f, _Function) else 1.0 for f in self]

    def config_kwargs(self, aggregation: Literal["sum", "gdpo"] = "sum", *, config: type | None = None) -> dict[str, Any]:
        """Keyword arguments for the trainer's config that belong to these functions: `GRPOConfig(..., **funcs.config_kwargs())`.

        `sum`: TRL adds the weighted components and normalises the total. `gdpo`: it normalises each and then adds
        (`multi_objective_aggregation="normalize_then_sum"`; `scale_rewards` is ignored then). With `config=` (the class) the
        keywords are those that it has; what it cannot express raises ConfigError with the fix.

        >>> import guerdon.rewards as R
        >>> reward_funcs(R.exact() + 0.2 * R.think_format()).config_kwargs("gdpo")
        {'reward_weights': [1.0, 0.2], 'multi_objective_aggregation': 'normalize_then_sum'}
        """
        mixed = [c.name for c in self.settings.scoring.components if config_weight(c) is None]
        return sum_keywords(self.weights, mixed, aggregation, config)

    def validate(self, args: Any, train_dataset: Any = None, eval_dataset: Any = None, **options: Unpack[Options]) -> tuple[Finding, ...]:
        """Check the trainer's arguments, and the data, against this reward: see `guerdon.backends.trl.validate`.

        `options` are those of `validate` there: `ignore`, `trainer_kwargs`, `num_processes`, `trainer`, `gpu`.
        Raises ConfigError or MissingInput with the fix for what cannot work.
        """
        return validate_function(self, self.settings.scoring, args, train_dataset, eval_dataset, **options)


def _rebuilt(functions: list[Any], settings: Settings) -> RewardFuncs:
    funcs = RewardFuncs.__new__(RewardFuncs)
    funcs.extend(functions)
    funcs.settings = settings
    return funcs


def reward_funcs(
    reward: Term | str,
    *,
    deadline_s: float | None = DEADLINE_S,
    on_abstain: OnAbstain = OnAbstain("drop"),  # noqa: B008  # frozen
    asynchronous: bool = False,
    weighted: bool = False,
    num_generations: int | None = None,
    num_generations_eval: int | None = None,
    eos_token_id: int | Sequence[int] | None = None,
    max_broken: float = 0.5,
) -> RewardFuncs:
    """A list of TRL reward functions, one for each component of `reward` (an object or an import string), named like it.

    Each returns its raw score, for `reward_weights` to weigh (`funcs.config_kwargs()`); a component whose weight differs between rows
    (`R.by_column`) returns value times weight at a config weight of 1. A row without a total is None in every component, so that
    TRL leaves it out of the group and gives it no advantage. `on_abstain=OnAbstain("fill", value)` gives it that total instead,
    carried by the first component; "raise" stops the run. Scores beyond 1e15 count as broken.

    The batch is scored once, by whichever function TRL calls first, and ends within `deadline_s` seconds: rows not done by then, and
    rows on which a check hangs or raises, are left out and counted (`guerdon/...` in the trainer's log). It raises
    for faults of the configuration alone: MissingInput for a column the data lacks, BrokenRewardError when more than
    `max_broken` of the last 1,024 rows could not be scored.

    `asynchronous=True` gives async functions, which run beside your other async rewards. `weighted=True` returns values
    times weights, for trainers without `reward_weights` (AsyncGRPOTrainer). `eos_token_id=` lets terms read `truncated`.
    `num_generations=` is wanted by terms that read the group where a prompt stands in the data twice; without it groups are runs
    of equal prompts. Groups that ranks split are gathered for such terms, not with `asynchronous=True`. The functions
    pickle, together or one by one. In conversations with tools, token counts are TRL's, which include the tools' answers.

    >>> import guerdon.rewards as R
    >>> correct, short = reward_funcs(R.exact() + 0.5 * R.soft_overlong(max_tokens=4, cache=2))
    >>> call = {"prompts": ["2+2?"] * 2, "completions": ["4", "four"], "completion_ids": [[7], [8, 9, 9, 9]], "answer": ["4", "4"]}
    >>> correct.__name__, correct(**call), short(**call)
    ('exact', [1.0, 0.0], [0.0, -1.0])
    """
    if not isinstance(on_abstain, OnAbstain):
        raise ConfigError(f"reward_funcs: on_abstain expects OnAbstain('drop' | 'fill' | 'raise'), got {on_abstain!r:.80}")
    scoring = make_scoring(reward, deadline_s, num_generations, num_generations_eval, eos_token_id, max_broken)
    settings = Settings(scoring, on_abstain, bool(weighted), uuid.uuid4().hex)
    if on_abstain.policy == "fill" and not abs(on_abstain.value) <= LARGEST * min(1.0, abs(settings.carrier[1])):
        raise ConfigError(f"reward_funcs: on_abstain fills with {on_abstain.value!r}, more than TRL's float32 bears; pass a lesser one")
    kind = AsyncRewardFunction if asynchronous else RewardFunction
    return RewardFuncs([kind(settings, k) for k in range(len(scoring.components))])
