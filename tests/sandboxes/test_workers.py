"""The killable worker pool: what one call promises."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guerdon.errors import ConfigError, SandboxError
from guerdon.sandboxes import Done, Failed, Pool, PoolSpec, _worker, close, mark, pool, session, until
from guerdon.sandboxes.workers import default_workers


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    close()


@pytest.fixture(scope="module")
def two(targets: str) -> Pool:
    """Two workers, shared by the module's tests."""
    return pool(PoolSpec(f"{targets}:do", workers=2, memory_mb=512))


def values(results: list[Done | Failed]) -> list[Any]:
    return [result.value if isinstance(result, Done) else result for result in results]


def kinds(results: list[Done | Failed]) -> list[str]:
    return ["done" if isinstance(result, Done) else result.kind for result in results]


def the_one(results: list[Done | Failed]) -> Any:
    assert len(results) == 1
    return results[0]


# results


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_results_keep_order_and_length(two: Pool, count: int) -> None:
    assert values(two.map([("echo", i) for i in range(count)], 5.0)) == list(range(count))


def test_order_holds_when_jobs_differ_in_length_and_some_die(two: Pool) -> None:
    jobs: list[tuple[Any, ...]] = [("echo", i) for i in range(200)]
    jobs[20], jobs[21], jobs[90], jobs[150] = ("tower",), ("sleep", 60), ("sleep", 0.05), ("fail", "x")
    found = two.map(jobs, 1.2, cpu_s=0.2)
    assert kinds(found) == ["cpu" if i == 20 else "wall" if i == 21 else "exception" if i == 150 else "done" for i in range(200)]
    assert [value for i, value in enumerate(values(found)) if i not in (20, 21, 90, 150)] == [
        i for i in range(200) if i not in (20, 21, 90, 150)
    ]


@pytest.mark.parametrize(
    "value",
    ["", "\ud800\x00\u202e", "a" * 1_000_000, b"\x00" * 3_000_000, (1, [2.5, None]), float("inf"), 10**5000],
    ids=["empty", "surrogate", "1 MB", "3 MB", "nested", "inf", "5000 digits"],
)
def test_arguments_and_results_of_any_size_and_text_come_through(two: Pool, value: Any) -> None:
    assert values(two.map([("echo", value)] * 3, 20.0)) == [value] * 3


def test_a_result_says_how_long_it_took_in_the_worker(two: Pool) -> None:
    slept = the_one(two.map([("sleep", 0.1)], 5.0))
    assert 0.1 <= slept.seconds < 2
    assert slept.cpu_seconds < 0.1


# clocks


@pytest.mark.parametrize("what", ["spin", "tower"])
def test_a_computation_that_never_ends_dies_of_its_cpu_limit(two: Pool, what: str) -> None:
    failed = the_one(two.map([(what,)], 20.0, cpu_s=0.2))
    assert (failed.kind, "CPU limit of 0.2 s" in failed.detail) == ("cpu", True)
    assert 0.2 <= failed.seconds < 10


def test_waiting_without_end_dies_of_the_wall_limit(two: Pool) -> None:
    failed = the_one(two.map([("sleep", 60)], 0.3))
    assert failed.kind == "wall"
    assert 0.3 <= failed.seconds < 5


def test_the_cpu_limit_is_half_the_wall_limit_unless_given(two: Pool) -> None:
    for cpu_s, expected in ((None, 4.0), (30.0, 30.0)):
        wall, cpu = values(two.map([("limits",)], 8.0, cpu_s))[0]
        assert (pytest.approx(8.0, abs=1.0), pytest.approx(expected, abs=1.0)) == (wall, cpu)


@pytest.mark.parametrize("what", ["tower", "sleep"])
def test_a_hostile_job_returns_within_300_ms_of_its_limit(two: Pool, what: str) -> None:
    job = (what,) if what == "tower" else (what, 60)
    overhangs = []
    for _ in range(3):  # the best of three: the rest measures the machine
        start = time.monotonic()
        assert the_one(two.map([job], 0.4, cpu_s=0.4)).kind in ("cpu", "wall")
        overhangs.append(time.monotonic() - start - 0.4)
    assert min(overhangs) < 0.3


def test_a_job_that_escapes_the_kernel_timers_is_killed_by_the_parent(two: Pool) -> None:
    start = time.monotonic()
    assert the_one(two.map([("deaf",)], 0.3)).kind == "wall"
    assert time.monotonic() - start < 5


