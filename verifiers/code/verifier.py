"""`CodeVerifier`: completions and tests in, verdicts out. It reads, groups and hands on; the sandbox runs, `results` decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from guerdon.errors import ConfigError
from guerdon.loading import load
from guerdon.sandboxes.base import Limits, SandboxSpec
from guerdon.types import Rollout, Status, Verdict
from guerdon.verifiers.base import alternatives, best_of
from guerdon.verifiers.code.calls import judge_calls
from guerdon.verifiers.code.checkers import CHECKERS, Checker
from guerdon.verifiers.code.extraction import Extraction, extract_code
from guerdon.verifiers.code.results import Candidate, Report, Scoring, verdict
from guerdon.verifiers.code.running import Work, adrive, drive
from guerdon.verifiers.code.scripts import judge_script
from guerdon.verifiers.code.shapes import BadTests, Calls, Script, Stdio, Tests, read_tests
from guerdon.verifiers.code.stdio import judge_stdio

__all__ = ["CodeVerifier"]

WALL = 3.0
"""Wall limit over CPU limit: a program on a busy host gets a third of a core at least."""


def _default_sandbox() -> SandboxSpec:
    from guerdon.sandboxes.zygote import Zygote

    return Zygote()


@dataclass(frozen=True)
class CodeVerifier:
    """Does the program in a completion pass the tests in `column` (default `tests`, falling back to `answer`)?

    Expected values never enter the jail of the program; only plain data comes out; comparison happens outside; N tests need N
    results. So a program earns nothing by what it does to its own process: it must return what it cannot see.

    `checker` compares printed output (see `checkers.CHECKERS`, `Float`, `Program`, a function or its import string); of call
    results it only sets the tolerance of floats. `score`: "all" (1 if every test passes), "fraction". `stop_on_first_failure`
    defaults to true for "all". `timeout_s` is the CPU limit of one run (a function's calls together, or one input), the wall limit
    is three times that; None leaves the sandbox's limits. `info` holds `passed`, `total`, `tests`, `first_failure`, `level`.

    Does not see what a function prints, and compares objects of the program's own classes by identity only.
    """

    VERSION: ClassVar[int] = 1
    PACKAGES: ClassVar[tuple[str, ...]] = ()

    column: str = "tests"
    checker: str | Checker = "tokens"
    score: Literal["all", "fraction"] = "all"
    stop_on_first_failure: bool | None = None
    language: str = "python"
    timeout_s: float | None = None
    sandbox: SandboxSpec | str = field(default_factory=_default_sandbox)

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ConfigError(f"CodeVerifier: column must name a data column, got {self.column!r}")
        if self.score not in ("all", "fraction"):
            raise ConfigError(f"CodeVerifier: score must be 'all' or 'fraction', got {self.score!r}")
        if self.timeout_s is not None and (
            isinstance(self.timeout_s, bool) or not isinstance(self.timeout_s, int | float) or not 0.01 <= self.timeout_s < math.inf
        ):
            raise ConfigError(f"CodeVerifier: timeout_s must be at least 0.01 CPU seconds and finite, got {self.timeout_s!r}")
        if not isinstance(self.sandbox, str) and not hasattr(self.sandbox, "start"):
            raise ConfigError(f"CodeVerifier: sandbox must be a spec such as Zygote(), or an import string, got {self.sandbox!r}")
        self._checker()

    @property
    def reads(self) -> frozenset[str]:
        """The column of the tests; either `tests` or `answer` by default."""
        return frozenset({"tests|answer" if self.column == "tests" else self.column})

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """One verdict per rollout, in order. `{"any_of": [...]}` tests take the best of their alternatives."""
        from guerdon.sandboxes.base import sandbox

        desk = _Desk(self, rollouts)
        return desk.verdicts(drive(desk.works(), sandbox(self.sandbox)) if desk.groups else [])

    async def ajudge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """`judge` without blocking the loop."""
        import asyncio

        from guerdon.sandboxes.base import sandbox

        desk = await asyncio.to_thread(_Desk, self, rollouts)
        if not desk.groups:
            return desk.verdicts([])
        box = await asyncio.to_thread(sandbox, self.sandbox)  # starting one takes a while
        return desk.verdicts(await adrive(desk.works(), box))

    def _checker(self) -> Checker:
        if not isinstance(self.checker, str):
            if not callable(self.checker) and not hasattr(self.checker, "source"):
                raise ConfigError(f"CodeVerifier: checker must be a name, a Program or a function, got {type(self.checker).__name__}")
            return self.checker
        if self.checker in CHECKERS:
            return CHECKERS[self.checker]
        if ":" not in self.checker:
            raise ConfigError(f"CodeVerifier: unknown checker {self.checker!r}; choose from {', '.join(CHECKERS)} or 'pkg.mod:function'")
        found: Checker = load(self.checker)
        return found

    def _limits(self) -> Limits | None:
        if self.timeout_s is None:
            return None
        own = getattr(self.sandbox, "limits", None) or Limits()
        return replace(own, cpu_s=self.timeout_s, wall_s=WALL * self.timeout_s)

    def _work(self, tests: Tests, candidates: Sequence[Candidate]) -> Work:
        stop = self.score == "all" if self.stop_on_first_failure is None else self.stop_on_first_failure
        scoring = Scoring(self.score, stop)
        if isinstance(tests, Stdio):
            return judge_stdio(tests, candidates, self._checker(), self.language, self._limits(), scoring)
        if isinstance(tests, Calls):
            return judge_calls(tests, candidates, self._checker(), self._limits(), scoring)
        return judge_script(tests, candidates, self._limits())


@dataclass(frozen=True, slots=True)
class _Ticket:
    """Where the verdict of one (row, alternative) will come from: a group and a place in it; or it is known already."""

    extraction: Extraction
    group: int = -1
    place: int = -1
    known: Verdict | None = None


class _Desk:
    """One call: rows read, equal tests grouped, equal programs of a group run once, reports handed back to their rows."""

    def __init__(self, verifier: CodeVerifier, rollouts: Sequence[Rollout]) -> None:
        self.verifier = verifier
        self.groups: list[tuple[Tests, dict[Candidate, int]]] = []
        self._number: dict[Tests, int] = {}
        self._read: dict[tuple[int, str, str], Tests | BadTests] = {}
        self._kept: list[Any] = []  # keeps references alive, so that their ids stay theirs
        self.rows = [self._row(rollout) for rollout in rollouts]

    def works(self) -> list[Work]:
        return [self.verifier._work(tests, list(candidates)) for tests, candidates in self.groups]

    def verdicts(self, reports: Sequence[Sequence[Report]]) -> list[Verdict]:
        scoring = Scoring(self.verifier.score)
        rows = []
        for tickets in self.rows:
            found = [t.known or verdict(reports[t.group][t.place], scoring, t.extraction.rule, t.extraction.code or "") for t in tickets]
            rows.append(found[0] if len(found) == 1 else best_of(found))
        return rows

    def _row(self, rollout: Rollout) -> list[_Ticket]:
        reference = rollout.column(self.verifier.column)
        if reference is None and self.verifier.column == "tests":
            reference = rollout.column("answer")
        references = alternatives(reference)
        if reference is None or not references:
            known = Verdict.of(Status.BAD_REFERENCE, "missing_reference", f"column {self.verifier.column!r} is empty on this row")
            return [_Ticket(Extraction(None, ""), known=known)]
        return [self._ticket(rollout, one) for one in references]

    def _ticket(self, rollout: Rollout, reference: Any) -> _Ticket:
        entry = rollout.columns.get("entry_point") or rollout.columns.get("fn_name") or ""
        prompt = rollout.prompt if isinstance(rollout.prompt, str) else ""
        tests = self._tests(reference, entry if isinstance(entry, str) else "", prompt)
        if isinstance(tests, BadTests):
            return _Ticket(Extraction(None, ""), known=Verdict.of(Status.BAD_REFERENCE, tests.reason, tests.detail))
        entry, prompt = (tests.entry, tests.prompt) if isinstance(tests, Script) else (getattr(tests, "name", ""), "")
        language = self.verifier.language if isinstance(tests, Stdio) else "python"
        extraction = extract_code(rollout.completion, language, entry, prompt)
        if extraction.code is None:
            known = Verdict.of(Status.NO_ANSWER, "no_code", info={"rule": extraction.rule})
            return _Ticket(extraction, known=known)
        preamble = "" if extraction.rule.endswith("continuation") else prompt
        number = self._number.setdefault(tests, len(self.groups))
        if number == len(self.groups):
            self.groups.append((tests, {}))
        candidates = self.groups[number][1]
        return _Ticket(extraction, number, candidates.setdefault(Candidate(extraction.code, preamble), len(candidates)))

    def _tests(self, reference: Any, entry: str, prompt: str) -> Tests | BadTests:
        key = (id(reference), entry, prompt)
        if key not in self._read:
            self._kept.append(reference)
            try:
                self._read[key] = read_tests(reference, entry, prompt)
            except BadTests as error:
                self._read[key] = error
        return self._read[key]
