"""What guerdon adds to a trainer's own metrics: how many rows abstained, the outcome, which statuses occurred, and why.

Logged once a batch through TRL's `log_metric` and `log_extra`, where the trainer passes them. The keys depend on the reward alone, so
that they are the same on every rank, but for diversity, which groups of one completion do not have, and the outcome, which a batch may
lack. TRL averages each over the calls and ranks that have it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from guerdon.backends.door import PREFIX
from guerdon.backends.trl.diversity import batch_metrics
from guerdon.types import Status, Verdict

if TYPE_CHECKING:
    from guerdon.backends.trl.rows import Scoring
    from guerdon.rewards.scores import Scores

__all__ = ["log_scores", "metrics", "whys"]

log = logging.getLogger("guerdon")

ANY = (Status.ERROR, Status.BAD_REFERENCE, Status.UNSCORED)
VERIFIED = (*ANY, Status.TIMEOUT, Status.NO_ANSWER, Status.UNPARSEABLE)


def metrics(scoring: Scoring, scores: Scores, seconds: float) -> Iterator[tuple[str, float]]:
    """Name and value of each metric: shares of the rows, the mean outcome (absent where no row has one), wall seconds."""
    n = len(scores)
    yield f"{PREFIX}seconds", seconds
    if not n:
        return
    yield f"{PREFIX}abstained", 1.0 - int(scores.valid_N.sum()) / n
    outcomes = [v.score for v in scores.outcomes if v.score is not None]
    if outcomes:
        yield f"{PREFIX}outcome", sum(outcomes) / len(outcomes)
    for component in scoring.components:
        found = [verdict.status for verdict in scores.verdicts[component.name]]
        for status in ANY if component.term.outcome_term() is None else VERIFIED:
            yield f"{PREFIX}{component.name}/{status.value}", found.count(status) / n


def whys(scores: Scores) -> list[str]:
    """One text a row: status and reason of every component, for the table of completions."""
    names = scores.names
    return [
        "; ".join(f"{name} {_why(v)}" for name, v in zip(names, row, strict=True)) for row in zip(*scores.verdicts.values(), strict=True)
    ]


def _why(verdict: Verdict) -> str:
    return f"{verdict.status.value} ({verdict.reason})" if verdict.reason else verdict.status.value


def log_scores(
    scoring: Scoring, scores: Scores, seconds: float, arguments: Mapping[str, Any], completions: Sequence[Any] = (), ids: Any = None
) -> None:
    """Hand the metrics to the trainer that made the call, if it takes them, with those that `CollapseMonitor` reads: diversity is that of
    the token ids, or of plain completions. One that breaks is logged: it is not worth a run."""
    log_metric, log_extra = arguments.get("log_metric"), arguments.get("log_extra")
    try:
        if callable(log_metric):
            texts = completions if all(isinstance(c, str) for c in completions) else ()
            varied = batch_metrics(texts if ids is None else ids, scores.groups_N.tolist(), scores.total_N.tolist())
            for name, value in (*metrics(scoring, scores, seconds), *varied):
                log_metric(name, value)
        if callable(log_extra):
            log_extra(f"{PREFIX}why", whys(scores))
    except Exception as error:
        log.error("the trainer's log_metric or log_extra failed: %s: %s", type(error).__name__, error)
