"""One pass of scoring for the K functions that TRL calls one after another, or from K threads, with the same batch.

The first to be called with a list of completions scores; the others read. A batch is known by the list itself and its elements, held
strongly, so that no other object can take its place. It is dropped when all K have read, or when another batch comes: a call
that was cut short leaves nothing behind but one batch.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

__all__ = ["Memo", "shared"]

Columns = list[list[float | None]]


class Memo:
    """The last batch that `readers` functions share. Not picklable: see `shared`."""

    def __init__(self, readers: int) -> None:
        self.readers = readers
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self.completions: Sequence[Any] | None = None
        self.elements: tuple[Any, ...] = ()
        self.unread: set[int] = set()
        self.result: Any = None
        self.loop: Any = None

    def read(self, index: int, completions: Sequence[Any], score: Callable[[], Columns]) -> list[float | None]:
        """Function `index`'s values: those of the batch if it is the one held, else what `score` finds."""
        with self.lock:
            if not self._holds(index, completions, None):
                self.forget()
                self._hold(completions, score(), None)
            found: list[float | None] = self._take(index)[index]
        return found

    async def aread(self, index: int, completions: Sequence[Any], score: Callable[[], Coroutine[Any, Any, Columns]]) -> list[float | None]:
        """`read` on a running loop. The pass is a task of its own: a function that is cancelled does not end it for the others."""
        import asyncio

        loop = asyncio.get_running_loop()
        with self.lock:
            if not self._holds(index, completions, loop):
                self._hold(completions, loop.create_task(score()), loop)
            task: asyncio.Task[Columns] = self._take(index)
        return (await asyncio.shield(task))[index]

    def _holds(self, index: int, completions: Sequence[Any], loop: Any) -> bool:
        return (
            completions is self.completions
            and self.loop is loop
            and index in self.unread
            and len(completions) == len(self.elements)
            and all(map(is_, completions, self.elements))
        )

    def _hold(self, completions: Sequence[Any], result: Any, loop: Any) -> None:
        self.completions, self.elements, self.result, self.loop = completions, tuple(completions), result, loop
        self.unread = set(range(self.readers))

    def _take(self, index: int) -> Any:
        result = self.result
        self.unread.discard(index)
        if not self.unread:
            self.forget()
        return result


_memos: weakref.WeakValueDictionary[tuple[int, str], Memo] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _after_fork_in_child() -> None:
    """A thread that does not exist here may have held the lock."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # absent on Windows
    os.register_at_fork(after_in_child=_after_fork_in_child)


def shared(token: str, readers: int) -> Memo:
    """The memo of the functions that were built together, in this process: they may have been pickled one by one."""
    key = (os.getpid(), token)
    with _lock:
        memo = _memos.get(key)
        if memo is None:
            memo = _memos[key] = Memo(readers)
        return memo
