"""The live zygotes of one sandbox and the jobs that pass through them.

A call takes free slots one by one, up to all of them, drives its requests through them from its own thread, and gives each slot back
as soon as another call waits for one. A slot lost under a request is replaced, the request sent once more.
"""

from __future__ import annotations

import math
import select
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from guerdon.errors import SandboxError
from guerdon.sandboxes._slot import START_S, Reply, Slot

__all__ = ["Fleet", "Request", "Unanswered"]

GRACE_S = 5.0
"""A zygote ends a run at its wall limit. If it has said nothing so long after that, it is lost."""
_GLANCE_S = 0.2  # how often a waiting call looks whether it was cancelled


@dataclass(frozen=True, slots=True)
class Request:
    """A frame to send and how long its run may take."""

    data: bytes
    wall_s: float


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No reply: the deadline passed first (`why` is empty), or the zygote was lost twice."""

    why: str = ""


@dataclass(slots=True)
class _Busy:
    slot: Slot
    index: int
    until: float


class Fleet:
    """Up to `size` zygotes, started when there is work for them. `first` is already up."""

    def __init__(self, python: str, config: dict[str, Any], size: int, first: Slot) -> None:
        self._python, self._config, self._size = python, config, size
        self._wake = threading.Condition()
        self._free: list[Slot] = [first]
        self._all: set[Slot] = {first}
        self._waiting = 0
        self._starting = 0
        self._closed = False

    def drive(self, requests: Sequence[Request], deadline: float | None, cancelled: threading.Event) -> list[Reply | Unanswered]:
        """Answers in order. After the deadline, or once cancelled, what runs is killed and the rest is unanswered."""
        call = _Call(requests)
        end = math.inf if deadline is None else deadline
        try:
            while call.left:
                if cancelled.is_set() or time.monotonic() >= end:
                    break
                self._dispatch(call, end, cancelled)
                self._collect(call, end)
        finally:  # also on KeyboardInterrupt
            for busy in list(call.busy.values()):
                self._discard(busy.slot)
        return [reply if reply is not None else Unanswered() for reply in call.replies]

    def _dispatch(self, call: _Call, end: float, cancelled: threading.Event) -> None:
        """Hand requests to free slots. Waits for one only if none of ours is at work."""
        while call.todo:
            if call.busy and self._waiting:
                return
            slot = self._take(end if not call.busy else 0.0, cancelled)
            if slot is None:
                return
            index = call.todo.popleft()
            if index in call.retried and slot.ready is not None:
                slot = self._replace(slot)  # what killed one idle zygote may have killed them all: a new one decides
            request = call.requests[index]
            start_s = START_S if slot.ready is None else 0.0
            call.busy[slot.fd] = _Busy(slot, index, time.monotonic() + request.wall_s + GRACE_S + start_s)
            if slot.send(request.data):
                call.poller.register(slot.fd, select.POLLIN)
            else:
                self._lose(call, slot.fd)

    def _collect(self, call: _Call, end: float) -> None:
        """Wait for something to happen to what runs."""
        if not call.busy:
            return
        now = time.monotonic()
        patience = min(end, *(busy.until for busy in call.busy.values())) - now
        for fd, _ in call.poller.poll(max(0.0, min(patience, _GLANCE_S)) * 1000):
            busy = call.busy[fd]
            reply = busy.slot.receive()
            call.poller.unregister(fd)
            if reply is None:
                self._lose(call, fd)
            else:
                del call.busy[fd]
                call.answer(busy.index, reply)
                self._give(busy.slot)
        now = time.monotonic()
        for fd in [fd for fd, busy in call.busy.items() if busy.until <= now]:
            call.poller.unregister(fd)
            self._lose(call, fd)

    def _lose(self, call: _Call, fd: int) -> None:
        busy = call.busy.pop(fd)
        self._discard(busy.slot)
        if busy.index in call.retried:
            call.answer(busy.index, Unanswered(busy.slot.failure or "it ended or fell silent"))
        else:
            call.retried.add(busy.index)
            call.todo.appendleft(busy.index)

    # the slots

    def _take(self, end: float, cancelled: threading.Event) -> Slot | None:
        """A free slot or a new one; None if there is none by `end`."""
        with self._wake:
            self._waiting += 1
            try:
                while True:
                    if self._closed:
                        raise SandboxError("the sandbox was closed while a call was running")
                    if self._free:
                        return self._free.pop()
                    if len(self._all) + self._starting < self._size:
                        self._starting += 1
                        break
                    left = end - time.monotonic()
                    if left <= 0 or cancelled.is_set():
                        return None
                    self._wake.wait(min(left, _GLANCE_S))
            finally:
                self._waiting -= 1
        return self._hire()

    def _replace(self, slot: Slot) -> Slot:
        with self._wake:
            self._starting += 1
        self._discard(slot)
        return self._hire()

    def _hire(self) -> Slot:
        slot: Slot | None = None
        try:
            slot = Slot(self._python, self._config)
        finally:
            with self._wake:
                self._starting -= 1
                if slot is not None:
                    self._all.add(slot)
                    if self._closed:
                        self._all.discard(slot)
                self._wake.notify()
        if self._closed:
            slot.close()
            raise SandboxError("the sandbox was closed while a call was running")
        return slot

    def _give(self, slot: Slot) -> None:
        with self._wake:
            if not self._closed:
                self._free.append(slot)
                self._wake.notify()

    def _discard(self, slot: Slot) -> None:
        with self._wake:
            known = slot in self._all
            self._all.discard(slot)
            self._wake.notify()
        if known:
            slot.close()

    def close(self) -> None:
        """End and reap all; calls that still run raise SandboxError."""
        with self._wake:
            self._closed = True
            slots, self._all, self._free = list(self._all), set(), []
            self._wake.notify_all()
        for slot in slots:
            slot.close()

    def disown(self) -> None:
        for slot in list(self._all):
            with suppress(OSError):
                slot.disown()

    def pids(self) -> list[int]:
        """The processes of the live slots, for tests and `doctor`."""
        return [slot.pid for slot in list(self._all)]


class _Call:
    """The requests of one call and how far they are."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.replies: list[Reply | Unanswered | None] = [None] * len(requests)
        self.todo = deque(range(len(requests)))
        self.left = len(requests)
        self.busy: dict[int, _Busy] = {}
        self.retried: set[int] = set()
        self.poller = select.poll()

    def answer(self, index: int, reply: Reply | Unanswered) -> None:
        self.replies[index] = reply
        self.left -= 1
