"""verl's reward function: one row in, a dict of finite floats under constant keys out.

verl calls it with keywords from threads of a pool, or awaits it, one rollout a call; `main_eval` calls it with three positional
arguments. Nothing here imports verl or torch.
"""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

from guerdon.abstention import OnAbstain
from guerdon.backends.door import PREFIX, as_reward, ascore_safely, flat_keys, flat_row, refuse_reads, score_safely
from guerdon.backends.verl.rows import plain, rollout_of
from guerdon.errors import ConfigError
from guerdon.rewards.scores import Scores, lost_scores
from guerdon.rewards.term import Term, finite
from guerdon.types import Rollout

__all__ = [
    "ABSTAINED",
    "DEADLINE_S",
    "ComputeScore",
    "RowReward",
    "acompute_score",
    "acompute_score_from",
    "compute_score",
    "compute_score_from",
]

log = logging.getLogger("guerdon")

ABSTAINED = float.fromhex("0x1.67e2dap-120")
"""The score of a row without one, under `OnAbstain("drop")`: about 1e-36, exact in float32. It is nothing to verl's own estimators and
metrics; guerdon's (`guerdon_grpo`, ...) know it and leave the row out of its group."""

DEADLINE_S = 60.0
"""How long one row may take, in seconds."""

LARGEST = 1e18
"""verl squares rewards in float32: anything larger would become infinite there."""

_OMITTED: Any = object()

MANAGER = (
    "use guerdon's reward manager: reward.reward_manager.source=importlib reward.reward_manager.name=GuerdonRewardManager "
    "reward.reward_manager.module.path=pkg://guerdon.backends.verl"
)
NEVER: Mapping[str, str] = {
    "group": "verl scores each rollout by itself, its siblings in other processes; leave the term out, or train with TRL",
    "messages": "verl gives the decoded text of the whole trajectory; read the completion",
}
"""What no door to verl carries."""


