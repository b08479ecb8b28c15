"""Containers and daemons that die, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guerdon
from guerdon.errors import SandboxError
from guerdon.sandboxes import Docker, Job, registry, sandbox, until

pytestmark = pytest.mark.docker
SLEEP = Job("import time; time.sleep(1.5); print('slept')")
NOTHING = Job("print(1)")
SOURCE = str(Path(guerdon.__file__).parents[1])


def kill(daemon: Any, container: str) -> None:
    daemon.api.kill(container)


def test_a_container_killed_under_a_job_costs_a_retry_and_nothing_else(box: Any, daemon: Any) -> None:
    box.run_many([NOTHING] * 4)
    threading.Timer(0.5, kill, (daemon, box._fleet.containers()[0])).start()
    results = box.run_many([SLEEP, SLEEP, NOTHING, NOTHING])
    assert [result.stdout for result in results] == [b"slept\n"] * 2 + [b"1\n"] * 2


def test_a_job_whose_containers_are_killed_twice_is_an_infra_error(daemon: Any) -> None:
    with Docker(workers=1).start() as box:
        stop = threading.Event()

        def hunt() -> None:
            while not stop.wait(0.2):
                for container in box._fleet.containers():
                    try:
                        kill(daemon, container)
                    except Exception:  # it is going already
                        continue

        thread = threading.Thread(target=hunt)
        thread.start()
        result = box.run(Job("import time; time.sleep(10)"))
        stop.set()
        thread.join()
        assert (result.status, result.timed_out_by) == ("infra_error", "")
        assert "twice" in result.detail
        assert box.run(NOTHING).status == "ok"


def test_containers_killed_while_idle_are_replaced(box: Any, daemon: Any) -> None:
    for container in box._fleet.containers():
        kill(daemon, container)
    assert {result.status for result in box.run_many([NOTHING] * 6)} == {"ok"}


def test_a_paused_container_is_given_up(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from guerdon.sandboxes import Limits, _fleet

    monkeypatch.setattr(_fleet, "GRACE_S", 0.3)
    with Docker(workers=1).start() as box:
        daemon.api.pause(box._fleet.containers()[0])
        assert box.run(Job("print(1)", limits=Limits(wall_s=0.5))).stdout == b"1\n"


def test_a_container_is_replaced_after_so_many_runs(daemon: Any, ours: Callable[..., Any], eventually: Callable[..., bool]) -> None:
    with Docker(workers=1, recycle_after=3).start() as box:
        before = set(box._fleet.containers())
        assert {result.status for result in box.run_many([NOTHING] * 10)} == {"ok"}
        assert not before & set(box._fleet.containers())
        assert eventually(lambda: len(set(box._fleet.containers())) <= 1)


def test_a_daemon_that_dies_gives_infra_errors_and_no_hang(wire: Any, ours: Callable[..., Any], eventually: Callable[..., bool]) -> None:
    code = f"""
        import json, sys, time; sys.path.insert(0, {SOURCE!r})
        from guerdon.sandboxes import Docker, Job
        box = Docker(workers=2).start()
        first = box.run(Job("print(1)"))
        print("up", flush=True)
        started = time.monotonic()
        results = [first, *box.run_many([Job("import time; time.sleep(1.5)")] * 6)]
        box.close()
        print(json.dumps([time.monotonic() - started, [(one.status, one.timed_out_by, one.detail) for one in results]]))
    """
    # In another process: the SDK drops sockets that do not connect without closing them.
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "up\n"
        time.sleep(0.3)
        wire.cut()
        seconds, (first, *others) = json.loads(trainer.stdout.readline())
    assert seconds < 10
    assert first[0] == "ok"
    assert {(status, clock) for status, clock, _ in others} == {("infra_error", "")}
    assert all("no container could be started" in detail for _, _, detail in others)
    assert eventually(lambda: not ours(trainer.pid))


def test_the_deadline_of_a_call_ends_what_runs(box: Any) -> None:
    started = time.monotonic()
    with until(started + 0.7):
        results = box.run_many([NOTHING, *[SLEEP] * 6])
    assert time.monotonic() - started < 5
    assert results[0].status == "ok"
    assert {(result.status, result.timed_out_by) for result in results[3:]} == {("infra_error", "deadline")}
    assert box.run(NOTHING).status == "ok"


def test_closing_ends_calls_that_run(daemon: Any) -> None:
    box = Docker(workers=1).start()
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


def test_the_event_loop_is_not_blocked(box: Any) -> None:
    async def main() -> tuple[int, list[Any]]:
        running, beats = asyncio.create_task(box.arun_many([SLEEP, NOTHING])), 0
        while not running.done():
            await asyncio.sleep(0.02)
            beats += 1
        return beats, await running

    beats, results = asyncio.run(main())
    assert beats > 15
    assert [result.status for result in results] == ["ok", "ok"]


def test_equal_specs_share_one_pool(daemon: Any) -> None:
    spec = Docker(workers=1)
    assert sandbox(pickle.loads(pickle.dumps(spec))) is sandbox(Docker(workers=1))
    registry.drop(spec)


def test_nothing_is_left_after_closing(
    daemon: Any, ours: Callable[..., Any], open_fds: Callable[[], int], eventually: Callable[..., bool]
) -> None:
    Docker(workers=1).start().close()
    before, images = ours(), {image.id for image in daemon.images.list(all=True)}
    fds, threads = open_fds(), threading.active_count()
    with Docker(workers=2, recycle_after=4).start() as box:
        box.run_many([NOTHING] * 12)
    assert (open_fds(), threading.active_count()) == (fds, threads)
    assert eventually(lambda: ours() <= before)
    assert {image.id for image in daemon.images.list(all=True)} == images


def test_nothing_is_left_when_the_trainer_is_killed(ours: Callable[..., Any], eventually: Callable[..., bool]) -> None:
    code = f"""
        import sys; sys.path.insert(0, {SOURCE!r})
        from guerdon.sandboxes import Docker, Job
        box = Docker(workers=2).start()
        print("up", flush=True)
        box.run_many([Job("import time; time.sleep(60)")] * 2)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "up\n"
        assert len(ours(trainer.pid)) == 2
        time.sleep(0.3)
        trainer.kill()
    assert eventually(lambda: not ours(trainer.pid))


def test_a_forked_child_has_a_pool_of_its_own(daemon: Any, ours: Callable[..., Any], eventually: Callable[..., bool]) -> None:
    spec = Docker(workers=1)
    sandbox(spec).run(NOTHING)
    mine: list[str] = sandbox(spec)._fleet.containers()  # type: ignore[attr-defined]
    pid = os.fork()
    if pid == 0:
        try:
            good = sandbox(spec).run(NOTHING).status == "ok" and sandbox(spec)._fleet.containers() != mine  # type: ignore[attr-defined]
            registry.close()
            os._exit(0 if good else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert sandbox(spec).run(NOTHING).status == "ok"
    assert sandbox(spec)._fleet.containers() == mine  # type: ignore[attr-defined]
    registry.drop(spec)
    assert eventually(lambda: not ours(pid))


@pytest.mark.parametrize("spec", [Docker(image="guerdon-test/none:1"), Docker(runtime="none"), Docker(preload=("numpy_of_mars",))])
def test_a_pool_that_cannot_be_had_says_why(spec: Docker, ours: Callable[..., Any], eventually: Callable[..., bool]) -> None:
    before = ours()
    with pytest.raises(SandboxError, match=r"no image|none|numpy_of_mars"):
        spec.start()
    assert eventually(lambda: ours() <= before)
