"""Verdicts of services, kept in memory and asked for once: least recently used first out, bounded in entries and in bytes.

Lives on one event loop and takes no locks. Only scores are kept: an error says nothing of the next time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from guerdon.types import Status, Verdict

__all__ = ["BYTES", "ENTRIES", "Cache", "Call", "Flight"]

ENTRIES = 65_536
BYTES = 64 << 20
_OVERHEAD = 600
"""Bytes of an entry besides its texts, roughly: verdict, key, place in the table."""


class Flight:
    """One request under way, for some keys (None: shared with nobody). It is cancelled once nobody holds it."""

    def __init__(self, keys: Sequence[bytes | None], work: Callable[[], Awaitable[list[Verdict]]], cache: Cache) -> None:
        self.keys, self._work, self._cache, self._held = tuple(keys), work, cache, 0
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> list[Verdict]:
        try:
            verdicts = await self._work()
        finally:
            self._cache.landed(self)
        for key, verdict in zip(self.keys, verdicts, strict=True):
            if key is not None:
                self._cache.keep(key, verdict)
        return verdicts

    def hold(self) -> None:
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        if not self._held and not self.task.done():
            self._cache.landed(self)  # at once: nobody may join what is being cancelled
            self.task.cancel()


class Cache:
    def __init__(self, entries: int = ENTRIES, most_bytes: int = BYTES) -> None:
        self._most, self._most_bytes = entries, most_bytes
        self._kept: OrderedDict[bytes, Verdict] = OrderedDict()
        self._flying: dict[bytes, tuple[Flight, int]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def kept(self, key: bytes) -> Verdict | None:
        """The verdict kept for a key, which thereby counts as used."""
        if (found := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
        return found

    def flying(self, key: bytes) -> tuple[Flight, int] | None:
        """The request under way for a key, and the key's place in it."""
        return self._flying.get(key)

    def fly(self, keys: Sequence[bytes | None], work: Callable[[], Awaitable[list[Verdict]]]) -> Flight:
        """Start a request for these keys."""
        flight = Flight(keys, work, self)
        self._flying.update({key: (flight, place) for place, key in enumerate(keys) if key is not None})
        return flight

    def landed(self, flight: Flight) -> None:
        """The flight may no longer be joined."""
        for key in flight.keys:
            if key is not None and self._flying.get(key, (None,))[0] is flight:
                del self._flying[key]

    def keep(self, key: bytes, verdict: Verdict) -> None:
        """Keep a score; anything else is not kept."""
        if verdict.status is not Status.SCORED:
            return
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= _size(old)
        self._kept[key] = verdict
        self._bytes += _size(verdict)
        while self._kept and (len(self._kept) > self._most or self._bytes > self._most_bytes):
            self._bytes -= _size(self._kept.popitem(last=False)[1])


class Call:
    """The rows of one call, on their way: what is kept is filled in, equal rows are asked about once, requests start as they fill up.

    `out` has a place a row. `most` rows go into a request, and `ask` is given the numbers of these rows.
    """

    def __init__(
        self, cache: Cache, out: list[Verdict | None], most: int, ask: Callable[[Sequence[int]], Coroutine[Any, Any, list[Verdict]]]
    ) -> None:
        self._cache, self._out, self._most, self._ask = cache, out, most, ask
        self._asked: dict[bytes | int, list[int]] = {}  # not sent yet: rows by what they are told apart by
        self._sent: dict[bytes | int, tuple[Flight, int]] = {}
        self._joins: dict[Flight, asyncio.Task[None]] = {}
        self._places: dict[Flight, list[tuple[int, int]]] = {}

    def add(self, row: int, key: bytes | int) -> None:
        """A row. Rows of equal keys, if these are bytes, are equal for the service."""
        own = self._sent.get(key) or (self._cache.flying(key) if isinstance(key, bytes) else None)
        if own is not None:
            self._join(*own, [row])
        elif isinstance(key, bytes) and (kept := self._cache.kept(key)) is not None:
            self._out[row] = kept
        else:
            self._asked.setdefault(key, []).append(row)
            if len(self._asked) >= self._most:
                self.send()

    def send(self) -> None:
        """Ask about the rows that wait for a request to fill up."""
        if not self._asked:
            return
        rows = [same[0] for same in self._asked.values()]
        flight = self._cache.fly([key if isinstance(key, bytes) else None for key in self._asked], lambda: self._ask(rows))
        for place, (key, same) in enumerate(self._asked.items()):
            self._sent[key] = flight, place
            self._join(flight, place, same)
        self._asked = {}

    def _join(self, flight: Flight, place: int, rows: Sequence[int]) -> None:
        if flight not in self._joins:
            flight.hold()
            self._places[flight] = []
            self._joins[flight] = asyncio.ensure_future(self._landing(flight))
        if flight.task.done():
            for row in rows:
                self._out[row] = flight.task.result()[place]
        self._places[flight] += [(row, place) for row in rows]

    async def _landing(self, flight: Flight) -> None:
        verdicts = await asyncio.shield(flight.task)
        for row, place in self._places[flight]:
            self._out[row] = verdicts[place]

    async def wait(self, left_s: float | None) -> None:
        """Return when all rows are filled or the time is up. Raises what a request raised."""
        if self._joins:
            done, _ = await asyncio.wait(self._joins.values(), timeout=left_s, return_when=asyncio.FIRST_EXCEPTION)
            for join in done:
                join.result()

    def release(self) -> None:
        """Give up what is not done."""
        for flight, join in self._joins.items():
            join.cancel()
            flight.release()


def _size(verdict: Verdict) -> int:
    return _OVERHEAD + 4 * len(verdict.detail)
