"""The worker pool from everywhere a trainer may call it: each test runs a fresh interpreter of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guerdon

UNGUARDED = """
from guerdon.sandboxes import PoolSpec, pool
print("top level")
print(pool(PoolSpec("operator:add", workers=2)).map([(1, 2), ("a", "b")], 20.0)[1].value)
"""


def test_an_unguarded_script_runs_once(script: Callable[..., str]) -> None:
    assert script(UNGUARDED) == "top level\nab"


def test_a_script_on_stdin(python: Callable[..., str]) -> None:
    assert python("-", stdin=UNGUARDED) == "top level\nab"


def test_a_piped_interactive_session(python: Callable[..., str]) -> None:
    assert python("-i", "-q", stdin=UNGUARDED) == "top level\nab"


def test_a_cell_with_a_running_event_loop(python: Callable[..., str]) -> None:
    code = """
    import asyncio, code, sys
    from guerdon.sandboxes import PoolSpec, pool
    cell = '''
    add = pool(PoolSpec("operator:add", workers=1))
    print(add.map([(1, 2)], 20.0)[0].value)
    print((await add.amap([(3, 4)], 20.0))[0].value)
    '''
    async def kernel():
        import ast, textwrap
        namespace = {"pool": pool, "PoolSpec": PoolSpec, "__name__": "__main__"}
        await eval(compile(textwrap.dedent(cell), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), namespace)
    asyncio.run(kernel())
    """
    assert python("-", stdin=code) == "3\n7"


def test_a_forked_child_has_its_own_workers_and_the_parents_go_on(script: Callable[..., str]) -> None:
    code = """
    import os, threading, time
    from guerdon.sandboxes import PoolSpec, pool, close
    shared = pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=2))
    pids = lambda: {done.value for done in shared.map([("pid",)] * 8 + [("sleep", 0.05)] * 2, 20.0) if isinstance(done.value, int)}
    mine = pids()
    while len(mine) < 2:
        mine |= pids()
    stop, wrong = threading.Event(), []
    def keep_busy():
        while not stop.is_set():
            if [done.value for done in shared.map([("echo", i) for i in range(20)], 20.0)] != list(range(20)):
                wrong.append(1)
            time.sleep(0.005)  # or a worker reaches the number of jobs after which it is replaced
    busy = threading.Thread(target=keep_busy)
    busy.start()
    receive, send = os.pipe()
    for _ in range(5):
        child = os.fork()
        if child == 0:
            theirs = pids()
            close()
            os.write(send, repr(bool(theirs) and not theirs & mine).encode())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(receive, 100) == b"True"
    stop.set()
    busy.join()
    assert not wrong
    assert pids() <= mine
    print("well")
    """
    assert script(code, "-W", "ignore::DeprecationWarning") == "well"


def test_a_forked_child_that_dies_does_not_disturb_the_parent_and_its_workers_go(
    script: Callable[..., str], eventually: Any, alive: Any
) -> None:
    code = """
    import os
    from guerdon.sandboxes import PoolSpec, pool
    shared = pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=1, warm_spares=0))
    before = shared.map([("pid",)], 20.0)[0].value
    child = os.fork()
    if child == 0:
        print(shared.map([("pid",)], 20.0)[0].value, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    assert shared.map([("pid",)], 20.0)[0].value == before
    """
    orphan = int(script(code, "-W", "ignore::DeprecationWarning"))
    assert eventually(lambda: not alive(orphan))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_under_multiprocessing(script: Callable[..., str], method: str) -> None:
    code = """
    import multiprocessing
    from guerdon.sandboxes import PoolSpec, pool
    add = pool(PoolSpec("operator:add", workers=1))
    def work(pair):
        return add.map([pair], 20.0)[0].value
    if __name__ == "__main__":
        work((0, 0))
        with multiprocessing.get_context(METHOD).Pool(2) as processes:
            print(processes.map(work, [(1, 2), (3, 4)]))
    """
    assert script(code.replace("METHOD", repr(method)), "-W", "ignore::DeprecationWarning") == "[3, 7]"


@pytest.mark.parametrize("how", ["cwd", "path", "variable"])
def test_files_that_shadow_the_standard_library_are_not_imported(script: Callable[..., str], tmp_path: Path, how: str) -> None:
    poison = tmp_path / "poison"
    (poison / "verifiers").mkdir(parents=True)
    for name in ("types", "random", "enum", "pickle", "struct", "dataclasses", "sitecustomize", "verifiers/__init__"):
        (poison / f"{name}.py").write_text("raise SystemExit('poisoned')")
    (poison / "my_own_module.py").write_text("def f(x): import random, types; return x + 1")
    code = """
    import os, sys
    from guerdon.sandboxes import PoolSpec, pool
    os.chdir("poison")
    {"cwd": lambda: sys.path.insert(0, ""), "path": lambda: sys.path.insert(0, os.getcwd()),
     "variable": lambda: (os.environ.update(PYTHONPATH=os.getcwd()), sys.path.append(os.getcwd()))}[HOW]()
    print(pool(PoolSpec("my_own_module:f", workers=1)).map([(1,)], 20.0)[0])
    """
    assert script(code.replace("HOW", repr(how))).startswith("Done(value=2,")


def test_workers_run_the_parents_own_guerdon(script: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "guerdon").mkdir()
    (tmp_path / "guerdon" / "__init__.py").write_text("raise ImportError('another guerdon')")
    (tmp_path / "where.py").write_text("def f():\n    import guerdon\n    return guerdon.__file__")
    code = """
    import sys
    import guerdon
    sys.path.insert(0, "")
    from guerdon.sandboxes import PoolSpec, pool
    print(pool(PoolSpec("where.py:f", workers=1)).map([()], 20.0)[0].value == guerdon.__file__)
    """
    source = str(Path(guerdon.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {source!r})\n" + "\n".join(line.strip() for line in code.splitlines())
    assert script(code) == "True"


@pytest.mark.parametrize("ignore", [True, False])
@pytest.mark.slow
def test_causes_are_told_apart_though_somebody_else_collects_children(script: Callable[..., str], ignore: bool) -> None:
    code = """
    import contextlib, os, signal
    from guerdon.sandboxes import PoolSpec, pool
    def collect(*_):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN if IGNORE else collect)
    work = pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=1))
    print([getattr(result, "kind", "done") for result in work.map([("tower",), ("sleep", 60), ("vanish", 0), ("echo", 1)], 1.5, cpu_s=0.2)])
    """
    assert script(code.replace("IGNORE", str(ignore))) == "['cpu', 'wall', 'lost', 'done']"


def test_a_broken_pipe_does_not_kill_a_caller_that_restored_sigpipe(script: Callable[..., str]) -> None:
    code = """
    import os, signal, time
    from guerdon.sandboxes import PoolSpec, pool
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    work = pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=1, warm_spares=0))
    os.kill(work.map([("pid",)], 20.0)[0].value, signal.SIGKILL)
    time.sleep(0.1)
    print(work.map([("echo", "alive")], 20.0)[0].value)
    """
    assert script(code) == "alive"


def test_a_caller_without_standard_descriptors(script: Callable[..., str], tmp_path: Path) -> None:
    code = """
    import os
    for fd in (0, 1, 2):
        os.close(fd)
    from guerdon.sandboxes import PoolSpec, pool
    result = pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=2)).map([("shout",), ("echo", 1), ("tower",)], 20.0, cpu_s=0.2)
    open("result", "w").write(repr([getattr(one, "kind", "done") for one in result]))
    os._exit(0)
    """
    script(code)
    assert (tmp_path / "result").read_text() == "['done', 'done', 'cpu']"


def test_a_caller_with_thousands_of_descriptors(script: Callable[..., str]) -> None:
    code = """
    import os, resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    kept = []
    try:
        while len(kept) < 1500:
            kept.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    from guerdon.sandboxes import PoolSpec, pool
    print(pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=1)).map([("echo", 1)], 20.0)[0].value)
    """
    assert script(code) == "1"


def test_a_caller_that_runs_out_of_descriptors_is_told(script: Callable[..., str]) -> None:
    code = """
    import os, resource
    from guerdon.errors import SandboxError
    from guerdon.sandboxes import PoolSpec, pool, close
    import subprocess, select, asyncio, guerdon.sandboxes._crew
    work = pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=2))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    kept = []
    try:
        while True:
            kept.append(os.dup(0))
    except OSError:
        pass
    try:
        work.map([("echo", 1)], 20.0)
    except SandboxError as error:
        assert "ulimit -n" in str(error), error
    for fd in kept:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    print(work.map([("echo", 1)], 20.0)[0].value)
    """
    assert script(code) == "1"


def test_workers_end_when_the_parent_is_killed(tmp_path: Path, targets: str, eventually: Any, alive: Any) -> None:
    code = f"""
