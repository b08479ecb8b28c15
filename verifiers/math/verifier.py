"""From completions to verdicts: compile the reference, extract, compare exactly, and ask the worker pool the rest in one call.

This module knows statuses and limits and no mathematics. Nothing a completion holds raises or hangs: what runs in this process
is bounded by length, and algebra runs in workers that are killed when they overrun.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar

from guerdon.errors import ConfigError, SandboxError
from guerdon.sandboxes import Done, Failed, PoolSpec, pool
from guerdon.types import Rollout, Status, Verdict
from guerdon.verifiers.base import alternatives, best_of, judge_rows
from guerdon.verifiers.math.compare import Question, ask, is_text, same
from guerdon.verifiers.math.exact import HUGE
from guerdon.verifiers.math.extraction import Extraction, extract, reference_text
from guerdon.verifiers.math.reading import Reading, read, unbalanced, words
from guerdon.verifiers.math.rules import DEFAULT_RULES, MathRules

__all__ = ["CompiledAnswer", "MathVerifier", "compile_answer", "equivalent", "verify"]

TIMEOUT_S = 2.0
_CHARS = 4_000
"""A longer reference is refused, and so is a candidate both this long and twice as long as the reference."""
_ALGEBRA = PoolSpec("guerdon.verifiers.math.algebra:check", memory_mb=1024)


@dataclass(frozen=True, slots=True)
class CompiledAnswer:
    """A reference made ready once for its many candidates, or why it cannot be: then `reason` is a code and `reading` None.

    No reason does not promise a mathematical reading: that needs algebra, and is found out when a candidate does.
    """

    text: str
    reading: Reading | None
    reason: str = ""
    detail: str = ""


def compile_answer(answer: Any) -> CompiledAnswer:
    """Make a reference ready: text (one that holds `\\boxed` contributes its box, any other is taken whole), int, float or Fraction.

    >>> compile_answer("so \\\\boxed{\\\\frac{1}{2}}").text, compile_answer(0.5).text
    ('\\\\frac{1}{2}', '0.5')
    >>> compile_answer(True).reason, compile_answer("\\\\boxed{").reason, compile_answer(" ").reason
    ('malformed_reference', 'malformed_reference', 'missing_reference')
    """
    if isinstance(answer, str):
        return _compiled(answer)
    if isinstance(answer, bool) or not isinstance(answer, numbers.Real | Decimal):
        return _broken("", f"expected text or a number, got {type(answer).__name__}")
    try:
        if isinstance(answer, numbers.Rational):
            return _compiled(f"{int(answer.numerator)}/{int(answer.denominator)}".removesuffix("/1"))
        return _compiled(str(answer) if isinstance(answer, Decimal) else repr(float(answer)))
    except (ValueError, OverflowError) as error:  # more digits than Python writes out
        return _broken("", f"the number cannot be written out: {error}")


@lru_cache(maxsize=4096)
def _compiled(answer: str) -> CompiledAnswer:
    text = reference_text(answer)
    if text is None or (not text and answer.strip()):
        return _broken(answer, "its last box is empty or never closed")
    if not text:
        return CompiledAnswer("", None, "missing_reference", "the answer is empty")
    if len(text) > _CHARS:
        return _broken(text, f"it is longer than {_CHARS} characters")
    if "\n####" in text:
        return _broken(text, "it is a whole solution; pass only what follows ####")
    reading = read(text)
    if not reading.text or (unbalanced(reading.text) and not words(reading.text)):
        return _broken(text, "its brackets do not match" if reading.text else "it holds no answer")
    if reading.text.lower() in ("nan", "inf", "-inf"):
        return _broken(text, "it is not a number")
    return CompiledAnswer(text, reading)


def _broken(text: str, detail: str) -> CompiledAnswer:
    return CompiledAnswer(text, None, "malformed_reference", detail)


@dataclass(frozen=True, slots=True)
class _Open:
    """A row that needs algebra."""

    question: Question
    extraction: Extraction
    answer: CompiledAnswer


def _plan(extraction: Extraction, answer: Any, rules: MathRules) -> Verdict | _Open:
    """The verdict, where it is certain without algebra."""
    compiled = compile_answer(answer)
    reference = compiled.reading
    if reference is None:
        return Verdict.of(Status.BAD_REFERENCE, compiled.reason, compiled.detail, extracted=extraction.text)
    if extraction.text is None:
        return Verdict.of(Status.NO_ANSWER, extraction.reason, info={"rule": extraction.rule})
    if len(extraction.text) > max(_CHARS, 2 * len(compiled.text)):
        return _judged(Status.UNPARSEABLE, "too_large", "text", extraction, f"the answer has {len(extraction.text)} characters")
    candidate = read(extraction.text)
    stage = "text" if reference.value is None or candidate.value is None else "number"
    if not candidate.text:
        return _judged(Status.NO_ANSWER, "no_answer", stage, extraction)
    agree = same(reference, candidate, rules)
    if agree:
        return _judged(Status.CORRECT, "", stage, extraction)
    if candidate.value is not None and abs(candidate.value) == HUGE and agree is False:
        return _judged(Status.UNPARSEABLE, "too_large", stage, extraction, "the answer exceeds 2**70000")
    if unbalanced(candidate.text) and not is_text(reference):
        return _judged(Status.UNPARSEABLE, "unreadable", stage, extraction, "its brackets do not match")
    if agree is None:
        return _Open(ask(reference, candidate, rules), extraction, compiled)
    return _judged(Status.INCORRECT, "mismatch", stage, extraction, _difference(extraction, compiled))


def _judged(status: Status, reason: str, stage: str, extraction: Extraction, detail: str = "", seconds: float = 0.0) -> Verdict:
    info = {"rule": extraction.rule, "stage": stage}
    return Verdict.of(status, reason, detail, extracted=extraction.text, info=info, seconds=seconds)


def _difference(extraction: Extraction, answer: CompiledAnswer) -> str:
    return f"{extraction.text!r:.60} is not {answer.text!r:.60}"


def _resolve(plans: Sequence[Verdict | _Open], timeout_s: float) -> list[Verdict]:
    """Ask the workers every distinct question in one call."""
    questions = list(dict.fromkeys(plan.question for plan in plans if isinstance(plan, _Open)))
    if not questions:
        return [plan for plan in plans if isinstance(plan, Verdict)]
    results: Sequence[Done | Failed]
    try:
        results = pool(_ALGEBRA).map([(question.reference, question.parts, question.tolerance) for question in questions], timeout_s)
    except SandboxError as error:
        results = [Failed("lost", str(error))] * len(questions)
    found = dict(zip(questions, results, strict=True))
    return [_settled(plan, found[plan.question]) if isinstance(plan, _Open) else plan for plan in plans]


_FAILURES = {  # kind: in the candidate's phase, while the reference was read
    "cpu": ((Status.TIMEOUT, "cpu_limit"), (Status.BAD_REFERENCE, "malformed_reference")),
    "memory": ((Status.UNPARSEABLE, "too_large"), (Status.BAD_REFERENCE, "malformed_reference")),
    "wall": ((Status.ERROR, "checker_timeout"),) * 2,
    "lost": ((Status.ERROR, "lost_worker"),) * 2,
    "deadline": ((Status.ERROR, "deadline"),) * 2,
    "exception": ((Status.ERROR, "exception"),) * 2,
}


def _settled(plan: _Open, result: Done | Failed) -> Verdict:
    if isinstance(result, Failed):
        status, reason = _FAILURES[result.kind][result.phase != "candidate"]
        detail = result.detail or f"the {result.kind} limit was passed with the {result.phase or 'reference'}"
    else:
        status, reason, detail = {
            "equal": (Status.CORRECT, "", ""),
            "different": (Status.INCORRECT, "mismatch", _difference(plan.extraction, plan.answer)),
            "unreadable": (Status.UNPARSEABLE, "unreadable", "math-verify cannot read the answer"),
            "bad_reference": (Status.BAD_REFERENCE, "malformed_reference", "math-verify cannot read the reference"),
        }[result.value]
        if status is Status.BAD_REFERENCE and words(plan.question.reference):  # words around a formula: no other text is equal
            status, reason, detail = Status.INCORRECT, "mismatch", _difference(plan.extraction, plan.answer)
    return _judged(status, reason, "math_verify", plan.extraction, detail, result.seconds)


@dataclass(frozen=True)
class MathVerifier:
    """Mathematical equality of the answer a completion states and the reference in `column`.

    Numbers and texts are compared in this process, exactly; the rest goes to math-verify in killable workers, at most `timeout_s`
    wall seconds per verdict (queueing apart) and half of that in CPU time. A candidate that uses up its CPU time is TIMEOUT; a
    reference that does, or that cannot be read, is BAD_REFERENCE; whatever the host does wrong is ERROR. `info` says which
    extraction rule fired and which stage decided ("number", "text" or "math_verify").

    Does not read units as quantities (5 km is not 5000 m), prose, or number words, and picks up no number that is not stated as
    the answer. `reads` is the column.

    >>> MathVerifier().judge([Rollout("#### 1,234", answer="1234")])[0].info
    {'rule': 'hash', 'stage': 'number'}
    """

    VERSION: ClassVar[int] = 1
    PACKAGES: ClassVar[tuple[str, ...]] = ("math-verify", "sympy", "latex2sympy2_extended")

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
        plans: list[Verdict | _Open] = []

        def plan(rollout: Rollout, answer: Any) -> Verdict:
            plans.append(_plan(extract(rollout.completion, self.rules), answer, self.rules))
            return _PENDING

        judge_rows(rollouts, self.column, plan)  # collects; the second pass asks for the same verdicts in the same order
        verdicts = iter(_resolve(plans, self.timeout_s))
        return judge_rows(rollouts, self.column, lambda _rollout, _answer: next(verdicts))


_PENDING = Verdict.of(Status.INCORRECT)


def verify(completion: str, answer: Any, rules: MathRules = DEFAULT_RULES) -> Verdict:
    """Judge one completion: extract its answer and compare it with the reference. Batches go to `MathVerifier.judge`.

    >>> verify("So $x = \\\\boxed{0.5}$.", "\\\\frac{1}{2}").status
    <Status.CORRECT: 'correct'>
    """
    return MathVerifier(rules=rules).judge([Rollout(completion, answer=answer)])[0]


def equivalent(candidate: str, answer: Any, rules: MathRules = DEFAULT_RULES) -> Verdict:
    """Compare a bare candidate with the reference; nothing is extracted.

    >>> equivalent("1,000 km", "1000").score, equivalent("7=5", "5").reason
    (1.0, 'mismatch')
    """
    plans = [_plan(Extraction(candidate, "given"), reference, rules) for reference in alternatives(answer)]
    if answer is None or not plans:
        return Verdict.of(Status.BAD_REFERENCE, "missing_reference", "there is no answer")
    return best_of(_resolve(plans, TIMEOUT_S))
