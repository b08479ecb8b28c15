"""The live things of this process: one table keyed by (pid, spec), filled lazily, emptied together.

Rewards and verifiers hold specs, never pools or sandboxes, so they pickle and compare by value; the living counterpart of a spec
is looked up here when it is needed. A forked child starts with an empty table and leaves the parent's processes alone.
Nothing is started by importing this module, and nothing is ever shared between processes.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar

__all__ = ["Live", "close", "drop", "get", "session"]


class Live(Protocol):
    """What the registry holds: something that can be closed, or disowned in a forked child."""

    def close(self) -> None:
        """Free everything: processes ended and reaped, descriptors closed. Called once."""

    def disown(self) -> None:
        """In a forked child: close this process's copies of descriptors and touch nothing else, locks included."""


S = TypeVar("S", bound=Hashable)
L = TypeVar("L", bound=Live)


class _Slot:
    """One entry. Its own lock lets slow makers of different specs run side by side."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.live: Live | None = None
        self.dropped = False


class _Table:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.slots: dict[tuple[int, Hashable], _Slot] = {}


_table = _Table()


def get(spec: S, make: Callable[[S], L]) -> L:
    """The live thing of `spec` in this process, built by `make(spec)` on first use.

    Threads asking at once get the same one. If `make` raises, nothing is kept and the next call tries again.
    """
    while True:
        table = _table
        with table.lock:
            slot = table.slots.setdefault((os.getpid(), spec), _Slot())
        with slot.lock:
            if slot.dropped:  # closed between the two locks: start afresh
                continue
            if slot.live is None:
                slot.live = make(spec)
            return slot.live  # type: ignore[return-value]  # a spec has one maker


def drop(spec: Hashable) -> None:
    """Close and forget the live thing of one spec, if there is one."""
    with _table.lock:
        slot = _table.slots.pop((os.getpid(), spec), None)
    if slot is not None:
        _close(slot)


def close() -> None:
    """Close every pool and sandbox of this process. Idempotent; later use starts afresh. Also runs at exit.

    All are closed even if some fail; the first failure is raised at the end.
    """
    with _table.lock:
        slots = list(_table.slots.values())
        _table.slots.clear()
    failures: list[Exception] = []
    for slot in reversed(slots):  # a later one may rest on an earlier one
        try:
            _close(slot)
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _close(slot: _Slot) -> None:
    with slot.lock:
        slot.dropped = True
        live, slot.live = slot.live, None
        if live is not None:
            live.close()


@contextmanager
def session() -> Iterator[None]:
    """Close on exit whatever pools and sandboxes this process has by then.

    >>> with session():
    ...     pass
    """
    try:
        yield
    finally:
        close()


def _after_fork_in_child() -> None:
    """Forget the parent's entries. Its threads do not exist here, so its locks may be held for ever: they are never touched."""
    global _table
    inherited, _table = _table, _Table()
    for slot in list(inherited.slots.values()):
        if slot.live is not None:
            with suppress(Exception):
                slot.live.disown()


if hasattr(os, "register_at_fork"):  # absent on Windows
    os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(close)
