"""What passes between the front and its workers: length-prefixed pickles over a socket pair. No sockets here.

Front to worker: `Work`, or PING. Worker to front: a tuple whose first member is one of the kinds below.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["BROKEN", "DONE", "LATE", "PING", "PONG", "READY", "SOME", "STEP", "STUCK", "Door", "Frames", "Item", "Marks", "Work", "pack"]

Door = Literal["get_reward", "score", "score_batch", "remote_rm", "remote_rm_detail"]

READY, BROKEN, SOME, STEP, DONE, PONG, STUCK = "ready", "broken", "some", "step", "done", "pong", "stuck"
"""Worker to front: (READY, info), (BROKEN, text), (SOME, work, [(unit, status, body, marks), ...]), (STEP, work, unit, row),
(DONE, work, seconds, counts), (PONG,), (STUCK,). The row of a STEP is -1 for the request as a whole. STUCK: the thread of an overdue row
is still running."""

PING = "ping"
Marks = tuple[tuple[bool, tuple[tuple[str, str], ...]], ...]
"""Of each row that an answer holds: whether it abstains, and its components' statuses. They travel with the answer, so that metrics
count what was answered, once, whatever becomes of workers and batches."""

LATE = 0
"""A status that is none of HTTP: score it again, row by row."""

SIZE = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a batch. `lost` holds rows that are not to be scored again: reason and detail."""

    unit: int
    door: Door
    body: bytes
    lost: dict[int, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Work:
    """A batch, to be scored within `limit_s` and answered within `left_s`. Requests that are not done by the limit come back with status
    LATE, unless the batch is `final`: a request that had all the time there is. `stepwise`: score row by row, each within `limit_s`, and
    say before each which it is. `by_timeout`: the limit is the server's for a row, not what is left until the deadline. `row_s`: the
    server's limit for a row, which checks in processes of their own keep to by themselves: such a row need not be tried again alone."""

    number: int
    items: tuple[Item, ...]
    limit_s: float
    left_s: float
    stepwise: bool
    final: bool
    by_timeout: bool
    row_s: float | None = None


def pack(message: Any) -> bytes:
    """One frame."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return SIZE.pack(len(body)) + body


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The messages that are whole with these bytes."""
        buffer, start = self._buffer, 0
        buffer += data
        messages = []
        while len(buffer) - start >= SIZE.size:
            end = start + SIZE.size + SIZE.unpack_from(buffer, start)[0]
            if len(buffer) < end:
                break
            with memoryview(buffer) as view:
                messages.append(pickle.loads(view[start + SIZE.size : end]))
            start = end
        del buffer[:start]
        return messages
