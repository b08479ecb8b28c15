"""Labelled pairs put to a verifier, one at a time: what it says, how long it takes. Nothing is printed here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guerdon.cli.files import BadRow, Source
from guerdon.errors import ConfigError, DataError
from guerdon.loading import load
from guerdon.types import Rollout, Verdict, Verifier

if TYPE_CHECKING:
    from guerdon.verifiers.math import MathRules

__all__ = ["Pair", "Tally", "judged", "named", "read_pairs"]

_KEYS = {
    "answer": ("answer", "gold", "reference", "target"),
    "candidate": ("candidate", "pred", "prediction", "completion", "response", "text"),
    "label": ("label", "correct"),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """An answer, what was given for it, and whether that is right. `whole` says that the candidate is a whole completion.

    `scope` and `sure` come from an audit of the labels, where there is one; what is not sure is left out of the counts by scope.
    """

    answer: Any
    candidate: str
    label: bool
    place: str
    whole: bool = False
    source: str = ""
    scope: str = ""
    sure: bool = True


def read_pairs(path: str, columns: Mapping[str, str], audit: str | None) -> list[Pair]:
    """The pairs of a file: JSON lines with an answer, a candidate and a label; `form` "response" marks whole completions.

    `audit` names a file of rows {set, index, scope, label_ok}: verdicts on labels, for the rows of the set that the file is named after.
    """
    source = Source(path)
    rows = list(source.rows())
    source.close()
    notes = _notes(path, audit)
    pairs = []
    for index, row in enumerate(rows):
        if isinstance(row, BadRow):
            raise DataError(f"{path}:{row.line}: {row.why}")
        note = notes.get(index, {})
        answer, candidate, label = (_value(row.data, name, columns, f"{path}:{row.line}") for name in _KEYS)
        if not isinstance(candidate, str) or not isinstance(label, bool | int):
            raise DataError(f"{path}:{row.line}: expected a candidate that is text and a label that is true or false")
        origin = str(row.data.get("source", "")).split("#")[0].split("::")[0].strip()
        scope, sure = str(note.get("scope", row.data.get("scope", ""))), note.get("label_ok", True) is True
        whole = row.data.get("form") == "response"
        pairs.append(Pair(answer, candidate, bool(label), f"{Path(path).name}:{row.line}", whole, origin, scope, sure))
    if not pairs:
        raise DataError(f"{path}: no pairs")
    return pairs


def _value(data: Mapping[str, Any], name: str, columns: Mapping[str, str], place: str) -> Any:
    wanted = (columns[name],) if name in columns else _KEYS[name]
    for key in wanted:
        if key in data:
            return data[key]
    raise DataError(f"{place}: no {name}: looked for {', '.join(wanted)}; say which key it is with --columns {name}=KEY")


def _notes(path: str, audit: str | None) -> dict[int, Mapping[str, Any]]:
    beside = Path(path).parent / "audit.jsonl"
    file = audit or (str(beside) if path != "-" and beside.is_file() else None)
    if file is None:
        return {}
    source, name = Source(file), Path(path).name.split(".")[0]
    notes: dict[int, Mapping[str, Any]] = {
        row.data["index"]: row.data for row in source.rows() if not isinstance(row, BadRow) and row.data.get("set") == name
    }
    source.close()
    return notes


@dataclass(frozen=True)
class _Bare:
    """The math verifier on answers that nothing has to be extracted from."""

    rules: MathRules

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        from guerdon.verifiers.math import equivalent

        return [equivalent(rollout.completion, rollout.answer, self.rules) for rollout in rollouts]


@dataclass(frozen=True)
class _Boxed:
    """A verifier that needs a bare answer in a box."""

    verifier: Verifier

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return self.verifier.judge([Rollout(f"\\boxed{{{rollout.completion}}}", answer=rollout.answer) for rollout in rollouts])


def named(spec: str) -> tuple[Verifier, Verifier]:
    """The verifiers for bare answers and for whole completions: of `math`, `math-verify`, or an import string of a verifier."""
    if spec == "math":
        from guerdon.verifiers.math import MathRules, MathVerifier, equivalent

        equivalent("\\sum_{j=1}^n j", "\\sum_{k=1}^n k")  # starts the workers of the fallback, which no pair should be charged for
        return _Bare(MathRules()), MathVerifier(rules=MathRules.lenient())
    if spec == "math-verify":
        from guerdon.verifiers.math.peer import MathVerify

        return _Boxed(MathVerify()), MathVerify()
    found = load(spec)
    made = found() if isinstance(found, type) else found
    if not isinstance(made, Verifier):
        raise ConfigError(f"--verifier {spec}: expected math, math-verify, or an object with judge(rollouts), got {type(made).__name__}")
    rules = getattr(made, "rules", None)
    bare = _Bare(rules) if rules is not None and type(made).__module__.startswith("guerdon.verifiers.math") else made
    return bare, made


def judged(pairs: Sequence[Pair], verifiers: tuple[Verifier, Verifier]) -> list[tuple[Verdict, float]]:
    """The verdict on each pair and its wall seconds. The first pair is judged twice, so that imports are not timed."""
    results = []
    for pair in (pairs[0], *pairs):
        verifier = verifiers[pair.whole]
        start = time.perf_counter()
        verdict = verifier.judge([Rollout(pair.candidate, answer=pair.answer)])[0]
        results.append((verdict, time.perf_counter() - start))
    return results[1:]


class Tally:
    """How often verdicts are right: counts of one group of pairs."""

    def __init__(self, pairs: Sequence[Pair], verdicts: Sequence[Verdict]) -> None:
        self.pairs = len(pairs)
        found = Counter((pair.label, verdict.score == 1.0) for pair, verdict in zip(pairs, verdicts, strict=True))
        self.false_positives, self.false_negatives = found[False, True], found[True, False]
        self.abstained = sum(verdict.score is None for verdict in verdicts)

    @property
    def accuracy(self) -> float:
        """Right verdicts in a hundred; an abstention is right only where the candidate is wrong."""
        return 100 * (1 - (self.false_positives + self.false_negatives) / self.pairs)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        names = ("pairs", "accuracy", "false_positives", "false_negatives", "abstained")
        return {name: getattr(self, name) for name in names}
