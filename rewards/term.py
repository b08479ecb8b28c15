"""The base of everything that composes: operators, scoring, explaining.

A `Term` is a frozen value. A `Leaf` computes verdicts from rollouts; a `Combinator` computes them from the verdicts of
its parts and from nothing else, so that every leaf runs once per batch whatever the tree looks like. Two operators
exist, `weight * term` and `term + term`; everything else is a named function.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from guerdon.errors import ConfigError
from guerdon.types import Rollout, Verdict

if TYPE_CHECKING:
    from guerdon.rewards.scores import Scores
    from guerdon.rewards.sums import WeightedSum

__all__ = ["Combinator", "Leaf", "Term", "finite", "require_name", "require_term"]


class Term:
    """One named part of a reward, or a whole reward. Subclasses are frozen dataclasses with a `name` field.

    `VERSION` counts changes of verdicts, `PACKAGES` names the installed packages that decide them: both enter the
    fingerprint. `reads` names the inputs needed: data columns (`a|b`: either of two), or `num_tokens`, `token_ids`, `messages`,
    `truncated`, `group` (the term sees the siblings of a rollout).
    """

    VERSION: ClassVar[int] = 1
    PACKAGES: ClassVar[tuple[str, ...]] = ()
    __array_ufunc__ = None  # numpy scalars leave `np.float64(0.5) * term` to us

    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...

    @property
    def parts(self) -> tuple[Term, ...]:
        """The terms directly below this one."""
        return ()

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(part.reads for part in self.parts))

    @property
    def fingerprint(self) -> str | None:
        """Hash of everything that decides the verdicts; None when results must not be cached."""
        from guerdon.rewards.fingerprint import fingerprint

        return fingerprint(self)

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """One verdict per rollout, in order."""
        raise TypeError(f"{type(self).__name__} must define verdicts()")

    def outcome_term(self) -> Term | None:
        """The term whose score is this reward's outcome, or None when nothing below is backed by a verifier."""
        return None

    # -- scoring

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        """The total of each rollout, in order; None where the row abstains."""
        return self.score(rollouts).totals()

    def score(
        self, rollouts: Sequence[Rollout], deadline_s: float | None = None, *, warn_broken: float = 0.2, max_broken: float = 0.5
    ) -> Scores:
        """Score a batch: every component's verdict, weight and value, the totals and the outcomes.

        `deadline_s` bounds the call in seconds: rows not done by then become ERROR `deadline`. Never raises for what a
        completion holds. Raises MissingInput when rollouts lack what a term reads, BrokenRewardError when more than
        `max_broken` of the last 1,024 rows (or of those seen, from 128 on) were ERROR or BAD_REFERENCE; warns above `warn_broken`.
        """
        from guerdon.rewards.evaluate import evaluate
        from guerdon.rewards.health import watch

        return watch(self, evaluate(self, rollouts, deadline_s), warn_broken, max_broken)

    async def ascore(
        self, rollouts: Sequence[Rollout], deadline_s: float | None = None, *, warn_broken: float = 0.2, max_broken: float = 0.5
    ) -> Scores:
        """`score` for a running event loop: async terms run on it, concurrently; everything else off it."""
        from guerdon.rewards.evaluate import aevaluate
        from guerdon.rewards.health import watch

        return watch(self, await aevaluate(self, rollouts, deadline_s), warn_broken, max_broken)

    def explain(self, rollout: Rollout, siblings: Sequence[Rollout] = ()) -> None:
        """Print the tree of terms with scores, statuses and reasons. `siblings`: the rest of the group, where a term reads it."""
        print(self.explanation(rollout, siblings))

    def explanation(self, rollout: Rollout, siblings: Sequence[Rollout] = ()) -> str:
        """What `explain` prints."""
        from guerdon.rewards.explain import explanation

        return explanation(self, rollout, siblings)

    def check_inputs(self, rollouts: Sequence[Rollout]) -> None:
        """Raise MissingInput, with the fix, when these rollouts lack what some term reads."""
        from guerdon.rewards.evaluate import Batch

        Batch([self], rollouts).check_inputs()

    # -- algebra

    def __rmul__(self, weight: float) -> WeightedSum:
        from guerdon.rewards.sums import weighted

        return weighted(weight, self)

    def __mul__(self, weight: float) -> WeightedSum:
        return self.__rmul__(weight)

    def __add__(self, other: Term) -> WeightedSum:
        from guerdon.rewards.sums import add

        return add(self, other)

    def __radd__(self, other: Any) -> Any:
        if type(other) is int and other == 0:  # the start value of sum()
            return self
        raise TypeError(f"cannot add {other!r} to a reward: expected a reward, e.g. 0.2 * think_format()")

    def with_outcome(self, name: str) -> WeightedSum:
        """The same reward whose outcome is the score of the term called `name` (it must stay within 0..1)."""
        from guerdon.rewards.sums import with_outcome

        return with_outcome(self, name)


class Leaf(Term):
    """A term that computes its verdicts itself. `is_async` says that `averdicts` does it."""

    @property
    def is_async(self) -> bool:
        return False

    @property
    def is_brief(self) -> bool:
        """Whether a few rows are done in milliseconds, or by the deadline in force, whatever they hold: they need no thread."""
        return False

    async def averdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        raise TypeError(f"{type(self).__name__} is not async")

    def fill(self, rollouts: Sequence[Rollout], out: list[Verdict | None]) -> None:
        """Put the verdicts into `out` (one slot a rollout); rows put there count even if the deadline cuts the call."""
        out[:] = self.verdicts(rollouts)

    async def afill(self, rollouts: Sequence[Rollout], out: list[Verdict | None]) -> None:
        out[:] = await self.averdicts(rollouts)


class Combinator(Term):
    """A term whose verdicts follow from its parts' verdicts, and from `own_reads` of the rollouts."""

    @property
    def own_reads(self) -> frozenset[str]:
        """What the combinator itself reads of the rollouts."""
        return frozenset()

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | self.own_reads

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        """The verdicts, from `values[part][row]`."""
        raise TypeError(f"{type(self).__name__} must define combine()")

    def routes(self, rollouts: Sequence[Rollout], rows: Sequence[int]) -> list[Sequence[int]]:
        """For each part, the rows (of `rows`) where its verdict is needed."""
        return [rows] * len(self.parts)

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        from guerdon.rewards.evaluate import Batch

        batch = Batch([self], rollouts)
        batch.run(None)
        return list(batch.value(self))


def finite(value: Any) -> float | None:
    """The value as a float if it is a finite real number, numpy's included; None for anything else, booleans and 10**400 too."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def require_term(value: Any, where: str) -> Term:
    """`value` if it is a Term, else ConfigError with the fix."""
    if isinstance(value, Term):
        return value
    hint = "lift it with R.from_function(...)" if callable(value) or hasattr(value, "verdicts") else "R.verified(...) lifts a verifier"
    raise ConfigError(f"{where}: expected a reward, got {type(value).__name__}; {hint}")


def require_name(name: Any, where: str) -> None:
    """ConfigError unless `name` can key a metric."""
    if not isinstance(name, str) or not name or any(c.isspace() for c in name):
        raise ConfigError(f"{where}: name must be non-empty text without blanks, got {name!r}")
