"""`guerdon doctor`: what is installed, which extras are missing, and whether killable workers start and how fast they are.

Imports none of the packages it reports on: versions are read from their metadata. Exit code 1 when scoring would not work.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import click

from guerdon import __version__

__all__ = ["doctor"]

JOBS = 2000
"""Jobs of no work that measure what handing one to a worker costs."""


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


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(as_json: bool) -> int:
    """Check the installation: versions, extras, worker processes.

    Exit code 1 when a package that guerdon always needs is missing or workers do not start.
    """
    packages, workers = installed_packages(), check_workers()
    missing = [package.name for package in packages if not package.extra and package.version is None]
    if as_json:
        import platform

        python = {"python": platform.python_version(), "executable": sys.executable, "platform": platform.platform()}
        click.echo(json.dumps({"guerdon": __version__, **python, "packages": [asdict(p) for p in packages], "workers": asdict(workers)}))
    else:
        _print(packages, workers)
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
