"""Asking services: order, bounds, retries, the breaker, the cache, deadlines, closing; from threads, loops and forked processes."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import guerdon
import guerdon.rewards as R
from guerdon import Rollout, Scores, Status, Verdict
from guerdon.errors import ConfigError, MissingExtra, SandboxError
from guerdon.rewards._cache import Cache
from guerdon.rewards._http import Service as Spec
from guerdon.rewards._http import service_url
from guerdon.sandboxes import asking, registry, until
from guerdon.sandboxes.turns import Turns

from .service_stub import DROP, Service, answer, says

Make = Callable[..., Any]
FAILURE = (500, {}, b"broken")
BUSY = (429, {"Retry-After": "0"}, b"{}")


@pytest.fixture(autouse=True)
def _quick_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(asking, "_FIRST_PAUSE_S", 0.01)
    yield
    guerdon.close()


@pytest.fixture
def service() -> Iterator[Make]:
    made: list[Service] = []

    def make(*script: Any, **options: Any) -> Service:
        made.append(Service(*script, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def rm(stub: Service | str, **options: Any) -> Any:
    """A reward model that is asked about one row at a time, and gives an eighth of its length."""
    return R.remote(stub if isinstance(stub, str) else stub.url, **{"batch_size": 1, **options})


def rows(n: int, start: int = 0) -> list[Rollout]:
    return [Rollout("x" * (i + start), prompt="p") for i in range(n)]


def expected(n: int, start: int = 0) -> list[float]:
    return [(i + start + 1) / 8 for i in range(n)]


def scored(reward: R.Term, rollouts: list[Rollout], deadline_s: float | None = None) -> Scores:
    return reward.score(rollouts, deadline_s, warn_broken=1.0, max_broken=1.0)


def verdicts(reward: R.Term, rollouts: list[Rollout], deadline_s: float | None = None) -> list[Verdict]:
    return scored(reward, rollouts, deadline_s).verdicts[reward.name]


def live(reward: Any) -> Any:
    return registry.get(Spec(reward.url), lambda spec: pytest.fail("no client lives"))


def eventually(condition: Callable[[], Any], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def tasks(reward: Any) -> int:
    return len(asyncio.all_tasks(live(reward).asker._loop))


# order and bounds


def test_scores_come_in_the_order_of_the_rows_whatever_the_order_of_the_answers(service: Make) -> None:
    def slow_for_short(data: Any) -> Any:
        time.sleep(0.05 * (8 - len(data["query"][0])))
        return answer("/get_reward", data)

    assert rm(service(*[slow_for_short] * 8))(rows(8)) == expected(8)


@pytest.mark.parametrize("bound", [1, 3, 7])
def test_no_more_requests_than_allowed_are_under_way_over_threads_and_loops(service: Make, bound: int) -> None:
    stub = service(delay_s=0.02)
    reward = rm(stub, concurrency=bound)

    def from_a_loop(start: int) -> None:
        asyncio.run(reward.ascore(rows(10, start)))

    threads = [threading.Thread(target=lambda start=s: reward(rows(10, start))) for s in (0, 20)]
    threads += [threading.Thread(target=from_a_loop, args=(start,)) for start in (40, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(stub.seen), stub.busiest) == (40, bound)


def test_waiting_for_a_turn_does_not_count_as_waiting_for_an_answer(service: Make) -> None:
    assert rm(service(delay_s=0.1), concurrency=1, timeout_s=0.7, attempts=1)(rows(12)) == expected(12)


@pytest.mark.parametrize("other", [{"concurrency": 2}, {"concurrency": 3}, {"concurrency": 2, "attempts": 2, "timeout_s": 9}])
def test_no_term_adds_requests_to_more_than_it_allows_at_one_address(service: Make, other: dict[str, Any]) -> None:
    stub = service(delay_s=0.02)
    both = rm(stub, concurrency=2, name="a") + rm(stub, name="b", **other)
    both(rows(10))
    assert (len(stub.seen), stub.busiest) == (20, other["concurrency"])


def test_turns_are_first_come_first_served_and_given_back_when_cancelled() -> None:
    async def run() -> list[str]:
        turns, order = Turns(), list[str]()

        async def one(name: str, most: int) -> None:
            async with turns.turn(most):
                order.append(name)
                await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(one(f"{most}{i}", most)) for i, most in enumerate((3, 3, 1, 3, 3, 1))]
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[4].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(one("last", 1), 5)
        return order

    assert asyncio.run(run()) == ["30", "31", "12", "33", "15", "last"]


# failures


@pytest.mark.parametrize("failure", [FAILURE, (503, {}, b"x"), BUSY, DROP])
def test_failures_that_may_pass_are_tried_again(service: Make, failure: Any) -> None:
    stub = service(failure, failure)
    assert rm(stub)(rows(1)) == expected(1)
    assert len(stub.seen) == 3


def test_retry_after_is_waited_for(service: Make) -> None:
    stub = service((429, {"Retry-After": "1"}, b""))
    assert rm(stub)(rows(1)) == expected(1)
    assert stub.times[1] - stub.times[0] >= 1


def test_pauses_grow_and_are_spread_out() -> None:
    by_attempt = [[asking.pause_s(attempt, None) for _ in range(300)] for attempt in (0, 3)]
    assert statistics.mean(by_attempt[1]) > 4 * statistics.mean(by_attempt[0])
    for pauses in by_attempt:
        assert max(pauses) > 4 * min(pauses)


@pytest.mark.parametrize(
    ("failure", "asked", "said"),
    [
        (FAILURE, 3, "failed 3 times: HTTP 500 'broken'"),
        (DROP, 3, "RemoteProtocolError"),
        ((404, {}, b"no such model"), 1, "no such model"),
        ((302, {"Location": "http://127.0.0.1:9/"}, b""), 1, "HTTP 302"),
        ((200, {}, b"\xff\xfe\x00" * 50), 1, "does not answer as it should"),
        ((200, {}, b"[" * 100_000), 1, "does not answer as it should"),
        ((200, {}, b"x" * (5 << 20)), 1, "more than 4 MB"),
        ((200, {"Content-Encoding": "gzip"}, b"not gzip"), 1, "DecodingError"),
    ],
)
def test_a_service_that_goes_on_failing_is_an_error_and_no_zero(service: Make, failure: Any, asked: int, said: str) -> None:
    stub = service(*[failure] * asked)
    found = verdicts(rm(stub, attempts=3), rows(1))[0]
    assert (found.status, found.score, found.reason, len(stub.seen)) == (Status.ERROR, None, "service_failed", asked)
    assert said in found.detail


def test_one_bad_answer_costs_its_row_only(service: Make) -> None:
    stub = service((200, {}, b"garbage"))
    found = scored(rm(stub, concurrency=1), rows(4)).totals()
    assert found == [None, *expected(4)[1:]]


def test_a_late_answer_is_given_up_and_asked_for_again(service: Make) -> None:
    def stalls(data: Any) -> Any:
        time.sleep(1.0)
        return FAILURE

    assert rm(service(stalls), timeout_s=0.2)(rows(1)) == expected(1)


def test_an_answer_that_drips_is_given_up() -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        thread = threading.Thread(target=drip, args=(server, stop))
        thread.start()
        started = time.monotonic()
        found = verdicts(rm(f"http://127.0.0.1:{server.getsockname()[1]}", timeout_s=0.3, attempts=2), rows(1))[0]
        stop.set()
        thread.join()
    assert (found.reason, "no answer within 0.3 s" in found.detail) == ("service_failed", True)
    assert time.monotonic() - started < 10


def drip(server: socket.socket, stop: threading.Event) -> None:
    """Accept everyone and send each a byte of a long answer now and then."""
    peers: list[socket.socket] = []
    while not stop.is_set():
        try:
            peers.append(server.accept()[0])
            peers[-1].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        except OSError:
            pass
        for peer in peers:
            try:
                peer.sendall(b" ")
            except OSError:
                continue
    for peer in peers:
        peer.close()


def test_a_service_that_only_fails_is_left_alone_for_a_while(service: Make) -> None:
    stub = service(*[FAILURE] * 100)
    found = verdicts(rm(stub, attempts=1, concurrency=1), rows(40))
    assert len(stub.seen) == 16
    assert {v.reason for v in found} == {"service_failed"}
    assert "not asked" in found[-1].detail


def test_rows_that_the_service_refuses_do_not_stop_the_others(service: Make) -> None:
    stub = service(*[(400, {}, b"too long")] * 30)
    found = scored(rm(stub, concurrency=1), rows(35)).totals()
    assert found == [None] * 30 + expected(5, 30)


# cache


def test_equal_rows_are_asked_about_once(service: Make) -> None:
    stub = service(delay_s=0.1)
    reward = rm(stub)
    assert reward([Rollout("same", prompt="p")] * 10) == [5 / 8] * 10
    assert reward([Rollout("same", prompt="p", answer="unread")]) == [5 / 8]
    assert len(stub.seen) == 1


def test_a_row_under_way_for_one_caller_is_not_asked_about_by_another(service: Make) -> None:
    stub = service(delay_s=0.3)
    reward, found = rm(stub), []
    threads = [threading.Thread(target=lambda: found.append(reward(rows(2)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, len(stub.seen)) == ([expected(2)] * 8, 2)


def test_one_caller_that_gives_up_does_not_cost_another_its_answer(service: Make) -> None:
    stub = service()
    reward, found = rm(stub), []
    reward(rows(1, 9))  # connected
    stub.delay_s = 2.0
    hasty = threading.Thread(target=lambda: found.append(verdicts(reward, rows(1), deadline_s=1.0)[0].reason))
    hasty.start()
    assert eventually(lambda: len(stub.seen) == 2)
    assert reward(rows(1)) == expected(1)
    hasty.join()
    assert (found, len(stub.seen)) == (["deadline"], 2)


@pytest.mark.parametrize("other", [{"columns": ("answer",)}, {"text": str.upper}, {"extra_body": {"a": 1}}, {"url": "/other"}])
def test_what_decides_the_score_is_told_apart(service: Make, other: dict[str, Any]) -> None:
    stub = service()
    url = stub.url + "/get_reward"
    first, second = R.remote(url), R.remote(**{"url": url, **other} if "url" not in other else {"url": stub.url + "/other"})
    assert first.fingerprint != second.fingerprint


def test_how_a_service_is_asked_is_no_part_of_the_fingerprint() -> None:
    one, other = R.remote("http://x"), R.remote("http://x", concurrency=3, timeout_s=1, attempts=1, batch_size=2, cache=False)
    assert one != other
    assert one.fingerprint == other.fingerprint is not None


def test_errors_are_not_remembered(service: Make) -> None:
    stub = service(FAILURE)
    reward = rm(stub, attempts=1)
    assert [scored(reward, rows(1)).totals() for _ in range(2)] == [[None], expected(1)]


def test_without_a_fingerprint_or_with_cache_off_every_row_is_asked_about(service: Make) -> None:
    stub = service()
    held = object()
    for reward in (rm(stub, cache=False), rm(stub, text=lambda rollout: rollout.completion if held else "")):
        stub.seen.clear()
        reward([Rollout("same")] * 3)
        assert len(stub.seen) == 3


def test_the_cache_is_bounded_in_entries_and_in_bytes() -> None:
    small, narrow = Cache(entries=3), Cache(most_bytes=50_000)
    for i in range(100):
        small.keep(b"%d" % i, Verdict(1.0, Status.SCORED))
        narrow.keep(b"%d" % i, Verdict(1.0, Status.SCORED, detail="x" * 2000))
    narrow.keep(b"huge", Verdict(1.0, Status.SCORED, detail="x" * 100_000))
    assert len(small) == 3
    assert len(narrow) == 0
    for i in range(100):
        narrow.keep(b"%d" % (i % 5), Verdict(1.0, Status.SCORED))
    assert (len(narrow), small.kept(b"99") is not None, small.kept(b"0")) == (5, True, None)


def test_what_was_used_last_is_dropped_last() -> None:
    cache = Cache(entries=2)
    for key in (b"a", b"b"):
        cache.keep(key, Verdict(1.0, Status.SCORED))
    cache.kept(b"a")
    cache.keep(b"c", Verdict(1.0, Status.SCORED))
    assert (cache.kept(b"a") is None, cache.kept(b"b") is None) == (False, True)


def test_the_cache_keeps_nothing_but_scores() -> None:
    cache = Cache()
    for status in Status:
        if not status.has_score:
            cache.keep(b"a", Verdict.of(status))
    assert len(cache) == 0


# deadlines, cancelling, closing


def test_rows_not_done_at_the_deadline_are_errors_and_the_others_count(service: Make) -> None:
    stub = service(*[lambda data: answer("/get_reward", data)] * 3)
    stub.delay_s = 0.0
    slow = [lambda data: (time.sleep(3), answer("/get_reward", data))[1]] * 3
    stub.script += slow
    reward, started = rm(stub, concurrency=6), time.monotonic()
    assert reward(rows(1)) == expected(1)
    found = verdicts(reward, rows(6), deadline_s=1.0)
    assert time.monotonic() - started < 2.5
    assert [v.reason for v in found].count("deadline") == 3
    assert [v.score for v in found if v.score is not None] == [e for e, v in zip(expected(6), found, strict=True) if v.score is not None]
    assert eventually(lambda: tasks(reward) == 0)


def test_rows_are_asked_about_while_others_are_still_made_ready(service: Make) -> None:
    def slow(rollout: Rollout) -> str:
        time.sleep(0.005)
        return rollout.completion

    found = verdicts(rm(service(), text=slow), rows(1000), deadline_s=1.5)
    assert 0 < sum(v.status is Status.SCORED for v in found) < 1000
    assert {v.reason for v in found} == {"", "deadline"}


def test_equal_rows_of_one_call_share_a_failure_too(service: Make) -> None:
    def slow(rollout: Rollout) -> str:
        time.sleep(0.003)  # the first fails before the last is made ready
        return "all the same"

    stub = service(*[FAILURE] * 300)
    found = verdicts(rm(stub, text=slow, attempts=1), rows(300))
    assert (len(stub.seen), {v.reason for v in found}) == (1, {"service_failed"})


@pytest.mark.parametrize("method", ["verdicts", "averdicts"])
def test_the_deadline_around_a_term_on_its_own_is_kept(service: Make, method: str) -> None:
    reward, started = rm(service(delay_s=3.0)), time.monotonic()
    with until(started + 0.4):
        found = reward.verdicts(rows(2)) if method == "verdicts" else asyncio.run(reward.averdicts(rows(2)))
    assert ([v.reason for v in found], time.monotonic() - started < 2.5) == (["deadline"] * 2, True)


def test_a_pause_does_not_outlast_the_deadline(service: Make) -> None:
    started = time.monotonic()
    found = verdicts(rm(service((429, {"Retry-After": "20"}, b""))), rows(1), deadline_s=0.5)[0]
    assert (found.reason, time.monotonic() - started < 3) == ("deadline", True)


def test_a_cancelled_call_leaves_no_tasks_and_no_requests(service: Make) -> None:
    stub = service(delay_s=0.5)
    reward = rm(stub, concurrency=2)

    async def main() -> float:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reward.ascore(rows(20)), 0.2)
        return time.monotonic() - started

    assert asyncio.run(main()) < 2
    assert eventually(lambda: tasks(reward) == 0)
    assert len(stub.seen) <= 2
    stub.delay_s = 0.0
    assert reward(rows(20)) == expected(20)


def test_a_callers_loop_is_not_blocked(service: Make) -> None:
    reward = rm(service(delay_s=0.5))

    async def main() -> int:
        scoring, ticks = asyncio.ensure_future(reward.ascore(rows(4))), 0
        while not scoring.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert (await scoring).totals() == expected(4)
        return ticks

    assert asyncio.run(main()) > 10


def test_scoring_inside_a_running_loop_works_in_sync_code_too(service: Make) -> None:
    reward = rm(service())

    async def main() -> list[float | None]:
        return reward(rows(3))

    assert asyncio.run(main()) == expected(3)
    assert [v.score for v in reward.verdicts(rows(3))] == expected(3)


def test_closing_does_not_wait_for_ever_for_a_function_of_the_users(service: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(asking, "_CLOSING_S", 0.2)
    reward = rm(service(), parse=lambda answer: [float(released.wait(20))])
    assert verdicts(reward, rows(1), deadline_s=0.5)[0].reason == "deadline"
    with pytest.raises(SandboxError, match="has not returned"):
        guerdon.close()
    released.set()
    while "guerdon-asker" in {thread.name for thread in threading.enumerate()}:
        time.sleep(0.01)


@pytest.mark.parametrize("method", ["score", "verdicts"])
def test_closing_ends_calls_that_run(service: Make, method: str) -> None:
    stub = service(delay_s=2.0)
    reward, found = rm(stub), []

    def call() -> None:
        try:
            found.append([v.reason for v in (verdicts(reward, rows(2)) if method == "score" else reward.verdicts(rows(2)))])
        except SandboxError:
            found.append("closed")

    thread = threading.Thread(target=call)
    thread.start()
    assert eventually(lambda: len(stub.seen) == 2)
    guerdon.close()
    thread.join(5)
    assert found == ([["exception", "exception"]] if method == "score" else ["closed"])
    stub.delay_s = 0.0
    assert reward(rows(2)) == expected(2)


def test_nothing_is_left_after_closing(service: Make) -> None:
    stub = service()
    rm(stub)(rows(3))
    guerdon.close()
    gc.collect()
    threads = {t.name for t in threading.enumerate()}
    assert not threads & {"guerdon-asker", "guerdon-loop"}
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        rm(stub)(rows(3))
        guerdon.close()
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 1)


def test_a_forked_child_asks_for_itself(service: Make) -> None:
    stub = service()
    reward = rm(stub)
    reward(rows(2))
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, pickle.dumps(reward(rows(4))))
        os._exit(0)
    os.waitpid(child, 0)
    found = pickle.loads(os.read(read, 10_000))
    os.close(read)
    os.close(write)
    assert found == expected(4)
    assert reward(rows(4)) == expected(4)
    assert len(stub.seen) == 2 + 4 + 2  # the child remembers nothing of its parent, nor the parent of its child


def test_a_function_that_scores_with_the_term_it_serves_is_refused_not_hung(service: Make) -> None:
    stub = service()
    inner = rm(stub)

    def nested(rollout: Rollout) -> str:
        return str(inner(rows(1)))

    found = verdicts(rm(stub, text=nested), rows(1), deadline_s=5.0)[0]
    assert (found.status, found.reason, stub.seen[1:]) == (Status.SCORED, "", [])
    (asked,) = stub.seen
    assert asked["query"] == ["[None]"]


# configuration


def test_without_httpx_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match=r"guerdon\[remote\]"):
        rm("http://127.0.0.1:1")(rows(1))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        *((bad, "must be like") for bad in ("", "rm:8000", "ftp://x", "http://", None, "http://x:port", "http://[", 3)),
        *((bad, "by api_key_env") for bad in ("http://me:secret@x", "http://sesame@x", "http://x/?api_key=sesame", "http://x?token=")),
        *((bad, "by api_key_env") for bad in ("http://x/?auth=sesame", "http://x/?code=sesame", "http://x/?X-Credential=sesame")),
        *((bad, "not shown") for bad in ("me:sesame@x", "http://me:sesame@x:99999", "http://me:sesame@[x", "rm:8000?key=sesame")),
    ],
)
def test_an_address_must_be_one_without_secrets(url: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        R.remote(url)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("http://x", "http://x/p"),
        ("http://x:1/", "http://x:1/p"),
        ("https://x/own", "https://x/own"),
        ("http://x/a?version=1", "http://x/a?version=1"),
        ("http://[::1]:80", "http://[::1]:80/p"),
    ],
)
def test_the_usual_path_is_added_where_there_is_none(url: str, whole: str) -> None:
    assert service_url("t", "url", url, "/p") == whole


@pytest.mark.parametrize(
    "option",
    [
        *({"concurrency": 0}, {"attempts": True}, {"timeout_s": 0}, {"timeout_s": "1"}, {"name": "a b"}, {"batch_size": 0}),
        *(
            {"api_key_env": "sk-sesame"},
            {"api_key_env": ""},
            {"api_key_env": "hf_sesame0123456789abcdef"},
            {"extra_body": {"api_key": "sesame"}},
            {"extra_body": {"Authorization": "Bearer sesame"}},
            {"columns": ("answer|solution",)},
            {"columns": (1,)},
            {"extra_body": [1]},
            {"extra_body": {"a": float("nan")}},
            {"extra_body": {1: {2}}},
        ),
    ],
)
def test_arguments_are_checked_when_built(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        R.remote("http://x", **option)
    assert "sesame" not in str(raised.value)


def test_the_key_is_sent_and_shown_nowhere(service: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RM_KEY", "sesame-1234")
    stub = service((401, {}, b"no such key: sesame-1234"))
    reward = rm(stub, api_key_env="RM_KEY", attempts=1)
    found = verdicts(reward, rows(1))[0]
    assert stub.headers[0]["Authorization"] == "Bearer sesame-1234"
    assert (found.reason, "no such key: ***" in found.detail) == ("service_failed", True)
    for shown in (repr(reward), str(pickle.dumps(reward)), str(reward.fingerprint), repr(found), found.detail):
        assert "sesame" not in shown


@pytest.mark.parametrize("key", ["sesame-1234", "sesame'\\\\\"1/2+3=", "sesame" * 40])
@pytest.mark.parametrize("status", [200, 401, 503])
@pytest.mark.parametrize("before", [0, 190, 490])
def test_a_key_that_the_service_repeats_is_not_shown(
    service: Make, monkeypatch: pytest.MonkeyPatch, key: str, status: int, before: int
) -> None:
    monkeypatch.setenv("RM_KEY", key)
    stub = service((status, {}, b"x" * before + key.encode()))
    found = verdicts(rm(stub, api_key_env="RM_KEY", attempts=1), rows(1))[0]
    assert (found.reason, "sesame" in repr(found)) == ("service_failed", False)


def test_a_key_that_a_judge_repeats_is_not_shown(service: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RM_KEY", "sesame-1234")
    for reply in ("Bearer sesame-1234. Score: 7", "sesame-1234" + "x" * 995 + "Score: 7", "no score: sesame-1234"):
        reward = R.judge(endpoint=service(says(reply)).url, model="m", api_key_env="RM_KEY")
        assert "sesame" not in repr(verdicts(reward, rows(1)))


def test_a_key_that_is_refused_because_it_is_not_set_is_said_so(service: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RM_KEY", raising=False)
    stub = service((401, {}, b""))
    assert "RM_KEY is not set" in verdicts(rm(stub, api_key_env="RM_KEY"), rows(1))[0].detail
    assert "Authorization" not in stub.headers[0]


@pytest.mark.parametrize("key", ["two words", "a\nb", "clé"])
def test_a_key_that_cannot_be_sent_is_not_shown(service: Make, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("RM_KEY", key)
    found = verdicts(rm(service(), api_key_env="RM_KEY"), rows(1))[0]
    assert (found.status, key in found.detail, "RM_KEY" in found.detail) == (Status.ERROR, False, True)


def test_importing_the_rewards_loads_no_client() -> None:
    import subprocess

    code = "import sys, guerdon.rewards as R; R.judge(endpoint='http://x', model='m'); R.remote('http://x'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"httpx", "asyncio", "numpy"} & set(loaded)
