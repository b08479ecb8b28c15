"""The answers of a data set, looked at before a run: which can judge nothing, which contradict each other. Nothing is printed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from guerdon.cli.files import BadRow, Source
from guerdon.errors import DataError

__all__ = ["AnswersReport", "Finding", "look_at"]

_KEYS = ("answer", "gold", "ground_truth", "solution", "target")
_PROMPTS = ("prompt", "question", "problem", "query")
_PROSE_WORDS = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to mend: `problem` is unparseable, self_mismatch, conflict, unread or prose."""

    line: int
    problem: str
    answer: str
    detail: str

    @property
    def serious(self) -> bool:
        """Whether rows with this answer are judged wrongly or not at all; the others are only compared more narrowly."""
        return self.problem in ("unparseable", "self_mismatch", "conflict")


@dataclass
class AnswersReport:
    """What was found in a data set. `kinds` counts what the answers are to the verifier."""

    rows: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def look_at(path: str, columns: Mapping[str, str]) -> AnswersReport:
    """Read a data set and check each answer, and the answers of equal prompts against each other."""
    from guerdon.verifiers.base import alternatives

    report, first = AnswersReport(), dict[str, tuple[int, Any]]()
    source = Source(path)
    for row in source.rows():
        if isinstance(row, BadRow):
            raise DataError(f"{path}:{row.line}: {row.why}")
        report.rows += 1
        answer = row.data.get(_key(row.data, columns, f"{path}:{row.line}"))
        for one in alternatives(answer):
            _check(report, row.line, one)
        prompt = next((str(row.data[key]) for key in ([columns["prompt"]] if "prompt" in columns else _PROMPTS) if key in row.data), None)
        if prompt is not None:
            line, other = first.setdefault(prompt, (row.line, answer))
            if line != row.line and not _agree(answer, other):
                report.findings.append(Finding(row.line, "conflict", str(answer), f"the same prompt on line {line} has {str(other)!r:.60}"))
    source.close()
    if not report.rows:
        raise DataError(f"{path}: no rows")
    return report


def _key(data: Mapping[str, Any], columns: Mapping[str, str], place: str) -> str:
    wanted = (columns["answer"],) if "answer" in columns else _KEYS
    found = [key for key in wanted if key in data]
    if not found:
        raise DataError(f"{place}: no answer: looked for {', '.join(wanted)}; say which key it is with --columns answer=KEY")
    return found[0]


def _check(report: AnswersReport, line: int, answer: Any) -> None:
    from guerdon.verifiers.math import MathRules, compile_answer, equivalent, verify
    from guerdon.verifiers.math.fallback import words

    compiled = compile_answer(answer)
    report.kinds[compiled.kind or "unusable"] += 1

    def found(problem: str, detail: str) -> None:
        report.findings.append(Finding(line, problem, str(answer), detail))

    if compiled.reason:
        found("unparseable", compiled.detail)
        return
    rules = MathRules(fallback=False)
    for text, judge in ((compiled.text, equivalent), (f"\\boxed{{{compiled.text}}}", verify)):
        verdict = judge(text, answer, rules)
        if verdict.score != 1.0:
            found("self_mismatch", f"{text!r:.60} is {verdict.status.value}")
            return
    if len(words(compiled.text)) >= _PROSE_WORDS:
        found("prose", "only the same words are right")
    elif compiled.kind == "unread":
        found("unread", "no mathematics to the engine: only the same text is right, unless math-verify can read it")


def _agree(answer: Any, other: Any) -> bool:
    from guerdon.verifiers.math import equivalent

    return answer == other or (isinstance(answer, str) and equivalent(answer, other).score == 1.0)
