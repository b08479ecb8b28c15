"""`guerdon filter`: keep the prompts whose pass rate, or whose variance, has something to teach.

The rule is on the observed counts of the rollouts in the file; nothing is sampled. A prompt that could not be scored is
counted as such with the reason, and is never taken for a hard one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import click

from guerdon.cli.broken import Broken
from guerdon.cli.files import check_output, writing
from guerdon.cli.groups import Group, one_line
from guerdon.cli.scoring import Chunk, Request, Scoring, in_range, scoring_options
from guerdon.errors import ConfigError
from guerdon.filters import Decision, Goldilocks, PassRate, ZeroVariance
from guerdon.types import Verdict

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from guerdon.rewards.scores import Scores

__all__ = ["filter_"]


@dataclass(frozen=True)
class Judged:
    """One prompt: its rows, its pass rate, what becomes of it, and what its rollouts without an outcome ran into."""

    group: Group
    pass_rate: PassRate
    decision: Decision
    lost: Counter[str]


@dataclass(frozen=True)
class _OneGroup:
    """The rows of one group of a batch: what `ZeroVariance` reads."""

    outcome_N: npt.NDArray[np.float64]
    values_NK: npt.NDArray[np.float64]
    weights_NK: npt.NDArray[np.float64]
    valid_N: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, scores: Scores, rows: slice) -> _OneGroup:
        return cls(scores.outcome_N[rows], scores.values_NK[rows], scores.weights_NK[rows], scores.valid_N[rows])


@dataclass(slots=True)
class Tally:
    """What became of the prompts of a file."""

    decisions: Counter[Decision] = field(default_factory=Counter)
    why: Counter[str] = field(default_factory=Counter)
    rates: Counter[tuple[int, int]] = field(default_factory=Counter)
    kept: Counter[tuple[int, int]] = field(default_factory=Counter)
    broken: Broken = field(default_factory=Broken)
    rollouts: int = 0
    unscorable: int = 0

    def add(self, judged: Judged) -> None:
        """Take in one prompt. An unscorable one counts under what most of its lost rollouts ran into."""
        self.decisions[judged.decision] += 1
        self.rollouts += judged.pass_rate.total + judged.pass_rate.unscorable
        self.unscorable += judged.pass_rate.unscorable
        if judged.decision is Decision.UNSCORABLE:
            self.why[judged.lost.most_common(1)[0][0] if judged.lost else "too few rollouts"] += 1
        elif judged.pass_rate.total:
            self.rates[judged.pass_rate.passed, judged.pass_rate.total] += 1
            self.kept[judged.pass_rate.passed, judged.pass_rate.total] += judged.decision is Decision.KEEP

    @property
    def prompts(self) -> int:
        return self.decisions.total()


_MIN_TOTAL = "A prompt with fewer scorable rollouts is unscorable.  [default: 4; with --zero-variance 2]"
_PASS_AT = in_range(click.FloatRange(0, 1, min_open=True))


@click.command("filter")
@scoring_options
@click.option("--keep", metavar="LOW:HIGH", help="Keep pass rates in this band, bounds included.  [default: 0.2:0.8]")
@click.option("--zero-variance", type=click.Choice(["outcome", "components"]), help="Drop instead the groups in which these are all equal.")
@click.option("--pass-at", type=_PASS_AT, default=1.0, metavar="X", help="A rollout passes at this outcome.  [default: 1.0]")
@click.option("--min-total", type=in_range(click.IntRange(min=1)), metavar="N", help=_MIN_TOTAL)
@click.option("-o", "--output", metavar="FILE", help="Write the kept rows here, as JSONL; - is stdout, .gz compresses.")
@click.option("--one-per-prompt", is_flag=True, help="Of a flat file, write the first row of each kept prompt only.")
def filter_(
    request: Request,
    as_json: bool,
    keep: str | None,
    zero_variance: Literal["outcome", "components"] | None,
    pass_at: float,
    min_total: int | None,
    output: str | None,
    one_per_prompt: bool,
) -> int:
    """Keep the prompts worth training on, by pass rate.

    ROLLOUTS is as for `guerdon score`. A rollout passes by its outcome (correctness, before shaping). Kept rows are
    written as they are, with guerdon_pass_rate, guerdon_passed, guerdon_total and guerdon_unscorable. Without -o only
    the summary is printed. Exit code 1 when no rollout has an outcome.

    \b
      guerdon filter rollouts.jsonl --reward my_reward.py:reward --keep 0.2:0.8 -o kept.jsonl
    """
    if as_json and output == "-":
        raise ConfigError("--json and -o - both write to stdout: name a file with -o")
    rule = _rule(keep, zero_variance, min_total)
    check_output(output, request.path, request.reward.rpartition(":")[0])
    tally = Tally()
    with closing(Scoring(request, whole=True)) as scoring:
        if scoring.reward.outcome_term() is None:
            raise ConfigError(
                f"--reward {request.reward}: filtering needs an outcome, and no term of {scoring.reward.name!r} is backed by a verifier: "
                "add one such as R.math_equal(), or name the term with reward.with_outcome('name')"
            )
        with writing(output) as write:
            for chunk in scoring.chunks():
                tally.broken.add(chunk.scores.outcomes, chunk.place)
                for judged in _judge(chunk, rule, pass_at):
                    tally.add(judged)
                    if judged.decision is Decision.KEEP and output is not None:
                        write(_kept_lines(judged, one_per_prompt))
    _report(tally, scoring, rule, pass_at, as_json, output)
    if tally.unscorable < tally.rollouts:
        return 0
    why = "; ".join(tally.broken.lines("outcome", scoring.source.label)[:3] or [f"{why} {count:,}" for why, count in tally.why.items()])
    click.echo(one_line(f"guerdon: no rollout of {scoring.source.label} has an outcome: {why}"), err=True)
    return 1


def _rule(keep: str | None, zero_variance: Literal["outcome", "components"] | None, min_total: int | None) -> Goldilocks | ZeroVariance:
    if zero_variance is not None:
        if keep is not None:
            raise ConfigError("--keep and --zero-variance are two rules: give one of them")
        return ZeroVariance(zero_variance) if min_total is None else ZeroVariance(zero_variance, min_total)
    low, colon, high = (keep or "0.2:0.8").partition(":")
    try:
        if not colon:
            raise ValueError
        bounds = float(low), float(high)
    except ValueError:
        raise ConfigError(f"--keep: expected LOW:HIGH, e.g. 0.2:0.8, got {keep!r}") from None
    if not 0 <= bounds[0] <= bounds[1] <= 1:
        raise ConfigError(f"--keep: expected LOW:HIGH with 0 <= low <= high <= 1, e.g. 0.2:0.8, got {keep!r}")
    return Goldilocks(*bounds) if min_total is None else Goldilocks(*bounds, min_total)


def _judge(chunk: Chunk, rule: Goldilocks | ZeroVariance, pass_at: float) -> Iterator[Judged]:
    scores, start = chunk.scores, 0
    outcomes_N = scores.outcome_N.tolist()
    for group in chunk.groups:
        rows = slice(start, start := start + len(group.rollouts))
        pass_rate = PassRate.of(outcomes_N[rows], pass_at)
        decision = rule.decide(pass_rate) if isinstance(rule, Goldilocks) else rule.decide(_OneGroup.of(scores, rows))
        lost = Counter(_why(verdict) for verdict in scores.outcomes[rows] if verdict.score is None)
        yield Judged(group, pass_rate, decision, lost)


def _why(verdict: Verdict) -> str:
    return f"{verdict.status.value} ({verdict.reason})" if verdict.reason else verdict.status.value


def _kept_lines(judged: Judged, one_per_prompt: bool) -> str:
    rate = judged.pass_rate
    columns = {
        "guerdon_pass_rate": rate.rate,
        "guerdon_passed": rate.passed,
        "guerdon_total": rate.total,
        "guerdon_unscorable": rate.unscorable,
    }
    rows = judged.group.rows[:1] if one_per_prompt else judged.group.rows
    return "".join(_dumped({**row.data, **columns}) for row in rows)


def _dumped(row: dict[str, Any]) -> str:
    text = json.dumps(row, ensure_ascii=False, default=str)  # default: dates and the like, from Parquet
    return (text if _encodable(text) else json.dumps(row, default=str)) + "\n"


def _encodable(text: str) -> bool:
    """False for lone surrogates, which JSON can carry and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _report(tally: Tally, scoring: Scoring, rule: Goldilocks | ZeroVariance, pass_at: float, as_json: bool, output: str | None) -> None:
    if as_json:
        click.echo(json.dumps(_document(tally, scoring, rule, pass_at, output)))
        return
    from guerdon.cli.tables import columns_of, duration, histogram, percent, print_rich, table

    err = output == "-"
    head = (
        f"{scoring.source.label}: {tally.prompts:,} prompts, {tally.rollouts:,} rollouts in {duration(scoring.seconds)}; "
        f"{_ruling(rule, pass_at)}; {columns_of(scoring.layout.read_from)}"
    )
    shown = [
        Decision.KEEP,
        *((Decision.TOO_EASY, Decision.TOO_HARD) if isinstance(rule, Goldilocks) else (Decision.ZERO_VARIANCE,)),
        Decision.UNSCORABLE,
    ]
    rows = [[_label(d), f"{tally.decisions[d]:,}", percent(tally.decisions[d], tally.prompts)] for d in shown]
    rows += [[f"  {why}", f"{count:,}", percent(count, tally.prompts)] for why, count in tally.why.most_common()]
    print_rich(head, table(["prompts", "count", "share"], rows), err=err)
    if tally.rates:
        print_rich(histogram(tally.rates, tally.kept), err=err)
    if tally.unscorable:
        print_rich(f"{tally.unscorable:,} of {tally.rollouts:,} rollouts had no outcome and count for nothing", err=err)
    print_rich(*tally.broken.lines("outcome", scoring.source.label), *([scoring.bad.text()] if scoring.bad.count else []), err=err)
    if output not in (None, "-"):
        print_rich(f"wrote the rows of {tally.decisions[Decision.KEEP]:,} prompts to {output}")


