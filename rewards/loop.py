"""One background event loop per process, for async terms scored from sync code.

It lives in the per-process registry, so that clients bound to a loop can be kept between calls; `guerdon.close()` ends it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guerdon.sandboxes import registry

if TYPE_CHECKING:
    import asyncio
    import threading

__all__ = ["submit"]


@dataclass(frozen=True)
class _Spec:
    """Key of the loop in the registry."""


class _Loop:
    def __init__(self, spec: _Spec) -> None:
        import asyncio
        import threading

        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self.thread: threading.Thread = threading.Thread(target=self.loop.run_forever, name="guerdon-loop", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Stop the loop, cancelling what still runs on it."""
        import asyncio

        def stop() -> None:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.call_soon(self.loop.stop)

        self.loop.call_soon_threadsafe(stop)
        self.thread.join(timeout=2.0)
        if not self.thread.is_alive():
            self.loop.close()

    def disown(self) -> None:
        """In a forked child: the thread does not exist here; the loop's descriptors go with the process."""


def submit(coroutine: Coroutine[Any, Any, None]) -> Future[None]:
    """Run `coroutine` on the background loop."""
    import asyncio

    live: _Loop = registry.get(_Spec(), _Loop)
    return asyncio.run_coroutine_threadsafe(coroutine, live.loop)
