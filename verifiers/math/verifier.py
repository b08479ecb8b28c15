"""From completions to verdicts: compile the reference, extract, compare, and ask the worker pool the rest in one call.

This module knows statuses and limits and no mathematics. Nothing a completion holds raises or hangs: what runs in this process
is bounded by the engine's caps, and math-verify runs in workers that are killed when they overrun.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from guerdon.errors import ConfigError
from guerdon.types import Rollout, Status, Verdict
from guerdon.verifiers.base import alternatives, best_of, judge_rows
from guerdon.verifiers.math.answers import compile_answer, compiled_text
from guerdon.verifiers.math.engine import compare
from guerdon.verifiers.math.extraction import Extraction, extract, given
from guerdon.verifiers.math.rules import DEFAULT_RULES, MathRules

if TYPE_CHECKING:
    from guerdon.verifiers.math.asking import Open

__all__ = ["MathVerifier", "equivalent", "verify"]

TIMEOUT_S = 2.0


def _plan(extraction: Extraction, answer: Any, rules: MathRules) -> Verdict | Open:
    """The verdict, where the engine is certain."""
    compiled = compiled_text(answer) if type(answer) is str else compile_answer(answer)
    form, text = compiled.form, extraction.text
    if form is None:
        return Verdict.of(Status.BAD_REFERENCE, compiled.reason, compiled.detail, extracted=text)
    if text is None:
        return Verdict.of(Status.NO_ANSWER, extraction.reason, info={"rule": extraction.rule})
    decision = compare(text, form, rules)
    status = decision.status
    info = {"rule": extraction.rule, "stage": decision.stage, "convention": decision.rule}
    if status is Status.CORRECT:
        return Verdict(1.0, status, extracted=text, info=info)
    if status is not None:
        detail = decision.detail or compiled.difference(text)
        if decision.reason == "no_answer":
            status = Status.NO_ANSWER
        return Verdict(0.0, status, decision.reason, detail, text, info)
    if decision.rule == "fault":
        return Verdict.of(Status.ERROR, "exception", decision.detail, extracted=text, info=info)
    from guerdon.verifiers.math.asking import left_open

    return left_open(extraction, compiled, decision, rules)


@dataclass(frozen=True)
class MathVerifier:
    """Mathematical equality of the answer a completion states and the reference in `column`.

    Answers are compared in this process by a bounded engine of guerdon's own; the docs page on what counts as the same answer lists
    its conventions. What it leaves undecided goes to math-verify in killable workers (`MathRules(fallback=False)` keeps it here), at
    most `timeout_s` wall seconds per verdict (queueing apart) and half of that in CPU time. A candidate that uses up its CPU time is
    TIMEOUT; a reference that does, or that cannot be read, is BAD_REFERENCE; whatever the host does wrong is ERROR.

    `info` says which extraction rule fired (`rule`), which stage decided (`stage`: number, text, choice, tree, math_verify, or none)
    and by which convention or between which kinds of things (`convention`).

    Does not read prose, and picks up no number that is not stated as the answer. `reads` is the column.

    >>> MathVerifier().judge([Rollout("#### 1,234", answer="1234")])[0].info
    {'rule': 'hash', 'stage': 'number', 'convention': 'equal numbers'}
    """

    VERSION: ClassVar[int] = 2
    PACKAGES: ClassVar[tuple[str, ...]] = ("mpmath", "math-verify", "sympy", "latex2sympy2_extended")

    column: str = "answer"
    rules: MathRules = DEFAULT_RULES
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ConfigError(f"MathVerifier: column must name a data column, got {self.column!r}")
        if not isinstance(self.rules, MathRules):
            raise ConfigError(f"MathVerifier: rules must be MathRules(...), got {type(self.rules).__name__}")
        if isinstance(self.timeout_s, bool) or not isinstance(self.timeout_s, int | float) or not 0.01 <= self.timeout_s < math.inf:
            raise ConfigError(f"MathVerifier: timeout_s must be at least 0.01 seconds and finite, got {self.timeout_s!r}")

    @property
    def reads(self) -> frozenset[str]:
        """The column of the reference."""
        return frozenset({self.column})

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """One verdict per rollout, in order. `{"any_of": [...]}` references take the best of their alternatives."""
        plans: list[Verdict | Open] = []

        def plan(rollout: Rollout, answer: Any) -> Verdict:
            plans.append(found := _plan(extract(rollout.completion, self.rules), answer, self.rules))
            return found if isinstance(found, Verdict) else _PENDING

        planned = judge_rows(rollouts, self.column, plan)
        if all(isinstance(found, Verdict) for found in plans):
            return planned
        from guerdon.verifiers.math.asking import resolved

        verdicts = iter(resolved(plans, self.timeout_s))  # the second pass asks for the same verdicts in the same order
        return judge_rows(rollouts, self.column, lambda _rollout, _answer: next(verdicts))


_PENDING = Verdict.of(Status.INCORRECT)


def verify(completion: str, answer: Any, rules: MathRules = DEFAULT_RULES) -> Verdict:
    """Judge one completion: extract its answer and compare it with the reference. Batches go to `MathVerifier.judge`.

    >>> verify("So $x = \\\\boxed{0.5}$.", "\\\\frac{1}{2}").status
    <Status.CORRECT: 'correct'>
    """
    return _judge(extract(completion, rules), answer, rules)


def equivalent(candidate: str, answer: Any, rules: MathRules = DEFAULT_RULES) -> Verdict:
    """Compare a bare candidate with the reference: nothing is extracted, but for the box of a candidate that holds one.

    >>> equivalent("1,000 km", "1000").score, equivalent("7=5", "5").reason
    (1.0, 'mismatch')
    """
    return _judge(given(candidate), answer, rules)


def _judge(extraction: Extraction, answer: Any, rules: MathRules) -> Verdict:
    references = (answer,) if isinstance(answer, str) else alternatives(answer)
    if answer is None or not references:
        return Verdict.of(Status.BAD_REFERENCE, "missing_reference", "there is no answer")
    plans = [_plan(extraction, reference, rules) for reference in references]
    if len(plans) == 1 and isinstance(plans[0], Verdict):
        return plans[0]
    from guerdon.verifiers.math.asking import resolved

    return best_of(resolved(plans, TIMEOUT_S))
