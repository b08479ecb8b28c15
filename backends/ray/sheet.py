"""Rows to rollouts, and scores to the columns they become. A row that cannot be read keeps its place and says why.

Nothing here knows Ray or frames; what rows look like is `guerdon.backends.rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guerdon.abstention import OnAbstain
from guerdon.backends.door import PREFIX
from guerdon.backends.rows import NAMES, Layout, Row
from guerdon.errors import ConfigError, MissingInput
from guerdon.rewards.components import flatten
from guerdon.rewards.inputs import ALWAYS
from guerdon.rewards.term import Term
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.backends.ray.frames import Columns
    from guerdon.rewards.scores import Scores

__all__ = ["Sheet", "check_columns", "layout_of", "new_names"]

OPTION = "columns={{'{name}': '{key}'}}"

_FIELDS = {
    "num_tokens": "add the column num_tokens or token_ids, name yours with columns={'num_tokens': KEY}, or pass tokenizer= to the term",
    "token_ids": "add the column token_ids, or name yours with columns={'token_ids': KEY}",
    "truncated": "add the column truncated, or name yours with columns={'truncated': KEY}",
    "messages": "give completions as lists of messages, or name them with columns={'completion': KEY}",
}


def layout_of(sample: Mapping[str, Any], columns: Mapping[str, str], label: str) -> Layout:
    """Where a data set keeps the parts of a rollout, from the names of its columns and what each holds. Raises DataError with the fix."""
    if not isinstance(columns, Mapping):
        raise ConfigError(f"columns: expected a mapping such as {{'answer': 'solution', 'completion': 'text'}}, got {columns!r:.80}")
    filled = {key: True if value is None else value for key, value in sample.items()}  # the names decide, or batches could differ
    listing = columns.get("rollouts", "rollouts")
    if (
        listing in sample
        and _untold(sample[listing])
        and ("rollouts" in columns or not any(name in sample for name in NAMES["completion"]))
    ):
        filled[listing] = [""]  # lists in other batches
    return Layout.detect([Row(1, filled)], columns, label, option=OPTION)


def new_names(reward: Term, detail: bool) -> dict[str, str]:
    """The columns that scoring adds, with their kind: always the same for one reward."""
    names = [("reward", "float"), ("outcome", "float"), ("abstained", "bool")]
    for component in flatten(reward):
        own = f"{PREFIX}{component.name}"
        names += [(own, "float"), (f"{own}/status", "text")]
        names += [(f"{own}/reason", "text"), (f"{own}/detail", "text")] if detail else []
    found = dict(names)
    if len(found) < len(names):
        twice = next(name for name, _ in names if [n for n, _ in names].count(name) > 1)
        raise ConfigError(f"the column {twice!r} would stand for two things: give a term another name, with name=")
    return found


def check_columns(reward: Term, layout: Layout, sample: Mapping[str, Any], new: Mapping[str, str], label: str) -> None:
    """What can be told from the columns alone. Raises MissingInput where a term reads what no column gives on any row, and ConfigError
    where a new column would replace one that is there. Terms that only some rows are routed to are not asked for."""
    if taken := [name for name in new if name in sample]:
        raise ConfigError(f"{label}: has the columns {', '.join(taken)}, which scoring adds: ds.drop_columns({taken!r}), or rename them")
    items = sample.get(layout.keys["rollouts"]) if layout.nested else None
    if layout.nested and _untold(items):
        return  # what the rollouts carry is not known
    there = dict(sample)
    for item in items if isinstance(items, list) else ():
        there.update(item if isinstance(item, dict) else {})
    for component in flatten(reward):
        for read in sorted(component.term.reads - ALWAYS if component.weight is not None else ()):
            if not any(_has(layout, name, there) for name in read.split("|")):
                key = read.partition("|")[0]
                fix = _FIELDS.get(read) or (
                    f"name yours with columns={{'{key}': KEY}}, or with column= of the term; the columns are {', '.join(there)}"
                )
                raise MissingInput(f"{component.name} reads {read.replace('|', ' or ')!r}, which {label} does not carry: {fix}")


def _untold(value: Any) -> bool:
    """Whether a column tells nothing of the lists that it may hold: all of it is null, or empty lists."""
    return value is None or (isinstance(value, list) and all(item is None for item in value))


def _has(layout: Layout, name: str, there: Mapping[str, Any]) -> bool:
    if name == "messages":
        return isinstance(there.get(layout.keys.get("completion", "")), list | None)
    if name == "num_tokens" and "token_ids" in layout.keys:
        return True
    return name in layout.read_from if name in _FIELDS else name in layout.read_from or name in there


@dataclass(frozen=True)
class Sheet:
    """The rollouts of some rows, in order, each with a place of its own; in a place whose row cannot be scored the verdict says why.

    `spans` says how many places each row has, where rows hold lists of rollouts; None: one each.
    """

    places: Sequence[Rollout | Verdict]
    spans: Sequence[int] | None

    @classmethod
    def read(cls, rows: Sequence[Mapping[str, Any]], layout: Layout, reward: Term) -> Sheet:
        """Make the rollouts. Rows that lack a token count or the like that their terms read are lost; the others are not."""
        places: list[Rollout | Verdict] = []
        spans: list[int] = []
        needed = reward.reads & _FIELDS.keys()
        for line, row in enumerate(rows, 1):
            found = _rollouts(Row(line, dict(row)), layout)
            spans.append(len(found))
            places += [_or_lost(reward, place, needed) for place in found]
        return cls(places, spans if layout.nested else None)

    @property
    def rollouts(self) -> list[Rollout]:
        """Those that can be scored."""
        return [place for place in self.places if isinstance(place, Rollout)]

    def columns(self, scores: Scores, new: Mapping[str, str], on_abstain: OnAbstain) -> Columns:
        """The new columns, from the scores of `rollouts`."""
        totals = [None if isinstance(total, Verdict) else total for total in self._placed(scores.totals())]
        values: dict[str, list[Any]] = {
            "reward": on_abstain.apply(totals),
            "outcome": [verdict.score for verdict in self._placed(scores.outcomes)],
            "abstained": [total is None for total in totals],
        }
        for name, own in scores.verdicts.items():
            verdicts: list[Verdict] = self._placed(own)
            values[f"{PREFIX}{name}"] = [verdict.score for verdict in verdicts]
            values[f"{PREFIX}{name}/status"] = [verdict.status.value for verdict in verdicts]
            values[f"{PREFIX}{name}/reason"] = [verdict.reason for verdict in verdicts]
            values[f"{PREFIX}{name}/detail"] = [verdict.detail.encode("utf-8", "replace").decode() for verdict in verdicts]
        return {name: (kind, values[name]) for name, kind in new.items()}

    def _placed(self, found: Sequence[Any]) -> list[Any]:
        """One value a place: the next of `found`, or the verdict of a lost place."""
        rest = iter(found)
        return [next(rest) if isinstance(place, Rollout) else place for place in self.places]


def _rollouts(row: Row, layout: Layout) -> Sequence[Rollout | Verdict]:
    try:
        return layout.rollouts(row)
    except (ValueError, TypeError, AttributeError) as error:  # the last two: chats of an odd shape
        lost = Verdict.of(Status.ERROR, "bad_column", str(error)[:2000])
    if not layout.nested:
        return [lost]
    listing = layout.keys["rollouts"]
    items = row.data.get(listing)
    if not isinstance(items, list) or len(items) < 2:
        return [lost] * (len(items) if isinstance(items, list) else 0)
    return [place for item in items for place in _rollouts(Row(row.line, {**row.data, listing: [item]}), layout)]


def _or_lost(reward: Term, place: Rollout | Verdict, fields: Iterable[str]) -> Rollout | Verdict:
    """The rollout, or why it cannot be scored: one without what a term reads would cost the whole call."""
    if isinstance(place, Verdict) or all(getattr(place, field) is not None for field in fields):
        return place
    try:
        reward.check_inputs([place])
    except MissingInput as error:
        return Verdict.of(Status.ERROR, "bad_column", str(error)[:2000])
    return place
