"""`guerdon score`: a reward on a file of rollouts, one JSON line a rollout, and a table of what it gave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import click

from guerdon.cli.files import check_output, writing
from guerdon.cli.groups import one_line
from guerdon.cli.scoring import Chunk, Request, Scoring, scoring_options
from guerdon.cli.summary import TIMED_S, Summary
from guerdon.errors import ConfigError
from guerdon.types import Verdict

__all__ = ["score"]


@click.command()
@scoring_options
@click.option("-o", "--output", metavar="FILE", help="Write the scores here, one JSON line a rollout; - is stdout, .gz compresses.")
@click.option("--full", is_flag=True, help="Write each verdict's detail and extracted answer too.")
def score(request: Request, as_json: bool, output: str | None, full: bool) -> int:
    """Score a file of rollouts with a reward.

    ROLLOUTS is JSONL, gzipped JSONL or Parquet, or - for stdin: one rollout a row (prompt, completion, answer, ...), or
    one prompt a row with its list of rollouts. Without -o only the summary is printed. Exit code 1 when no rollout got a
    total.

    \b
      guerdon score rollouts.jsonl --reward my_reward.py:reward -o scores.jsonl
      guerdon score rollouts.jsonl.gz -r my_reward.py:reward --columns answer=solution,completion=text
    """
    if as_json and output == "-":
        raise ConfigError("--json and -o - both write to stdout: name a file with -o")
    check_output(output, request.path, request.reward.rpartition(":")[0])
    summary, groups = Summary(), 0
    with closing(Scoring(request)) as scoring, writing(output) as write:
        for chunk in scoring.chunks():
            summary.add(chunk.scores, chunk.place)
            groups = max(groups, *(group.number + 1 for group in chunk.groups))
            if output is not None:
                write("".join(score_lines(chunk, full)))
    _report(summary, scoring, groups, as_json, output)
    if summary.total.count:
        return 0
    label = scoring.source.label
    click.echo(one_line(f"guerdon: no rollout of {label} got a total: {summary.why_no_total(label)}"), err=True)
    return 1


def score_lines(chunk: Chunk, full: bool = False) -> Iterator[str]:
    """One JSON object a rollout, each with its newline. Numbers are never NaN: a row without a total has null."""
    scores = chunk.scores
    named = [(f"{json.dumps(name)}: ", scores.verdicts[name]) for name in scores.names]
    verdict_text = _full_verdict if full else _verdict
    outcomes = [verdict.score for verdict in scores.outcomes]
    totals = scores.totals()
    row = 0
    for group in chunk.groups:
        for index, (rollout, line) in enumerate(zip(group.rollouts, group.lines, strict=True), group.start):
            parts = ", ".join([name + verdict_text(verdicts[row]) for name, verdicts in named])
            yield (
                f'{{"id": {_text(rollout.id)}, "line": {line}, "group": {group.number}, "index": {index}, '
                f'"total": {_number(totals[row])}, "outcome": {_number(outcomes[row])}, "components": {{{parts}}}}}\n'
            )
            row += 1


def _number(value: float | None) -> str:
    return "null" if value is None else repr(value)


def _text(value: str | None) -> str:
    return "null" if value is None else json.dumps(value)


def _verdict(verdict: Verdict) -> str:
    # Written by hand: a tenth of json.dumps' time. Scores are finite, statuses and reasons plain lower-case codes.
    return f'{{"score": {_number(verdict.score)}, "status": "{verdict.status.value}", "reason": "{verdict.reason}"}}'


def _full_verdict(verdict: Verdict) -> str:
    return f'{_verdict(verdict)[:-1]}, "detail": {json.dumps(verdict.detail)}, "extracted": {_text(verdict.extracted)}}}'


def _report(summary: Summary, scoring: Scoring, groups: int, as_json: bool, output: str | None) -> None:
    if as_json:
        document: dict[str, Any] = {
            "input": scoring.source.label,
            "reward": scoring.request.reward,
            "columns": dict(scoring.layout.keys),
            "groups": groups,
            "bad_rows": scoring.bad.count,
            **summary.document(),
            "seconds": scoring.seconds,
            "output": output,
        }
        click.echo(json.dumps(document))
        return
    from guerdon.cli.tables import columns_of, duration, number, print_rich

    label = scoring.source.label
    rate = f" ({summary.rollouts / scoring.seconds:,.0f}/s)" if scoring.seconds >= TIMED_S else ""
    head = (
        f"{label}: {summary.rollouts:,} rollouts of {groups:,} prompts in {duration(scoring.seconds)}{rate}; "
        f"{columns_of(scoring.layout.read_from)}"
    )
    scored = summary.outcome.count
    outcome = f"outcome: mean {number(summary.outcome.mean)} over {scored:,} rollouts" if scored else "no outcome"
    skipped = [scoring.bad.text()] if scoring.bad.count else []
    print_rich(head, summary.table(), *summary.reasons(label), outcome, *skipped, err=output == "-")
    if output not in (None, "-"):
        print_rich(f"wrote {output}")
