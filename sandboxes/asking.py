"""Asking HTTP services: httpx on an event loop of its own thread, so that any thread and any loop may ask.

Requests in flight are bounded. Failures that may pass (429, 5xx, timeouts, lost connections) are tried again after growing, jittered
pauses; a service that fails on and on is left alone for a while. Answers are bounded in size and time, redirects are not followed.
Nothing here knows what is asked or what an answer means.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from typing import Any, TypeVar

from guerdon.errors import MissingExtra, SandboxError
from guerdon.sandboxes.turns import Turns

__all__ = ["Asker", "BadAnswer", "Breaker", "Manners", "Unanswered", "excerpt", "pause_s"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _CLOSING_S = 0.25, 30.0, 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How a service is asked. `blameless`: HTTP statuses that say nothing of the service's health. `headers` are not shown."""

    concurrency: int = 32
    attempts: int = 4
    failures: int = 16
    cooldown_s: float = 10.0
    max_answer: int = 4 << 20
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    blameless: frozenset[int] = frozenset()


class BadAnswer(ValueError):
    """An answer that does not follow the service's schema, or an HTTP status that asking again would not change."""

    def __init__(self, why: str, status: int = 200) -> None:
        super().__init__(why)
        self.status = status


class Unanswered(Exception):
    """What is to be said of a request that has no good answer. `status` is the HTTP status that decided, 0 if none did."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


class _Again(Exception):
    """An attempt that failed in a way that may pass."""

    def __init__(self, why: str, status: int = 0, retry_after: str | None = None) -> None:
        super().__init__(why)
        self.status, self.retry_after = status, retry_after


class Breaker:
    """Stops asking a service that only fails: after `failures` in a row, for `cooldown_s`; then one request may try."""

    def __init__(self, failures: int, cooldown_s: float) -> None:
        self._limit, self._cooldown_s = failures, cooldown_s
        self._failed, self._open_until = 0, 0.0

    def allows(self, now: float) -> bool:
        """Whether to send a request at `now`. The first one after the cooldown is a trial: others wait for how it ends."""
        if self._failed < self._limit:
            return True
        if now < self._open_until:
            return False
        self._open_until = now + self._cooldown_s
        return True

    def record(self, ok: bool, now: float) -> None:
        self._failed = 0 if ok else self._failed + 1
        if self._failed >= self._limit:
            self._open_until = now + self._cooldown_s


def excerpt(content: bytes | bytearray, headers: Mapping[str, str] | None, most: int = 200) -> str:
    """The beginning of an answer, for messages: without the key that was sent, should the service have repeated it.

    >>> excerpt(b"no such key: sesame-1234", {"Authorization": "Bearer sesame-1234"})
    "'no such key: ***'"
    """
    text = content.decode("utf-8", "replace")
    for name, value in (headers or {}).items():
        if len(secret := value.rpartition(" ")[2]) >= 8 and name.lower() not in ("accept", "content-type"):
            text = text.replace(secret, "***")
    return repr(text[:most])


def pause_s(attempt: int, retry_after: str | None) -> float:
    """Seconds before the next attempt: what the service asks for, else a random part of a doubling interval. Never over 30."""
    if retry_after is not None:
        with suppress(ValueError, OverflowError):
            asked = float(retry_after) if retry_after.strip().isdecimal() else parsedate_to_datetime(retry_after).timestamp() - time.time()
            return min(max(asked, 0.0), _LONGEST_PAUSE_S) + random.uniform(0, _FIRST_PAUSE_S)
    return random.uniform(0.1, 1.0) * min(_FIRST_PAUSE_S * 2.0**attempt, _LONGEST_PAUSE_S)


class Asker:
    """A live client. `run` and `arun` take a coroutine to the client's loop; `ask`, there, sends one request.

    `what` names the caller in messages. Raises MissingExtra without httpx. Connects to nothing before it is asked.
    """

    def __init__(self, manners: Manners, what: str) -> None:
        if find_spec("httpx") is None:  # importing it takes 150 ms: on the client's thread, not on a caller's loop
            raise MissingExtra(f"{what} needs httpx: pip install 'guerdon[remote]'")
        self._manners, self._what = manners, what
        self._breaker = Breaker(manners.failures, manners.cooldown_s)
        self._turns = Turns()
        self._client: Any = None
        self._lock, self._closed, self._ended = threading.Lock(), False, False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="guerdon-asker", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._ended:
            try:
                self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):  # of a caller's function: asyncio gives it to the task and raises it here too
                continue

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, from a thread that waits. SandboxError when the client is closed, before or meanwhile."""
        future = self._submit(work)
        try:
            return self._unless_closed(future)
        finally:
            future.cancel()  # on KeyboardInterrupt

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """`run` for a running event loop, which it does not block."""
        future = self._submit(work)
        try:
            await asyncio.wait([asyncio.wrap_future(future)])
            return self._unless_closed(future)
        finally:
            future.cancel()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        own = _SERVED_BY.get() is self  # a function that is called on our thread and waits for us there waits for ever
        with self._lock:
            if not (self._closed or own):
                context = copy_context()  # the task's
                context.run(_SERVED_BY.set, self)
                return context.run(asyncio.run_coroutine_threadsafe, work, self._loop)
        work.close()
        raise SandboxError(f"{self._what} is asked by a function that it calls" if own else f"{self._what} was closed")

    def _unless_closed(self, future: Future[T]) -> T:
        try:
            return future.result()
        except CancelledError as error:
            raise SandboxError(f"{self._what} was closed while a call was running") from error

    def close(self) -> None:
        """Calls that still run raise SandboxError."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            done = asyncio.run_coroutine_threadsafe(self._shut(), self._loop)
        try:
            done.result(_CLOSING_S)
        except TimeoutError:
            _disowned.append(self)
            done.add_done_callback(lambda _: self._stop())
            raise SandboxError(f"{self._what}: a function that it calls has not returned; its thread ends when it does") from None
        self._stop()
        self._thread.join(10)
        self._loop.close()

    def _stop(self) -> None:
        self._ended = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _shut(self) -> None:
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    def disown(self) -> None:
        """In a forked child: the thread and the connections are the parent's."""
        self._closed = True
        _disowned.append(self)  # a collected loop would warn, and close what it shares with the parent

    async def ask(
        self,
        url: str,
        body: Callable[[], bytes],
        read: Callable[[bytes], T],
        patience_s: float,
        headers: Mapping[str, str] | None = None,
        *,
        most: int | None = None,
        attempts: int | None = None,
    ) -> T:
        """What `read` makes of the answer, on the client's loop. Raises Unanswered, also where `read` raises BadAnswer.

        `body` is called once its turn has come; `patience_s` bounds each attempt, in seconds. The caller bounds the whole. `most` and
        `attempts` of this request, where they are not those of all; it waits until fewer than `most` are under way, whoever asked.
        """
        async with self._turns.turn(most or self._manners.concurrency):
            return await self._attempts(url, body(), read, patience_s, headers, attempts or self._manners.attempts)

    async def _attempts(self, url: str, sent: bytes, read: Callable[[bytes], T], patience_s: float, headers: Any, attempts: int) -> T:
        manners, why, status = self._manners, "", 0
        for attempt in range(attempts):
            if not self._breaker.allows(time.monotonic()):
                raise Unanswered(f"not asked: {url} has failed {manners.failures} times in a row; {why}".rstrip("; "), status)
            try:
                found = read(await self._post(url, sent, patience_s, headers))
            except _Again as error:
                why, status = str(error), error.status
                self._breaker.record(status == 429, time.monotonic())
                if attempt + 1 < attempts:
                    await asyncio.sleep(pause_s(attempt, error.retry_after))
            except BadAnswer as error:
                self._breaker.record(error.status in manners.blameless, time.monotonic())
                raise Unanswered(f"{url} does not answer as it should: {error}", error.status) from error
            else:
                self._breaker.record(True, time.monotonic())
                return found
        raise Unanswered(f"{url} failed {attempts} times: {why}", status)

    async def _post(self, url: str, sent: bytes, patience_s: float, headers: Any) -> bytes:
        """The body of a good answer. Raises _Again, or BadAnswer where asking again would not help."""
        http, most, secrets = self._http(), self._manners.max_answer, {**dict(self._manners.headers), **(headers or {})}
        try:
            async with asyncio.timeout(patience_s), self._client.stream("POST", url, content=sent, headers=headers) as answer:
                content = bytearray()
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > most:
                        raise BadAnswer(f"more than {most >> 20} MB")
        except TimeoutError as error:
            raise _Again(f"no answer within {patience_s:g} s") from error
        except (http.TransportError, http.StreamError) as error:
            raise _Again(f"{type(error).__name__}: {error}") from error
        except http.HTTPError as error:
            raise BadAnswer(f"{type(error).__name__}: {error}") from error
        status = answer.status_code
        if status == 429 or status >= 500:
            raise _Again(f"HTTP {status} {excerpt(content, secrets)}", status, answer.headers.get("Retry-After"))
        if status != 200:
            raise BadAnswer(f"HTTP {status} {excerpt(content, secrets, 500)}", status)
        return bytes(content)

    def _http(self) -> Any:
        import httpx

        if self._client is None:
            pool = httpx.Limits(max_connections=None, max_keepalive_connections=None)  # turns are the bound
            headers = {**dict(self._manners.headers), "Content-Type": "application/json"}
            self._client = httpx.AsyncClient(limits=pool, headers=headers, timeout=None, follow_redirects=False)
        return httpx


_disowned: list[Asker] = []
_SERVED_BY: ContextVar[Asker | None] = ContextVar("guerdon_served_by", default=None)
