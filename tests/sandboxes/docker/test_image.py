"""The image made from this machine's Python."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guerdon.sandboxes
from guerdon.errors import SandboxError
from guerdon.sandboxes import Docker, Job, docker_image
from guerdon.sandboxes.docker_image import REPOSITORY, host_image, host_image_name

MAKE = """
from guerdon.sandboxes.docker_image import host_image
from guerdon.sandboxes.docker_pool import connect
client = connect()
print(host_image(client))
client.close()
"""


def test_the_script_packs_python_and_nothing_of_this_machines_users(tmp_path: Path) -> None:
    script = Path(guerdon.sandboxes.__file__).with_name("data") / "mkimage.sh"
    with (tmp_path / "tar").open("wb") as file:
        subprocess.run(["sh", script, sys.executable], stdout=file, check=True)
    with tarfile.open(tmp_path / "tar") as tar:
        members = tar.getmembers()
    names = {member.name for member in members}
    assert "./usr/bin/python3" in names
    assert {(member.uid, member.gid) for member in members} == {(0, 0)}
    assert not [name for name in names if "site-packages" in name or "/etc/shadow" in name]
    assert all(member.mode & 0o004 for member in members)
    assert sum(member.size for member in members) < 200 << 20


@pytest.mark.docker
def test_processes_that_need_the_image_at_once_make_it_once(daemon: Any, python: Callable[..., str]) -> None:
    dangling = {image.id for image in daemon.images.list(filters={"dangling": True})}
    daemon.images.remove(host_image_name())
    names: list[str] = []
    threads = [threading.Thread(target=lambda: names.append(python("-c", MAKE))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == [host_image_name()] * 3
    assert {image.id for image in daemon.images.list(filters={"dangling": True})} == dangling
    assert [image.tags for image in daemon.images.list(name=REPOSITORY)].count([host_image_name()]) == 1


@pytest.mark.docker
def test_a_script_that_fails_leaves_no_image(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {image.id for image in daemon.images.list(all=True)}
    monkeypatch.setattr(docker_image, "_script", lambda: b"echo half of a tar; echo broken >&2; exit 3")
    with pytest.raises(SandboxError, match="broken"):
        host_image(daemon)
    assert {image.id for image in daemon.images.list(all=True)} == before


def test_packages_bring_what_they_need() -> None:
    names = [one.metadata["Name"].lower() for one in docker_image.distributions(("pytest",))]
    assert {"pytest", "pluggy", "packaging"} <= set(names)


def test_a_package_that_is_not_here_is_named() -> None:
    with pytest.raises(SandboxError, match="nowhere-x"):
        docker_image.distributions(("nowhere-x",))


@pytest.mark.docker
def test_packages_of_this_environment_run_in_the_container(daemon: Any) -> None:
    spec = Docker(workers=1, packages=("numpy",), preload=("numpy",))
    try:
        with spec.start() as box:
            result = box.run(Job("import numpy; print(numpy.arange(4).reshape(2, 2) @ numpy.ones(2))"))
        assert result.stdout == b"[1. 5.]\n", result
    finally:
        daemon.images.remove(host_image_name(spec.packages), force=True)
