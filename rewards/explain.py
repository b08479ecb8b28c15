"""A reward on one rollout, as a tree of terms with weights, scores, statuses and reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guerdon.rewards.evaluate import Batch
from guerdon.rewards.logic import Gate
from guerdon.rewards.scores import make_scores
from guerdon.rewards.sums import WeightedSum
from guerdon.rewards.term import Term
from guerdon.types import Rollout, Verdict

__all__ = ["explanation"]


def explanation(reward: Term, rollout: Rollout, siblings: Sequence[Rollout] = ()) -> str:
    """The tree as text. The first line has the total and the outcome."""
    batch = Batch([reward], [rollout, *(s for s in siblings if s is not rollout)])
    batch.check_inputs()
    batch.run(None)
    scores = make_scores(reward, batch)
    total, outcome = scores.totals()[0], scores.outcomes[0]
    lost = any(v.status.is_abstention for v in scores.components(0).values())
    head = f"total {_number(total)}" if total is not None else f"total none: {'the row abstains' if lost else 'no term applies'}"
    source = reward.outcome_term()
    if source is not None:
        head += f"   outcome {_number(outcome.score)} ({outcome.status})"
    rows = list(_tree(reward, batch, "", ""))
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join([head, *(f"{left:<{width}}  {right}".rstrip() for left, right in rows)])


def _tree(term: Term, batch: Batch, label: str, indent: str) -> Iterator[tuple[str, str]]:
    if label or not isinstance(term, WeightedSum):
        yield f"{indent}{label}{term.name}", _verdict(batch.value(term)[0], type(term).__name__ if term.parts else "")
        indent += "  "
    labels = [f"{weight:g} * " for weight, _ in term.terms] if isinstance(term, WeightedSum) else [""] * len(term.parts)
    if isinstance(term, Gate):
        labels = ["", "on "]
    for part_label, part in zip(labels, term.parts, strict=True):
        yield from _tree(part, batch, part_label or "- ", indent)


def _verdict(verdict: Verdict, kind: str) -> str:
    out = f"{_number(verdict.score):>7}  {verdict.status:<14}"
    if kind:
        out += f" [{kind}]"
    if verdict.extracted is not None:
        out += f" extracted {verdict.extracted!r:.60}"
    if verdict.info.get("rule"):
        out += f" by {verdict.info['rule']}"
    if verdict.reason and verdict.reason != verdict.status:
        out += f" {verdict.reason}"
    if verdict.detail:
        out += f": {verdict.detail:.200}" if verdict.reason and verdict.reason != verdict.status else f" {verdict.detail:.200}"
    return out


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
