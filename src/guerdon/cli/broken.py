"""What broke over a file: for each status and reason of broken checks and answers, how often, and the first with its place.

An exit code and a count do not mend a reward: the message of the first failure does. Rows that abstain on purpose are no part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from guerdon.cli.groups import one_line
from guerdon.types import Verdict

__all__ = ["Broken", "Found", "Place"]

Place = tuple[int, int | None]
"""A line of the file and, where a line holds several rollouts, the index of the rollout in it."""

DETAIL = 300
"""Characters of a detail that are shown."""


@dataclass(slots=True)
class Found:
    """How often one thing broke, and where and how it did first."""

    place: Place | None
    detail: str
    count: int = 0

    def first(self, name: str, label: str) -> str:
        """`rollouts.jsonl:1: AttributeError: ...`; a detail need not begin with the component's name, as many do."""
        line, index = self.place or (None, None)
        where = "" if line is None else f"{label}:{line}" if index is None else f"{label}:{line}, rollout {index}"
        return one_line(": ".join(filter(None, (where, self.detail.removeprefix(f"{name}: ")[:DETAIL]))))


@dataclass(slots=True)
class Broken:
    """Broken verdicts by status and reason."""

    found: dict[tuple[str, str], Found] = field(default_factory=dict)

    def add(self, verdicts: Iterable[Verdict], place: Callable[[int], Place] | None = None) -> None:
        """Take in the verdicts of some rows; `place` tells where in the file the n-th of them is."""
        for row, verdict in enumerate(verdicts):
            if verdict.status.is_broken:
                key = (verdict.status.value, verdict.reason)
                if key not in self.found:
                    self.found[key] = Found(place and place(row), verdict.detail)
                self.found[key].count += 1

    @classmethod
    def of(cls, verdicts: Iterable[Verdict], place: Callable[[int], Place] | None = None) -> Broken:
        """Of one run of verdicts."""
        made = cls()
        made.add(verdicts, place)
        return made

    def lines(self, name: str, label: str) -> list[str]:
        """For people: `name: reason 16, first at rollouts.jsonl:1: ...`, the most frequent first."""
        most = sorted(self.found.items(), key=lambda item: -item[1].count)
        return [
            f"{name}: {reason or status} {found.count:,}" + (f", first at {found.first(name, label)}" if found.place else "")
            for (status, reason), found in most
        ]

    def document(self) -> list[dict[str, Any]]:
        """As JSON."""
        return [
            {
                "status": status,
                "reason": reason,
                "count": found.count,
                "line": found.place and found.place[0],
                "index": found.place and found.place[1],
                "detail": found.detail,
            }
            for (status, reason), found in self.found.items()
        ]
