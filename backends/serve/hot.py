"""The ASGI application: the four doors by hand, everything else by FastAPI.

A request to a door is checked (method, media type, token, size, queue), its bytes go to the dispatcher, and the bytes that come back
are the answer. By hand because this is done a thousand times a second; the OpenAPI document of the doors is in `schemas`.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from guerdon.backends.serve.dispatch import Dispatcher, Full
from guerdon.backends.serve.doors import DOORS, error_body
from guerdon.backends.serve.frames import Door

__all__ = ["App", "State"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

OPEN = frozenset({"/healthz", "/readyz", "/docs", "/openapi.json"})
"""Paths that need no token: probes cannot carry one, and the document says nothing of the reward."""

LINGER_S = 0.5
"""How long, and up to four times the largest body, what a refused client still sends is read and dropped."""

_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")
_CHALLENGE = (b"www-authenticate", b"Bearer")


class Gone(Exception):
    """The client went away before its request was whole."""


class Rejected(Exception):
    """A request that is answered without being scored."""

    def __init__(self, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, list(headers)


class State:
    """Where the front is in its life."""

    def __init__(self) -> None:
        self.ready = False
        self.draining = False
        self.reloading = False


class App:
    """See the module. `cold` is the FastAPI application."""

    def __init__(self, dispatcher: Dispatcher, state: State, cold: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        settings = dispatcher.settings
        self._dispatcher, self._state, self._cold = dispatcher, state, cold
        self._max_body = settings.max_body
        self._token = None if settings.token is None else f"Bearer {settings.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._cold(scope, receive, send)
            return
        path = scope["path"]
        door = DOORS.get(path)
        if door is None:
            await self._other(path, scope, receive, send)
            return
        start = time.perf_counter()
        headers: Headers = []
        try:
            status, body = await self._answer(door, scope, receive)
        except Rejected as rejected:
            status, body, headers = rejected.status, error_body(rejected.detail), rejected.headers
            await self._drop(scope, receive)
        except Gone:
            self._dispatcher.metrics.request(path, 499, time.perf_counter() - start)
            return
        await _respond(send, status, body, headers)
        self._dispatcher.metrics.request(path, status, time.perf_counter() - start)

    async def _other(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        if self._token is not None and path not in OPEN and not self._has_token(scope["headers"]):
            await _respond(send, 401, error_body(_NO_TOKEN), [_CHALLENGE, _CLOSE])
            return
        await self._cold(scope, receive, send)

    async def _answer(self, door: Door, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        if scope["method"] != "POST":
            raise Rejected(405, f"{scope['method']} is not allowed here: POST a JSON object", (b"allow", b"POST"))
        if door == "remote_rm" and scope["query_string"]:
            door = _slime_door(scope["query_string"])
        self._check_headers(scope["headers"])
        body = await self._body(receive)
        if self._state.draining:
            raise Rejected(503, "the server is stopping", (b"retry-after", b"1"), _CLOSE)
        try:
            return await self._dispatcher.submit(door, body)
        except Full as full:
            raise Rejected(429, str(full), (b"retry-after", str(full.retry_s).encode())) from None

    def _check_headers(self, headers: Headers) -> None:
        kind, authorized = b"", self._token is None
        for name, value in headers:
            if name == b"content-type":
                kind = value
            elif name == b"content-length":
                if int(value) > self._max_body:  # the parser has seen that it is a number
                    raise self._too_large()
            elif name == b"authorization":
                authorized = authorized or hmac.compare_digest(value, self._token or b"")
            elif name == b"content-encoding" and value.strip().lower() != b"identity":
                raise Rejected(415, "compressed bodies are not taken: send the JSON as it is", _CLOSE)
        if not authorized:
            raise Rejected(401, _NO_TOKEN, _CHALLENGE, _CLOSE)
        if kind != b"application/json" and not _is_json(kind):
            raise Rejected(415, "expected the header Content-Type: application/json", _CLOSE)

    async def _drop(self, scope: Scope, receive: Receive) -> None:
        """Read on for a moment: the answer is lost to a client that still sends when the connection closes."""
        if any(name == b"expect" for name, _ in scope["headers"]):
            return  # it waits to be asked for the body
        size = 0
        try:
            async with asyncio.timeout(LINGER_S):
                while size <= 4 * self._max_body:
                    message = await receive()
                    size += len(message.get("body", b""))
                    if not message.get("more_body"):
                        return
        except TimeoutError:
            return

    def _has_token(self, headers: Headers) -> bool:
        return any(name == b"authorization" and hmac.compare_digest(value, self._token or b"") for name, value in headers)

    def _too_large(self) -> Rejected:
        return Rejected(413, f"the body is larger than {self._max_body} bytes (--max-body-mb)", _CLOSE)

    async def _body(self, receive: Receive) -> bytes:
        message = await receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            body, message = await self._rest(body, receive)
        if message["type"] != "http.request":
            raise Gone
        if len(body) > self._max_body:
            raise self._too_large()
        return body

    async def _rest(self, start: bytes, receive: Receive) -> tuple[bytes, MutableMapping[str, Any]]:
        """The body and the message that ended it. What is still coming in counts as queued, or slow senders would fill the memory."""
        parts, size, dispatcher, more = [start], len(start), self._dispatcher, True
        dispatcher.coming += size
        try:
            while more:
                message = await receive()
                part = message.get("body", b"")
                size += len(part)
                dispatcher.coming += len(part)
                if size > self._max_body:
                    raise self._too_large()
                if dispatcher.coming > size and dispatcher.is_full(0, 0):
                    raise Rejected(429, "too much is being sent at once; try again in 1 s", (b"retry-after", b"1"), _CLOSE)
                parts.append(part)
                more = message.get("more_body", False)
            return b"".join(parts), message
        finally:
            dispatcher.coming -= size
            parts.clear()  # a refusal, which is told to the client while this frame hangs on it, would keep them


_NO_TOKEN = "expected the header Authorization: Bearer TOKEN, with the server's token"


def _slime_door(query: bytes) -> Door:
    from urllib.parse import parse_qs

    detail = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("detail", ["0"])[-1]
    if detail not in ("0", "1", "false", "true"):
        raise Rejected(422, "detail: expected 0 or 1")
    return "remote_rm_detail" if detail in ("1", "true") else "remote_rm"


def _is_json(kind: bytes) -> bool:
    """`application/json` with parameters, of which only UTF-8 is taken."""
    media, _, parameters = kind.lower().partition(b";")
    charset = parameters.partition(b"charset=")[2].strip(b' "')
    return media.strip() == b"application/json" and charset in (b"", b"utf-8", b"utf8")


async def _respond(send: Send, status: int, body: bytes, headers: Headers) -> None:
    size = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, size, *headers]})
    await send({"type": "http.response.body", "body": body})
