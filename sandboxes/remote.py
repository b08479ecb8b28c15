"""Sandboxes that are services on other machines, over HTTP (extra `remote`): SandboxFusion and Piston.

What a run is kept from is the service's doing, at level "remote". What comes back is data and graded here. Failures of the service
or the network (429, 5xx, timeouts, refused connections) are tried again with growing, jittered pauses, then `infra_error`; a service
that fails on and on is left alone for a while (`infra_error` at once). An answer that is late, garbage or of another
schema is `infra_error`, never a statement about the program. A program may run more than once.

Neither service measures what a local sandbox does: SandboxFusion knows wall time only and no memory verdict, and both decode
output as text. A Python program that does not compile is `nonzero` there, not `compile_error`. Python jobs with a channel, with
arguments, or with bytes that are no text are run by a small driver on the far side; other languages' are refused as `infra_error`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal
from urllib.parse import urlsplit

from guerdon.errors import ConfigError
from guerdon.sandboxes.base import Level, Limits, check_level

if TYPE_CHECKING:
    from guerdon.sandboxes.remote_client import RemoteSandbox

__all__ = ["Piston", "SandboxFusion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remote:
    """What both services' specs share.

    `concurrency`: how many requests are under way at once. `attempts`: how often a request is sent before its job is an
    `infra_error`. `grace_s`: how long beyond the limits of the run (queue, start, network) an answer may take. `failures` attempts
    failed in a row open the circuit, for `cooldown_s`. `headers` go with every request; they are not shown.
    """

    limits: Limits = field(default_factory=Limits)
    concurrency: int = 32
    attempts: int = 4
    grace_s: float = 15.0
    compile_s: float = 10.0
    failures: int = 16
    cooldown_s: float = 10.0
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    min_isolation: Level = "remote"

    def _check(self, url: str) -> None:
        owner = type(self).__name__
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"{owner}: url must be like http://host:8080, got {url!r}")
        if not isinstance(self.limits, Limits):
            raise ConfigError(f"{owner}: limits must be Limits, got {self.limits!r}")
        for name in ("concurrency", "attempts", "failures"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"{owner}: {name} must be an integer of at least 1, got {value!r}")
        for name in ("grace_s", "compile_s", "cooldown_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
                raise ConfigError(f"{owner}: {name} must be a number of seconds above 0, got {value!r}")
        pairs = tuple(tuple(pair) for pair in self.headers)
        if not all(len(pair) == 2 and all(isinstance(word, str) for word in pair) for pair in pairs):
            raise ConfigError(f"{owner}: headers must be (name, value) pairs of str")
        object.__setattr__(self, "headers", pairs)
        check_level(owner, self.min_isolation)

    def start(self) -> RemoteSandbox:
        """A live client of one's own; `guerdon.sandboxes.sandbox(spec)` gives the shared one. Asks the service nothing yet."""
        from guerdon.sandboxes.remote_client import RemoteSandbox  # httpx and asyncio: 150 ms

        return RemoteSandbox(self)  # type: ignore[arg-type]  # one of the two below


@dataclass(frozen=True, slots=True)
class SandboxFusion(_Remote):
    """A SandboxFusion service: `POST {url}/run_code`.

    It cuts output at 192 KiB and reports more than fits its pipes as a timeout: here both are `output_limit`. It ends programs by
    wall time (`Limits.wall_s`); CPU time is not limited.

    >>> SandboxFusion("http://fusion:8080").concurrency
    32
    """

    url: str
    backend: ClassVar[Literal["sandbox_fusion"]] = "sandbox_fusion"

    def __post_init__(self) -> None:
        self._check(self.url)


@dataclass(frozen=True, slots=True)
class Piston(_Remote):
    """A Piston service: `POST {url}/api/v2/execute`.

    Its own limits must be raised to those asked for, or it answers 400 (`infra_error`): by default 3 s, and 1024 bytes of output
    (PISTON_OUTPUT_MAX_SIZE). `versions`: (language, version) pairs in Piston's terms; any version else.

    >>> Piston("http://piston:2000", versions=(("python", "3.12.0"),)).versions
    (('python', '3.12.0'),)
    """

    url: str
    versions: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    backend: ClassVar[Literal["piston"]] = "piston"

    def __post_init__(self) -> None:
        self._check(self.url)
        object.__setattr__(self, "versions", tuple((str(language), str(version)) for language, version in self.versions))
