"""The few choices of the math verifier."""

from __future__ import annotations

from dataclasses import dataclass

from guerdon.errors import ConfigError

__all__ = ["DEFAULT_RULES", "MathRules"]


@dataclass(frozen=True)
class MathRules:
    """What counts as the answer and as equal. Hashable; part of a verifier's fingerprint.

    `reasoning_end` is the tag that ends the reasoning: nothing before its last occurrence is read ("" reads everything). `search`
    goes on, where a completion states no answer, to its last formula and then its last number: for benchmarks, not for rewards,
    since a policy could then earn by listing numbers.
    `rounding` lets a decimal stand for an exact value: a reference written with at least 3 significant digits accepts an exact
    answer that rounds to it, and a reference without a finite decimal (1/3, sqrt 2) accepts a decimal of at least 4 significant
    digits that is rounded from it. Two decimals are always compared exactly.
    `allow_unevaluated` accepts sums, integrals, limits and the like where the reference has none; by default they are wrong,
    because a policy could earn the reward by restating the problem.
    `fallback` asks math-verify, in killable workers, what the engine cannot decide: a fraction of a percent of pairs. Without it
    nothing leaves this process, and such an answer is UNPARSEABLE.
    """

    reasoning_end: str = "</think>"
    search: bool = False
    rounding: bool = True
    allow_unevaluated: bool = False
    fallback: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.reasoning_end, str):
            got = type(self.reasoning_end).__name__
            raise ConfigError(f"MathRules: reasoning_end must be the text of a tag, got {got}; use '' for no reasoning")
        for name in ("search", "rounding", "allow_unevaluated", "fallback"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"MathRules: {name} must be True or False, got {getattr(self, name)!r}")

    @classmethod
    def lenient(cls) -> MathRules:
        """The rules for benchmarks of models that were never told how to state an answer: `search` is on.

        >>> MathRules.lenient() == MathRules(search=True)
        True
        """
        return cls(search=True)


DEFAULT_RULES = MathRules()
