"""Workers that are forked from a process that has only imported: as good as fresh ones, and only where that is safe."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guerdon.sandboxes import Done, Pool, PoolSpec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")

FAMILY = """
import os, time
SEEN = []
def parent(): return os.getppid()
def do(what, *args): return globals()[what](*args)
def nap(s): time.sleep(s); return s
def note(x): SEEN.append(x); return list(SEEN)
def pid(): return os.getpid()
def grow(mb): globals()["KEPT"] = bytearray(mb << 20)
"""


def family(folder: Path, extra: str = "", **more: Any) -> Pool:
    (folder / "family.py").write_text(FAMILY + extra)
    return Pool(PoolSpec(f"{folder / 'family.py'}:do", **more))


def value(pool: Pool, *job: Any, timeout_s: float = 10.0) -> Any:
    (found,) = pool.map([job], timeout_s)
    return found.value if isinstance(found, Done) else found


def is_forked(pool: Pool) -> bool:
    """Whether the worker's parent is another process than this one."""
    return bool(value(pool, "parent") != os.getpid())


def test_workers_are_forked_from_one_import(tmp_path: Path) -> None:
    pool = family(tmp_path, f"open({str(tmp_path / 'imports')!r}, 'a').write('x')\n", workers=3)
    assert [found.value for found in pool.map([("nap", 0.2)] * 3, 10.0) if isinstance(found, Done)] == [0.2] * 3
    assert is_forked(pool)
    for _ in range(5):
        assert value(pool, "nap", 9, timeout_s=0.05).kind == "wall"
    assert (tmp_path / "imports").read_text() == "x"
    pool.close()


@pytest.mark.parametrize(
    "leaves",
    [
        "import threading\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
        "KEPT = open(__file__)\n",
        "import socket\nKEPT = socket.socketpair()\n",
    ],
    ids=["a thread", "a file", "a connection"],
)
def test_an_import_that_leaves_something_copies_would_share_is_not_forked(tmp_path: Path, leaves: str) -> None:
    pool = family(tmp_path, leaves, workers=2)
    assert not is_forked(pool)
    assert value(pool, "nap", 9, timeout_s=0.05).kind == "wall"
    assert not is_forked(pool)
    pool.close()


def test_without_spares_nothing_is_forked(tmp_path: Path) -> None:
    pool = family(tmp_path, workers=1, warm_spares=0)
    assert not is_forked(pool)
    pool.close()


def test_what_a_job_left_in_memory_dies_with_its_worker(tmp_path: Path) -> None:
    pool = family(tmp_path, workers=1)
    assert value(pool, "note", 1) == [1]
    assert value(pool, "note", 2) == [1, 2]
    value(pool, "nap", 9, timeout_s=0.05)
    assert value(pool, "note", 3) == [3]
    pool.close()


def test_memory_is_limited_in_forks_too(tmp_path: Path) -> None:
    pool = family(tmp_path, workers=1, memory_mb=256)
    assert value(pool, "grow", 400).kind == "memory"
    pool.close()


def test_a_template_that_is_killed_loses_no_job(tmp_path: Path, eventually: Any, alive: Callable[[int], bool]) -> None:
    pool = family(tmp_path, workers=2)
    template, worker = value(pool, "parent"), value(pool, "pid")
    found: list[Any] = []
    busy = threading.Thread(target=lambda: found.extend(pool.map([("nap", 0.5)] * 4, 20.0)))
    busy.start()
    time.sleep(0.2)
    os.kill(template, signal.SIGKILL)
    busy.join()
    assert [one.value for one in found] == [0.5] * 4
    assert value(pool, "parent") not in (template, os.getpid())
    assert eventually(lambda: not alive(worker))
    pool.close()


def test_a_template_killed_while_idle_costs_nothing(tmp_path: Path, eventually: Any, alive: Callable[[int], bool]) -> None:
    pool = family(tmp_path, workers=1)
    for _ in range(3):
        template = value(pool, "parent")
        os.kill(template, signal.SIGKILL)
        assert eventually(lambda template=template: not alive(template))
        assert value(pool, "nap", 0) == 0
    pool.close()


def test_a_template_that_is_stopped_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guerdon.sandboxes._template.ANSWER_S", 0.5)
    pool = family(tmp_path, workers=1)
    os.kill(value(pool, "parent"), signal.SIGSTOP)
    assert value(pool, "nap", 9, timeout_s=0.05).kind == "wall"
    assert value(pool, "nap", 0) == 0
    pool.close()


def test_a_caller_that_ignores_its_children_still_hears_how_workers_end(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        pool = family(tmp_path, workers=1)
        (found,) = pool.map([("nap", 9)], 0.1)
        assert getattr(found, "detail", "") == "still running after 0.1 s"
        pool.close()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_caller_that_is_killed_leaves_no_process(script: Callable[..., str], eventually: Any, alive: Callable[[int], bool]) -> None:
    code = """
    import os, subprocess, sys
    if len(sys.argv) > 1:
        from guerdon.sandboxes import PoolSpec, pool
        work = pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=2))
        pids = {done.value for done in work.map([("pid",)] * 4 + [("sleep", 0.05)] * 2, 20.0)} - {0.05}
        parents = {int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]) for pid in pids}
        print(*pids, *parents, flush=True)
        work.map([("spin",), ("sleep", 60)], 60.0)
    child = subprocess.Popen([sys.executable, __file__, "child"], stdout=subprocess.PIPE, text=True)
    line = child.stdout.readline()
    child.kill()
    child.wait()
    print(line)
    """
    pids = [int(pid) for pid in script(code).split()]
    assert len(pids) >= 2
    assert eventually(lambda: not any(alive(pid) for pid in pids))
