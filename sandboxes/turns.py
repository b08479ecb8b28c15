"""Turns at something that bears only so many at once. They bound what is under way; who asks, and for what, is the caller's."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class Turns:
    """Turns at a service, first come, first served: each begins once fewer are under way than its asker allows. Of one event loop."""

    def __init__(self) -> None:
        self._taken = 0
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()

    @asynccontextmanager
    async def turn(self, most: int) -> AsyncIterator[None]:
        """A turn, once fewer than `most` are under way."""
        granted = asyncio.get_running_loop().create_future()
        self._queue.append((granted, most))
        self._grant()
        try:
            await granted
            yield
        finally:
            self._taken -= granted.done() and not granted.cancelled()
            self._grant()

    def _grant(self) -> None:
        while self._queue:
            granted, most = self._queue[0]
            if not granted.cancelled():
                if self._taken >= most:
                    return
                self._taken += 1
                granted.set_result(None)
            self._queue.popleft()
