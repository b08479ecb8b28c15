"""What all tests share: which of them run, how many examples a property gets, and where the optional data lies."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
DEEP = os.environ.get("GUERDON_DEEP", "") not in ("", "0")

# No deadline and no `too_slow`: both measure the machine. Derandomised: a run depends on the code alone; `make deep` explores.
settings.register_profile("default", deadline=None, max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", settings.get_profile("default"), max_examples=1000, derandomize=False, print_blob=True)
settings.load_profile("deep" if DEEP else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out `slow` and `stacks` tests unless -m, a test's own name (`file::test`) or GUERDON_DEEP asks for them."""
    if DEEP or config.option.markexpr or any("::" in arg for arg in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("stacks")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A test file that cannot be imported fails. --doctest-ignore-import-errors, meant for modules of extras, would skip it."""
    report = yield
    if report.skipped and "unable to import module" in str(report.longrepr) and TESTS in collector.path.parents:
        report.outcome, report.longrepr = "failed", str(report.longrepr)
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("docker") and not _docker_answers():
        pytest.skip("no Docker daemon answers")
    if item.get_closest_marker("vllm") and importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed")


@cache
def _docker_answers() -> bool:
    docker = shutil.which("docker")
    return docker is not None and subprocess.run([docker, "version"], capture_output=True, timeout=20).returncode == 0


@pytest.fixture(scope="session")
def guerdon_data() -> Path:
    """The folder that GUERDON_DATA names: labelled answers, problems and rollouts too large for the repository."""
    if not (folder := os.environ.get("GUERDON_DATA")):
        pytest.skip("GUERDON_DATA is not set: it names the folder of labelled data")
    path = Path(folder)
    assert path.is_dir(), f"GUERDON_DATA: {path} is not a folder"
    return path


@pytest.fixture(scope="session")
def deep() -> bool:
    """Whether GUERDON_DEEP asks for the whole of a check rather than a bounded slice of it."""
    return DEEP
