"""Test code: planned once in a trusted jail, then split where it can be, else judged there against the program's transcript.

The plan says which calls the tests make. Every candidate is asked them in one run of its own. If each check is one call against
one plain value, the values are compared outside. Else the transcripts of many candidates go back into a trusted jail, where the
tests run against them; a test whose later calls depend on earlier results needs another round for each such step.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from guerdon.sandboxes.base import Job, Limits, RunResult
from guerdon.verifiers.code.answers import Answers, decide, read_answers, shown_call, solve_job
from guerdon.verifiers.code.bundle import program
from guerdon.verifiers.code.results import Candidate, Outcome, Report, death, show
from guerdon.verifiers.code.running import Work
from guerdon.verifiers.code.shapes import Script
from guerdon.verifiers.code.wire import Refused, parse

__all__ = ["judge_script"]

ROUNDS = 32
"""Steps of a test that depend on earlier results. Each costs two runs."""
_ROWS, _BYTES = 64, 2_000_000
"""What one trusted run judges at most."""


@dataclass(frozen=True, slots=True)
class _Plan:
    calls: tuple[str, ...]
    splits: tuple[tuple[str, Any], ...] | None
    checks: int


@dataclass(slots=True)
class _Row:
    """One candidate on its way."""

    index: int
    calls: tuple[str, ...]
    answers: Answers = field(default_factory=lambda: Answers((), None))
    ran: RunResult | None = None
    text: str = ""
    report: Report | None = None
    alone: bool = False


def judge_script(tests: Script, candidates: Sequence[Candidate], limits: Limits | None) -> Work:
    """A report for each candidate."""
    (result,) = yield [_trial(tests, [((), "")])]
    plan = _read_plan(result)
    if isinstance(plan, Outcome):
        return [Report((plan,), 1, result)] * len(candidates)
    if plan.splits is not None:
        results = yield [solve_job(candidate, plan.calls, limits, entry=tests.entry) for candidate in candidates]
        return [_split_report(plan, plan.splits, result) for result in results]
    rows = [_Row(index, plan.calls) for index in range(len(candidates))]
    for _ in range(ROUNDS):
        todo = [row for row in rows if row.report is None]
        if not todo:
            break
        results = yield [solve_job(candidates[row.index], row.calls, limits, entry=tests.entry, track=True) for row in todo]
        for row, result in zip(todo, results, strict=True):
            _answered(row, result)
        yield from _judge_rows(tests, plan, [row for row in todo if row.report is None])
    late = Outcome("too_many_rounds", got=f"the tests went on calling for {ROUNDS} rounds")
    return [row.report or Report((late,), plan.checks, row.ran) for row in rows]


def _trial(tests: Script, rows: Sequence[tuple[Sequence[str], str]]) -> Job:
    """A run of the tests on transcripts, in a jail without model code. The limits are the sandbox's own."""
    order = {"style": tests.style, "tests": tests.tests, "setup": tests.setup, "prompt": tests.prompt, "entry": tests.entry}
    order["rows"] = [{"calls": calls, "lines": lines} for calls, lines in rows]  # type: ignore[assignment]
    modules = ("wire", "stubs", "trial") if tests.style == "asserts" else ("wire", "stubs", "suites", "trial")
    return Job(program(*modules), stdin=json.dumps(order).encode("ascii"), channel=True)


def _read_plan(result: RunResult) -> _Plan | Outcome:
    """The plan, or why the tests cannot be used: nothing a candidate could have done."""
    if result.status == "infra_error":
        reason, words = death(result)
        return Outcome(reason, got=words)
    try:
        checks, need, _, touched, _, trouble = parse(result.channel.split(b"\n")[0])
    except (Refused, ValueError, TypeError):
        return Outcome("malformed_reference", got=f"the tests cannot be run: {': '.join(death(result))}")
    if trouble and (trouble[0] == "unsendable" or not need):
        return Outcome("malformed_reference", got=f"the tests cannot be run: {trouble[1]}")
    if not need and (broken := [got for passed, _, got, *_ in checks if not passed]):
        return Outcome("malformed_reference", got=f"the tests cannot be run: {broken[0]}")
    if not need:
        return Outcome("missing_reference", got="the tests never call the program" if checks else "there are no tests")
    simple = not (touched or trouble) and len(need) == len(checks) and all(c[4] and c[1] == i for i, c in enumerate(checks))
    splits = tuple((sign, parse(text)) for *_, (sign, text) in checks) if simple else None
    return _Plan(tuple(need), splits, len(checks))


