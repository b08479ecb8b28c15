"""The registry of live things: built once, closed together, left alone by forked children."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from guerdon.sandboxes import registry


@dataclass(frozen=True)
class Spec:
    name: str


class Thing:
    made: list[Spec]

    def __init__(self, spec: Spec) -> None:
        time.sleep(0.01)
        self.spec, self.closed, self.disowned = spec, 0, 0

    def close(self) -> None:
        self.closed += 1

    def disown(self) -> None:
        self.disowned += 1


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    registry.close()
    yield
    registry.close()


def in_threads(count: int, work: Any) -> list[Any]:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_equal_specs_share_one_thing_and_others_do_not() -> None:
    assert registry.get(Spec("a"), Thing) is registry.get(Spec("a"), Thing)
    assert registry.get(Spec("a"), Thing) is not registry.get(Spec("b"), Thing)


def test_threads_asking_at_once_get_one_thing_built_once() -> None:
    made: list[Thing] = []

    def make(spec: Spec) -> Thing:
        made.append(Thing(spec))
        return made[-1]

    found = in_threads(16, lambda: registry.get(Spec("a"), make))
    assert len(made) == 1
    assert all(thing is made[0] for thing in found)


def test_a_slow_maker_does_not_hold_up_other_specs() -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(spec: Spec) -> Thing:
        started.set()
        assert go_on.wait(10)
        return Thing(spec)

    thread = threading.Thread(target=lambda: registry.get(Spec("slow"), slow))
    thread.start()
    assert started.wait(10)
    assert registry.get(Spec("other"), Thing).closed == 0
    go_on.set()
    thread.join()


def test_a_maker_may_ask_for_another_thing() -> None:
    def make(spec: Spec) -> Thing:
        registry.get(Spec("inner"), Thing)
        return Thing(spec)

    assert registry.get(Spec("outer"), make).spec == Spec("outer")


def test_a_maker_that_raises_leaves_nothing_behind() -> None:
    def broken(spec: Spec) -> Thing:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        registry.get(Spec("a"), broken)
    assert registry.get(Spec("a"), Thing).spec == Spec("a")


def test_close_closes_each_once_and_later_use_starts_afresh() -> None:
    first = registry.get(Spec("a"), Thing)
    registry.close()
    registry.close()
    assert first.closed == 1
    assert registry.get(Spec("a"), Thing) is not first


def test_close_reaches_all_in_reverse_order_even_if_one_fails() -> None:
    order: list[str] = []

    class Noted(Thing):
        def close(self) -> None:
            order.append(self.spec.name)
            if self.spec.name == "b":
                raise OSError("stuck")

    for name in "abc":
        registry.get(Spec(name), Noted)
    with pytest.raises(OSError, match="stuck"):
        registry.close()
    assert order == ["c", "b", "a"]


def test_drop_closes_one_only() -> None:
    first, second = registry.get(Spec("a"), Thing), registry.get(Spec("b"), Thing)
    registry.drop(Spec("a"))
    registry.drop(Spec("a"))
    registry.drop(Spec("never made"))
    assert (first.closed, second.closed) == (1, 0)


def test_a_session_closes_what_exists_when_it_ends_also_by_an_error() -> None:
    found: list[Thing] = []

    def broken() -> None:
        with registry.session():
            found.append(registry.get(Spec("a"), Thing))
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert found[0].closed == 1


def test_close_while_others_get_never_hands_out_a_closed_thing_for_good() -> None:
    stop = time.monotonic() + 0.3

    def use() -> int:
        used = 0
        while time.monotonic() < stop:
            assert registry.get(Spec("a"), Thing).spec == Spec("a")
            used += 1
        return used

    closer = threading.Thread(target=lambda: [registry.close() for _ in range(20)])
    closer.start()
    assert min(in_threads(4, use)) > 0
    closer.join()
    registry.close()
    assert registry.get(Spec("a"), Thing).closed == 0


def child_says(work: Any) -> str:
    """What `work()` returns in a forked child; "hung" if it does not come back."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(send, str(work()).encode())
        finally:
            os._exit(0)
    os.close(send)
    reader = threading.Timer(10, lambda: os.kill(pid, 9))
    reader.start()
    text = os.read(receive, 1000).decode() or "hung"
    reader.cancel()
    os.close(receive)
    os.waitpid(pid, 0)
    return text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_disowns_what_it_inherits_and_closes_nothing() -> None:
    thing = registry.get(Spec("a"), Thing)

    def child() -> tuple[int, int, bool]:
        registry.close()
        return thing.closed, thing.disowned, registry.get(Spec("a"), Thing) is thing

    assert child_says(child) == "(0, 1, False)"
    assert (thing.closed, thing.disowned) == (0, 0)
    assert registry.get(Spec("a"), Thing) is thing


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_is_in_the_registry_leaves_no_lock_held_in_the_child() -> None:
    started, go_on = threading.Event(), threading.Event()

    def in_the_middle() -> None:
        with registry._table.lock:
            started.set()
            assert go_on.wait(20)

    thread = threading.Thread(target=in_the_middle)
    thread.start()
    assert started.wait(10)
    said = child_says(lambda: registry.get(Spec("a"), Thing).spec.name)
    go_on.set()
    thread.join()
    assert said == "a"
