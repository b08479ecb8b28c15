"""The live side of SandboxFusion and Piston specs: httpx on an event loop of its own thread, so that any thread and any loop may ask."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from guerdon.errors import MissingExtra, SandboxError
from guerdon.sandboxes.base import Capabilities, Job, RunResult
from guerdon.sandboxes.deadline import DEADLINE
from guerdon.sandboxes.remote import Piston, SandboxFusion
from guerdon.sandboxes.remote_schemas import LANGUAGES, BadAnswer, Refused, body, path, result

__all__ = ["Breaker", "RemoteSandbox", "pause_s"]

_MAX_ANSWER = 64 << 20
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
T = TypeVar("T")


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


def pause_s(attempt: int, retry_after: str | None) -> float:
    """Seconds before the next attempt: what the service asks for, else a random part of a doubling interval. Never over 30."""
    if retry_after is not None:
        with suppress(ValueError, OverflowError):
            asked = float(retry_after) if retry_after.strip().isdecimal() else parsedate_to_datetime(retry_after).timestamp() - time.time()
            return min(max(asked, 0.0), _LONGEST_PAUSE_S) + random.uniform(0, _FIRST_PAUSE_S)
    return random.uniform(0.1, 1.0) * min(_FIRST_PAUSE_S * 2.0**attempt, _LONGEST_PAUSE_S)


class _Again(Exception):
    """An attempt that failed in a way that may pass."""

    def __init__(self, why: str, retry_after: str | None = None, overloaded: bool = False) -> None:
        super().__init__(why)
        self.retry_after, self.overloaded = retry_after, overloaded


class RemoteSandbox:
    """The live client of a service. See `Sandbox` for what it promises to callers. Raises MissingExtra without httpx."""

    def __init__(self, spec: SandboxFusion | Piston) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("remote sandboxes need httpx: pip install 'guerdon[remote]'") from error
        self._spec, self._http, self._url = spec, httpx, path(spec)
        self._breaker = Breaker(spec.failures, spec.cooldown_s)
        self._lock, self._closed = threading.Lock(), False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"guerdon-{spec.backend}", daemon=True)
        self._thread.start()
        self._free, self._client = self._submit(self._open()).result()

    def run(self, job: Job) -> RunResult:
        return self.run_many([job])[0]

    def run_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        future = self._submit(self._all(jobs, DEADLINE.get()))
        try:
            return _unless_closed(future)
        finally:
            future.cancel()  # on KeyboardInterrupt

    async def arun(self, job: Job) -> RunResult:
        return (await self.arun_many([job]))[0]

    async def arun_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        future = self._submit(self._all(jobs, DEADLINE.get()))
        try:
            await asyncio.wait([asyncio.wrap_future(future)])
            return _unless_closed(future)
        finally:
            future.cancel()

    def capabilities(self) -> Capabilities:
        """What the service is asked to do; whether it can is not known before it answers."""
        return Capabilities(self._spec.backend, "remote", tuple(LANGUAGES), self._spec.concurrency)

    def close(self) -> None:
        """Calls that still run raise SandboxError."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            done = asyncio.run_coroutine_threadsafe(self._shut(), self._loop)
        done.result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def disown(self) -> None:
        self._closed = True  # the thread is the parent's; descriptors go with this object

    def __enter__(self) -> RemoteSandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # on the loop's thread

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise SandboxError("the sandbox was closed")

    async def _open(self) -> tuple[asyncio.Semaphore, Any]:
        spec = self._spec
        pool = self._http.Limits(max_connections=spec.concurrency, max_keepalive_connections=spec.concurrency)
        headers = {**dict(spec.headers), "Content-Type": "application/json"}
        client = self._http.AsyncClient(limits=pool, headers=headers, timeout=None, follow_redirects=False)
        return asyncio.Semaphore(spec.concurrency), client

    async def _shut(self) -> None:
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()

    async def _all(self, jobs: Sequence[Job], deadline: float | None) -> list[RunResult]:
        return list(await asyncio.gather(*(self._within(job, deadline) for job in jobs)))

    async def _within(self, job: Job, deadline: float | None) -> RunResult:
        limits = job.limits or self._spec.limits
        try:
            sent = body(self._spec, job, limits)
        except Refused as error:
            return self._infra(str(error))
        left = None if deadline is None else deadline - time.monotonic()
        try:
            async with asyncio.timeout(left):
                async with self._free:
                    return await self._attempts(job, sent)
        except TimeoutError:
            detail = "the deadline passed before this run was done"
            return RunResult("infra_error", level="remote", backend=self._spec.backend, detail=detail, timed_out_by="deadline")

    async def _attempts(self, job: Job, sent: bytes) -> RunResult:
        limits = job.limits or self._spec.limits
        patience_s = limits.wall_s + self._spec.compile_s + self._spec.grace_s
        why = ""
        for attempt in range(self._spec.attempts):
            if not self._breaker.allows(time.monotonic()):
                return self._infra(f"not asked: {self._url} has failed {self._spec.failures} times in a row; {why}".rstrip("; "))
            try:
                answer = await self._post(sent, patience_s)
                found = result(self._spec, job, limits, answer)
            except _Again as error:
                why = str(error)
                self._breaker.record(error.overloaded, time.monotonic())
                if attempt + 1 < self._spec.attempts:
                    await asyncio.sleep(pause_s(attempt, error.retry_after))
            except BadAnswer as error:
                self._breaker.record(False, time.monotonic())
                return self._infra(f"{self._url} does not answer as it should: {error}")
            else:
                self._breaker.record(True, time.monotonic())
                return found
        return self._infra(f"{self._url} failed {self._spec.attempts} times: {why}")

    async def _post(self, sent: bytes, patience_s: float) -> bytes:
        """The body of a good answer. Raises _Again, or BadAnswer where asking again would not help."""
        try:
            async with asyncio.timeout(patience_s), self._client.stream("POST", self._url, content=sent) as answer:
                content = bytearray()
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > _MAX_ANSWER:
                        raise BadAnswer(f"more than {_MAX_ANSWER >> 20} MB")
        except TimeoutError as error:
            raise _Again(f"no answer within {patience_s:g} s") from error
        except (self._http.TransportError, self._http.StreamError) as error:
            raise _Again(f"{type(error).__name__}: {error}") from error
        except self._http.HTTPError as error:
            raise BadAnswer(f"{type(error).__name__}: {error}") from error
        status = answer.status_code
        if status == 429 or status >= 500:
            raise _Again(f"HTTP {status} {bytes(content[:200])!r}", answer.headers.get("Retry-After"), overloaded=status == 429)
        if status != 200:
            raise BadAnswer(f"HTTP {status} {bytes(content[:500])!r}")
        return bytes(content)

    def _infra(self, detail: str) -> RunResult:
        return RunResult("infra_error", level="remote", backend=self._spec.backend, detail=detail[:1000])


def _unless_closed(future: Future[T]) -> T:
    from concurrent.futures import CancelledError

    try:
        return future.result()
    except CancelledError as error:
        raise SandboxError("the sandbox was closed while a call was running") from error
