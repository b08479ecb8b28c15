"""`guerdon audit answers` and `guerdon audit pairs`: look at a data set's answers, and at a verifier, before a run relies on them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import click

from guerdon.cli.audit_answers import AnswersReport, look_at
from guerdon.cli.audit_pairs import Pair, Tally, judged, named, read_pairs
from guerdon.cli.rows import parse_columns
from guerdon.types import Verdict

__all__ = ["answers", "pairs"]

_PERCENTILES = (50, 95, 99)


@click.command()
@click.argument("data")
@click.option("--columns", help="Which keys hold the answer and the prompt: answer=solution,prompt=question.")
@click.option("--show", default=20, show_default=True, help="Findings to list of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def answers(data: str, columns: str | None, show: int, as_json: bool) -> int:
    """Check every answer (reference) of a data set with the math verifier.

    DATA is JSONL, gzipped JSONL or Parquet. Found are answers that cannot be read, that do not equal themselves, that
    contradict another answer to the same prompt, and that are prose. Exit code 1 when any of the first three is found.

    \b
      guerdon audit answers train.jsonl.gz --columns answer=solution
    """
    report = look_at(data, parse_columns(columns))
    serious = sum(finding.serious for finding in report.findings)
    if as_json:
        found = [{name: getattr(finding, name) for name in ("line", "problem", "answer", "detail")} for finding in report.findings]
        click.echo(json.dumps({"rows": report.rows, "kinds": dict(report.kinds), "findings": found, "serious": serious}))
    else:
        _print_answers(data, report, show)
    return 1 if serious else 0


def _print_answers(data: str, report: AnswersReport, show: int) -> None:
    from guerdon.cli.tables import print_rich, shares, table

    print_rich(f"{data}: {report.rows:,} rows; their answers are {shares(report.kinds)}")
    by_problem: dict[str, list[list[str]]] = {}
    for finding in report.findings:
        by_problem.setdefault(finding.problem, []).append([str(finding.line), f"{finding.answer!r:.60}", finding.detail])
    for problem, rows in by_problem.items():
        more = f", the first {show}" if len(rows) > show else ""
        print_rich(f"{problem}: {len(rows):,}{more}", table(["line", "answer", "why"], rows[:show], left=(1, 2)))
    if not report.findings:
        print_rich("nothing to mend")


@click.command()
@click.argument("file")
@click.option("--verifier", required=True, help="math, math-verify, or the import string of a verifier.")
@click.option("--against", help="Another verifier, put to the same pairs: where the two differ is listed.")
@click.option("--columns", help="Which keys hold what: answer=gold,candidate=pred,label=correct.")
@click.option("--labels", "audit", help="An audit of the labels: rows with set, index, scope, label_ok. Default: audit.jsonl beside FILE.")
@click.option("--show", default=20, show_default=True, help="Wrong verdicts and flips to list.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def pairs(file: str, verifier: str, against: str | None, columns: str | None, audit: str | None, show: int, as_json: bool) -> None:
    """Measure a verifier on labelled pairs: how often it is right, on what it errs, how long it takes.

    FILE is JSONL, gzipped or not, or Parquet: rows with an answer (or gold), a candidate (or pred) and a label; rows whose
    form is "response" hold whole completions, which math reads under MathRules.lenient(). Pairs are judged one at a time.

    \b
      guerdon audit pairs pairs.jsonl --verifier math --against math-verify
      guerdon audit pairs pairs.jsonl --verifier my_verifier.py:verifier
    """
    found = read_pairs(file, parse_columns(columns), audit)
    results = {spec: judged(found, named(spec)) for spec in dict.fromkeys(filter(None, (verifier, against)))}
    document: dict[str, Any] = {"file": file, "pairs": len(found), "verifiers": {}}
    for spec, result in results.items():
        document["verifiers"][spec] = _measured(found, result)
    if against is not None:
        document["flips"] = _flips(found, results[verifier], results[against])
    if as_json:
        click.echo(json.dumps(document))
    else:
        _print_pairs(document, verifier, against, show)


def _measured(found: Sequence[Pair], result: Sequence[tuple[Verdict, float]]) -> dict[str, Any]:
    verdicts = [verdict for verdict, _ in result]
    times = sorted(1000 * seconds for _, seconds in result)
    stages = Counter(str(verdict.info.get("stage", verdict.status.value)) for verdict in verdicts)
    wrong = [(pair, verdict) for pair, verdict in zip(found, verdicts, strict=True) if pair.label != (verdict.score == 1.0)]
    return {
        **Tally(found, verdicts).document(),
        "milliseconds": {f"p{p}": times[min(len(times) - 1, len(times) * p // 100)] for p in _PERCENTILES} | {"max": times[-1]},
        "per_second": 1000 * len(times) / sum(times),
        "stages": dict(stages.most_common()),
        "by_source": _by(found, verdicts, lambda pair: pair.source),
        "by_scope": _by(found, verdicts, lambda pair: pair.scope if pair.sure else ""),
        "wrong": [_listed(pair) | {"status": verdict.status.value, "extracted": verdict.extracted} for pair, verdict in wrong],
    }


def _by(found: Sequence[Pair], verdicts: Sequence[Verdict], key: Callable[[Pair], str]) -> dict[str, Any]:
    groups: dict[str, list[int]] = {}
    for row, pair in enumerate(found):
        groups.setdefault(key(pair), []).append(row)
    return {name: Tally([found[i] for i in rows], [verdicts[i] for i in rows]).document() for name, rows in sorted(groups.items()) if name}


def _listed(pair: Pair) -> dict[str, Any]:
    return {"place": pair.place, "answer": str(pair.answer), "candidate": pair.candidate, "label": pair.label, "scope": pair.scope}


def _flips(found: Sequence[Pair], ours: Sequence[tuple[Verdict, float]], theirs: Sequence[tuple[Verdict, float]]) -> list[dict[str, Any]]:
    said = [(a.score == 1.0, b.score == 1.0) for (a, _), (b, _) in zip(ours, theirs, strict=True)]
    return [
        _listed(pair) | {"verifier": a, "against": b, "right": "verifier" if a == pair.label else "against"}
        for pair, (a, b) in zip(found, said, strict=True)
        if a != b
    ]


def _print_pairs(document: dict[str, Any], verifier: str, against: str | None, show: int) -> None:
    from guerdon.cli.tables import print_rich, shares, table

    def times(measured: dict[str, Any]) -> list[str]:
        return [f"{measured['milliseconds'][name]:.2f}" for name in (*(f"p{p}" for p in _PERCENTILES), "max")]

    head = ["verifier", "accuracy", "false +", "false -", "abstained", "p50 ms", "p95 ms", "p99 ms", "max ms", "pairs/s"]
    rows = [[name, *_counts(m)[1:], *times(m), f"{m['per_second']:,.0f}"] for name, m in document["verifiers"].items()]
    print_rich(f"{document['file']}: {document['pairs']:,} pairs, judged one at a time", table(head, rows))
    for name, measured in document["verifiers"].items():
        print_rich(f"{name}: decided by {shares(measured['stages'])}")
        for by in ("scope", "source"):
            if groups := measured[f"by_{by}"]:
                print_rich(table([by, "pairs", *head[1:5]], [[group, *_counts(tally)] for group, tally in groups.items()]))
    wrong = document["verifiers"][verifier]["wrong"]
    if wrong:
        lines = [[row["place"], "+" if not row["label"] else "-", _short(row["answer"]), _short(row["candidate"])] for row in wrong[:show]]
        print_rich(
            f"{verifier}: {len(wrong)} wrong (+ rewards what is wrong, - refuses what is right)",
            table(["where", "", "answer", "candidate"], lines, left=(0, 1, 2, 3)),
        )
    if against is not None:
        _print_flips(document["flips"], verifier, against, show)


def _print_flips(flips: list[dict[str, Any]], verifier: str, against: str, show: int) -> None:
    from guerdon.cli.tables import print_rich, table

    right = sum(flip["right"] == "verifier" for flip in flips)
    print_rich(f"{verifier} and {against} differ on {len(flips)}: {verifier} is right on {right}, {against} on {len(flips) - right}")
    names = {"verifier": verifier, "against": against}
    rows = [[flip["place"], names[flip["right"]], _short(flip["answer"]), _short(flip["candidate"])] for flip in flips[:show]]
    if rows:
        print_rich(table(["where", "right is", "answer", "candidate"], rows, left=(0, 1, 2, 3)))


def _counts(tally: dict[str, Any]) -> list[str]:
    counts = [str(tally[name]) for name in ("false_positives", "false_negatives", "abstained")]
    return [f"{tally['pairs']:,}", f"{tally['accuracy']:.2f} %", *counts]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 48 else "…" + text[-47:]
