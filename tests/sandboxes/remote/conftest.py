"""Stub services, and clients that lose no time between attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from guerdon.sandboxes import Limits, Piston, SandboxFusion, asking

from .stub import Service

LIMITS = Limits(cpu_s=3.0, wall_s=5.0, output_kb=64)


@pytest.fixture
def service() -> Iterator[Callable[..., Service]]:
    """Makes stub services, stopped after the test."""
    made: list[Service] = []

    def make(*script: Any) -> Service:
        made.append(Service(list(script)))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture(params=[SandboxFusion, Piston])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def client(kind: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Makes live clients of a service, closed after the test."""
    monkeypatch.setattr(asking, "_FIRST_PAUSE_S", 0.01)
    made: list[Any] = []

    def make(url: str, **options: Any) -> Any:
        made.append(kind(url, **{"limits": LIMITS, **options}).start())
        return made[-1]

    yield make
    for one in made:
        one.close()
