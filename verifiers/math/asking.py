"""What the engine leaves undecided: put to math-verify in killable workers, every distinct question once, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guerdon.errors import SandboxError
from guerdon.sandboxes import Done, Failed, PoolSpec, pool
from guerdon.sandboxes.deadline import row_limit
from guerdon.types import Status, Verdict
from guerdon.verifiers.math.answers import CompiledAnswer
from guerdon.verifiers.math.engine import Decision
from guerdon.verifiers.math.extraction import Extraction
from guerdon.verifiers.math.fallback import Question, question, words
from guerdon.verifiers.math.rules import MathRules

__all__ = ["Open", "left_open", "resolved"]

_ALGEBRA = PoolSpec("guerdon.verifiers.math.algebra:check", memory_mb=1024)


@dataclass(frozen=True, slots=True)
class Open:
    """A row that the engine left undecided."""

    question: Question
    extraction: Extraction
    answer: CompiledAnswer
    convention: str


def left_open(extraction: Extraction, answer: CompiledAnswer, decision: Decision, rules: MathRules) -> Verdict | Open:
    """The row as a question for the workers, or its verdict where none may be asked."""
    text = extraction.text or ""
    asked = question(text, answer.text, rules) if rules.fallback else None
    if asked is not None:
        return Open(asked, extraction, answer, decision.rule)
    info = {"rule": extraction.rule, "stage": decision.stage, "convention": decision.rule}
    return _undecided(text, answer, info, decision.detail)


def _undecided(text: str, answer: CompiledAnswer, info: dict[str, str], detail: str = "", seconds: float = 0.0) -> Verdict:
    """Nobody could tell: the reference's fault where it is neither mathematics nor prose, else the completion's."""
    if answer.kind == "unread" and not words(answer.text):
        detail = "the answer (reference) cannot be read as mathematics"
        return Verdict.of(Status.BAD_REFERENCE, "malformed_reference", detail, extracted=text, info=info, seconds=seconds)
    return Verdict(0.0, Status.UNPARSEABLE, "unreadable", detail or f"cannot be compared with {answer.text!r:.60}", text, info, seconds)


def resolved(plans: Sequence[Verdict | Open], timeout_s: float) -> list[Verdict]:
    """Ask the workers every distinct question in one call."""
    questions = list(dict.fromkeys(plan.question for plan in plans if isinstance(plan, Open)))
    if not questions:
        return [plan for plan in plans if isinstance(plan, Verdict)]
    results: Sequence[Done | Failed]
    try:
        results = pool(_ALGEBRA).map([(asked.reference, asked.parts) for asked in questions], row_limit(timeout_s), timeout_s / 2)
    except SandboxError as error:
        results = [Failed("lost", str(error))] * len(questions)
    found = dict(zip(questions, results, strict=True))
    return [_settled(plan, found[plan.question]) if isinstance(plan, Open) else plan for plan in plans]


_FAILURES = {  # kind: in the candidate's phase, while the reference was read
    "cpu": ((Status.TIMEOUT, "cpu_limit"), (Status.BAD_REFERENCE, "malformed_reference")),
    "memory": ((Status.UNPARSEABLE, "too_large"), (Status.BAD_REFERENCE, "malformed_reference")),
    "wall": ((Status.ERROR, "checker_timeout"),) * 2,
    "lost": ((Status.ERROR, "lost_worker"),) * 2,
    "deadline": ((Status.ERROR, "deadline"),) * 2,
    "exception": ((Status.ERROR, "exception"),) * 2,
}


def _settled(plan: Open, result: Done | Failed) -> Verdict:
    text = plan.extraction.text or ""
    info = {"rule": plan.extraction.rule, "stage": "math_verify", "convention": plan.convention}
    if isinstance(result, Failed):
        status, reason = _FAILURES[result.kind][result.phase != "candidate"]
        detail = result.detail or f"the {result.kind} limit was passed with the {result.phase or 'reference'}"
        return Verdict.of(status, reason, detail, extracted=text, info=info, seconds=result.seconds)
    if result.value not in ("equal", "different"):
        return _undecided(text, plan.answer, info, seconds=result.seconds)
    if result.value == "equal":
        return Verdict(1.0, Status.CORRECT, extracted=text, info=info, seconds=result.seconds)
    return Verdict(0.0, Status.INCORRECT, "mismatch", plan.answer.difference(text), text, info, result.seconds)
