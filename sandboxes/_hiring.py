"""The processes of one pool: hired, kept warm as spares, dismissed, and all ended together."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress

from guerdon.errors import SandboxError
from guerdon.sandboxes._process import Worker
from guerdon.sandboxes.workers import PoolSpec

__all__ = ["Hiring"]


class Hiring:
    """Every live worker process of a spec, spares included. Its methods may be called from any thread."""

    def __init__(self, spec: PoolSpec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()
        self._spares: deque[Worker] = deque()
        self._closed = False

    def hire(self) -> Worker:
        """A worker that is ready: the spare if there is a good one, else a new one. Puts a new spare in its place.

        Raises SandboxError if none can be started.
        """
        worker = self._spare() or self._new(attempts=2)
        with self._lock, suppress(SandboxError):
            while len(self._spares) < self._spec.warm_spares:
                self._spares.append(self._launch())
        return worker

    def dismiss(self, worker: Worker) -> None:
        """Kill it, reap it, forget it."""
        worker.reap()
        self._workers.discard(worker)

    def kill(self) -> None:
        """Start no more and kill all; whoever owns one notices and dismisses it."""
        self._closed = True
        for worker in list(self._workers):
            worker.kill()

    def close(self) -> None:
        """Kill and reap all. For when nobody owns one any more."""
        self.kill()
        with self._lock:
            for worker in list(self._workers):
                self.dismiss(worker)

    def disown(self) -> None:
        """In a forked child: close its copies of the pipes, without the lock, which a thread that is not here may hold."""
        for worker in list(self._workers):
            worker.disown()

    def _spare(self) -> Worker | None:
        with self._lock:
            worker = self._spares.popleft() if self._spares else None
        if worker is not None:
            try:
                worker.wait_ready()
            except SandboxError:  # it was killed while it waited
                self.dismiss(worker)
                return None
        return worker

    def _new(self, attempts: int) -> Worker:
        """A new worker that is ready. One that somebody killed while it started (a full host) is tried again."""
        worker = self._launch()
        try:
            worker.wait_ready()
        except SandboxError:
            self.dismiss(worker)
            if attempts > 1 and worker.was_killed and not self._closed:
                return self._new(attempts - 1)
            raise
        return worker

    def _launch(self) -> Worker:
        worker = Worker(self._spec.target, self._spec.memory_mb)
        self._workers.add(worker)  # before it starts: a child forked meanwhile closes its pipes too
        try:
            worker.start()
            if self._closed:  # `kill` may have come before there was a process
                raise SandboxError("the pool is closed")
        except SandboxError:
            self.dismiss(worker)
            raise
        return worker
