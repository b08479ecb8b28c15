"""Rewards from functions of yours: sync or async, per rollout or per batch, in this process or in a killable worker.

A function's None means "does not concern this row" (NOT_APPLICABLE, as in TRL); `raise guerdon.Abstain(why)` abstains
(UNSCORED); any other exception is ERROR on that row. No exception ever becomes a 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from guerdon.errors import ConfigError
from guerdon.loading import load
from guerdon.rewards.grading import as_verdict, as_verdicts, caught
from guerdon.rewards.inputs import inputs_of
from guerdon.rewards.term import Leaf, Term, require_name
from guerdon.sandboxes.deadline import remaining
from guerdon.types import Rollout, Verdict

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
        from guerdon.rewards.fingerprint import describe

        f = live(self.function)
        source = f"{getattr(f, '__module__', '')}.{getattr(f, '__qualname__', '')}@{self.version}" if self.version else describe(f)
        if source is None:
            return None
        return _hash((type(self).__name__, self.name, self.batch, self.outcome, sorted(self.inputs), self.isolate, source))

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
            try:
                values: Any = f(rollouts)
            except BaseException as error:
                values = caught(error)
            out[:] = self._batch(values, len(out))
        else:
            for i, rollout in enumerate(rollouts):
                left = remaining()
                if left is not None and left <= 0:
                    return
                try:
                    value = f(rollout)
                except BaseException as error:
                    value = caught(error)
                out[i] = self._graded(value)

    async def afill(self, rollouts: Sequence[Rollout], out: list[Verdict | None]) -> None:
        import asyncio

        f = live(self.function)
        if self.batch:
            try:
                values: Any = await f(rollouts)
            except BaseException as error:
                values = caught(error)
            out[:] = self._batch(values, len(out))
            return
        limit = asyncio.Semaphore(ASYNC_ROWS)

        async def one(i: int, rollout: Rollout) -> None:
            async with limit:
                try:
                    value = await f(rollout)
                except BaseException as error:
                    value = caught(error)
            out[i] = self._graded(value)

        await asyncio.gather(*(one(i, r) for i, r in enumerate(rollouts)))

    def _batch(self, values: Any, n: int) -> list[Verdict]:
        return as_verdicts(values, n, self.name, self.outcome)

    def _graded(self, value: Any) -> Verdict:
        return as_verdict(value, self.name, self.outcome)


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
        return inputs_of(getattr(self.reward, "reads", ()))

    @property
    def fingerprint(self) -> str | None:
        own = getattr(self.reward, "fingerprint", None)
        return None if own is None else _hash((type(self.reward).__module__, type(self.reward).__qualname__, self.name, self.outcome, own))

    @property
    def is_async(self) -> bool:
        return bool(getattr(self.reward, "is_async", hasattr(self.reward, "averdicts")))

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


def _hash(parts: tuple[Any, ...]) -> str:
    import hashlib

    return hashlib.blake2s(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _check_isolated(reward: FunctionReward) -> None:
    if reward.isolate is not None and not reward.isolate > 0:
        raise ConfigError(f"from_function: isolate= is a wall limit in seconds, above 0; got {reward.isolate!r}")
    f = live(reward.function)
    module, name = getattr(f, "__module__", None), getattr(f, "__qualname__", "")
    if _is_async(f) or (not isinstance(reward.function, str) and (module in (None, "__main__") or "<" in name)):
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
    if isinstance(f, type) and hasattr(f, "verdicts"):
        raise ConfigError(f"from_function: expected an object, got the class {f.__name__}; build one: {f.__name__}(...)")
    if hasattr(f, "verdicts"):
        return Lifted(f, name or getattr(f, "name", "") or type(f).__name__, outcome)
    function = live(f)
    if not callable(function):
        raise ConfigError(f"from_function: expected a function, got {type(function).__name__}")
    _check_call(function, batch)
    limit = None if isolate is False else ISOLATED_TIMEOUT_S if isolate is True else float(isolate)
    return FunctionReward(f, name or name_of(function), batch, outcome, inputs_of(reads), version, limit)


def _check_call(function: Any, batch: bool) -> None:
    """ConfigError for what cannot be called with one rollout (or one list): a class, a factory, a function of TRL's kind."""
    what = getattr(function, "__name__", type(function).__name__)
    if isinstance(function, type):
        raise ConfigError(f"from_function: expected a function, got the class {what}; pass an instance: {what}(...)")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-ins have none
        return
    if {"completions", "prompts"} & signature.parameters.keys():
        raise ConfigError(f"from_function: {what}{signature} is a TRL reward function: use R.from_trl({what})")
    try:
        signature.bind(None)
    except TypeError:
        takes = "the list of rollouts" if batch else "one rollout"
        raise ConfigError(f"from_function: {what}{signature} cannot be called with {takes}, its one argument") from None


def name_of(f: Any) -> str:
    while hasattr(f, "func") and hasattr(f, "keywords"):  # functools.partial
        f = f.func
    found = getattr(f, "__name__", type(f).__name__)
    if found == "<lambda>":
        raise ConfigError("from_function: a lambda has no name: pass name=")
    return str(found)
