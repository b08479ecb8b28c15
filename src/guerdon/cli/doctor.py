"""`guerdon doctor`: what is installed, which extras are missing, whether killable workers and sandboxes start, and how fast they are.

Imports none of the packages it reports on: versions are read from their metadata. Exit code 1 when scoring would not work.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from guerdon import __version__

if TYPE_CHECKING:
    from guerdon.sandboxes import SandboxSpec

__all__ = ["doctor"]

JOBS = 2000
"""Jobs of no work that measure what handing one to a worker costs."""
RUNS = 200
"""Programs of no work that measure what a sandboxed run costs."""
SANDBOX_S = 20.0
"""A sandbox that has not been measured by then is reported as hanging."""


@dataclass(frozen=True)
class Package:
    """One distribution that guerdon uses; `extra` is empty for those it always needs, `version` None where not installed."""

    name: str
    extra: str
    version: str | None


@dataclass(frozen=True)
class Workers:
    """The worker pool: how many, seconds until the first answered, jobs a second after that; or what went wrong."""

    count: int = 0
    cpus: int = 0
    start_s: float = 0.0
    jobs_per_s: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Backend:
    """A sandbox as it works here: its level and runs a second; `why` it does not work, or not better."""

    name: str
    level: str = ""
    runs_per_s: float = 0.0
    why: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(as_json: bool) -> int:
    """Check the installation: versions, extras, worker processes, sandboxes.

    Exit code 1 when a package that guerdon always needs is missing or workers do not start.
    """
    packages, workers, backends = installed_packages(), check_workers(), check_sandboxes()
    missing = [package.name for package in packages if not package.extra and package.version is None]
    if as_json:
        import platform

        python = {"python": platform.python_version(), "executable": sys.executable, "platform": platform.platform()}
        found = {"packages": [asdict(p) for p in packages], "workers": asdict(workers), "sandboxes": [asdict(b) for b in backends]}
        click.echo(json.dumps({"guerdon": __version__, **python, **found}))
    else:
        _print(packages, workers)
        _print_sandboxes(backends)
    return 1 if missing or workers.error else 0


def installed_packages() -> list[Package]:
    """The packages that guerdon's own metadata names, base ones first; none when guerdon runs from a bare source tree."""
    from importlib import metadata

    try:
        requirements = metadata.requires("guerdon") or []
    except metadata.PackageNotFoundError:
        return []
    found: dict[tuple[str, str], None] = {}
    for requirement in requirements:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        extra = re.search(r"extra == ['\"]([\w-]+)", requirement)
        if name and name[0] != "guerdon":  # `all` names the other extras
            found[extra[1] if extra else "", name[0]] = None
    return [Package(name, extra, _version(name)) for extra, name in sorted(found, key=lambda pair: bool(pair[0]))]


def _version(name: str) -> str | None:
    from importlib import metadata  # 10 ms, more than all else here

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check_workers() -> Workers:
    """Start a worker and hand it small jobs."""
    from guerdon.errors import GuerdonError
    from guerdon.sandboxes import Done, PoolSpec, pool
    from guerdon.sandboxes.workers import default_workers

    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        count = default_workers()
        live = pool(PoolSpec("math:factorial", warm_spares=0))
        start = time.perf_counter()
        first = live.map([(3,)], timeout_s=20.0)[0]
        started = time.perf_counter()
        results = live.map([(3,)] * JOBS, timeout_s=20.0)
        seconds = time.perf_counter() - started
        live.close()
    except (GuerdonError, OSError) as error:
        return Workers(cpus=cpus, error=str(error))
    failed = next((r for r in (first, *results) if not isinstance(r, Done)), None)
    return Workers(count, cpus, started - start, JOBS / seconds, "" if failed is None else f"a job failed: {failed.kind} {failed.detail}")


def check_sandboxes() -> list[Backend]:
    """Every backend that this machine may have, one after the other. Nothing is installed, pulled or built."""
    from guerdon.sandboxes import Zygote
    from guerdon.sandboxes.zygote import RUNGS

    found = [_bounded(f"zygote at {rung}", Zygote(workers=2, level=rung, min_isolation=rung)) for rung in RUNGS]
    return [*found, _docker(), *(_remote(name, "httpx") for name in ("SandboxFusion", "Piston"))]


