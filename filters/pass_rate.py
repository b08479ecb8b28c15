"""The pass rate of a prompt: how many of its scorable rollouts passed. Counts only; posteriors are not computed here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral

from guerdon.errors import ConfigError

__all__ = ["PassRate", "check_pass_at"]


@dataclass(frozen=True, slots=True)
class PassRate:
    """`passed` of `total` scorable rollouts; `unscorable` more had no outcome and count for nothing.

    >>> PassRate(3, 8).rate
    0.375
    """

    passed: int
    total: int
    unscorable: int = 0

    def __post_init__(self) -> None:
        for name in ("passed", "total", "unscorable"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
                raise ConfigError(f"PassRate: {name} expects a count of at least 0, got {value!r}")
            object.__setattr__(self, name, int(value))  # numpy's integers, which sums of arrays are, are no JSON
        if self.passed > self.total:
            raise ConfigError(f"PassRate: passed counts some of total, got {self.passed} of {self.total}")

    @property
    def rate(self) -> float | None:
        """`passed / total`; None when nothing could be scored."""
        return self.passed / self.total if self.total else None

    @classmethod
    def of(cls, outcomes: Iterable[float | None], pass_at: float = 1.0) -> PassRate:
        """From the outcomes of a prompt's rollouts, e.g. `scores.outcome_N[rows]`: one passes iff it is at least `pass_at`.

        None and NaN mean that the rollout has no outcome: it is unscorable, which is not a failure.

        >>> PassRate.of([1.0, 0.0, 0.5, None])
        PassRate(passed=1, total=3, unscorable=1)
        """
        check_pass_at(pass_at)
        passed = total = unscorable = 0
        for outcome in outcomes:
            if outcome is None or outcome != outcome:  # NaN
                unscorable += 1
            else:
                total += 1
                passed += bool(outcome >= pass_at)
        return cls(passed, total, unscorable)


def check_pass_at(pass_at: float) -> None:
    """ConfigError unless `pass_at` is an outcome that a rollout can miss and reach."""
    if not isinstance(pass_at, int | float) or not 0.0 < pass_at <= 1.0:
        raise ConfigError(f"pass_at: expected an outcome above 0 and up to 1, got {pass_at!r}")
