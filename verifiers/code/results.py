"""What became of each test, and what that makes of a completion. Pure: no program runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from guerdon.sandboxes.base import RunResult
from guerdon.types import Status, Verdict

__all__ = ["BROKEN", "Candidate", "Outcome", "Report", "Scoring", "death", "numbered", "show", "verdict"]

WIDTH = 300
"""Characters of an input, expected value or result shown in `info`."""
BROKEN = frozenset({"lost_sandbox", "deadline", "checker_failed"})
"""Reasons that are nobody's fault but the host's or the checker's: the row is left out."""
_STATUS = {
    "cpu_limit": Status.TIMEOUT,
    "wall_limit": Status.TIMEOUT,
    "compile_error": Status.UNPARSEABLE,
    "malformed_reference": Status.BAD_REFERENCE,
    "missing_reference": Status.BAD_REFERENCE,
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """The model's program: what was extracted, and the prompt's code that it may lean on."""

    code: str
    preamble: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test: passed when `reason` is empty, else a machine code, with what a person wants to see. `points`: partial credit."""

    reason: str = ""
    test: int = 0
    given: str = ""
    expected: str = ""
    got: str = ""
    points: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All that is known of one program: its outcomes, of `total` tests, and where it ran."""

    outcomes: tuple[Outcome, ...]
    total: int
    ran: RunResult | None = None


@dataclass(frozen=True, slots=True)
class Scoring:
    """How outcomes become a score, and whether tests after the first failure are run."""

    score: Literal["all", "fraction"] = "all"
    stop: bool = True


def death(result: RunResult) -> tuple[str, str]:
    """Why a run ended before its work was done, as (reason, words). A wall overrun counts: it was confirmed by a second run alone."""
    if result.status == "infra_error":
        return ("deadline" if result.timed_out_by == "deadline" else "lost_sandbox"), result.detail
    if result.status == "timeout":
        return ("wall_limit" if result.timed_out_by == "wall" else "cpu_limit"), f"{result.cpu_s:.1f} s CPU, {result.wall_s:.1f} s wall"
    if result.status == "memory":
        return "memory_limit", f"{result.maxrss_mb:.0f} MB"
    if result.status in ("output_limit", "compile_error"):
        return result.status, _last_line(result.stderr)
    if result.status == "signal":
        return "runtime_error", f"killed by signal {result.signal}"
    words = _last_line(result.stderr)
    if result.status == "nonzero":
        syntax = words.startswith(("SyntaxError", "IndentationError", "TabError")) and b"Traceback" not in result.stderr
        return ("compile_error" if syntax else "runtime_error"), words or f"exit code {result.exit_code}"
    return "runtime_error", "the program ended early"


def _last_line(stderr: bytes) -> str:
    lines = stderr[-4000:].decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:WIDTH] if lines else ""


def verdict(report: Report, scoring: Scoring, rule: str, code: str) -> Verdict:
    """CORRECT, PARTIAL, INCORRECT, TIMEOUT, UNPARSEABLE; ERROR or BAD_REFERENCE where nothing can be said of the program.

    With "all" one failed test decides, whatever became of the others; with "fraction" a broken one leaves the row out.
    """
    failed = [outcome for outcome in report.outcomes if outcome.reason and outcome.reason not in BROKEN]
    broken = [outcome for outcome in report.outcomes if outcome.reason in BROKEN]
    passed = len(report.outcomes) - len(failed) - len(broken)
    first = next(iter(failed + broken if scoring.score == "all" else broken + failed), None)
    total = max(report.total, len(report.outcomes))
    shared: dict[str, Any] = {"extracted": code, "info": _info(report, rule, passed, total, first)}
    if report.ran is not None:
        shared["seconds"] = report.ran.wall_s
    if first is not None and first.reason in BROKEN:
        return Verdict.of(Status.ERROR, first.reason, first.got or first.reason, **shared)
    if first is not None and _STATUS.get(first.reason) is Status.BAD_REFERENCE:
        return Verdict.of(Status.BAD_REFERENCE, first.reason, first.got, **shared)
    points = sum(1.0 if not o.reason else o.points or 0.0 for o in report.outcomes if o.reason not in BROKEN)
    fraction = points / total if total else 0.0
    if first is None and passed == total and total:
        return Verdict.of(Status.CORRECT, **shared)
    reason, detail = (first.reason, _detail(first)) if first else ("runtime_error", f"{passed} results for {total} tests")
    if scoring.score == "fraction" and fraction > 0:
        return Verdict.graded(min(fraction, 1 - 1e-9), reason, detail, **shared)
    return Verdict.of(_STATUS.get(reason, Status.INCORRECT), reason, detail, **shared)


def _detail(outcome: Outcome) -> str:
    differs = outcome.reason == "mismatch" and outcome.expected
    return f"test {outcome.test}: " + (f"{outcome.got:.150} is not {outcome.expected:.150}" if differs else f"{outcome.got:.300}")


def _info(report: Report, rule: str, passed: int, total: int, first: Outcome | None) -> Mapping[str, Any]:
    info: dict[str, Any] = {"rule": rule, "passed": passed, "total": total, "tests": [o.reason or "passed" for o in report.outcomes[:200]]}
    if report.ran is not None:
        info |= {"level": report.ran.level, "backend": report.ran.backend}
    if first is not None:
        shown = {"test": first.test, "input": first.given, "expected": first.expected, "got": first.got}
        info["first_failure"] = {key: value[:WIDTH] if isinstance(value, str) else value for key, value in shown.items()}
    return info


def numbered(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """The outcomes with their places as test numbers."""
    return tuple(replace(outcome, test=number) for number, outcome in enumerate(outcomes))


def show(node: Any, width: int = WIDTH) -> str:
    """A parsed line of `wire` as Python would print it, cut to `width` characters. Builds no value: safe and quick for any node.

    >>> from guerdon.verifiers.code.wire import dumps, parse
    >>> show(parse(dumps([1, (2,), {"a": {3}}])))
    "[1, (2,), {'a': {3}}]"
    """
    text = _shown(node, [width])
    return text if len(text) <= width else text[: width - 3] + "..."


def _shown(node: Any, left: list[int]) -> str:
    left[0] -= 1
    if left[0] < 0:
        return "..."
    if type(node) is str:
        left[0] -= len(node)
        return repr(node[:WIDTH])
    if type(node) is list:
        return f"[{_joined(node, left)}]"
    if type(node) is not dict or len(node) != 1:
        return repr(node)[:WIDTH]
    ((tag, inner),) = node.items()
    if tag == "o":
        names = inner[1] if type(inner) is list and len(inner) > 1 and type(inner[1]) is list else ()
        return f"<{names[0] if names else 'object'!s:.80}>"
    if type(inner) is not list:
        return f"{inner!s:.300}"
    if tag == "d":
        pairs = [f"{_shown(p[0], left)}: {_shown(p[1], left)}" for p in inner[:100] if type(p) is list and len(p) == 2]
        return "{" + ", ".join(pairs) + "}"
    body = _joined(inner, left)
    if tag == "t":
        return f"({body},)" if len(inner) == 1 else f"({body})"
    braced = f"{{{body}}}" if inner and tag in "sz" else body
    return braced if inner and tag == "s" else f"{_NAMES.get(tag, tag)}({braced})"


_NAMES = {"s": "set", "z": "frozenset", "r": "range", "c": "complex", "q": "Fraction", "n": "array"}


def _joined(items: list[Any], left: list[int]) -> str:
    return ", ".join([_shown(item, left) for item in items[:100]]) + (", ..." if len(items) > 100 else "")
