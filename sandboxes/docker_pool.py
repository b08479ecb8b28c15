"""The live side of a Docker spec: warm containers, each a slot of the same fleet that drives the zygotes of this machine."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from guerdon.errors import MissingExtra, SandboxError
from guerdon.sandboxes._boot import WARM
from guerdon.sandboxes._outcome import lost, outcome
from guerdon.sandboxes._slot import Reply
from guerdon.sandboxes._zygote import PYTHON, job_request
from guerdon.sandboxes.base import Capabilities, Job, Level, Limits, RunResult
from guerdon.sandboxes.compile_cache import Artefact
from guerdon.sandboxes.deadline import DEADLINE
from guerdon.sandboxes.docker import Docker
from guerdon.sandboxes.docker_image import has_image, host_image
from guerdon.sandboxes.docker_slot import ContainerFleet, ContainerSlot, container_options, first_line
from guerdon.sandboxes.workers import default_workers

__all__ = ["DockerSandbox", "connect"]

_API_S = 30  # a daemon that says nothing for so long is taken for dead
_LEVEL: Level = "container"
_TREE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc", "/home", "/root", "/srv")
"""What a run may read of its image, with the interpreter's own folders: all but /proc, /sys, /run, /var and other runs' /tmp."""
_LOOK = "import os, sys\nfor path in (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__)): os.listdir(path)"


class DockerSandbox:
    """The live sandbox of a Docker spec. See `Sandbox` for what it promises to callers.

    Raises MissingExtra without the SDK, and SandboxError when built if no daemon answers, there is no such image or runtime, or the
    image has no Python that a zygote can use.
    """

    def __init__(self, spec: Docker) -> None:
        self._spec = spec
        self._client = connect()
        self._janitor = ThreadPoolExecutor(2, "guerdon-docker")  # so that nobody waits for the daemon to clear up
        try:
            self._options = container_options(spec, _image(self._client, spec))
            first, self._config, self._why = self._first()
            self._size = spec.workers or default_workers()
            self._fleet = ContainerFleet(self._slot, [first, *self._others(self._size - 1)], spec.recycle_after)
        except BaseException:
            self._end()
            raise

    def run(self, job: Job) -> RunResult:
        return self.run_many([job])[0]

    def run_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        return self._run(jobs, threading.Event())

    async def arun(self, job: Job) -> RunResult:
        return (await self.arun_many([job]))[0]

    async def arun_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        import asyncio

        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(self._run, jobs, cancelled)
        finally:
            cancelled.set()

    def capabilities(self) -> Capabilities:
        return Capabilities("docker", _LEVEL, ("python",), self._size, notes=(self._why,) if self._why else ())

    def close(self) -> None:
        """End and remove all; calls that still run raise SandboxError."""
        self._fleet.close()
        self._end()

    def disown(self) -> None:
        self._fleet.disown()

    def __enter__(self) -> DockerSandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # how

    def _run(self, jobs: Sequence[Job], cancelled: threading.Event) -> list[RunResult]:
        refused = [_refusal(job, self._spec.limits) for job in jobs]
        todo = [job for job, why in zip(jobs, refused, strict=True) if not why]
        requests = [job_request(job, job.limits or self._spec.limits, PYTHON, Artefact()) for job in todo]
        replies = iter(self._fleet.drive(requests, DEADLINE.get(), cancelled) if requests else ())
        return [_infra(why) if why else self._result(job, next(replies)) for job, why in zip(jobs, refused, strict=True)]

    def _result(self, job: Job, reply: Any) -> RunResult:
        if isinstance(reply, Reply):
            return outcome(reply, job.limits or self._spec.limits, _LEVEL, "docker")
        return lost(reply.why, _LEVEL, "docker")

    def _slot(self) -> ContainerSlot:
        return ContainerSlot(self._client, self._options, self._config, self._janitor)

    def _end(self) -> None:
        self._janitor.shutdown()
        self._client.close()

    def _first(self) -> tuple[ContainerSlot, dict[str, Any], str]:
        """A container that has run a program, how its zygote is set up, and why not better."""
        reasons: list[str] = []
        for rung in ("landlock", "rlimits"):
            readable = [*_TREE, *(["/"] if rung == "rlimits" else []), *self._spec.readable]
            self._config = {"level": rung, "readable": readable, "preload": [*WARM, *self._spec.preload], "uids": False, "temp": "/tmp"}
            slot = self._slot()
            failure = _trial(slot)
            if not failure:
                return slot, self._config, "; ".join(reasons)
            slot.close()
            if slot.ready is not None or "no container" in failure:
                raise SandboxError(f"{self._spec!r} cannot be started: {failure}")
            reasons.append(f"no {rung} inside the container: {failure}")
        raise SandboxError(f"{self._spec!r} cannot be started: {'; '.join(reasons)}")

    def _others(self, count: int) -> list[ContainerSlot]:
        """The rest of the pool, started side by side."""
        if not count:
            return []
        with ThreadPoolExecutor(min(count, 8)) as threads:
            return list(threads.map(lambda _: self._slot(), range(count)))


def connect() -> Any:
    """A client of the daemon that the environment names. Raises MissingExtra, or SandboxError if none answers."""
    try:
        import docker
    except ImportError as error:
        raise MissingExtra("the docker sandbox needs the docker SDK: pip install 'guerdon[docker]'") from error
    try:
        _knock(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
        client = docker.from_env(timeout=_API_S)
    except (docker.errors.DockerException, OSError) as error:
        raise SandboxError(f"no Docker daemon answers: {first_line(error)}") from error
    try:
        client.ping()
    except Exception as error:
        client.close()
        raise SandboxError(f"no Docker daemon answers: {first_line(error)}") from error
    return client


def _knock(host: str) -> None:
    """Raise OSError if nobody listens at a local address: the SDK leaves its socket open when it cannot connect."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(_API_S)
            door.connect(host.removeprefix("unix://"))


def _image(client: Any, spec: Docker) -> str:
    if spec.image is None:
        return host_image(client, spec.packages)
    if not has_image(client, spec.image):
        raise SandboxError(f"the Docker daemon has no image {spec.image!r}: docker pull it first")
    return spec.image


def _trial(slot: ContainerSlot) -> str:
    """Why a new container is of no use; empty if it is."""
    if slot.wait_ready() is None:
        return slot.failure
    reply = slot.receive() if slot.send(job_request(Job(_LOOK), Limits(), PYTHON, Artefact()).data) else None
    if reply is None:
        return "it died under a first program"
    result = outcome(reply, Limits(), _LEVEL, "docker")
    if result.status == "ok":
        return ""
    said = result.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return (
        f"a first program gave {result.status} {result.detail} {said}; if its Python lies elsewhere than {', '.join(_TREE)}, set readable="
    )


def _refusal(job: Job, size: Limits) -> str:
    if job.language != "python":
        return f"the docker sandbox runs Python only, not {job.language!r}"
    if job.limits is not None and (job.limits.memory_mb > size.memory_mb or job.limits.disk_mb > size.disk_mb):
        return f"this job may use more than the containers were made for ({size.memory_mb} MB, {size.disk_mb} MB on disk): Docker(limits=)"
    return ""


def _infra(detail: str) -> RunResult:
    return RunResult("infra_error", level=_LEVEL, backend="docker", detail=detail)