@dataclass(frozen=True)
class RowReward:
    """A reward and how verl gets it, one row at a time. See `compute_score_from` for the fields.

    Pickled as its fields: an import string is loaded anew in the other process.
    """

    LACKS: ClassVar[Mapping[str, str]] = NEVER
    WHERE: ClassVar[str] = "verl"

    reward: Term | str
    deadline_s: float = DEADLINE_S
    on_abstain: OnAbstain = field(default_factory=OnAbstain)
    max_broken: float = 1.0
    brief: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.reward, str):
            object.__setattr__(self, "reward", _absolute(self.reward))
        term = as_reward(self.reward, self.WHERE)
        refuse_reads(term, self.WHERE, self.LACKS)
        self._check_options()
        object.__setattr__(self, "_term", term)
        outcome = () if term.outcome_term() is None else ("acc",)
        flat = (key for key in flat_keys(term) if not (self.brief and _is_detail(key)))
        object.__setattr__(self, "_keys", ("score", *outcome, *flat))

    def _check_options(self) -> None:
        def expects(name: str, what: str) -> NoReturn:
            raise ConfigError(f"{self.WHERE}: {name} expects {what}, got {getattr(self, name)!r:.80}")

        deadline_s, share = finite(self.deadline_s), finite(self.max_broken)
        if deadline_s is None or deadline_s <= 0:
            expects("deadline_s", "finite seconds above 0")
        if not isinstance(self.on_abstain, OnAbstain):
            expects("on_abstain", "an OnAbstain, such as OnAbstain('fill', -1.0)")
        if abs(self.on_abstain.value) > LARGEST:
            expects("on_abstain", f"a value within {LARGEST:g}, as verl squares rewards in float32")
        if share is None or not 0.0 <= share <= 1.0:
            expects("max_broken", "a share in 0..1")
        if not isinstance(self.brief, bool):
            expects("brief", "true or false")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, f.name) for f in fields(self))

    @classmethod
    def of(cls, options: Mapping[str, Any], fix: str) -> Self:
        """From plain values, as a Hydra configuration holds them: `on_abstain` is the policy's name, `fill` its value.

        Raises ConfigError for an unknown or absent option; `fix` says how one is set.
        """
        known = {f.name for f in fields(cls)} | {"fill"}
        if unknown := sorted(options.keys() - known):
            raise ConfigError(f"{cls.WHERE}: unknown option {unknown[0]!r}; expected one of {', '.join(sorted(known))}")
        if not options.get("reward"):
            raise ConfigError(f"{cls.WHERE}: no reward was named: set {fix}")
        given = dict(options)
        given["on_abstain"] = OnAbstain(given.get("on_abstain", "drop"), given.pop("fill", 0.0))
        return cls(**given)

    @property
    def term(self) -> Term:
        """The reward itself."""
        term: Term = self._term  # type: ignore[attr-defined]
        return term

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of every row."""
        keys: tuple[str, ...] = self._keys  # type: ignore[attr-defined]
        return keys

    def row(self, make: Callable[[], Rollout]) -> dict[str, float]:
        """Score the rollout that `make` gives."""
        try:
            rollout = make()
        except Exception as error:
            return self._lost(error)
        return self._flat(score_safely(self.term, [rollout], self.deadline_s, max_broken=self.max_broken, check=False))

    async def arow(self, make: Callable[[], Rollout]) -> dict[str, float]:
        """`row` for a running event loop."""
        try:
            rollout = make()
        except Exception as error:
            return self._lost(error)
        return self._flat(await ascore_safely(self.term, [rollout], self.deadline_s, max_broken=self.max_broken, check=False))

    def _lost(self, error: Exception) -> dict[str, float]:
        log.error("reward %r: a row of verl cannot be read: %s: %s", self.term.name, type(error).__name__, error)
        return self._flat(lost_scores(self.term, [Rollout("")], error))

    def _flat(self, scores: Scores) -> dict[str, float]:
        flat, total = flat_row(scores, 0), scores.totals()[0]
        if max(abs(value) for value in (total or 0.0, *flat.values())) > LARGEST:
            log.error("reward %r: verl cannot take a reward beyond %g", self.term.name, LARGEST)
            flat = {key: value if abs(value) <= LARGEST else 0.0 for key, value in flat.items()}
            flat |= {f"{PREFIX}abstained": 1.0, f"{PREFIX}rows/error": 1.0}
            total = None
        if total is None:
            filled = self.on_abstain.apply([None])[0]
            total = ABSTAINED if filled is None else filled
        outcome = scores.outcomes[0].score
        flat |= {"score": total, "acc": 0.0 if outcome is None else outcome}
        return {key: flat[key] for key in self.keys}


@dataclass(frozen=True)
class ComputeScore(RowReward):
    """See `compute_score_from`. Called, it scores a row; `acompute` is the same for a running event loop."""

    WHERE: ClassVar[str] = "verl's compute_score"
    LACKS: ClassVar[Mapping[str, str]] = {**NEVER, **dict.fromkeys(("num_tokens", "token_ids", "truncated"), MANAGER)}

    def __call__(
        self, data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = _OMITTED, **columns: Any
    ) -> dict[str, float] | float:
        """The row's dict; without `extra_info`, as from `verl.trainer.main_eval`, which takes means: its `acc` (or `score`) alone."""
        alone = extra_info is _OMITTED
        row = self.row(lambda: _rollout(data_source, solution_str, ground_truth, None if alone else extra_info, columns))
        if not alone:
            return row
        if row[f"{PREFIX}no_outcome"] and "acc" in row:
            log.warning("reward %r: a row without an outcome counts as 0 in main_eval", self.term.name)
        return row.get("acc", row["score"])

    async def acompute(
        self, data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **columns: Any
    ) -> dict[str, float]:
        """The row's dict. verl tells async functions by `inspect.iscoroutinefunction`, which takes bound methods."""
        return await self.arow(lambda: _rollout(data_source, solution_str, ground_truth, extra_info, columns))


def _rollout(data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any, columns: Mapping[str, Any]) -> Rollout:
    return rollout_of(data_source, solution_str, ground_truth, {**columns, **plain(extra_info or {})})


def _absolute(reward: str) -> str:
    """An import string that also holds in a process that runs elsewhere."""
    where, _, path = reward.rpartition(":")
    return f"{Path(where).expanduser().resolve()}:{path}" if where.endswith(".py") else reward


def _is_detail(key: str) -> bool:
    return key.startswith(f"{PREFIX}rows/") or key.endswith("/scored")


