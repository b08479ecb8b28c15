"""What happens when the sandbox itself is hurt, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guerdon
from guerdon.errors import SandboxError
from guerdon.sandboxes import Job, Limits, Zygote, _fleet, registry, sandbox, until

from .runner import descendants

SLEEP = Job("import time; time.sleep(0.6); print('slept')")
NOTHING = Job("print(1)")


def zygotes(box: Any) -> list[int]:
    return [pid for guard in box._fleet.pids() for pid in descendants(guard)[:1]]


def when_running(box: Any, act: Callable[[int], None]) -> threading.Thread:
    """Do something to a zygote as soon as it has a child."""

    def watch() -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for pid in zygotes(box):
                if descendants(pid):
                    return act(pid)
            time.sleep(0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_a_killed_zygote_costs_a_retry_and_nothing_else(box: Any) -> None:
    thread = when_running(box, lambda pid: os.kill(pid, signal.SIGKILL))
    results = box.run_many([SLEEP, SLEEP, NOTHING, NOTHING])
    thread.join()
    assert [result.stdout for result in results] == [b"slept\n"] * 2 + [b"1\n"] * 2


def test_a_zygote_killed_twice_under_a_job_is_an_infra_error() -> None:
    with Zygote(workers=1).start() as box:
        stop = threading.Event()

        def kill() -> None:
            while not stop.is_set():
                for pid in zygotes(box):
                    if descendants(pid):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)

        thread = threading.Thread(target=kill)
        thread.start()
        result = box.run(Job("import time; time.sleep(3)"))
        stop.set()
        thread.join()
        assert (result.status, result.timed_out_by) == ("infra_error", "")
        assert "lost twice" in result.detail
        assert box.run(NOTHING).status == "ok"


def test_a_zygote_killed_while_idle_is_replaced(box: Any) -> None:
    box.run(NOTHING)
    for pid in zygotes(box):
        os.kill(pid, signal.SIGKILL)
    assert {result.status for result in box.run_many([NOTHING] * 4)} == {"ok"}


@pytest.mark.slow
def test_a_stopped_zygote_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fleet, "GRACE_S", 0.3)
    with Zygote(workers=1).start() as box:
        box.run(NOTHING)
        (pid,) = zygotes(box)
        os.kill(pid, signal.SIGSTOP)
        assert box.run(Job("print(1)", limits=Limits(wall_s=0.2))).stdout == b"1\n"


def test_the_deadline_of_a_call_ends_what_runs(box: Any) -> None:
    started = time.monotonic()
    with until(started + 0.5):
        results = box.run_many([NOTHING, Job("import time; time.sleep(9)"), *[SLEEP] * 8])
    assert time.monotonic() - started < 3
    assert results[0].status == "ok"
    assert {(result.status, result.timed_out_by) for result in results[5:]} == {("infra_error", "deadline")}
    assert box.run(NOTHING).status == "ok"


def test_closing_ends_calls_that_run() -> None:
    box = Zygote(workers=1).start()
    errors: list[Exception] = []

    def call() -> None:
        try:
            box.run(Job("import time; time.sleep(9)"))
        except SandboxError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.3)
    box.close()
    thread.join(10)
    assert len(errors) == 1
    with pytest.raises(SandboxError, match="closed"):
        box.run(NOTHING)


def test_threads_share_the_slots(box: Any) -> None:
    results: list[bytes] = []

    def call(number: int) -> None:
        results.extend(result.stdout for result in box.run_many([Job(f"print({number})")] * 20))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(f"{number}\n".encode() for number in range(4) for _ in range(20))


def test_the_event_loop_is_not_blocked(box: Any) -> None:
    async def main() -> tuple[int, list[Any]]:
        running = asyncio.create_task(box.arun_many([SLEEP, SLEEP]))
        beats = 0
        while not running.done():
            await asyncio.sleep(0.01)
            beats += 1
        return beats, await running

    beats, results = asyncio.run(main())
    assert beats > 20
    assert [result.status for result in results] == ["ok", "ok"]


def test_cancelling_an_async_call_ends_what_runs(box: Any, eventually: Callable[..., bool]) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(box.arun(Job("import time; time.sleep(20)")), 0.3)

    started = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - started < 5
    assert eventually(lambda: all(not descendants(pid) for pid in zygotes(box)))


def test_a_forked_child_has_a_sandbox_of_its_own() -> None:
    spec = Zygote(workers=1)
    assert sandbox(spec).run(NOTHING).status == "ok"
    parents = sandbox(spec)._fleet.pids()  # type: ignore[attr-defined]
    pid = os.fork()
    if pid == 0:
        try:
            mine = sandbox(spec)
            good = mine.run(NOTHING).status == "ok" and mine._fleet.pids() != parents  # type: ignore[attr-defined]
            registry.close()
            os._exit(0 if good else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert sandbox(spec).run(NOTHING).status == "ok"
    assert sandbox(spec)._fleet.pids() == parents  # type: ignore[attr-defined]
    registry.drop(spec)


def test_equal_specs_share_one_sandbox_and_pickle() -> None:
    spec = Zygote(workers=1, preload=("json",))
    assert sandbox(pickle.loads(pickle.dumps(spec))) is sandbox(Zygote(workers=1, preload=("json",)))
    registry.drop(spec)


def leftovers(pid: int) -> set[str]:
    """Cgroups, mounts and folders named for a process's sandboxes."""
    found = {str(path) for path in Path(tempfile.gettempdir()).glob(f"guerdon-{pid}-*")}
    found |= {root for root, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(root).startswith(f"guerdon-{pid}-")}
    return found | {line for line in Path("/proc/self/mounts").read_text().splitlines() if "guerdon" in line}


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_nothing_is_left_after_closing(level: Any, children: Callable[[], dict[int, str]], open_fds: Callable[[], int]) -> None:
    try:
        Zygote(workers=1, level=level).start().close()
    except SandboxError as error:
        pytest.skip(str(error))
    before = children(), open_fds(), leftovers(os.getpid())
    with Zygote(workers=2, level=level).start() as box:
        box.run_many([NOTHING, Job("open('x', 'w').write('y' * 1000)"), Job("while True: pass", limits=Limits(cpu_s=0.2))])
        assert len(children()) == len(before[0]) + 2
    assert (children(), open_fds(), leftovers(os.getpid())) == before