def _split_report(plan: _Plan, splits: Sequence[tuple[str, Any]], result: RunResult) -> Report:
    answers, outcomes = read_answers(result, len(plan.calls)), []
    for index, (sign, expected) in enumerate(splits):
        wanted = f"{'' if sign in ('==', 'truth') else sign + ' '}{show(expected)}"
        judge = lambda node, sign=sign, expected=expected: decide(sign, node, expected)  # noqa: E731
        outcomes.append(answers.outcome(index, judge, shown_call(plan.calls[index]), wanted))
    return Report(tuple(outcomes), len(splits), result)


def _answered(row: _Row, result: RunResult) -> None:
    row.ran, row.answers = result, read_answers(result, len(row.calls))
    row.text = "\n".join(line.decode("ascii", "replace") for line in (b"", *row.answers.lines))
    if not row.answers.lines and row.answers.end is not None:
        reason, words = row.answers.end
        row.report = Report((Outcome(reason, 0, shown_call(row.calls[0]), "", words),), 1, result)


def _judge_rows(tests: Script, plan: _Plan, rows: list[_Row]) -> Generator[list[Job], list[RunResult], None]:
    """Judge rows in batches. One that ends its batch is judged alone, then; if it ends that too, what it returned did it."""
    while rows:
        batches = _batches(rows)
        results = yield [_trial(tests, [(row.calls, row.text) for row in batch]) for batch in batches]
        rows = []
        for batch, result in zip(batches, results, strict=True):
            lines = [line for line in result.channel.split(b"\n")[:-1] if line]
            for row, line in zip(batch, lines, strict=False):
                _judged(row, plan, line)
            left = batch[len(lines) :]
            if left and len(batch) == 1:
                left[0].report = Report((_spoiled(result),), plan.checks, left[0].ran)
            elif left:
                left[0].alone = True
                rows += left


def _batches(rows: Sequence[_Row]) -> list[list[_Row]]:
    """Rows that may share a run: small, and not the one that ended the last."""
    batches: list[list[_Row]] = []
    size = 0
    for row in sorted(rows, key=lambda row: row.alone):
        size += len(row.text)
        if not batches or row.alone or len(batches[-1]) >= _ROWS or size > _BYTES:
            batches.append([])
            size = len(row.text)
        batches[-1].append(row)
    return batches


def _spoiled(result: RunResult) -> Outcome:
    reason, words = death(result)
    return Outcome(reason, got=f"the tests did not end on what the program returned: {words}")


def _judged(row: _Row, plan: _Plan, line: bytes) -> None:
    try:
        checks, need, kept, _, died, trouble = parse(line)
    except (Refused, ValueError, TypeError):
        row.report = Report((Outcome("lost_sandbox", got="the trusted jail's answer cannot be read"),), plan.checks, row.ran)
        return
    if need and not died and not (trouble and trouble[0] == "unsendable"):
        row.calls = (*row.calls[:kept], *need)
        return
    outcomes = [_check(row, number, check) for number, check in enumerate(checks)]
    if died:
        reason, words = row.answers.end or ("runtime_error", "no answer")
        outcomes = [o for o in outcomes if not o.reason] + [Outcome(reason, len(outcomes), got=words)]
    elif trouble or not outcomes:
        outcomes.append(Outcome("runtime_error", len(outcomes), got=trouble[1] if trouble else "no test was run"))
    row.report = Report(tuple(outcomes), max(plan.checks, len(outcomes)), row.ran)


def _check(row: _Row, number: int, check: Any) -> Outcome:
    passed, first, got, expected, _ = check
    given = shown_call(row.calls[first]) if type(first) is int and first < len(row.calls) else ""
    return Outcome("" if passed else "mismatch", number, given, expected, got)
