"""`RewardClient`: rollouts to a `guerdon serve` and scores back, from any thread or loop."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from guerdon.backends.client.wire import RemoteScore, chunked, encoded, lost, read_scores
from guerdon.errors import ConfigError, MissingExtra
from guerdon.rewards.inputs import as_rollouts
from guerdon.sandboxes import registry
from guerdon.sandboxes.deadline import DEADLINE
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.sandboxes.asking import Asker, Unanswered

__all__ = ["RewardClient"]

_MAX_ANSWER = 64 << 20
_FULL, _TOO_LARGE = 429, 413
_FIXES = {
    401: "; pass token=, or set GUERDON_TOKEN to what the server was started with",
    404: "; expected the address that `guerdon serve` printed, without a path",
}
_FIXES[403], _FIXES[405] = _FIXES[401], _FIXES[404]
_REFUSALS = {300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 415, 422}
"""Statuses that say something of the set-up, not of the service's health: raised, not put on the rows."""


@dataclass(frozen=True)
class RewardClient:
    """Scores rollouts on the `guerdon serve` at `url`.

    A value: it pickles (with its token), compares, and may be used from threads, event loops, notebooks and forked processes; equal
    clients of one process share connections. `guerdon.close()` closes them.

    `token`: the server's; None takes GUERDON_TOKEN from the environment, if it is set. `timeout_s`: seconds from sending a request to
    having its answer, pauses and further attempts included, waiting for a free connection not. The default is above the server's own
    `--deadline` of 60, whose answer about late rows is better than none. `concurrency`: requests under way at once. `attempts`: how
    often a request is sent when the connection fails or the server answers 5xx; a full server (429) is waited for. About
    `rows_per_request` rollouts go into one request; a group is never split.

    >>> RewardClient("http://127.0.0.1:8000/", token="secret")
    RewardClient(url='http://127.0.0.1:8000', timeout_s=75, concurrency=64, attempts=4, rows_per_request=64)
    """

    url: str
    token: str | None = field(default=None, repr=False)
    timeout_s: float = 75
    concurrency: int = 64
    attempts: int = 4
    rows_per_request: int = 64

    def __post_init__(self) -> None:
        parts = urlsplit(self.url) if isinstance(self.url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"RewardClient: url must be like http://127.0.0.1:8000, got {self.url!r}")
        object.__setattr__(self, "url", self.url.rstrip("/"))
        if self.token is not None and not (isinstance(self.token, str) and self.token.isascii() and self.token.isprintable()):
            raise ConfigError("RewardClient: token must be printable ASCII text without line ends (strip() what a file holds), or None")
        for name in ("concurrency", "attempts", "rows_per_request"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"RewardClient: {name} must be an integer of at least 1, got {value!r}")
        if isinstance(self.timeout_s, bool) or not isinstance(self.timeout_s, int | float) or not 0 < self.timeout_s < math.inf:
            raise ConfigError(f"RewardClient: timeout_s must be finite seconds above 0, got {self.timeout_s!r}")

    def score(self, rollouts: Sequence[Rollout], deadline_s: float | None = None) -> list[RemoteScore]:
        """One score a rollout, in order.

        Blocks. `deadline_s` bounds the call in seconds, as does the deadline of a scoring call around it; without either the bound is
        `timeout_s` for every `concurrency` requests. Rows without an answer have no reward (never 0) and are ERROR in every component:
        reason `deadline`, or `service_failed` where the server could not be reached or broke. Raises ConfigError where the server
        refuses: the wrong token, another kind of server, rollouts that lack what the reward reads.
        """
        return self._asker().run(self._score(as_rollouts(rollouts), _left(deadline_s)))

    async def ascore(self, rollouts: Sequence[Rollout], deadline_s: float | None = None) -> list[RemoteScore]:
        """`score` for a running event loop, which it does not block."""
        return await self._asker().arun(self._score(as_rollouts(rollouts), _left(deadline_s)))

    def info(self) -> dict[str, Any]:
        """What the server says of itself: its reward, the components, what they read. Asks once; ConfigError without an answer."""
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("RewardClient needs httpx: pip install 'guerdon[remote]'") from error
        try:
            answer = httpx.get(f"{self.url}/info", headers=self._headers(), timeout=self.timeout_s)
            if answer.status_code == 200 and isinstance(found := answer.json(), dict):
                return found
        except (httpx.HTTPError, ValueError) as error:
            raise ConfigError(f"RewardClient: no answer from {self.url}: {error}; does `guerdon serve` run there?") from error
        raise ConfigError(f"{self.url}: HTTP {answer.status_code} {answer.text[:300]}{_FIXES.get(answer.status_code, '')}")

    def _headers(self) -> dict[str, str]:
        token = self.token or os.environ.get("GUERDON_TOKEN")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _asker(self) -> Asker:
        return registry.get(self, _asker)

    # on the client's loop

    async def _score(self, rollouts: Sequence[Rollout], left: float | None) -> list[RemoteScore]:
        call = os.urandom(6).hex()  # a server that batches requests must not take rows of two calls for one group
        found: dict[int, RemoteScore | Verdict] = {}

        async def one(rows: list[int], groups: list[int]) -> None:
            sent: dict[int, bytes] = {}
            of: list[int] = []
            for row, group in zip(rows, groups, strict=True):
                if isinstance(text := encoded(rollouts[row], f"{call}/{group}"), Verdict):
                    found[row] = text
                else:
                    sent[row] = text
                    of.append(group)
            found.update(zip(sent, await self._answers(list(sent.values()), of), strict=True))

        await _all_within([one(rows, groups) for rows, groups in chunked(rollouts, self.rows_per_request)], left)
        late = Verdict.of(Status.ERROR, "deadline", f"{self.url} had not answered when the call's deadline passed")
        names = next((tuple(f.components) for f in found.values() if isinstance(f, RemoteScore)), ("reward",))
        scores = [found.get(row, late) for row in range(len(rollouts))]
        return [lost(r, names, score) if isinstance(score, Verdict) else score for r, score in zip(rollouts, scores, strict=True)]

    async def _answers(self, rows: list[bytes], groups: list[int]) -> Sequence[RemoteScore | Verdict]:
        """Scores of the rows of one request, or ERROR. A request that is too large goes in two halves, cut between groups."""
        from guerdon.sandboxes.asking import Unanswered

        if not rows:
            return []
        try:
            return await self._patiently(b'{"rollouts":[' + b",".join(rows) + b"]}", len(rows))
        except TimeoutError:
            failure = Verdict.of(Status.ERROR, "deadline", f"{self.url} had not answered after {self.timeout_s:g} s")
        except Unanswered as error:
            borders = [k for k in range(1, len(rows)) if groups[k] != groups[k - 1]]
            if error.status == _TOO_LARGE and borders:
                cut = min(borders, key=lambda k: abs(2 * k - len(rows)))
                return [*await self._answers(rows[:cut], groups[:cut]), *await self._answers(rows[cut:], groups[cut:])]
            failure = _failure(error)
        return [failure] * len(rows)

    async def _patiently(self, body: bytes, n: int) -> list[RemoteScore]:
        """Ask, again while the server says it is full. TimeoutError after `timeout_s`, which begins when a connection is free."""
        from guerdon.sandboxes.asking import Unanswered, pause_s

        async with asyncio.timeout(None) as clock:

            def start() -> bytes:
                if clock.when() is None:
                    clock.reschedule(asyncio.get_running_loop().time() + self.timeout_s)
                return body

            while True:
                try:
                    return await self._asker().ask(
                        f"{self.url}/score/batch", start, lambda content: read_scores(content, n), self.timeout_s, self._headers()
                    )
                except Unanswered as error:
                    if error.status != _FULL:
                        raise
                    await asyncio.sleep(pause_s(0, None))


