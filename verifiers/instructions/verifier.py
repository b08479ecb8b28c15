"""The verifier: which of a row's constraints the completion meets, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from guerdon.errors import ConfigError
from guerdon.types import Rollout, Status, Verdict
from guerdon.verifiers.base import is_blank, strip_reasoning
from guerdon.verifiers.instructions.finding import Finding
from guerdon.verifiers.instructions.reference import Constraint, read_alternatives

__all__ = ["InstructionsVerifier"]


@dataclass(frozen=True)
class InstructionsVerifier:
    """Does the completion follow its verifiable instructions (IFEval, Zhou et al. 2023, arXiv 2311.07911)?

    The reference in `column` is IFEval's own `{"instruction_id_list": [...], "kwargs": [...]}` (null arguments are ignored), a
    list of `{"instruction_id": ..., <arguments>}` or `{"id": ..., "kwargs": {...}}`, JSON text of either, or `{"any_of": [...]}`
    of these. A row without that column may hold `instruction_id_list` and `kwargs` as columns. A reference that cannot be read
    (unknown id, missing, unknown or wrong argument, lists of different lengths, no constraint) is BAD_REFERENCE.

    `score="all"` (IFEval's prompt level): CORRECT when every constraint holds, else INCORRECT. `"fraction"`: the share that
    holds. `loose` is IFEval's second criterion: each constraint may hold for the text without its first line, last line or
    both, and with its asterisks removed. `strip_thinking` leaves out what stands before the last `</think>`; a `<think>` never
    closed leaves nothing, which is NO_ANSWER like a completion that is empty or holds nothing visible. `info["constraints"]` holds
    (id, holds, why) of each.

    Raises MissingExtra at the first reference that asks for a language when py3langid (extra `ifeval`) is not installed.

    >>> reference = [{"instruction_id": "punctuation:no_comma"}, {"instruction_id": "startend:end_checker", "end_phrase": "Bye."}]
    >>> verdict, = InstructionsVerifier(score="fraction").judge([Rollout("Well, well. Bye.", answer=reference)])
    >>> verdict.score, verdict.detail
    (0.5, 'punctuation:no_comma: 1 comma')
    """

    column: str = "answer"
    score: Literal["all", "fraction"] = "all"
    loose: bool = False
    strip_thinking: bool = True

    VERSION: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ConfigError(f"InstructionsVerifier: column must name a data column, got {self.column!r}")
        if self.score not in ("all", "fraction"):
            raise ConfigError(f"InstructionsVerifier: expected score='all' or 'fraction', got {self.score!r}")
        for name in ("loose", "strip_thinking"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"InstructionsVerifier: expected {name}=True or False, got {getattr(self, name)!r}")

    @property
    def reads(self) -> frozenset[str]:
        """The data column that holds the reference, or the layout of the public data set."""
        return frozenset({f"{self.column}|instruction_id_list"})

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """One verdict per rollout, in order. Nothing a completion holds raises."""
        return [self._judge(rollout) for rollout in rollouts]

    def _judge(self, rollout: Rollout) -> Verdict:
        reference = _reference(rollout, self.column)
        if reference is None:
            return Verdict.of(Status.BAD_REFERENCE, "missing_reference", f"column {self.column!r} is empty on this row")
        try:
            alternatives = read_alternatives(reference)
        except ValueError as error:
            if isinstance(error, ConfigError):
                raise
            return Verdict.of(Status.BAD_REFERENCE, "malformed_reference", str(error))
        text = _answer(rollout.completion) if self.strip_thinking else rollout.completion
        if text is None:
            return Verdict.of(Status.NO_ANSWER, "no_answer", "the reasoning is never closed: nothing to check")
        if is_blank(text):
            return Verdict.of(Status.NO_ANSWER, "no_answer", "the completion is empty")
        texts = _loose_variants(text) if self.loose else [text]
        return max((self._verdict(texts, constraints) for constraints in alternatives), key=lambda verdict: verdict.score or 0.0)

    def _verdict(self, texts: list[str], constraints: list[Constraint]) -> Verdict:
        """The verdict on one alternative."""
        results = [(constraint.id, *_check(texts, constraint)) for constraint in constraints]
        failed = [f"{name}: {why}" for name, holds, why in results if not holds]
        share = 1 - len(failed) / len(results) if self.score == "fraction" else float(not failed)
        reason, detail = ("constraint_unmet", failed[0]) if failed else ("", "")
        return Verdict.graded(share, reason, detail, info={"constraints": tuple(results)})


def _reference(rollout: Rollout, column: str) -> Any:
    """The reference of a row, or its own `instruction_id_list` and `kwargs` columns, as in the data set google/IFEval."""
    reference = rollout.column(column)
    if reference is None and rollout.column("instruction_id_list") is not None:
        return {name: rollout.column(name) for name in ("instruction_id_list", "kwargs")}
    return reference


def _answer(completion: str) -> str | None:
    """What follows the reasoning; None when a reasoning block is never closed."""
    rest = strip_reasoning(completion)
    if "<think>" in rest:
        return None
    return rest if len(rest) == len(completion) else rest.lstrip()  # so that the first line is the answer's own


def _check(texts: list[str], constraint: Constraint) -> Finding:
    """The finding on the first text that meets the constraint, or on the first text."""
    first = constraint.check(texts[0])
    if first.holds:
        return first
    others = (constraint.check(text) for text in texts[1:])
    return next((finding for finding in others if finding.holds), first)


def _loose_variants(text: str) -> list[str]:
    """IFEval's eight variants, the text itself first, those that are blank left out."""
    lines = text.split("\n")
    cut = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return [variant for variant in dict.fromkeys([*cut, *(each.replace("*", "") for each in cut)]) if not is_blank(variant)]
