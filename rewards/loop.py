"""One background event loop per process, for async terms scored from sync code.

It lives in the per-process registry, so that clients bound to a loop can be kept between calls; `guerdon.close()` ends it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guerdon.errors import SandboxError
from guerdon.sandboxes import registry

if TYPE_CHECKING:
    import asyncio

__all__ = ["submit"]

UNWIND_S = 1.0
"""How long cancelled tasks may take to unwind when the loop is closed."""


@dataclass(frozen=True)
class _Spec:
    """Key of the loop in the registry."""


class _Loop:
    def __init__(self, spec: _Spec) -> None:
        import asyncio
        import threading

        self.loop = asyncio.new_event_loop()
        self.lock = threading.Lock()  # so that nothing is put on a loop that has stopped: it would wait for ever
        self.closed = False  # takes no more
        self.ended = False  # has nothing left; not before, as a loop closed while its thread was starting would forget what it was given
        self.thread = threading.Thread(target=self._serve, name="guerdon-loop", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while not self.ended:
            try:
                self.loop.run_forever()
            except (KeyboardInterrupt, SystemExit):  # asyncio gives them to the task's future and raises them here too
                continue
        self.loop.close()

    def submit(self, coroutine: Coroutine[Any, Any, None]) -> Future[None] | None:
        """Run it here; None if the loop has been closed."""
        import asyncio

        with self.lock:
            return None if self.closed else asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def close(self) -> None:
        """End the loop and its thread, cancelling what still runs there. One that blocks the loop is left behind."""
        import threading

        with self.lock:
            self.closed = True
        self.loop.call_soon_threadsafe(self._begin_to_end)
        if threading.current_thread() is not self.thread:
            self.thread.join(timeout=2 * UNWIND_S)

    def _begin_to_end(self) -> None:
        self.ending: asyncio.Task[None] = self.loop.create_task(self._end())

    async def _end(self) -> None:
        import asyncio

        tasks = asyncio.all_tasks() - {self.ending}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=UNWIND_S)
        await self.loop.shutdown_asyncgens()
        await asyncio.sleep(0)  # the callbacks of tasks done a moment ago: their futures are waited for
        self.ended = True
        self.loop.stop()

    def disown(self) -> None:
        """In a forked child: the thread does not exist here. The loop is kept from being collected, which would warn and close."""
        _disowned.append(self)


_disowned: list[_Loop] = []


def submit(coroutine: Coroutine[Any, Any, None]) -> Future[None]:
    """Run `coroutine` on the background loop. SandboxError from that loop itself: who waits there waits for ever."""
    import threading

    while True:
        live: _Loop = registry.get(_Spec(), _Loop)
        if threading.current_thread() is live.thread:
            coroutine.close()
            raise SandboxError("an async function called score() of a reward that has async terms: it must `await reward.ascore(...)`")
        if (future := live.submit(coroutine)) is not None:
            return future
