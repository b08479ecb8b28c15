"""A sandbox inside warm Docker containers, through the docker SDK (extra `docker`). For an image of your choice, or gVisor.

Each container holds a zygote that forks one locked-in child per run and is spoken to over one attached stream: a run takes
milliseconds, where `docker run` takes a third of a second. Promised: the container's walls (no network, a read-only root, no
capability, no new privileges, a memory and a process limit for all that runs in it, Docker's system call filter), and within them
those of the zygote's `landlock` rung between the run and its zygote. Containers are replaced after `recycle_after` runs and whenever
something is odd. They end with this process, however it dies.

Not promised: the kernel is shared (unless `runtime="runsc"`), and whoever may talk to the daemon is root on its machine. Programs
may start threads but no processes, and only Python runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from guerdon.errors import ConfigError
from guerdon.sandboxes.base import Level, Limits, check_level

if TYPE_CHECKING:
    from guerdon.sandboxes.docker_pool import DockerSandbox

__all__ = ["Docker"]


@dataclass(frozen=True, slots=True)
class Docker:
    """The spec of a pool of containers.

    `image`: any image with `python3` (3.11 or later) on its PATH; None is one made from this machine's Python and its standard
    library, without a registry, kept as `guerdon/python` (5 s and 80 MB once), with the `packages` named (numpy; pytest for pytest files),
    copied from this environment with what they need. `workers`: how many containers; None is one per usable
    CPU divided by LOCAL_WORLD_SIZE, or GUERDON_WORKERS. `limits` hold for jobs that bring none and size the containers: a job may
    ask for less, not for more. `runtime`: that of the daemon by name, None its default. `recycle_after`: runs until a container is
    replaced. `preload`: modules of the image imported once, before any program runs. `readable`: more paths of the image that
    programs may read. The daemon is found by DOCKER_HOST and its kin.

    >>> Docker(workers=2, runtime="runsc").recycle_after
    2000
    """

    image: str | None = None
    workers: int | None = None
    limits: Limits = field(default_factory=Limits)
    runtime: str | None = None
    recycle_after: int = 2000
    min_isolation: Level = "container"
    packages: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.workers is not None and (type(self.workers) is not int or self.workers < 1):
            raise ConfigError(f"Docker: workers must be an integer of at least 1 or None, got {self.workers!r}")
        if type(self.recycle_after) is not int or self.recycle_after < 1:
            raise ConfigError(f"Docker: recycle_after must be a number of runs of at least 1, got {self.recycle_after!r}")
        for name in ("image", "runtime"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ConfigError(f"Docker: {name} must be a name or None, got {value!r}")
        for name in ("packages", "preload", "readable"):
            words = getattr(self, name)
            if isinstance(words, str) or not all(isinstance(word, str) and word for word in words):
                raise ConfigError(f"Docker: {name} must be a tuple of names, got {words!r}")
            object.__setattr__(self, name, tuple(words))
        if self.packages and self.image is not None:
            raise ConfigError("Docker: packages are for the image made here (image=None); an image of your own brings its own")
        if not isinstance(self.limits, Limits):
            raise ConfigError(f"Docker: limits must be Limits, got {self.limits!r}")
        check_level("Docker", self.min_isolation)
        if self.min_isolation == "remote":
            raise ConfigError("Docker reaches 'container' at best, min_isolation='remote' needs SandboxFusion or Piston")

    def start(self) -> DockerSandbox:
        """A live pool of one's own; `guerdon.sandboxes.sandbox(spec)` gives the shared one. Raises MissingExtra, SandboxError."""
        from guerdon.sandboxes.docker_pool import DockerSandbox  # the SDK costs 150 ms

        return DockerSandbox(self)