def test_waiting_in_the_queue_does_not_count(two: Pool) -> None:
    assert kinds(two.map([("sleep", 0.15)] * 8, 0.5)) == ["done"] * 8


def test_limits_are_armed_anew_for_every_job(two: Pool) -> None:
    assert kinds(two.map([("sleep", 0.015)] * 60, 0.3)) == ["done"] * 60


def test_the_phase_that_overran_is_reported(two: Pool) -> None:
    failed, unmarked = two.map([("overrun_in", "candidate"), ("sleep", 60)], 0.3)
    assert isinstance(failed, Failed)
    assert isinstance(unmarked, Failed)
    assert (failed.phase, unmarked.phase) == ("candidate", "")


def test_marking_outside_a_worker_does_nothing() -> None:
    mark("candidate")
    assert (_worker._phase, _worker.inside()) == ("", False)


# other ends


def test_memory_is_limited_and_the_next_job_is_well(two: Pool) -> None:
    assert kinds(two.map([("fill_memory",), ("echo", 1)], 20.0)) == ["memory", "done"]


def test_arguments_too_large_for_the_worker_are_refused_unsent(two: Pool) -> None:
    assert kinds(two.map([("echo", bytes(200 << 20)), ("echo", 1)], 20.0)) == ["memory", "done"]


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (("fail", "of\nno use \ud800"), "ValueError: of no use \\ud800 (targets.py:"),
        (("fail_rudely",), "Rude"),
        (("leave",), "SystemExit: 3"),
        (("unpicklable",), "the result cannot be pickled"),
        (("no_such",), "KeyError: 'no_such'"),
        (("echo", 1, 2, 3), "TypeError"),
    ],
)
def test_an_exception_is_data(two: Pool, job: tuple[Any, ...], says: str) -> None:
    failed = the_one(two.map([job], 5.0))
    assert failed.kind == "exception"
    assert says in failed.detail
    assert pickle.loads(pickle.dumps(failed)) == failed


def test_arguments_that_cannot_be_pickled_fail_their_row_only(two: Pool) -> None:
    failed, done = two.map([("echo", lambda: None), ("echo", 1)], 5.0)
    assert isinstance(failed, Failed)
    assert "cannot be pickled" in failed.detail
    assert done == Done(1, done.seconds, getattr(done, "cpu_seconds", -1))


@pytest.mark.parametrize("job", [("vanish", 0), ("vanish", 7), ("crash",), ("close_everything",)])
def test_a_job_that_always_loses_its_worker_is_lost_and_the_rest_is_not(two: Pool, job: tuple[Any, ...]) -> None:
    assert kinds(two.map([("echo", 1), job, ("echo", 2)], 5.0)) == ["done", "lost", "done"]


def test_a_job_lost_once_is_done_the_second_time(two: Pool, tmp_path: Path) -> None:
    assert values(two.map([("vanish_once", str(tmp_path / "a"))], 5.0)) == ["second time"]


