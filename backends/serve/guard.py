"""uvicorn's HTTP protocol with the limits it lacks: time to send a request, size of its head and trailers, number of connections.

Refusals are written by hand, as there may be no request yet to answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from guerdon.backends.serve.doors import error_body

__all__ = ["Guarded", "sweep"]

MAX_HEAD = 64 << 10
"""Bytes of request line and headers."""
MAX_WRAPPING, WRAPPING_EACH = 512 << 10, 16
"""Bytes of a body that are none of its content (sizes of chunks, their extensions, trailers): in all, and more for each of content."""


class Guarded(HttpToolsProtocol):
    """See the module. `max_connections` and `read_s` are set by `run`."""

    max_connections = 100_000

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.refused = False
        self.head = 0
        self.in_head = True
        self.taken = self.content = 0
        self.began: float | None = self.loop.time()
        if len(self.connections) > self.max_connections:
            self.refuse(b"429 Too Many Requests", "too many connections", b"retry-after: 1\r\n")

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        if self.in_head:
            self.head += len(data)
            if self.began is None:
                self.began = self.loop.time()
        self.taken += len(data)
        super().data_received(data)
        if self.refused:
            return
        if self.in_head and self.head > MAX_HEAD:
            self.refuse(b"431 Request Header Fields Too Large", f"the headers are larger than {MAX_HEAD} bytes")
        elif not self.in_head and self.taken > MAX_WRAPPING + WRAPPING_EACH * self.content:
            self.refuse(b"431 Request Header Fields Too Large", "the chunks' extensions or the trailers are too large")

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's contract; uvicorn's returns nothing
        """A client that has said all it will say still gets its answer, and the connection is closed after it."""
        waits = self.began is None and self.cycle is not None and not self.cycle.response_complete and not self.refused
        if waits:
            self.cycle.keep_alive = False
        return waits

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self.began is None:
            self.began = self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_head:  # trailers are dropped
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self.content += len(body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self.in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.began, self.in_head, self.head = None, True, 0
        self.taken = self.content = 0

    def send_400_response(self, msg: str) -> None:
        self.refuse(b"400 Bad Request", msg)

    def overdue(self, before: float) -> bool:
        """Whether a request that began before then is still not whole."""
        return self.began is not None and self.began < before and not self.refused

    def refuse(self, status: bytes, why: str, extra: bytes = b"") -> None:
        """Answer by hand, if nothing was answered yet, and close."""
        self.refused = True
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = error_body(why)
            head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n%s\r\n"
            self.transport.write(head % (status, len(body), extra) + body)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()


async def sweep(connections: set[Any], read_s: float) -> None:
    """Refuse, for ever, the connections whose request does not come within `read_s` seconds."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(min(1.0, read_s / 4))
        before = loop.time() - read_s
        for connection in [c for c in connections if c.overdue(before)]:
            connection.refuse(b"408 Request Timeout", f"the request was not whole after {read_s:g} s")
