"""Programs that read standard input and print. One run a test, in growing batches when the first failure ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guerdon.sandboxes.base import Job, Limits, RunResult
from guerdon.verifiers.code.checkers import Checker, Program, compare
from guerdon.verifiers.code.checking import ask_program, by_function, from_program
from guerdon.verifiers.code.results import BROKEN, WIDTH, Candidate, Outcome, Report, Scoring, death
from guerdon.verifiers.code.running import Work
from guerdon.verifiers.code.shapes import Stdio

__all__ = ["judge_stdio"]


@dataclass(frozen=True, slots=True)
class _Run:
    candidate: int
    test: int


def judge_stdio(
    tests: Stdio, candidates: Sequence[Candidate], checker: Checker, language: str, limits: Limits | None, scoring: Scoring
) -> Work:
    """A report for each candidate."""
    total = len(tests.inputs)
    found: list[list[Outcome]] = [[] for _ in candidates]
    ran: list[RunResult | None] = [None] * len(candidates)
    at, size = 0, 1 if scoring.stop else total
    while at < total:
        alive = [i for i in range(len(candidates)) if not (scoring.stop and _decided(found[i]))]
        runs = [_Run(i, test) for i in alive for test in range(at, min(at + size, total))]
        inputs = [tests.inputs[run.test].encode("utf-8", "surrogateescape") for run in runs]
        results = yield [
            Job(candidates[run.candidate].code, language, stdin, limits=limits) for run, stdin in zip(runs, inputs, strict=True)
        ]
        outcomes = [_outcome(tests, run, result, checker) for run, result in zip(runs, results, strict=True)]
        if isinstance(checker, Program):
            asked = [k for k, outcome in enumerate(outcomes) if not outcome.reason]
            answers = yield [ask_program(checker, inputs[k], results[k].stdout, tests.outputs[runs[k].test]) for k in asked]
            for k, answer in zip(asked, answers, strict=True):
                outcomes[k] = from_program(answer, _described(tests, runs[k], results[k]))
        for run, result, outcome in zip(runs, results, outcomes, strict=True):
            found[run.candidate].append(outcome)
            ran[run.candidate] = result
        at, size = at + size, size * 2
    return [Report(tuple(outcomes), total, result) for outcomes, result in zip(found, ran, strict=True)]


def _decided(outcomes: Sequence[Outcome]) -> bool:
    return any(outcome.reason and outcome.reason not in BROKEN for outcome in outcomes)


def _outcome(tests: Stdio, run: _Run, result: RunResult, checker: Checker) -> Outcome:
    """Passed, as far as can be said without a checker program."""
    described = _described(tests, run, result)
    if result.status != "ok":
        reason, words = death(result)
        return Outcome(reason, run.test, described.given, described.expected, words)
    if result.dropped:
        return Outcome("output_limit", run.test, described.given, described.expected, "more was printed than is read")
    if isinstance(checker, Program):
        return Outcome("", run.test)
    expected = tests.outputs[run.test]
    if callable(checker) and not hasattr(checker, "by_line") and type(checker).__module__ != compare.__module__:
        return by_function(checker, tests.inputs[run.test], result.stdout.decode("utf-8", "surrogateescape"), expected, described)
    if compare(checker, result.stdout, expected):  # type: ignore[arg-type]  # the two others are dealt with above
        return Outcome("", run.test)
    return described


def _described(tests: Stdio, run: _Run, result: RunResult) -> Outcome:
    got = result.stdout[: 4 * WIDTH].decode("utf-8", "replace")
    return Outcome("mismatch", run.test, tests.inputs[run.test][:WIDTH], tests.outputs[run.test][:WIDTH], got[:WIDTH])
