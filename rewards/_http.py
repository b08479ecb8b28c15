"""What `judge` and `remote` share: a leaf that asks a service about rows, through one client for each service and process.

Rows of equal content are asked about once, scores are remembered until `guerdon.close()`, the deadline of the call ends what is under
way. The client runs on a thread of its own, so that its bound on requests holds over threads and event loops and no caller's loop is
blocked. What is asked and what the answer means is the leaf's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from guerdon.errors import ConfigError
from guerdon.rewards.grading import caught, failed, shown
from guerdon.rewards.term import Leaf, require_name
from guerdon.rewards.tokens import check_whole
from guerdon.sandboxes import registry
from guerdon.sandboxes.deadline import DEADLINE
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.rewards._cache import Flight
    from guerdon.sandboxes.asking import Asker

__all__ = ["Learned", "Service", "as_json", "plain", "service_url"]

SHOWN = 1000
"""Characters of a reply or of an error that a verdict shows."""

Places = list[tuple[int, int]]


@dataclass(frozen=True)
class Service:
    """Key of a live client in the registry: terms that ask one address alike share its connections, its bound and its breaker."""

    url: str
    concurrency: int
    attempts: int


class Live:
    """Client and cache of a service."""

    def __init__(self, service: Service) -> None:
        from guerdon.rewards._cache import Cache
        from guerdon.sandboxes.asking import Asker, Manners

        manners = Manners(concurrency=service.concurrency, attempts=service.attempts, blameless=frozenset({400, 413, 422}))
        self.asker, self.cache = Asker(manners, f"the service at {service.url}"), Cache()

    def close(self) -> None:
        self.asker.close()

    def disown(self) -> None:
        self.asker.disown()


@dataclass(frozen=True, kw_only=True)
class Learned(Leaf):
    """A leaf whose verdicts a service gives. The fields here do not decide verdicts; fingerprints leave them out."""

    concurrency: int = 32
    timeout_s: float = 60.0
    attempts: int = 4
    api_key_env: str | None = None
    cache: bool = True

    if TYPE_CHECKING:

        @property
        def url(self) -> str: ...

    @property
    def rows_per_request(self) -> int:
        return 1

    def content(self, rollout: Rollout) -> Verdict | bytes:
        """A verdict that needs no request, else everything that a request about this row depends on."""
        raise NotImplementedError

    async def request(self, asker: Asker, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """Ask about some rows, on the client's loop."""
        raise NotImplementedError

    def check(self, where: str) -> None:
        """ConfigError for what all such leaves take."""
        require_name(self.name, where)
        check_whole(where, "concurrency", self.concurrency, 1)
        check_whole(where, "attempts", self.attempts, 1)
        if isinstance(self.timeout_s, bool) or not isinstance(self.timeout_s, int | float) or not 0 < self.timeout_s < 1e6:
            raise ConfigError(f"{where}: timeout_s must be a number of seconds above 0, got {self.timeout_s!r}")
        if self.api_key_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", str(self.api_key_env)):
            raise ConfigError(  # not shown: it may be the key
                f"{where}: api_key_env must be the name of an environment variable, like 'OPENAI_API_KEY', never the key itself"
            )

    @property
    def is_async(self) -> bool:
        return True

    def fingerprint_of(self, **loaded: Any) -> str | None:
        """The fingerprint of what decides verdicts, with `loaded` in place of import strings."""
        from guerdon.rewards.fingerprint import fingerprint

        manners: dict[str, Any] = {f.name: f.default for f in fields(Learned)}
        return fingerprint(replace(self, **manners, **loaded))

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        out: list[Verdict | None] = [None] * len(rollouts)
        self.fill(rollouts, out)
        return self._complete(out)

    async def averdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        out: list[Verdict | None] = [None] * len(rollouts)
        await self.afill(rollouts, out)
        return self._complete(out)

    def fill(self, rollouts: Sequence[Rollout], out: list[Verdict | None]) -> None:
        live = self._live()
        live.asker.run(self._fill(live, rollouts, out, DEADLINE.get()))

    async def afill(self, rollouts: Sequence[Rollout], out: list[Verdict | None]) -> None:
        live = self._live()
        await live.asker.arun(self._fill(live, rollouts, out, DEADLINE.get()))

    def _live(self) -> Live:
        return registry.get(Service(self.url, self.concurrency, self.attempts), Live)

    def _complete(self, out: list[Verdict | None]) -> list[Verdict]:
        late = Verdict.of(Status.ERROR, "deadline", f"{self.name} was not done when the call's deadline passed")
        return [late if v is None else v for v in out]

    def headers(self) -> dict[str, str]:
        """The key, read from the environment now: it is in no field, repr, pickle or fingerprint."""
        key = os.environ.get(self.api_key_env, "").strip() if self.api_key_env else ""
        if not re.fullmatch(r"[!-~]*", key):
            raise ConfigError(f"the environment variable {self.api_key_env} holds no key: blanks or other characters within")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def unanswered(self, why: str, status: int, headers: Mapping[str, str]) -> Verdict:
        """ERROR `service_failed`, without the key, should the service have repeated it."""
        if headers:
            why = why.replace(headers["Authorization"].partition(" ")[2], "***")
        elif status in (401, 403):
            why += f" (the environment variable {self.api_key_env} is not set)" if self.api_key_env else " (api_key_env names no key)"
        return Verdict.of(Status.ERROR, "service_failed", plain(f"{self.name}: {why}")[:SHOWN])

    # on the client's loop

    async def _fill(self, live: Live, rollouts: Sequence[Rollout], out: list[Verdict | None], deadline: float | None) -> None:
        import asyncio
        import time

        mark = self.fingerprint if self.cache else None
        keys: list[bytes | int] = []  # equal for rows that are asked about once
        for row, rollout in enumerate(rollouts):
            if row % 64 == 63:
                await asyncio.sleep(0)  # others' answers come in meanwhile
            content = self._content(rollout)
            out[row] = content if isinstance(content, Verdict) else None
            keys.append(row if mark is None or isinstance(content, Verdict) else _digest(mark, content))
        flights = self._flights(live, rollouts, keys, out)
        joins = [asyncio.ensure_future(_join(flight, places, out)) for flight, places in flights]
        try:
            if joins:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                done, _ = await asyncio.wait(joins, timeout=left, return_when=asyncio.FIRST_EXCEPTION)
                for join in done:
                    join.result()
        finally:
            for join in joins:
                join.cancel()
            for flight, _ in flights:
                flight.release()

    def _content(self, rollout: Rollout) -> Verdict | bytes:
        try:
            return self.content(rollout)
        except BaseException as error:
            return failed(self.name, caught(error))

    def _flights(
        self, live: Live, rollouts: Sequence[Rollout], keys: Sequence[bytes | int], out: list[Verdict | None]
    ) -> list[tuple[Flight, Places]]:
        """The requests to wait for, held, each with its (row, place in the request) pairs. What is known already goes into `out`."""
        joined: dict[Flight, Places] = {}
        asked: dict[bytes | int, list[int]] = {}
        for row, key in enumerate(keys):
            if out[row] is not None:
                continue
            if isinstance(key, bytes) and (kept := live.cache.kept(key)) is not None:
                out[row] = kept
            elif isinstance(key, bytes) and (flying := live.cache.flying(key)) is not None:
                joined.setdefault(flying[0], []).append((row, flying[1]))
            else:
                asked.setdefault(key, []).append(row)
        different, most = list(asked), self.rows_per_request
        for some in (different[start : start + most] for start in range(0, len(different), most)):
            flight = self._start(live, some, [rollouts[asked[key][0]] for key in some])
            joined[flight] = [(row, place) for place, key in enumerate(some) for row in asked[key]]
        for flight in joined:
            flight.hold()
        return list(joined.items())

    def _start(self, live: Live, keys: Sequence[bytes | int], rollouts: list[Rollout]) -> Flight:
        async def work() -> list[Verdict]:
            try:
                return await self.request(live.asker, rollouts)
            except BaseException as error:
                return [failed(self.name, caught(error))] * len(rollouts)

        return live.cache.fly([key if isinstance(key, bytes) else None for key in keys], work)