def _ruling(rule: Goldilocks | ZeroVariance, pass_at: float) -> str:
    if isinstance(rule, Goldilocks):
        return f"keeping pass rates from {rule.low} to {rule.high}; a rollout passes at an outcome of {pass_at:g}"
    return f"dropping prompts in which {'all outcomes are equal' if rule.on == 'outcome' else 'no component varies'}"


def _label(decision: Decision) -> str:
    return "kept" if decision is Decision.KEEP else decision.value.replace("_", " ")


def _document(tally: Tally, scoring: Scoring, rule: Goldilocks | ZeroVariance, pass_at: float, output: str | None) -> dict[str, Any]:
    how = {"low": rule.low, "high": rule.high} if isinstance(rule, Goldilocks) else {"zero_variance": rule.on}
    return {
        "input": scoring.source.label,
        "reward": scoring.request.reward,
        "columns": dict(scoring.layout.keys),
        "rule": {**how, "min_total": rule.min_total, "pass_at": pass_at},
        "prompts": tally.prompts,
        "rollouts": tally.rollouts,
        "unscorable_rollouts": tally.unscorable,
        "bad_rows": scoring.bad.count,
        "decisions": {decision.value: tally.decisions[decision] for decision in Decision},
        "unscorable_because": dict(tally.why),
        "broken": tally.broken.document(),
        "seconds": scoring.seconds,
        "output": output,
    }