import threading, time
from guerdon.sandboxes import PoolSpec, pool
work = pool(PoolSpec({targets!r} + ":do", workers=2))
pids = {{done.value for done in work.map([("pid",)] * 10, 20.0)}}
print(*pids, flush=True)
work.map([("note_pid_and_sleep", {str(tmp_path / "busy")!r}, 60), ("tower",)], 2.0)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(guerdon.__file__).parents[1])}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
    assert parent.stdout is not None
    workers = {int(pid) for pid in parent.stdout.readline().split()}
    assert eventually((tmp_path / "busy").exists)
    workers.add(int((tmp_path / "busy").read_text()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert eventually(lambda: not any(alive(pid) for pid in workers))


def test_workers_outlive_the_thread_that_started_them(script: Callable[..., str]) -> None:
    code = """
    import os, threading
    from guerdon.sandboxes import PoolSpec, pool
    work, found = pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=1)), []
    for _ in range(3):
        thread = threading.Thread(target=lambda: found.extend(work.map([("pid",)], 20.0)))
        thread.start()
        thread.join()
    print(len({done.value for done in found}))
    """
    assert script(code) == "1"


def test_a_process_that_never_closes_its_pools_ends_clean_and_at_once(script: Callable[..., str]) -> None:
    code = """
    import os, threading
    from guerdon.sandboxes import PoolSpec, pool
    work = pool(PoolSpec(os.environ["TARGETS"] + ":do", workers=2))
    threading.Thread(target=lambda: work.map([("sleep", 60)], 50.0), daemon=True).start()
    print(work.map([("echo", 1)], 20.0)[0].value)
    """
    start = time.monotonic()
    assert script(code, "-X", "dev", "-W", "error") == "1"
    assert time.monotonic() - start < 15


def test_a_folder_removed_under_the_caller(script: Callable[..., str]) -> None:
    code = """
    import os, sys, tempfile
    from guerdon.sandboxes import PoolSpec, pool
    sys.path.insert(0, "")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
    print(pool(PoolSpec("operator:add", workers=1)).map([(1, 2)], 20.0)[0].value)
    """
    assert script(code) == "3"


def test_importing_the_room_is_cheap(python: Callable[..., str]) -> None:
    heavy = "{'asyncio', 'numpy', 'sympy', 'subprocess', 'multiprocessing', 'concurrent.futures', 'socket', 'tempfile', 'logging'}"
    assert python("-c", f"import sys, guerdon.sandboxes; print({heavy} & set(sys.modules))") == "set()"


@pytest.mark.stacks
def test_inside_a_ray_actor(targets: str) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:

        @ray.remote
        class Actor:
            def score(self) -> list[str]:
                from guerdon.sandboxes import PoolSpec, pool

                work = pool(PoolSpec(f"{targets}:do", workers=1))
                return [getattr(one, "kind", "done") for one in work.map([("echo", 1), ("tower",), ("sleep", 60)], 4.0, cpu_s=0.3)]

        actors = [Actor.remote() for _ in range(2)]
        assert ray.get([actor.score.remote() for actor in actors]) == [["done", "cpu", "wall"]] * 2
    finally:
        ray.shutdown()