def test_a_worker_killed_from_outside_in_mid_job_is_replaced_and_the_job_retried(two: Pool, tmp_path: Path, eventually: Any) -> None:
    note = tmp_path / "pid"

    def kill() -> None:
        assert eventually(note.exists)
        os.kill(int(note.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    assert values(two.map([("note_pid_and_sleep", str(note), 30)], 60.0)) == ["second time"]
    killer.join()


def test_an_idle_worker_killed_from_outside_costs_nothing(two: Pool, eventually: Any, alive: Any) -> None:
    for pid in set(values(two.map([("pid",)] * 4, 5.0))):
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda pid=pid: not alive(pid))
    assert values(two.map([("echo", 1)] * 4, 5.0)) == [1] * 4


def test_prints_go_nowhere_near_the_protocol(two: Pool, capfd: pytest.CaptureFixture[str]) -> None:
    assert values(two.map([("shout",), ("echo", 1)], 5.0)) == ["", 1]
    assert capfd.readouterr() == ("", "")


def test_a_job_that_forks_answers_once(two: Pool) -> None:
    assert values(two.map([("fork_and_return",), ("echo", 1)], 5.0)) == ["once", 1]


def test_children_a_job_left_die_with_its_worker(two: Pool, tmp_path: Path, eventually: Any, alive: Any) -> None:
    note = tmp_path / "child"
    assert kinds(two.map([("leave_a_child", str(note))], 0.5)) == ["lost"]
    assert eventually(lambda: not alive(int(note.read_text())))


def test_a_worker_that_kept_too_much_memory_is_replaced(targets: str) -> None:
    greedy = Pool(PoolSpec(f"{targets}:do", workers=1, memory_mb=200, warm_spares=0))
    first = values(greedy.map([("keep_memory", 1)], 5.0) + greedy.map([("keep_memory", 120)], 5.0) + greedy.map([("pid",)], 5.0))
    assert first[0] == first[1] != first[2]
    greedy.close()


def test_a_worker_is_replaced_after_many_jobs_without_losing_one(targets: str) -> None:
    busy = Pool(PoolSpec(f"{targets}:pid", workers=1))
    found = busy.map([()] * 60_000, 5.0)
    assert (len(found), set(kinds(found)), len(set(values(found)))) == (60_000, {"done"}, 2)
    busy.close()


def test_workers_are_set_up_to_give_the_same_everywhere(two: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUERDON_TEST_VALUE", "inherited")
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    fresh = Pool(PoolSpec(two.spec.target, workers=2, warm_spares=0))
    found = values(fresh.map([("settings",)], 5.0))[0]
    fds = found.pop("fds")
    assert found == {"sigint": True, "blocked": [], "ground": "python", "mine": "inherited", "main": None, "multiprocessing": False}
    assert len(fds) <= 6, "the parent's descriptors must not leak into workers"
    (pid, order), (other, same) = values(fresh.map([("set_order",)], 5.0) + two.map([("set_order",)], 5.0))
    assert (pid != other, order) == (True, same)
    fresh.close()


# deadline, callers


def test_the_deadline_bounds_the_call_and_kills_what_runs(two: Pool) -> None:
    start = time.monotonic()
    with until(start + 0.4):
        found = two.map([("echo", 1), *[("sleep", 60)] * 6, ("tower",)], 50.0)
    assert time.monotonic() - start < 3
    assert kinds(found) == ["done"] + ["deadline"] * 7
    assert values(two.map([("echo", 1)] * 4, 5.0)) == [1] * 4


def test_a_deadline_already_passed_starts_nothing(targets: str, children: Any) -> None:
    before = children()
    with until(time.monotonic() - 1):
        assert kinds(Pool(PoolSpec(f"{targets}:echo", workers=1)).map([(1,)] * 3, 5.0)) == ["deadline"] * 3
    assert children().keys() == before.keys()


def test_sixteen_threads_get_their_own_answers(two: Pool) -> None:
    found: dict[int, list[Any]] = {}

    def work(me: int) -> None:
        found[me] = values(two.map([("echo", (me, i)) for i in range(50)], 10.0))

    threads = [threading.Thread(target=work, args=(me,)) for me in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {me: [(me, i) for i in range(50)] for me in range(16)}


def test_others_go_on_while_one_job_hangs(two: Pool) -> None:
    two.map([("echo", i) for i in range(500)], 5.0)  # batches are large by now
    hung: list[Any] = []
    thread = threading.Thread(target=lambda: hung.extend(two.map([("tower",), *[("echo", i) for i in range(63)]], 60.0, cpu_s=1.0)))
    thread.start()
    start, answers = time.monotonic(), 0
    while time.monotonic() - start < 0.6:
        assert values(two.map([("echo", 1)] * 3, 5.0)) == [1] * 3
        answers += 3
    assert thread.is_alive()
    assert answers > 50
    thread.join()
    assert kinds(hung) == ["cpu"] + ["done"] * 63


def test_a_large_call_does_not_starve_a_small_one(targets: str) -> None:
    one = Pool(PoolSpec(f"{targets}:do", workers=1, warm_spares=0))
    one.map([("echo", 1)], 5.0)
    thread = threading.Thread(target=lambda: one.map([("sleep", 0.02)] * 50, 5.0))
    thread.start()
    time.sleep(0.1)
    start = time.monotonic()
    one.map([("echo", 1)], 5.0)
    assert time.monotonic() - start < 0.5
    thread.join()
    one.close()


def test_amap_does_not_block_the_loop(two: Pool) -> None:
    async def main() -> tuple[float, list[Any]]:
        running = asyncio.gather(
            two.amap([("tower",), ("echo", 1)], 20.0, cpu_s=0.4), two.amap([("sleep", 60)], 0.3), two.amap([("echo", 2)] * 50, 5.0)
        )
        worst = 0.0
        while not running.done():
            start = time.monotonic()
            await asyncio.sleep(0.005)
            worst = max(worst, time.monotonic() - start - 0.005)
        return worst, await running

    lags = []
    for _ in range(3):
        lag, (hostile, slow, quick) = asyncio.run(main())
        assert (kinds(hostile), kinds(slow), values(quick)) == (["cpu", "done"], ["wall"], [2] * 50)
        lags.append(lag)
    assert min(lags) < 0.05


def test_amap_obeys_the_deadline_and_cancelling_it_frees_the_worker(two: Pool) -> None:
    async def main() -> tuple[list[str], float]:
        with until(time.monotonic() + 0.2):
            found = kinds(await two.amap([("sleep", 60)] * 3, 50.0))
        task = asyncio.create_task(two.amap([("sleep", 60)] * 2, 50.0))
        await asyncio.sleep(0.1)
        task.cancel()
        start = time.monotonic()
        assert values(await two.amap([("echo", 1)], 50.0)) == [1]
        return found, time.monotonic() - start

    found, waited = asyncio.run(main())
    assert found == ["deadline"] * 3
    assert waited < 5


def test_an_interrupt_ends_the_call_and_spares_the_pool(two: Pool) -> None:
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        two.map([("sleep", 60)] * 2, 50.0)
    assert time.monotonic() - start < 5
    assert values(two.map([("echo", 1)], 5.0)) == [1]


def test_the_callers_alarm_and_handlers_are_left_alone(two: Pool) -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    others = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGPROF, signal.SIGPIPE)}
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        assert kinds(two.map([("tower",), ("echo", 1)], 20.0, cpu_s=0.3)) == ["cpu", "done"]
        assert rung or signal.getitimer(signal.ITIMER_REAL)[0] > 0
        end = time.monotonic() + 5
        while not rung and time.monotonic() < end:
            time.sleep(0.01)
        assert rung == [signal.SIGALRM]
        assert {number: signal.getsignal(number) for number in others} == others
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# life and death of the pool


def test_close_leaves_no_process_no_thread_and_no_descriptor(targets: str, children: Any, open_fds: Any) -> None:
    close()
    spec = PoolSpec(f"{targets}:do", workers=3)
    processes, fds, threads = children(), open_fds(), threading.active_count()
    for _ in range(2):  # and it can be used again
        with session():
            assert kinds(Pool(spec).map([("echo", 1), ("tower",), ("vanish", 1)], 20.0, cpu_s=0.2)) == ["done", "cpu", "lost"]
            assert len(children()) > len(processes)
        assert (children(), open_fds(), threading.active_count()) == (processes, fds, threads)


def test_closing_a_pool_in_use_ends_its_calls_with_an_error(targets: str) -> None:
    busy = Pool(PoolSpec(f"{targets}:do", workers=1))
    busy.map([("echo", 1)], 5.0)
    timer = threading.Timer(0.2, busy.close)
    timer.start()
    with pytest.raises(SandboxError, match="closed"):
        busy.map([("sleep", 60)] * 3, 50.0)
    timer.join()
    assert values(busy.map([("echo", 1)], 5.0)) == [1]


def test_replacing_a_killed_worker_does_not_wait_for_the_import(tmp_path: Path) -> None:
    (tmp_path / "slow_import.py").write_text("import time\ntime.sleep(0.7)\ndef nap(s): time.sleep(s); return s\n")
    slow = Pool(PoolSpec(f"{tmp_path / 'slow_import.py'}:nap", workers=1, warm_spares=1))
    slow.map([(0,)], 5.0)
    time.sleep(1.0)  # the spare imports meanwhile
    start = time.monotonic()
    assert kinds(slow.map([(60,), (0,)], 0.1)) == ["wall", "done"]
    assert time.monotonic() - start < 0.6
    slow.close()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import nowhere_to_be_found", "nowhere_to_be_found"),
        ("import sys, os; print('last words', file=sys.stderr, flush=True); os._exit(5)", "exit code 5.*last words"),
        ("raise SystemExit('bye')", "bye"),
        ("print('x' * 300_000); 1 / 0", "ZeroDivisionError"),
        ("go = 7", "int, expected a function"),
        ("went = 7", "has no 'go'"),
        ("from guerdon.sandboxes import *; pool(PoolSpec('math:sqrt')).map([(4,)], 1.0)", "a worker started to use a pool"),
    ],
)
def test_a_target_that_cannot_be_loaded_says_why_to_every_caller(tmp_path: Path, code: str, says: str) -> None:
    (tmp_path / "broken.py").write_text(code)
    broken = Pool(PoolSpec(f"{tmp_path / 'broken.py'}:go", workers=2))
    for _ in range(2):
        with pytest.raises(SandboxError, match=f"(?s)cannot load.*broken.py:go.*{says}"):
            broken.map([()] * 4, 5.0)


