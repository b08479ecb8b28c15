"""The few choices of the math verifier."""

from __future__ import annotations

from dataclasses import dataclass

from guerdon.errors import ConfigError

__all__ = ["DEFAULT_RULES", "MathRules"]


@dataclass(frozen=True)
class MathRules:
    """What counts as the answer and as equal. Hashable; part of a verifier's fingerprint.

    `reasoning_end` is the tag that ends the reasoning: nothing before its last occurrence is read ("" reads everything).
    `rounding` lets a decimal stand for an exact value: a reference written with at least 3 significant digits accepts an exact
    answer within half a unit of its last digit, and a reference without a finite decimal (1/3, sqrt 2) accepts a decimal of at
    least 4 significant digits that is rounded from it. Two decimals are always compared exactly.
    `allow_unevaluated` accepts sums, integrals, limits and the like where the reference has none; by default they are wrong,
    because a policy could earn the reward by restating the problem.
    """

    reasoning_end: str = "</think>"
    rounding: bool = True
    allow_unevaluated: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.reasoning_end, str):
            got = type(self.reasoning_end).__name__
            raise ConfigError(f"MathRules: reasoning_end must be the text of a tag, got {got}; use '' for no reasoning")
        for name in ("rounding", "allow_unevaluated"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"MathRules: {name} must be True or False, got {getattr(self, name)!r}")


DEFAULT_RULES = MathRules()
