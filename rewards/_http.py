"""What `judge` and `remote` share: a leaf that asks a service about rows, through one client for each service and process.

Rows of equal content are asked about once, scores are remembered until `guerdon.close()`, the deadline of the call ends what is under
way. The client runs on a thread of its own, so that its bound on requests holds over threads and event loops and no caller's loop is
blocked. What is asked and what the answer means is the leaf's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from guerdon.errors import ConfigError
from guerdon.rewards.grading import caught, failed, shown
from guerdon.rewards.term import Leaf, require_name
from guerdon.rewards.tokens import check_whole
from guerdon.sandboxes import registry
from guerdon.sandboxes.deadline import DEADLINE
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.sandboxes.asking import Asker

__all__ = ["Learned", "Service", "as_json", "plain", "service_url", "without_key"]

SHOWN = 1000
"""Characters of a reply or of an error that a verdict shows."""

SECRET = 8
"""Shorter keys are placeholders ("EMPTY"), and masking them would spoil messages."""

T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """Key of a live client in the registry: terms that ask one address share its connections, its turns, its breaker and its cache."""

    url: str


class Live:
    """Client and cache of a service."""

    def __init__(self, service: Service) -> None:
        from guerdon.rewards._cache import Cache
        from guerdon.sandboxes.asking import Asker, Manners

        manners = Manners(blameless=frozenset({400, 413, 422}))
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
        named = str(self.api_key_env)
        if self.api_key_env is not None and (not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", named) or _KEY.fullmatch(named)):
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
        return registry.get(Service(self.url), Live)

    def _complete(self, out: list[Verdict | None]) -> list[Verdict]:
        late = Verdict.of(Status.ERROR, "deadline", f"{self.name} was not done when the call's deadline passed")
        return [late if v is None else v for v in out]

    def headers(self) -> dict[str, str]:
        """The key, read from the environment now: it is in no field, repr, pickle or fingerprint."""
        key = os.environ.get(self.api_key_env, "").strip() if self.api_key_env else ""
        if not re.fullmatch(r"[!-~]*", key):
            raise ConfigError(f"the environment variable {self.api_key_env} holds no key: blanks or other characters within")
        return {"Authorization": f"Bearer {key}"} if key else {}

    async def answer(self, asker: Asker, body: Callable[[], bytes], read: Callable[[bytes], T], headers: Mapping[str, str]) -> T:
        """What `read` makes of the service's answer. Raises Unanswered."""
        return await asker.ask(self.url, body, read, self.timeout_s, headers, most=self.concurrency, attempts=self.attempts)

    def unanswered(self, why: str, status: int, headers: Mapping[str, str]) -> Verdict:
        """ERROR `service_failed`, without the key, should the service have repeated it."""
        if headers:
            why = without_key(why, headers)
        elif status in (401, 403):
            why += f" (the environment variable {self.api_key_env} is not set)" if self.api_key_env else " (api_key_env names no key)"
        return Verdict.of(Status.ERROR, "service_failed", plain(f"{self.name}: {why}")[:SHOWN])

    # on the client's loop

    async def _fill(self, live: Live, rollouts: Sequence[Rollout], out: list[Verdict | None], deadline: float | None) -> None:
        import asyncio
        import time

        from guerdon.rewards._cache import Call

        mark, turn = self.fingerprint if self.cache else None, time.monotonic()
        call = Call(live.cache, out, self.rows_per_request, lambda some: self._ask(live.asker, [rollouts[row] for row in some]))
        try:
            for row, rollout in enumerate(rollouts):
                if (now := time.monotonic()) > turn + 0.002:
                    await asyncio.sleep(0)  # answers come in meanwhile
                    if deadline is not None and now >= deadline:
                        return
                    turn = time.monotonic()
                content = self._content(rollout)
                if isinstance(content, Verdict):
                    out[row] = content
                else:
                    call.add(row, row if mark is None else _digest(mark, content))
            call.send()
            await call.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        finally:
            call.release()

    def _content(self, rollout: Rollout) -> Verdict | bytes:
        try:
            return self.content(rollout)
        except BaseException as error:
            return failed(self.name, caught(error))

    async def _ask(self, asker: Asker, rollouts: list[Rollout]) -> list[Verdict]:
        try:
            return await self.request(asker, rollouts)
        except BaseException as error:
            return [failed(self.name, caught(error))] * len(rollouts)


def without_key(text: str, headers: Mapping[str, str]) -> str:
    """The text without the key that was sent, should the service have repeated it."""
    key = headers.get("Authorization", "").partition(" ")[2]
    return text.replace(key, "***") if len(key) >= SECRET else text


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
    if secret := next((name for name in value or () if _SECRET_FIELD.fullmatch(str(name))), None):
        raise ConfigError(f"{where}: {label} holds {secret!r}, which would be shown and pickled; pass keys by api_key_env=")
    try:
        return json.dumps(dict(value or {}), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: {label} must hold what JSON can hold: {error}") from None


_SECRET = re.compile(r"key|token|secret|passw|pwd|auth|cred|sig|^code$", re.IGNORECASE)
_SECRET_FIELD = re.compile(r"(?:x[-_])?(?:api[-_]?|access[-_]?)?(?:key|token|secret|password|auth|authorization)", re.IGNORECASE)
_KEY = re.compile(r"(?:sk|pk|hf|gsk|xai|r8|ghp)_(?=[A-Za-z_]*\d)[A-Za-z0-9]{16,}")
"""Keys that could pass for names."""


def service_url(where: str, label: str, url: Any, default_path: str) -> str:
    """The address to post to: `url`, with `default_path` where it has no path. ConfigError for what is no address or holds a secret."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        good = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port or a bracket that is none
        parts, good = None, False
    if parts is None or (not good and "@" not in parts.netloc):
        got = "one that is not shown, as it may hold a password" if isinstance(url, str) and {*"@?"} & {*url} else shown(url)
        raise ConfigError(f"{where}: {label} must be like http://host:8000, got {got}")
    if "@" in parts.netloc or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ConfigError(f"{where}: {label} holds a password or key, which would be shown and pickled; pass it by api_key_env=")
    return parts._replace(path=parts.path.rstrip("/") or default_path, fragment="").geturl()