@pytest.mark.parametrize("executable", ["", "/no/such/python", None])
def test_a_missing_interpreter_is_named_with_its_fix(targets: str, monkeypatch: pytest.MonkeyPatch, executable: str | None) -> None:
    monkeypatch.setattr("sys.executable", executable)
    with pytest.raises(SandboxError, match=r"set sys\.executable"):
        Pool(PoolSpec(f"{targets}:echo", workers=1)).map([(1,)], 5.0)


# arguments


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"target": "math"}, "pkg.mod:function"),
        ({"target": ":sqrt"}, "pkg.mod:function"),
        ({"target": "math:"}, "pkg.mod:function"),
        ({"target": "math:1st"}, "pkg.mod:function"),
        ({"target": print}, "pkg.mod:function"),
        ({"target": "__main__:f"}, "name the file"),
        ({"target": "no_such_file.py:f"}, "no file"),
        ({"workers": 0}, "at least 1"),
        ({"workers": 1.5}, "at least 1"),
        ({"memory_mb": 10}, "at least 64"),
        ({"memory_mb": None}, "at least 64"),
        ({"warm_spares": -1}, "at least 0"),
    ],
)
def test_a_spec_checks_its_fields_when_built(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        PoolSpec(**{"target": "math:sqrt", **change})


def test_a_spec_is_a_value(targets: str) -> None:
    spec = PoolSpec(f"{targets}:echo", workers=1)
    assert pickle.loads(pickle.dumps(Pool(spec))) == pool(spec)
    assert len({spec, PoolSpec(f"{targets}:echo", workers=1)}) == 1
    assert PoolSpec(os.path.relpath(targets) + ":echo", workers=1) == spec


@pytest.mark.parametrize(
    ("timeout_s", "cpu_s"), [(0, None), (-1, None), (float("nan"), None), (float("inf"), None), (1.0, 0), (1.0, float("nan"))]
)
def test_limits_must_be_positive_and_finite(two: Pool, timeout_s: float, cpu_s: float | None) -> None:
    with pytest.raises(ConfigError, match="seconds"):
        two.map([("echo", 1)], timeout_s, cpu_s)


def test_a_job_that_is_no_tuple_is_refused(two: Pool) -> None:
    with pytest.raises(ConfigError, match=r"write \(value,\)"):
        two.map(["echo"], 1.0)  # type: ignore[list-item]


def test_workers_default_to_the_cpus_shared_among_local_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for variable in ("GUERDON_WORKERS", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    assert default_workers() == 8
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert default_workers() == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "16")
    assert default_workers() == 1
    monkeypatch.setenv("GUERDON_WORKERS", "5")
    assert default_workers() == 5


@pytest.mark.parametrize("variable", ["GUERDON_WORKERS", "LOCAL_WORLD_SIZE"])
@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²"])
def test_a_malformed_count_of_workers_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, text: str) -> None:
    monkeypatch.delenv("GUERDON_WORKERS", raising=False)
    monkeypatch.setenv(variable, text)
    with pytest.raises(ConfigError, match=variable):
        default_workers()


@pytest.mark.slow
def test_a_thousand_kills_leave_nothing_behind(targets: str, children: Any, open_fds: Any) -> None:
    def resident_mb() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    close()
    others = children().keys()  # of other tests
    doomed = Pool(PoolSpec(f"{targets}:do", workers=2))
    kinds(doomed.map([("sleep", 60)] * 50, 0.01))
    start, fds, memory = time.monotonic(), open_fds(), resident_mb()
    assert kinds(doomed.map([("sleep", 60)] * 1000, 0.01)) == ["wall"] * 1000
    grown, took = resident_mb() - memory, time.monotonic() - start
    assert "Z" not in children().values()
    assert open_fds() <= fds + 3
    assert grown < 10, f"{grown:.1f} MB in {took:.0f} s"
    print(f"1,000 kills: {took:.1f} s, {grown:+.1f} MB, {open_fds() - fds:+d} descriptors")
    doomed.close()
    assert children().keys() <= others