def test_nothing_is_left_when_the_trainer_is_killed(tmp_path: Path, alive: Callable[[int], bool], eventually: Callable[..., bool]) -> None:
    code = f"""
        import sys, time; sys.path.insert(0, {str(Path(guerdon.__file__).parents[1])!r})
        from guerdon.sandboxes import Job, Zygote
        box = Zygote(workers=1).start()
        print(*box._fleet.pids(), flush=True)
        box.run(Job("import time; time.sleep(60)"))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        guard = int(trainer.stdout.readline())
        assert eventually(lambda: len(descendants(guard)) == 2)
        pids = [guard, *descendants(guard)]
        trainer.kill()
    assert eventually(lambda: not any(alive(pid) for pid in pids))
    assert eventually(lambda: not leftovers(trainer.pid))


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_a_killed_guard_takes_zygote_and_run_along(level: Any, eventually: Callable[..., bool], alive: Callable[[int], bool]) -> None:
    before = leftovers(os.getpid())
    pids: list[int] = []
    try:
        box = Zygote(workers=1, level=level).start()
    except SandboxError as error:
        pytest.skip(str(error))
    with box:

        def kill(zygote: int) -> None:
            pids.extend([zygote, *descendants(zygote)])
            os.kill(box._fleet.pids()[0], signal.SIGKILL)

        thread = when_running(box, kill)
        assert box.run(SLEEP).stdout == b"slept\n"
        thread.join()
        assert len(pids) == 2
        assert eventually(lambda: not any(alive(pid) for pid in pids))
    assert leftovers(os.getpid()) <= before


def test_ignored_and_blocked_signals_of_the_trainer_do_not_matter(script: Callable[..., str]) -> None:
    code = """
        import signal
        from guerdon.sandboxes import Job, Zygote, sandbox
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
        box = sandbox(Zygote(workers=1))
        print([r.status for r in box.run_many([Job("print(1)"), Job("import signal; print(signal.pthread_sigmask(0, [])); 1 / 0")])])
    """
    assert script(code) == "['ok', 'nonzero']"


def test_many_runs_leak_nothing(box: Any, children: Callable[[], dict[int, str]], open_fds: Callable[[], int]) -> None:
    box.run_many([NOTHING] * 4)
    inside = {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in zygotes(box)}
    before = len(children()), open_fds()
    assert {result.status for result in box.run_many([NOTHING] * 300)} == {"ok"}
    assert (len(children()), open_fds()) == before
    assert {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in zygotes(box)} == inside
