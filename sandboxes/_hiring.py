"""The processes of one pool: hired, kept warm as spares, dismissed, and all ended together."""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import suppress

from guerdon.errors import SandboxError
from guerdon.sandboxes._process import Worker
from guerdon.sandboxes._template import Forked, Template
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
        self._template: Template | None = None
        self._forks = spec.warm_spares > 0 and sys.platform == "linux"

    def hire(self) -> Worker:
        """A worker that is ready: forked from the template where that can be; else the spare if there is a good one, else a new one,
        and a new spare in its place.

        Raises SandboxError if none can be started.
        """
        worker = self._forked(attempts=2) or self._spare() or self._new(attempts=2)
        with self._lock, suppress(SandboxError):
            while not self._forks and len(self._spares) < self._spec.warm_spares:
                self._spares.append(self._launch())
        return worker

    def dismiss(self, worker: Worker) -> None:
        """Kill it, reap it, forget it."""
        worker.reap()
        self._workers.discard(worker)

    def kill(self) -> None:
        """Start no more and kill all; whoever owns one notices and dismisses it."""
        self._closed = True
        if (template := self._template) is not None:
            template.kill_if_importing()
        for worker in list(self._workers):
            worker.kill()

    def close(self) -> None:
        """Kill and reap all. For when nobody owns one any more."""
        self.kill()
        with self._lock:
            for worker in list(self._workers):
                self.dismiss(worker)
            if self._template is not None:
                self._template.reap()

    def disown(self) -> None:
        """In a forked child: close its copies of the pipes, without the lock, which a thread that is not here may hold."""
        for worker in [*self._workers, *([] if self._template is None else [self._template])]:
            worker.disown()

    def _forked(self, attempts: int) -> Worker | None:
        """A worker forked from the template, which is started on first use; None where there can be none."""
        if not self._forks:
            return None
        template, worker = self._living_template(), None
        try:
            if not template.wait_ready():
                worker = self._launch(Forked(template, self._spec.target, self._spec.memory_mb))
                worker.wait_ready()
                return worker
        except SandboxError:
            if worker is not None:
                self.dismiss(worker)
            if not template.is_ready:
                self._retire(template)
            if attempts > 1 and not self._closed and (template.was_killed or (worker is not None and worker.was_killed)):
                return self._forked(attempts - 1)
            raise
        self._forks = False
        self._retire(template)
        return None

    def _living_template(self) -> Template:
        with self._lock:
            if self._template is None:
                self._template = Template(self._spec.target, self._spec.memory_mb)  # kept first: children forked meanwhile close it
                try:
                    self._template.start()
                    if self._closed:
                        raise SandboxError("the pool is closed")
                except SandboxError:
                    self._template.reap()
                    self._template = None
                    raise
            return self._template

    def _retire(self, template: Template) -> None:
        """End a template that is of no use. Those of several threads that found out wait for the first."""
        with self._lock:
            if self._template is template:
                template.reap()
                self._template = None

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

    def _launch(self, forked: Forked | None = None) -> Worker:
        worker = forked or Worker(self._spec.target, self._spec.memory_mb)
        self._workers.add(worker)  # before it starts: a child forked meanwhile closes its pipes too
        try:
            worker.start()
            if self._closed:  # `kill` may have come before there was a process
                raise SandboxError("the pool is closed")
        except SandboxError:
            self.dismiss(worker)
            raise
        return worker