async def _join(flight: Flight, places: Places, out: list[Verdict | None]) -> None:
    import asyncio

    verdicts = await asyncio.shield(flight.task)
    for row, place in places:
        out[row] = verdicts[place]


def _digest(mark: str, content: bytes) -> bytes:
    import hashlib

    digest = hashlib.blake2b(mark.encode(), digest_size=20)
    digest.update(content)
    return digest.digest()


def plain(text: str) -> str:
    """The text with lone surrogates as '?': they cannot be sent, and many services fail on them.

    >>> plain("a\\ud800b")
    'a?b'
    """
    return text.encode("utf-8", "replace").decode()


def as_json(where: str, label: str, value: Mapping[str, Any] | None) -> str:
    """A mapping as canonical JSON, which hashes, compares and pickles by value. ConfigError where it is none."""
    import json

    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {label} must be a mapping, got {shown(value)}")
    try:
        return json.dumps(dict(value or {}), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: {label} must hold what JSON can hold: {error}") from None


_SECRET = re.compile(r"key|token|secret|password|sig", re.IGNORECASE)


def service_url(where: str, label: str, url: Any, default_path: str) -> str:
    """The address to post to: `url`, with `default_path` where it has no path. ConfigError for what is no address or holds a secret."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        good = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port or a bracket that is none
        parts, good = None, False
    if parts is None or (not good and "@" not in parts.netloc):
        raise ConfigError(f"{where}: {label} must be like http://host:8000, got {shown(url)}")
    if "@" in parts.netloc or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ConfigError(f"{where}: {label} holds a password or key, which would be shown and pickled; pass it by api_key_env=")
    return parts._replace(path=parts.path.rstrip("/") or default_path, fragment="").geturl()
