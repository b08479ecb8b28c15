"""`guerdon doctor`: versions, extras, workers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import metadata

import pytest
from click.testing import Result

from guerdon import __version__
from guerdon.cli.doctor import installed_packages
from guerdon.errors import SandboxError
from guerdon.sandboxes import Sandbox

doctor = sys.modules["guerdon.cli.doctor"]  # the package's attribute of that name may be the command

REQUIRES = ["numpy>=1.26", "nowhere-x>=1; extra == 'data'", "click>=8; extra == 'data'", "guerdon[data]; extra == 'all'"]


def test_json_names_versions_and_measures_workers(guerdon: Callable[..., Result]) -> None:
    result = guerdon("doctor", "--json")
    document = json.loads(result.stdout)
    assert document["guerdon"] == __version__
    assert document["workers"]["error"] == ""
    assert document["workers"]["jobs_per_s"] > 100
    assert result.exit_code == 0


def test_packages_are_those_of_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    assert [(p.name, p.extra, p.version is None) for p in installed_packages()] == [
        ("numpy", "", False),
        ("nowhere-x", "data", True),
        ("click", "data", False),
    ]


@pytest.mark.slow
def test_a_missing_extra_shows_its_pip_line(guerdon: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    result = guerdon("doctor")
    assert "pip install 'guerdon[data]'" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert result.exit_code == 0


@pytest.mark.slow
def test_a_missing_base_package_is_a_failure(guerdon: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ["nowhere-x>=1"])
    assert guerdon("doctor", "--json").exit_code == 1


@pytest.mark.slow
def test_workers_that_do_not_start_are_a_failure(guerdon: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUERDON_WORKERS", "many")
    result = guerdon("doctor", "--json")
    assert "GUERDON_WORKERS" in json.loads(result.stdout)["workers"]["error"]
    assert result.exit_code == 1


def test_every_sandbox_has_a_speed_or_a_reason(guerdon: Callable[..., Result]) -> None:
    sandboxes = json.loads(guerdon("doctor", "--json").stdout)["sandboxes"]
    assert [one["name"] for one in sandboxes] == [
        *("zygote at namespaces", "zygote at landlock", "zygote at rlimits", "docker", "SandboxFusion", "Piston")
    ]
    assert all(one["runs_per_s"] > 1 or one["why"] for one in sandboxes)


class Hanging:
    """A spec whose sandbox never starts."""

    def start(self) -> Sandbox:
        time.sleep(3)
        raise SandboxError("late")


def test_a_sandbox_that_hangs_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SANDBOX_S", 0.1)
    assert doctor._bounded("x", Hanging()).why == "no answer within 0.1 s"