def compute_score_from(
    reward: Term | str,
    *,
    deadline_s: float = DEADLINE_S,
    on_abstain: OnAbstain | None = None,
    max_broken: float = 1.0,
    brief: bool = False,
) -> ComputeScore:
    """A `compute_score` for a reward file of verl (`reward.custom_reward_function.path`), from a reward or an import string.

    The function returns, for every row, a dict with the same keys: `score` (the total), `acc` (the outcome in 0..1; absent from all
    rows if nothing in the reward gives one), `guerdon/abstained`, `guerdon/no_outcome`, `guerdon/rows/<status>`, and for each component
    `guerdon/<name>` (its raw value, 0 where it has none) and `guerdon/<name>/scored`. All are finite. `brief` leaves out the statuses
    and `/scored`: verl's validation bootstraps every key when it samples more than once.

    It never raises for a row: what goes wrong, or is not done `deadline_s` seconds after the call, is ERROR, counted and logged. A row
    without a total gets `ABSTAINED` (`OnAbstain("drop")`, the default), the fill value, or raises AbstentionError. `max_broken` below 1
    raises BrokenRewardError when more of the last 1,024 rows of this process were broken. `extra_info` is not changed.

    Raises ConfigError, when built, for a reward that reads what verl does not give (token counts, siblings), with the fix.

    >>> import guerdon.rewards as R
    >>> row = compute_score_from(R.math_equal() + 0.2 * R.boxed_format())("gsm8k", "\\\\boxed{4}", "4", {})
    >>> row["score"], row["acc"], row["guerdon/boxed_format"], row["guerdon/abstained"]
    (1.2, 1.0, 1.0, 0.0)
    """
    return ComputeScore(reward, deadline_s, OnAbstain() if on_abstain is None else on_abstain, max_broken, brief)


def acompute_score_from(reward: Term | str, **options: Any) -> Callable[..., Coroutine[Any, Any, dict[str, float]]]:
    """`compute_score_from` as an async function: async terms (judges, remote sandboxes) wait on verl's own event loop.

    Not for `reward_manager.name=remote` or `main_eval`, which take sync functions alone.
    """
    return compute_score_from(reward, **options).acompute


_OPTIONS = frozenset({"reward", "deadline_s", "on_abstain", "fill", "max_broken", "brief"})


def compute_score(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = _OMITTED, **kwargs: Any
) -> dict[str, float] | float:
    """`compute_score_from` without a file: `reward.custom_reward_function.path=pkg://guerdon.backends.verl`.

    The reward and the options stand in `+reward.custom_reward_function.reward_kwargs`: `reward` (an import string), `deadline_s`,
    `on_abstain` (`drop`, `fill` or `raise`), `fill`, `max_broken`, `brief`. Other keywords are columns. They are checked by the first
    call; a reward file or the manager says what is wrong before the first rollout.
    """
    score, columns = _split(kwargs)
    return score(data_source, solution_str, ground_truth, extra_info, **columns)


async def acompute_score(data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any) -> dict[str, float]:
    """`compute_score` as an async function (`reward.custom_reward_function.name=acompute_score`)."""
    score, columns = _split(kwargs)
    return await score.acompute(data_source, solution_str, ground_truth, extra_info, **columns)


def _split(kwargs: Mapping[str, Any]) -> tuple[ComputeScore, dict[str, Any]]:
    options = tuple((key, value) for key, value in kwargs.items() if key in _OPTIONS)
    try:
        hash(options)
    except TypeError:
        raise ConfigError(f"verl's compute_score: reward_kwargs expects plain values, got {dict(options)!r:.200}") from None
    with _building:
        score = _built(options)
    columns = {key: value for key, value in kwargs.items() if key not in _OPTIONS}
    _warn_of_misspelt(frozenset(columns))
    return score, columns


@lru_cache(maxsize=64)
def _warn_of_misspelt(names: frozenset[str]) -> None:
    """Once for each set of names: columns may be called anything, and verl passes some of its own."""
    for name in sorted(names):
        if near := difflib.get_close_matches(name, _OPTIONS, 1, 0.8):
            log.warning("verl's compute_score: %r is a column; the option is called %r", name, near[0])


_building = threading.RLock()
"""The first rows come in several threads at once, and a file must not be looked into while another thread still runs it."""


@lru_cache(maxsize=64)
def _built(options: tuple[tuple[str, Any], ...]) -> ComputeScore:
    return ComputeScore.of(dict(options), "+reward.custom_reward_function.reward_kwargs.reward=file.py:reward")
