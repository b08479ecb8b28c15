"""`guerdon audit code`: run programs that are wrong on purpose, and see whether any of them earns anything.

The folder holds one payload a file, `NAME.KIND.py`, and may hold `attacks.json` with what each tries. A payload that earns more
than 0, or makes the verifier abstain, is a hole. Right and wrong programs of each kind are run beside them, so that a verifier
that rejects everything does not pass. Exit code 1 when anything is not as it should be.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from guerdon.cli.audit_math import answers, pairs

if TYPE_CHECKING:
    from guerdon.types import Verdict

__all__ = ["audit"]

_FUNCTION = "def f(a, b):\n    return a * a + 7 * b\n"
_CASES = ((1, 2, 15), (3, 4, 37), (5, 0, 25), (-2, 9, 67))
_ASSERTS = [f"assert f({a}, {b}) == {c}" for a, b, c in _CASES]
_LISTS = ("3\n1 2 3\n", "4\n5 5 1 0\n", "1\n9\n", "5\n4 4 2 2 1\n")
_STDIO = "input(); print(sum(int(x) ** 2 for x in input().split()))"
_SORT = "input(); print(*sorted(map(int, input().split())))"
_MULTI = "input(); print(*[int(x) ** 2 for x in input().split()], sep='\\n')"


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split("\n")[1].split()]


_TESTS: dict[str, dict[str, Any]] = {
    "func": {
        "calls": {"fn_name": "f", "inputs": [[a, b] for a, b, _ in _CASES], "outputs": [c for *_, c in _CASES]},
        "check": {
            "entry_point": "f",
            "test": "def check(candidate):\n    " + "\n    ".join(a.replace("f(", "candidate(") for a in _ASSERTS),
        },
        "asserts": {"test_list": _ASSERTS},
        "tolerance": {"test_list": [f"assert abs(f({a}, {b}) - {c}) < 1e-6" for a, b, c in _CASES]},
    },
    "unittest": {
        "unittest": "import unittest\nfrom solution import f\nclass T(unittest.TestCase):\n"
        + "".join(f"    def test_{i}(self):\n        self.assertEqual(f({a}, {b}), {c})\n" for i, (a, b, c) in enumerate(_CASES))
    },
    "pytest": {
        "pytest": "import pytest\nfrom solution import f\n@pytest.mark.parametrize('a, b, c', "
        + f"{_CASES!r})\ndef test_f(a, b, c):\n    assert f(a, b) == c\n"
    },
    "stdio": {"stdio": {"inputs": list(_LISTS), "outputs": [str(sum(n * n for n in _numbers(text))) for text in _LISTS]}},
    "stdio-sort": {"stdio": {"inputs": list(_LISTS), "outputs": [" ".join(map(str, sorted(_numbers(text)))) for text in _LISTS]}},
    "stdio-multi": {"stdio": {"inputs": list(_LISTS), "outputs": ["\n".join(str(n * n) for n in _numbers(text)) for text in _LISTS]}},
}
"""The tests of each kind, by shape. A function is f(a, b) = a*a + 7*b; programs read n, then n numbers on one line."""

_RIGHT = {"func": _FUNCTION, "unittest": _FUNCTION, "pytest": _FUNCTION, "stdio": _STDIO, "stdio-sort": _SORT, "stdio-multi": _MULTI}
_WRONG = {kind: "print(-1)" if kind.startswith("stdio") else "def f(a, b):\n    return -1\n" for kind in _RIGHT}


@dataclass(frozen=True)
class _Program:
    """A payload or a control."""

    id: str
    kind: str
    cheat: str
    expected: float
    text: str


@dataclass(frozen=True)
class Finding:
    """One program under the tests of one shape. `expected` is the score it should have."""

    id: str
    kind: str
    shape: str
    cheat: str
    expected: float
    score: float | None
    status: str
    reason: str
    detail: str
    level: str

    @property
    def fine(self) -> bool:
        return self.score == self.expected


@click.group()
def audit() -> None:
    """Try to cheat a verifier, before a model does."""


audit.add_command(answers)
audit.add_command(pairs)


@audit.command()
@click.option("--attacks", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of payloads.")
@click.option("--timeout", "timeout_s", default=2.0, show_default=True, help="CPU seconds a run; the wall limit is three times that.")
@click.option("--sandbox", "spec", help="Import string of a sandbox spec; default: the zygote sandbox at its best level here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def code(attacks: Path, timeout_s: float, spec: str | None, as_json: bool) -> int:
    """Run every payload of a folder against the code verifier, and right and wrong programs beside them."""
    findings = run_audit(attacks, timeout_s, spec)
    bad = [finding for finding in findings if not finding.fine]
    if as_json:
        click.echo(json.dumps({"findings": [asdict(finding) for finding in findings], "holes": len(bad)}))
    else:
        _print(findings, bad)
    return 1 if bad else 0


def run_audit(attacks: Path, timeout_s: float = 2.0, spec: str | None = None) -> list[Finding]:
    """Every payload and control under every shape of its kind. Raises click.UsageError for a folder without payloads."""
    from guerdon.types import Rollout
    from guerdon.verifiers.code import CodeVerifier

    verifier = CodeVerifier(timeout_s=timeout_s) if spec is None else CodeVerifier(timeout_s=timeout_s, sandbox=spec)
    rows = [(program, shape) for program in _payloads(attacks) + _controls() for shape in _TESTS[program.kind]]
    rollouts = [Rollout(f"```python\n{program.text}\n```", columns={"tests": _TESTS[program.kind][shape]}) for program, shape in rows]
    return [_finding(*row, verdict) for row, verdict in zip(rows, verifier.judge(rollouts), strict=True)]


def _finding(program: _Program, shape: str, verdict: Verdict) -> Finding:
    level, status = str(verdict.info.get("level", "")), verdict.status.value
    named = (program.id, program.kind, shape, program.cheat, program.expected)
    return Finding(*named, verdict.score, status, verdict.reason, verdict.detail, level)


def _payloads(folder: Path) -> list[_Program]:
    described = _described(folder)
    found = []
    for file in sorted(folder.glob("*.py")):
        name, _, kind = file.stem.rpartition(".")
        if kind not in _TESTS:
            raise click.UsageError(f"{file}: expected NAME.KIND.py with a kind among {', '.join(_TESTS)}")
        found.append(_Program(name, kind, described.get(name, ""), 0.0, file.read_bytes().decode("utf-8", "surrogateescape")))
    if not found:
        raise click.UsageError(f"{folder}: no payloads; expected files such as 01_exit.func.py")
    return found


def _described(folder: Path) -> Mapping[str, str]:
    file = folder / "attacks.json"
    if not file.is_file():
        return {}
    try:
        return {str(entry["id"]): str(entry["cheat"]) for entry in json.loads(file.read_text("utf-8"))}
    except (ValueError, TypeError, KeyError) as error:
        raise click.UsageError(f"{file}: expected a JSON list of objects with id and cheat: {error}") from None


def _controls() -> list[_Program]:
    right = [_Program("right", kind, "is a right program", 1.0, text) for kind, text in _RIGHT.items()]
    return right + [_Program("wrong", kind, "is a wrong program", 0.0, text) for kind, text in _WRONG.items()]


def _print(findings: list[Finding], bad: list[Finding]) -> None:
    from guerdon.cli.tables import print_rich, table

    rows = []
    for kind, shape in dict.fromkeys((finding.kind, finding.shape) for finding in findings):
        own = [finding for finding in findings if (finding.kind, finding.shape) == (kind, shape)]
        payloads = [finding for finding in own if finding.id not in ("right", "wrong")]
        earned, abstained = sum((f.score or 0) > 0 for f in payloads), sum(f.score is None for f in payloads)
        reasons = Counter(finding.reason or finding.status for finding in payloads)
        controls = "as expected" if all(f.fine for f in own if f not in payloads) else "WRONG"
        became = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        rows.append([kind, shape, str(len(payloads)), str(earned), str(abstained), controls, became])
    print_rich(table(["kind", "tests as", "payloads", "earned", "abstained", "controls", "became"], rows, left=(0, 1, 5, 6)))
    levels = sorted({finding.level for finding in findings if finding.level})
    for finding in bad:
        where, became = f"{finding.id} ({finding.kind}, {finding.shape})", f"{finding.status} {finding.reason} {finding.detail}"
        print_rich(f"HOLE {where}: score {finding.score}, {became}; it {finding.cheat}")
    summary = "nothing earned, nothing abstained" if not bad else f"{len(bad)} not as they should be"
    print_rich(f"{len(findings)} programs run at level {', '.join(levels) or 'unknown'}: {summary}")
