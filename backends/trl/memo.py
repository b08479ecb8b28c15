"""One pass of scoring for the K functions that TRL calls one after another, or from K threads, with the same batch.

The first to be called with a batch scores; the others read. A batch is known by its objects (the list of completions, what is in it and
in the columns), held strongly, so that no other object can take their place. It is dropped when all K have read, or when another
batch comes: a call that was cut short leaves nothing behind but one batch.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from operator import is_
from typing import Any

__all__ = ["Memo", "shared"]

Columns = list[list[float | None]]


class Memo:
    """The last batch that `readers` functions share. Not picklable: see `shared`."""

    def __init__(self, readers: int) -> None:
        self.readers = readers
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self.batch: tuple[Any, ...] = ()
        self.unread: set[int] = set()
        self.result: Columns = []

    def read(self, index: int, batch: tuple[Any, ...], score: Callable[[], Columns]) -> list[float | None]:
        """Function `index`'s values: those of the batch if it is the one held, else what `score` finds."""
        with self.lock:
            if not self._holds(index, batch):
                self.forget()
                self.result = score()
                self.batch, self.unread = batch, set(range(self.readers))
            found = self.result[index]
            self.unread.discard(index)
            if not self.unread:
                self.forget()
        return found

    def _holds(self, index: int, batch: tuple[Any, ...]) -> bool:
        return index in self.unread and len(batch) == len(self.batch) and all(map(is_, batch, self.batch))


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