def _docker() -> Backend:
    from guerdon.errors import GuerdonError
    from guerdon.sandboxes import Docker
    from guerdon.sandboxes.docker_image import has_image, host_image_name
    from guerdon.sandboxes.docker_pool import connect

    try:
        client = connect()
    except GuerdonError as error:
        return Backend("docker", why=str(error))
    ready = has_image(client, host_image_name())
    client.close()
    if not ready:
        return Backend("docker", "container", why="a daemon answers; not measured: the image is made on first use")
    return _bounded("docker", Docker(workers=2))


def _remote(name: str, package: str) -> Backend:
    missing = _version(package) is None
    return Backend(name, "" if missing else "remote", why="pip install 'guerdon[remote]'" if missing else "a service at a url of yours")


def _bounded(name: str, spec: SandboxSpec) -> Backend:
    """Measure a sandbox, and wait no longer than SANDBOX_S for it."""
    import threading

    found: list[Backend] = []
    thread = threading.Thread(target=lambda: found.append(_measure(name, spec)), daemon=True)
    thread.start()
    thread.join(SANDBOX_S)
    return found[0] if found else Backend(name, why=f"no answer within {SANDBOX_S:g} s")


def _measure(name: str, spec: SandboxSpec) -> Backend:
    import warnings

    from guerdon.errors import GuerdonError
    from guerdon.sandboxes import Job, until

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table says what they say
            box = spec.start()
        with box, until(time.monotonic() + SANDBOX_S / 2):
            box.run_many([Job("")] * 8)
            start = time.perf_counter()
            results = box.run_many([Job("")] * RUNS)
            rate = len(results) / (time.perf_counter() - start)
            able = box.capabilities()
    except (GuerdonError, OSError) as error:
        return Backend(name, why=_brief(str(error)))
    failed = next((result for result in results if result.status != "ok"), None)
    if failed is not None:
        return Backend(name, able.level, why=f"an empty program gave {failed.status} {failed.detail}")
    return Backend(name, able.level, rate, _brief("; ".join(filter(None, (able.why, *able.notes)))))


def _brief(text: str) -> str:
    return text if len(text) <= 300 else text[:297] + "..."


def _print_sandboxes(backends: list[Backend]) -> None:
    from guerdon.cli.tables import print_rich, table

    rows = [[b.name, b.level or "-", f"{b.runs_per_s:,.0f}" if b.runs_per_s else "-", b.why] for b in backends]
    print_rich(table(["sandbox", "level", "runs/s", "remarks"], rows, left=(0, 1, 3)))


def _print(packages: list[Package], workers: Workers) -> None:
    import platform

    from guerdon.cli.tables import duration, print_rich, table

    print_rich(f"guerdon {__version__}, Python {platform.python_version()} ({sys.executable}), {platform.platform()}")
    base = [[p.name, p.version or "missing"] for p in packages if not p.extra]
    if base:
        print_rich(table(["package", "version"], base, left=(0, 1)))
        print_rich(table(["extra", "packages", "to install"], _extras(packages), left=(0, 1, 2)))
    else:
        print_rich("packages: unknown, guerdon runs from a source tree that is not installed (pip install -e .)\n")
    if workers.error:
        print_rich(f"workers: FAILED: {workers.error}")
    else:
        print_rich(
            f"workers: {workers.count} on {workers.cpus} usable CPUs (GUERDON_WORKERS overrides); the first answered after "
            f"{duration(workers.start_s)}, then {workers.jobs_per_s:,.0f} jobs/s"
        )


def _extras(packages: list[Package]) -> list[list[Any]]:
    from guerdon.cli.tables import TIE

    rows = []
    for extra in dict.fromkeys(p.extra for p in packages if p.extra):
        mine = [p for p in packages if p.extra == extra]
        lacking = any(p.version is None for p in mine)
        versions = ", ".join(f"{p.name}{TIE}{p.version or '-'}" for p in mine)
        rows.append([extra, versions, f"pip install 'guerdon[{extra}]'" if lacking else "installed"])
    return rows
