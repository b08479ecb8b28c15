"""Which rung is reached where, and the traps on the way to it."""

from __future__ import annotations

import errno
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guerdon.errors import ConfigError, SandboxError
from guerdon.sandboxes import Job, Limits, Zygote

UNSHARE, LANDLOCK = {"x86_64": 272, "aarch64": 97}.get(platform.machine(), -1), 444
NOT_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="root only")


def test_without_namespaces_it_is_landlock_and_says_why(far: Callable[..., Any]) -> None:
    """As in a default Docker container: unshare is refused, Landlock and seccomp work."""
    box = far()
    box.ask("deny", {UNSHARE: errno.EPERM})
    capabilities, warnings = box.ask("start", Zygote(workers=1))
    assert (capabilities.level, warnings) == ("landlock", [])
    assert "namespaces: PermissionError: [Errno 1] unshare" in capabilities.why
    (result,) = box.ask("run", [Job("print(1)")])
    assert (result.status, result.level, result.stdout) == ("ok", "landlock", b"1\n")


def test_without_landlock_too_it_is_refused_by_default(far: Callable[..., Any]) -> None:
    box = far()
    box.ask("deny", {UNSHARE: errno.EPERM, LANDLOCK: errno.ENOSYS})
    with pytest.raises(SandboxError, match=r"no sandbox of level 'landlock' or better .* namespaces: .*unshare.* landlock: .*Landlock"):
        box.ask("start", Zygote(workers=1))


def test_the_last_rung_warns(far: Callable[..., Any]) -> None:
    box = far()
    box.ask("deny", {UNSHARE: errno.EPERM, LANDLOCK: errno.ENOSYS})
    capabilities, warnings = box.ask("start", Zygote(workers=1, min_isolation="rlimits"))
    assert capabilities.level == "rlimits"
    assert len(warnings) == 1
    assert "can read this machine's files" in warnings[0]
    (result,) = box.ask("run", [Job("import socket\ntry: socket.socket()\nexcept OSError: print('no network')")])
    assert (result.stdout, result.level) == (b"no network\n", "rlimits")


def test_a_minimum_above_the_rung_is_an_error(far: Callable[..., Any]) -> None:
    box = far()
    box.ask("deny", {UNSHARE: errno.EPERM})
    with pytest.raises(SandboxError, match="no sandbox of level 'namespaces'"):
        box.ask("start", Zygote(workers=1, min_isolation="namespaces"))


def test_an_interpreter_under_tmp_is_still_there_after_the_tmpfs(tmp_path: Path) -> None:
    home = Path("/tmp") / f"guerdon-venv-{os.getpid()}"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    try:
        with Zygote(workers=1, python=str(home / "bin" / "python"), level=_best()).start() as box:
            result = box.run(Job("import sys, os, colorsys; print(sys.prefix, os.path.isdir(sys.prefix))"))
        assert result.stdout.decode().split() == [str(home), "True"], result
    finally:
        subprocess.run(["rm", "-r", str(home)], check=True)


def _best() -> Any:
    with Zygote(workers=1).start() as box:
        return box.capabilities().level


def test_hard_limits_that_cannot_be_raised_do_not_matter(far: Callable[..., Any]) -> None:
    box = far()
    box.ask("lower", {resource.RLIMIT_NOFILE: 100, resource.RLIMIT_STACK: 1 << 25, resource.RLIMIT_FSIZE: 1 << 22})
    box.ask("start", Zygote(workers=1))
    (result,) = box.ask("run", [Job("print(1)")])
    assert result.status == "ok"


@NOT_ROOT
def test_slots_of_different_sandboxes_have_different_users(box: Any) -> None:
    if box.capabilities().level != "namespaces":
        pytest.skip("no user of its own")
    job = Job("import os, time; time.sleep(0.2); print(os.getuid())")
    with Zygote(workers=2, level="namespaces").start() as other:
        uids = [result.stdout for sandbox in (box, other) for result in sandbox.run_many([job, job])]
    assert len(set(uids)) == 4


def test_slots_do_not_starve_each_other_of_processes(jail: Any) -> None:
    if not jail.private:
        pytest.skip("no processes to start")
    code = "import os, time\nfor _ in range(40):\n    if os.fork() == 0: time.sleep(9)\ntime.sleep(0.3)\nprint('forty')"
    assert [result.stdout for result in jail.many([Job(code)] * 2)] == [b"forty\n"] * 2


@pytest.mark.slow
def test_endless_recursion_ends(jail: Any) -> None:
    result = jail.run("import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nf(0)", limits=Limits(cpu_s=1, wall_s=10))
    assert result.status in ("timeout", "memory", "signal")
    assert result.wall_s < 10


def test_files_reach_a_read_only_tree(jail: Any) -> None:
    result = jail.run("print(open('data/in.txt').read())", files=(("data/in.txt", b"given"),))
    assert result.stdout == b"given\n"


def test_two_slots_close_at_once() -> None:
    """A zygote that held a copy of another's socket would keep it from ending."""
    box = Zygote(workers=2).start()
    assert {result.status for result in box.run_many([Job("import time; time.sleep(0.1)")] * 2)} == {"ok"}
    started = time.monotonic()
    box.close()
    assert time.monotonic() - started < 3.0


def test_preloaded_modules_cost_nothing_per_run() -> None:
    with Zygote(workers=1, preload=("numpy",)).start() as box:
        assert box.capabilities().level == _best()
        result = box.run(Job("import sys; loaded = 'numpy' in sys.modules\nimport numpy; print(loaded, numpy.arange(4).sum())"))
    assert (result.stdout, result.status) == (b"True 6\n", "ok")
    assert result.cpu_s < 0.1


def test_a_module_that_cannot_be_preloaded_is_named() -> None:
    with pytest.raises(SandboxError, match=r"^\w+: cannot preload 'no_such_module': .*; only what is installed"):
        Zygote(preload=("no_such_module",)).start()


def test_lazily_imported_parts_of_the_library_are_readable(jail: Any) -> None:
    code = "import random, copy, string, zoneinfo, multiprocessing.util, xml.dom.minidom, sqlite3, colorsys, encodings.idna; print('all')"
    assert jail.says(code) == "all"


def test_further_paths_can_be_made_readable(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("given")
    for path in (tmp_path, *list(tmp_path.parents)[:-2]):
        path.chmod(path.stat().st_mode | 0o005)
    with Zygote(workers=1, readable=(str(tmp_path),)).start() as box:
        code = (
            f"print(open({str(tmp_path / 'words')!r}).read())\ntry: open({str(tmp_path / 'x')!r}, 'w')\nexcept OSError: print('read only')"
        )
        assert box.run(Job(code)).stdout == b"given\nread only\n"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workers": 0}, "workers must be an integer of at least 1"),
        ({"min_isolation": "total"}, "min_isolation must be one of"),
        ({"min_isolation": "container"}, "reaches 'namespaces' at best"),
        ({"level": "rlimits"}, "below min_isolation"),
        ({"level": "none", "min_isolation": "none"}, "level must be one of"),
        ({"preload": "numpy"}, "preload must be a tuple"),
        ({"readable": ("data",)}, "absolute paths"),
        ({"readable": ("/",)}, "absolute paths"),
        ({"limits": 3}, "must be Limits"),
    ],
)
def test_a_wrong_spec_is_refused_when_built(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Zygote(**fields)
