"""The deadline of the current call, carried by context so that no signature needs it.

`score(..., deadline_s=60)` sets it once; whatever waits below (worker pools, sandboxes, clients) asks `remaining()`.
It is inherited by asyncio tasks and `asyncio.to_thread`, not by plain threads. Nothing is interrupted here: who waits must look.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from guerdon.errors import ConfigError

__all__ = ["DEADLINE", "ROW_S", "remaining", "row_limit", "until"]

DEADLINE: ContextVar[float | None] = ContextVar("guerdon_deadline", default=None)
"""Absolute, on the clock of `time.monotonic()`; None: no deadline."""


ROW_S: ContextVar[float | None] = ContextVar("guerdon_row_s", default=None)
"""Wall seconds that checking one row may take, whatever the check's own limit; None: no such limit."""


def row_limit(limit_s: float) -> float:
    """A check's own limit for one row, or the caller's where that is shorter.

    >>> row_limit(5.0)
    5.0
    """
    own = ROW_S.get()
    return limit_s if own is None else min(own, limit_s)


def remaining() -> float | None:
    """Seconds left until the deadline, 0.0 once it has passed, None if there is none.

    >>> remaining() is None
    True
    """
    deadline = DEADLINE.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


@contextmanager
def until(deadline: float | None) -> Iterator[None]:
    """Set the deadline (absolute, `time.monotonic()` clock) for the block. An earlier one already set stays; None changes nothing.

    >>> with until(time.monotonic() + 60):
    ...     59 < remaining() <= 60
    True
    """
    if deadline is not None and not math.isfinite(deadline):
        raise ConfigError(f"until: expected a finite time.monotonic() value or None, got {deadline!r}")
    outer = DEADLINE.get()
    bounds = [bound for bound in (outer, deadline) if bound is not None]
    token = DEADLINE.set(min(bounds, default=None))
    try:
        yield
    finally:
        DEADLINE.reset(token)