def _asker(spec: RewardClient) -> Asker:
    from guerdon.sandboxes.asking import Asker, Manners

    manners = Manners(
        concurrency=spec.concurrency,
        attempts=spec.attempts,
        failures=max(16, spec.attempts * spec.concurrency),  # a server that restarts fails everything under way, once
        max_answer=_MAX_ANSWER,
        blameless=frozenset(_REFUSALS | {_TOO_LARGE}),
    )
    return Asker(manners, "RewardClient")


async def _all_within(works: Sequence[Coroutine[Any, Any, None]], left: float | None) -> None:
    """Run them side by side; what is not done when `left` seconds have passed, or when one raises, is cancelled."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        async with asyncio.timeout(left):
            await asyncio.gather(*tasks)
    except TimeoutError:
        pass
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _left(deadline_s: float | None) -> float | None:
    if deadline_s is not None and not 0 < deadline_s < math.inf:
        raise ConfigError(f"deadline_s: expected finite seconds above 0, or None, got {deadline_s!r}")
    outer = DEADLINE.get()
    return min((s for s in (deadline_s, None if outer is None else outer - time.monotonic()) if s is not None), default=None)


def _failure(error: Unanswered) -> Verdict:
    if error.status in _REFUSALS:
        raise ConfigError(f"RewardClient: {error}{_FIXES.get(error.status, '')}") from error
    return Verdict.of(Status.ERROR, "service_failed", str(error)[:1000])
