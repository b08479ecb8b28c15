"""Requests as the dispatcher keeps them, alone and in batches. Plain data."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from guerdon.backends.serve.frames import Door, Item

if TYPE_CHECKING:
    from guerdon.backends.serve.staff import Worker

__all__ = ["Batch", "Retry", "Unit", "row_count"]


@dataclass(eq=False, slots=True)
class Unit:
    """One request. `rows` is a count taken without reading it; `losses` counts the workers that died over it."""

    number: int
    door: Door
    body: bytes
    rows: int
    arrived: float
    deadline: float
    future: asyncio.Future[tuple[int, bytes]]
    size: int = 0
    losses: int = 0
    lost: dict[int, tuple[str, str]] = field(default_factory=dict)
    done: bool = False

    @property
    def item(self) -> Item:
        return Item(self.number, self.door, self.body, self.lost)


@dataclass(eq=False, slots=True)
class Batch:
    """Requests sent to a worker together. `abandoned`: nobody waits for it. `at`: the request and row it last said it began."""

    number: int
    units: dict[int, Unit]
    worker: Worker
    sent: float
    stepwise: bool
    exclusive: bool
    limit_s: float
    by_timeout: bool
    timer: asyncio.TimerHandle | None = None
    abandoned: bool = False
    overdue: bool = False
    at: tuple[int, int] | None = None

    @property
    def open(self) -> list[Unit]:
        """The requests without an answer."""
        return [unit for unit in self.units.values() if not unit.done]


@dataclass(slots=True)
class Retry:
    """Requests to be tried again together. `exclusive`: on a worker that does nothing else, as they may have killed one."""

    units: list[Unit]
    stepwise: bool
    exclusive: bool


def row_count(door: Door, body: bytes) -> int:
    """About how many rows a request has, without reading it: exact for single ones, by its keys and commas for lists."""
    if door == "score_batch":
        return max(1, body.count(b'"completion"'), body.count(b'"messages"'))
    if door == "get_reward":  # strings side by side, in each of three lists
        return 1 + (body.count(b'", "') + body.count(b'","')) // 3
    return 1
