"""Do the rollouts of a call carry what a term reads? A missing input is a configuration error, with the fix, not an abstention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from guerdon.errors import ConfigError, MissingInput
from guerdon.rewards.term import Term
from guerdon.types import Rollout

__all__ = ["ALWAYS", "as_rollouts", "check_input", "inputs_of"]

ALWAYS = frozenset({"group", "completion", "prompt"})
"""Inputs that every rollout has."""

_OF_ROLLOUT = {
    "num_tokens": "pass num_tokens= in the rollouts, or tokenizer= to the term",
    "token_ids": "pass token_ids= in the rollouts",
    "messages": "make the rollouts with Rollout.from_messages",
    "truncated": "pass truncated= in the rollouts",
}


def as_rollouts(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """A list of its own; ConfigError for anything but rollouts."""
    if isinstance(rollouts, Rollout):
        raise ConfigError("score: expected a list of Rollouts, got one; write [rollout]")
    found = list(rollouts)
    for rollout in found:
        if not isinstance(rollout, Rollout):
            got = type(rollout).__name__
            raise ConfigError(f"score: expected Rollouts, got {got}; build them with Rollout(...) or Rollout.from_trl and its siblings")
    return found


def check_input(term: Term, name: str, rollouts: Sequence[Rollout]) -> None:
    """MissingInput where the term reads `name` and these rollouts (those of its route) lack it: fields on any row, columns on all."""
    if not rollouts:
        return
    if name in _OF_ROLLOUT:
        lost = next((i for i, r in enumerate(rollouts) if getattr(r, name) is None), None)
        if lost is not None:
            raise MissingInput(f"{term.name} reads {name!r}, which rollout {lost} of {len(rollouts)} lacks: {_OF_ROLLOUT[name]}")
    elif all(r.column(column) is None for column in name.split("|") for r in rollouts):
        raise MissingInput(f"{term.name} reads column {name.replace('|', ' or ')!r}{_lost(name, rollouts)}")


def _lost(name: str, rollouts: Sequence[Rollout]) -> str:
    """What became of a column that no rollout has a value in, and the fix. Whether an `answer` was given as None cannot be seen."""
    empty = next((column for column in name.split("|") if any(column in r.columns for r in rollouts)), None)
    if empty is not None:
        return f", and column {empty!r} is empty on all {len(rollouts)} rows: fill it, or name another with column="
    there = sorted({c for r in rollouts[:8] for c in (*r.columns, "answer") if r.column(c) is not None})
    lack = "is absent or empty on all" if "answer" in name.split("|") else "is absent from all"
    fix = "name yours with column= or rename it"
    return f", which {lack} {len(rollouts)} rollouts (they have {', '.join(there) or 'no data columns'}): {fix}"


def inputs_of(reads: Iterable[str]) -> frozenset[str]:
    """`reads=` as a set. A text would be taken for its letters."""
    if isinstance(reads, str):
        raise ConfigError(f"reads: expected a collection of names, got {reads!r}; write reads=({reads!r},)")
    return frozenset(reads)
