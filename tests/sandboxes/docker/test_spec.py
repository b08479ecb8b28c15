"""The spec, and machines without a daemon or its SDK."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from guerdon.errors import ConfigError, MissingExtra, SandboxError
from guerdon.sandboxes import Docker, Limits, SandboxSpec, sandbox


@pytest.mark.parametrize(
    "arguments",
    [
        *({"workers": 0}, {"workers": True}, {"recycle_after": 0}, {"image": ""}, {"runtime": 5}, {"preload": "numpy"}, {"readable": (1,)}),
        *({"limits": None}, {"min_isolation": "vm"}, {"min_isolation": "remote"}, {"image": "x", "packages": ("numpy",)}),
    ],
)
def test_arguments_are_checked_when_built(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Docker(**arguments)


def test_a_spec_is_a_plain_value() -> None:
    spec = Docker(image="python:3.12", workers=2, limits=Limits(cpu_s=1), runtime="runsc", preload=("numpy",))
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert len({spec, Docker()}) == 2
    assert isinstance(spec, SandboxSpec)


def test_without_a_daemon_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxError, match="no Docker daemon"):
        sandbox(Docker())


def test_without_the_sdk_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(MissingExtra, match=r"guerdon\[docker\]"):
        Docker().start()
