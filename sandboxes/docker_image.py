"""The container image made from this machine's Python: `data/mkimage.sh` writes it as a tar, the daemon imports it. No registry.

Packages named are copied from this environment, with those they need and are installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata, resources
from typing import Any

from guerdon.errors import SandboxError

__all__ = ["PACKAGES", "REPOSITORY", "distributions", "has_image", "host_image", "host_image_name"]

REPOSITORY = "guerdon/python"
PACKAGES = "/opt/packages"
"""Where the packages lie in the image."""
_BUILD_S = 300  # 3 s idle


def host_image_name(packages: tuple[str, ...] = ()) -> str:
    """Named for what goes in: another Python, other packages or another script are another image."""
    held = [f"{one.metadata['Name']} {one.version}" for one in distributions(packages)]
    parts = (sys.version, sys.base_prefix, os.path.realpath(sys.executable), _script().decode(), *held)
    return f"{REPOSITORY}:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"


def distributions(names: tuple[str, ...]) -> list[metadata.Distribution]:
    """Installed packages and what they need, extras aside. Raises SandboxError for a name that is not installed here."""
    found: dict[str, metadata.Distribution] = {}
    todo = [(name, True) for name in names]
    while todo:
        name, named = todo.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        try:
            found[key] = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            if named:
                raise SandboxError(f"no image with {name!r}: it is not installed here") from error
            continue  # for another platform or Python
        for line in found[key].requires or ():
            if "extra ==" not in line and (match := re.match(r"[A-Za-z0-9._-]+", line)):
                todo.append((match[0], False))
    return [found[key] for key in sorted(found)]


def host_image(client: Any, packages: tuple[str, ...] = ()) -> str:
    """The name of the image, made first if the daemon does not have it. One process makes it, others wait. Raises SandboxError."""
    name = host_image_name(packages)
    if has_image(client, name):
        return name
    lock = os.path.join(tempfile.gettempdir(), f"guerdon-image-{os.getuid()}.lock")
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not has_image(client, name):
            _make(client, name, packages)
    return name


def has_image(client: Any, name: str) -> bool:
    """Whether the daemon holds an image. It is not asked to fetch one."""
    from docker.errors import ImageNotFound

    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def _make(client: Any, name: str, packages: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as tar:
        _copy(distributions(packages), folder)
        command = ["sh", "-s", sys.executable, *([folder] if packages else [])]
        try:
            done = subprocess.run(command, input=_script(), stdout=tar, stderr=subprocess.PIPE, timeout=_BUILD_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxError(f"no image could be made from this machine's Python; name one by image=: {error}") from error
        if done.returncode:
            words = done.stderr.decode(errors="replace").strip()[-1000:]
            raise SandboxError(f"no image could be made from this machine's Python; name one by image=: {words}")
        tar.seek(0)
        repository, _, tag = name.partition(":")
        said = client.api.import_image(src=tar, repository=repository, tag=tag)
    if not has_image(client, name):
        raise SandboxError(f"the daemon did not import the image {name}: {said!r}"[:1000])


def _copy(packages: list[metadata.Distribution], folder: str) -> None:
    """The modules of packages as they are installed; scripts and what lies outside are left."""
    for package in packages:
        for file in package.files or ():
            source = str(package.locate_file(file))
            if ".." in file.parts or not os.path.isfile(source):
                continue
            target = os.path.join(folder, *file.parts)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(source, target)


def _script() -> bytes:
    return resources.files("guerdon.sandboxes").joinpath("data/mkimage.sh").read_bytes()
