"""Rewards from functions of yours: sync or async, per rollout or per batch, in this process or in a killable worker.

A function's None means "does not concern this row" (NOT_APPLICABLE, as in TRL); `raise guerdon.Abstain(why)` abstains
(UNSCORED); any other exception is ERROR on that row. No exception ever becomes a 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from guerdon.errors import Abstain, ConfigError
from guerdon.loading import load
from guerdon.rewards.term import Leaf, Term, require_name
from guerdon.sandboxes.deadline import remaining
from guerdon.types import Rollout, Status, Verdict

__all__ = ["FunctionReward", "Lifted", "from_function", "live", "name_of"]

ASYNC_ROWS = 64
"""Rows of one per-rollout async function in flight at once."""

ISOLATED_TIMEOUT_S = 10.0
"""Default wall limit of one isolated call, in seconds."""


@dataclass(frozen=True)
class FunctionReward(Leaf):
    """See `from_function`."""

    function: Callable[..., Any] | str
    name: str
    batch: bool = False
    outcome: bool = False
    inputs: frozenset[str] = frozenset()
    version: str | None = None
    isolate: float | None = None

    def __post_init__(self) -> None:
        require_name(self.name, "from_function")
        if self.isolate is not None:
            _check_isolated(self)

    @property
    def reads(self) -> frozenset[str]:
        return self.inputs

    @property
    def is_async(self) -> bool:
        return self.isolate is None and _is_async(live(self.function))

    @property
    def fingerprint(self) -> str | None:
        from guerdon.rewards.fingerprint import source_of

        source = self.version or source_of(live(self.function))
        if source is None:
            return None
        return _hash(f"{self.name}|{self.batch}|{self.outcome}|{sorted(self.inputs)}|{self.isolate}|{source}")

    def outcome_term(self) -> Term | None:
        return self if self.outcome else None

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        if self.is_async:
            from guerdon.rewards.loop import submit

            out: list[Verdict | None] = [None] * len(rollouts)
            submit(self.afill(rollouts, out)).result()
            return [v for v in out if v is not None]
        out = [None] * len(rollouts)
        self.fill(rollouts, out)
        return [v for v in out if v is not None]

    def fill(self, rollouts: Sequence[Rollout], out: list[Verdict | None]) -> None:
        f = live(self.function)
        if self.isolate is not None:
            from guerdon.rewards.isolated import call_isolated

            out[:] = [self._graded(value) for value in call_isolated(self.function, self.isolate, rollouts, self.batch)]
        elif self.batch:
            out[:] = self._batch(len(rollouts), lambda: f(rollouts))
        else:
            for i, rollout in enumerate(rollouts):
                left = remaining()
                if left is not None and left <= 0:
                    return
                try:
                    value = f(rollout)
                except Exception as error:
                    value = error
                out[i] = self._graded(value)

    async def afill(self, rollouts: Sequence[Rollout], out: list[Verdict | None]) -> None:
        import asyncio

        f = live(self.function)
        if self.batch:
            try:
                values = await f(rollouts)
            except Exception as error:
                values = [error] * len(rollouts)
            out[:] = self._batch(len(rollouts), lambda: values)
            return
        limit = asyncio.Semaphore(ASYNC_ROWS)

        async def one(i: int, rollout: Rollout) -> None:
            async with limit:
                try:
                    value = await f(rollout)
                except Exception as error:
                    value = error
            out[i] = self._graded(value)

        await asyncio.gather(*(one(i, r) for i, r in enumerate(rollouts)))

    def _batch(self, n: int, call: Callable[[], Iterable[Any]]) -> list[Verdict | None]:
        try:
            values = list(call())
        except Exception as error:
            values = [error] * n
        if len(values) != n:
            wrong = Verdict.of(Status.ERROR, "wrong_length", f"{self.name} returned {len(values)} scores for {n} rollouts")
            return [wrong] * n
        return [self._graded(value) for value in values]

    def _graded(self, value: Any) -> Verdict:
        return as_verdict(value, self.name, self.outcome)


def as_verdict(value: Any, name: str, outcome: bool) -> Verdict:
    """What a user function returned, or the exception it raised, as a verdict."""
    if isinstance(value, Verdict):
        return value
    if value is None:
        return Verdict.of(Status.NOT_APPLICABLE, "not_concerned")
    if isinstance(value, ConfigError):
        raise value
    if isinstance(value, Abstain):
        return Verdict.of(Status.UNSCORED, "abstained", str(value))
    if isinstance(value, Exception):
        return Verdict.of(Status.ERROR, "exception", f"{name}: {type(value).__name__}: {value}"[:2000])
    try:
        score = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        return Verdict.of(Status.ERROR, "wrong_type", f"{name}: expected a number, None or a Verdict, got {value!r:.80} ({error})"[:2000])
    return Verdict.graded(score) if outcome else Verdict(score, Status.SCORED)


@dataclass(frozen=True)
class Lifted(Leaf):
    """An object with `name`, `reads`, `fingerprint` and `verdicts` (the Reward protocol), with operators."""

    reward: Any
    name: str
    outcome: bool = False

    def __post_init__(self) -> None:
        require_name(self.name, "from_function")

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(getattr(self.reward, "reads", ()))

    @property
    def fingerprint(self) -> str | None:
        own = getattr(self.reward, "fingerprint", None)
        return None if own is None else _hash(f"{self.name}|{self.outcome}|{own}")

    @property
    def is_async(self) -> bool:
        return hasattr(self.reward, "averdicts")

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return list(self.reward.verdicts(rollouts))

    async def averdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return list(await self.reward.averdicts(rollouts))

    def outcome_term(self) -> Term | None:
        return self if self.outcome else None


def live(function: Callable[..., Any] | str) -> Callable[..., Any]:
    found: Callable[..., Any] = load(function) if isinstance(function, str) else function
    return found


def _is_async(f: Any) -> bool:
    while hasattr(f, "func") and hasattr(f, "keywords"):  # functools.partial
        f = f.func
    return inspect.iscoroutinefunction(f) or inspect.iscoroutinefunction(getattr(f, "__call__", None))  # noqa: B004


def _hash(text: str) -> str:
    import hashlib

    return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _check_isolated(reward: FunctionReward) -> None:
    if reward.isolate is not None and not reward.isolate > 0:
        raise ConfigError(f"from_function: isolate= is a wall limit in seconds, above 0; got {reward.isolate!r}")
    f = reward.function
    if isinstance(f, str):
        return
    module, name = getattr(f, "__module__", None), getattr(f, "__qualname__", "")
    if module in (None, "__main__") or "<" in name or _is_async(f):
        raise ConfigError(
            f"from_function: isolate= needs a sync function that another process can import, got {name or f!r} of {module}; "
            "put it in a file and pass 'file.py:function'"
        )


def from_function(
    f: Callable[..., Any] | str,
    *,
    name: str | None = None,
    batch: bool = False,
    outcome: bool = False,
    reads: Iterable[str] = (),
    version: str | None = None,
    isolate: bool | float = False,
) -> FunctionReward | Lifted:
    """A reward from a function of one `Rollout` (or, with `batch=True`, of the list), sync or async.

    It returns a number, None (does not concern this row), or a `Verdict`. `outcome=True` makes it the outcome: scores
    must lie in 0..1 and become CORRECT, PARTIAL or INCORRECT. `reads` names the inputs it needs (columns, `num_tokens`,
    `group`, ...), checked before it runs. `version` stands for the source in the fingerprint. `isolate=True` (or a wall
    limit in seconds, default 10) runs each call in a killable worker process: an overrun is ERROR `checker_timeout`.
    `f` may be an import string; isolated functions must be importable. An object with `verdicts` is lifted as it is.

    >>> short = from_function(lambda rollout: len(rollout.completion) < 5, name="short")
    >>> short([Rollout("four"), Rollout("longer")])
    [1.0, 0.0]
    """
    if hasattr(f, "verdicts"):
        return Lifted(f, name or getattr(f, "name", "") or type(f).__name__, outcome)
    function = live(f)
    if not callable(function):
        raise ConfigError(f"from_function: expected a function, got {type(function).__name__}")
    limit = None if isolate is False else ISOLATED_TIMEOUT_S if isolate is True else float(isolate)
    return FunctionReward(f, name or name_of(function), batch, outcome, frozenset(reads), version, limit)


def name_of(f: Any) -> str:
    while hasattr(f, "func") and hasattr(f, "keywords"):  # functools.partial
        f = f.func
    found = getattr(f, "__name__", type(f).__name__)
    if found == "<lambda>":
        raise ConfigError("from_function: a lambda has no name: pass name=")
    return str(found)
