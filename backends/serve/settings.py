"""What a server is told: one frozen value, checked when built, that crosses process boundaries as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

from guerdon.errors import ConfigError, MissingExtra

__all__ = ["Settings", "require_extra"]

_PACKAGES = ("fastapi", "uvicorn", "httptools", "prometheus_client")
_LEVELS = ("critical", "error", "warning", "info", "debug")


@dataclass(frozen=True)
class Settings:
    """How to serve `reward`, an import string (`pkg.mod:obj`, `file.py:obj`).

    `workers` scoring processes (None: usable CPUs, shared by `processes` fronts); `batch_size` rows, or the rows that came within
    `batch_wait_ms`, are scored together. `timeout_s`: wall seconds that scoring one row may take in a worker, queueing excluded (None:
    the verifiers' own limits). `deadline_s`: seconds that a request may take in all. `max_queue` bounds the rows and `max_queue_mb` the
    bytes that wait or are being scored; beyond, requests get 429. `fill`: what `/score` gives to rows that abstain (None: null);
    `/get_reward` and `/remote_rm` fill in any case, with 0 if it is None. `read_s`: seconds that a client may take to send a request.

    >>> Settings("my.py:reward", host="0.0.0.0")
    Traceback (most recent call last):
    guerdon.errors.ConfigError: host '0.0.0.0' can be reached from other machines: set a token ...
    """

    reward: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int | None = None
    processes: int = 1
    batch_size: int = 64
    batch_wait_ms: float = 2.0
    timeout_s: float | None = None
    deadline_s: float = 60.0
    max_body_mb: float = 8.0
    max_queue: int = 16384
    max_queue_mb: float = 256.0
    fill: float | None = None
    token: str | None = None
    log_level: str = "info"
    read_s: float = 20.0

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("processes", 1), ("batch_size", 1), ("max_queue", 1), ("port", 0)):
            value = getattr(self, name)
            if (value is not None or name != "workers") and (type(value) is not int or value < least):
                raise ConfigError(f"{name}: expected a whole number of at least {least}, got {value!r}")
        for name in ("timeout_s", "deadline_s", "max_body_mb", "max_queue_mb", "read_s"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if (value is not None or name != "timeout_s") and not (number and 0.001 <= value < math.inf):
                raise ConfigError(f"{name}: expected a finite number of at least 0.001, got {value!r}")
        if not 0 <= self.batch_wait_ms <= 1000:
            raise ConfigError(f"batch_wait_ms: expected 0 to 1000, got {self.batch_wait_ms!r}")
        if self.fill is not None and not abs(self.fill) <= 1e18:  # OpenRLHF squares rewards in float32
            raise ConfigError(f"fill: expected a finite number within 1e18 or None, got {self.fill!r}")
        if self.log_level not in _LEVELS:
            raise ConfigError(f"log_level: expected one of {', '.join(_LEVELS)}, got {self.log_level!r}")
        self._check_token()

    def _check_token(self) -> None:
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token and " " not in self.token):
            raise ConfigError("token: expected ASCII letters, digits and signs without blanks")
        if self.token is None and not _is_loopback(self.host):
            raise ConfigError(
                f"host {self.host!r} can be reached from other machines: set a token (--token-file FILE or GUERDON_TOKEN), "
                "or serve at 127.0.0.1"
            )

    @property
    def max_body(self) -> int:
        """Bytes of the largest request body."""
        return int(self.max_body_mb * (1 << 20))

    @property
    def batch_wait_s(self) -> float:
        return self.batch_wait_ms / 1000

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Settings:
        return cls(**json.loads(text))


def _is_loopback(host: str) -> bool:
    import ipaddress
    import socket

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise ConfigError(f"host {host!r}: {error}; expected an address of this machine, e.g. 127.0.0.1") from None
    return all(ipaddress.ip_address(address).is_loopback for address in found)


def require_extra() -> None:
    """MissingExtra, with the pip line, unless what the server needs is installed. Imports nothing."""
    from importlib.util import find_spec

    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise MissingExtra(f"guerdon serve needs {', '.join(missing)}: pip install 'guerdon[serve]'")
