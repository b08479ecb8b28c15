"""Make `.venv`: `python3 .ci/env.py base` for what guerdon needs to run, `dev` for what its checks need too. `stacks` makes
`.venv-stacks`, which holds torch and training stacks besides: they are large, and few checks need them.

Packages are installed once per Python, constraints and requirements into a folder that all clones share (GUERDON_ENVS, by default
~/.cache/guerdon/envs; delete it freely). `.venv` is a light environment of this clone: a .pth file leads to the shared packages, and its
own editable install leads to this clone's source, so clones share downloads and never each other's code. An environment gets its name
only when whole, so a killed install is never taken for one. A `.venv` made by other means (uv, by hand) is used as it is.
Standard library only: nothing is installed yet when it runs. It resolves nothing itself: pip does, within constraints.txt.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(f"guerdon needs Python 3.11 or newer, this is {sys.version.split()[0]}: try make PYTHON=python3.12")

import tomllib

ROOT = Path(__file__).resolve().parent.parent
ENVS = Path(os.environ.get("GUERDON_ENVS") or "~/.cache/guerdon/envs").expanduser()
PYPROJECT, CONSTRAINTS = ROOT / "pyproject.toml", ROOT / "constraints.txt"
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def requirements(kind: str) -> list[str]:
    """What pyproject.toml asks for, extras of guerdon itself spelled out."""
    table: dict[str, Any] = tomllib.loads(PYPROJECT.read_text())
    extras: dict[str, list[str]] = table["project"]["optional-dependencies"]

    def spelled_out(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if own := re.fullmatch(r"guerdon\[(.+)\]", line):
                yield from (found for extra in own[1].split(",") for found in spelled_out(extras[extra]))
            else:
                yield line

    wanted = table["build-system"]["requires"] + table["project"]["dependencies"]
    groups = {"base": [], "dev": ["dev"], "stacks": ["dev", "stacks"]}[kind]
    return sorted(set(spelled_out(wanted + [line for group in groups for line in table["dependency-groups"][group]])))


def bare(kind: str) -> list[str]:
    """What is installed without what it needs: stacks whose pins exclude each other."""
    groups: dict[str, list[str]] = tomllib.loads(PYPROJECT.read_text())["dependency-groups"]
    return groups["stacks-bare"] if kind == "stacks" else []


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def shared_env(kind: str) -> Path:
    """The folder of installed packages for `kind`, which may not exist yet."""
    return ENVS / f"{kind}-{digest(sys.version, sys.base_prefix, CONSTRAINTS.read_text(), *requirements(kind), *bare(kind))}"


def install(env: Path, wanted: list[str], alone: list[str]) -> None:
    """Install into a folder beside `env`, then rename it: whole or not there."""
    for stale in ENVS.glob("*.partial"):  # of killed installs
        shutil.rmtree(stale, ignore_errors=True)
    print(f"installing {len(wanted)} packages and what they need into {env} (once)", flush=True)
    start, partial = time.monotonic(), ENVS / f"{env.name}.{os.getpid()}.partial"
    venv.create(partial, with_pip=True, symlinks=True)
    pip = [partial / "bin/python", "-m", "pip", "install", "-qq"]
    subprocess.run([*pip, "-c", CONSTRAINTS, *wanted], check=True)
    if alone:  # exact versions, some of them other ones than the constraints'
        subprocess.run([*pip, "--no-deps", *alone], check=True)
    partial.rename(env)
    print(f"installed in {time.monotonic() - start:.0f} s", flush=True)


def link(env: Path, stamp: Path, made: str) -> None:
    """A fresh `.venv` that sees the packages of `env` and this clone's source."""
    local = stamp.parent
    shutil.rmtree(local, ignore_errors=True)
    local.mkdir()
    stamp.write_text("unfinished")
    venv.create(local, with_pip=False, symlinks=True)
    (local / SITE / "_shared.pth").write_text(f"import site; site.addsitedir({str(env / SITE)!r})\n")
    for script in (env / "bin").iterdir():  # pytest, ruff and the like, run by this clone's Python
        target = local / "bin" / script.name
        if target.exists() or script.name.startswith(("python", "pip", "activate", "Activate")):
            continue
        if (text := script.read_bytes()).startswith(b"#!"):
            target.write_bytes(f"#!{local}/bin/python\n".encode() + text.partition(b"\n")[2])
            target.chmod(0o755)
        else:
            target.symlink_to(script)
    pip = [str(local / "bin/python"), "-m", "pip", "install", "-qq"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
    stamp.write_text(made)


def main(kind: str) -> None:
    stamp = ROOT / (".venv-stacks" if kind == "stacks" else ".venv") / "made-by-guerdon"
    if stamp.parent.exists() and not stamp.exists():
        print(f"using {stamp.parent.name} as it is: it was not made by make", file=sys.stderr)
        return
    ENVS.mkdir(parents=True, exist_ok=True)
    with (ENVS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made, here = stamp.read_text() if stamp.exists() else "", digest(str(ROOT), PYPROJECT.read_text())
        will_do = [shared_env(kind), *([shared_env("dev")] if kind == "base" else [])]  # dev holds base
        if any(env.exists() and made == f"{env} {here}" for env in will_do):
            return
        env = shared_env(kind)
        if not env.exists():
            install(env, requirements(kind), bare(kind))
        link(env, stamp, f"{env} {here}")


if __name__ == "__main__":
    if sys.argv[1:] not in (["base"], ["dev"], ["stacks"]):
        sys.exit("usage: python3 .ci/env.py base|dev|stacks")
    try:
        main(sys.argv[1])
    except subprocess.CalledProcessError as error:
        sys.exit(f"installing failed: {' '.join(map(str, error.cmd[:6]))} ...: see above")
