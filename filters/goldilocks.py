"""Goldilocks: keep the prompts that the model solves sometimes.

The rule is on the observed rate, with inclusive bounds. With few rollouts the lattice matters: 0.2:0.8 of 8 means 2 to 6,
and a prompt whose true rate is 0.3 is kept only 74 % of the time; 10 or 20 rollouts (divisible by 5) do not lose that.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from guerdon.errors import ConfigError
from guerdon.filters.decision import Decision
from guerdon.filters.pass_rate import PassRate

__all__ = ["Goldilocks"]


@dataclass(frozen=True, slots=True)
class Goldilocks:
    """Keep a prompt iff `low <= passed/total <= high`, exactly: 0.2 keeps 1 of 5, 1/3 keeps 1 of 3.

    Fewer than `min_total` scorable rollouts is UNSCORABLE whatever the rate: never too hard. The default is the smallest
    group in common use.

    >>> rule = Goldilocks(0.2, 0.8)
    >>> [str(rule.decide(PassRate(passed, 5))) for passed in (0, 1, 4, 5)], str(rule.decide(PassRate(0, 2, unscorable=3)))
    (['too_hard', 'keep', 'keep', 'too_easy'], 'unscorable')
    """

    low: float | Fraction = 0.2
    high: float | Fraction = 0.8
    min_total: int = 4

    def __post_init__(self) -> None:
        bounds = (self.low, self.high)
        if not all(isinstance(bound, int | float | Fraction) for bound in bounds) or not 0 <= self.low <= self.high <= 1:  # or NaN
            raise ConfigError(f"Goldilocks: expected numbers 0 <= low <= high <= 1, got low={self.low!r}, high={self.high!r}")
        if isinstance(self.min_total, bool) or not isinstance(self.min_total, int) or self.min_total < 1:
            raise ConfigError(f"Goldilocks: min_total expects a count of at least 1, got {self.min_total!r}")

    def decide(self, pass_rate: PassRate) -> Decision:
        """What becomes of a prompt with this pass rate."""
        if pass_rate.total < self.min_total:
            return Decision.UNSCORABLE
        rate = Fraction(pass_rate.passed, pass_rate.total)
        if rate < _meant(self.low):
            return Decision.TOO_HARD
        return Decision.TOO_EASY if rate > _meant(self.high) else Decision.KEEP


def _meant(bound: float | Fraction) -> Fraction:
    """The fraction a bound was written for: the simplest that rounds to the float, so that 0.2 is 1/5 and not 0.2000000000000000111."""
    exact = Fraction(bound)
    simple = exact.limit_denominator(1_000_000)
    return simple if float(simple) == float(bound) else exact
