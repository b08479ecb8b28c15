"""Checkers that are programs or functions: how they are asked, and what their answers mean."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from guerdon.sandboxes.base import Job, RunResult
from guerdon.verifiers.code.checkers import Program
from guerdon.verifiers.code.results import Outcome, death

__all__ = ["ask_program", "by_function", "from_program"]

_POINTS = re.compile(rb"(?:points|partially correct)[ :(]*([0-9]{1,9}(?:\.[0-9]{1,9})?)").search


def ask_program(checker: Program, given: bytes, output: bytes, expected: str) -> Job:
    """One run of the checker, in a jail of its own, with the sandbox's limits."""
    files = (("input.txt", given), ("output.txt", output), ("answer.txt", expected.encode("utf-8", "surrogateescape")))
    return Job(checker.source, checker.language, files=files, args=("input.txt", "output.txt", "answer.txt"), flags=checker.flags)


def from_program(answer: RunResult, described: Outcome) -> Outcome:
    """testlib's exit codes: 0 right, 1 wrong, 2 misprinted, 7 points, 3 and all else a broken checker."""
    if answer.status == "ok":
        return Outcome("", described.test)
    if answer.status == "nonzero" and answer.exit_code in (1, 2):
        return described
    if answer.status == "nonzero" and answer.exit_code == 7:
        points = _POINTS(answer.stderr) or _POINTS(answer.stdout)
        if points is not None:
            value = float(points[1])
            return replace(described, points=min(1.0, value / 100 if b"partially" in points[0] else value))
    reason, words = death(answer)
    return replace(described, reason=reason if reason in ("lost_sandbox", "deadline") else "checker_failed", got=f"checker: {words}")


def by_function(check: Callable[..., Any], given: str, output: str, expected: str, described: Outcome) -> Outcome:
    """A user's function: true or 1 passes, false or 0 does not, a number between is partial credit. Its exception is its own fault."""
    try:
        points = float(check(given, output, expected))
    except Exception as error:
        return replace(described, reason="checker_failed", got=f"checker raised {type(error).__name__}: {error}"[:300])
    if not (math.isfinite(points) and 0 <= points <= 1):
        return replace(described, reason="checker_failed", got=f"checker returned {points}, expected 0 to 1")
    return Outcome("", described.test) if points == 1 else replace(described, points=points)
