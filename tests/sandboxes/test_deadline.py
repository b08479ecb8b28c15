"""The contextual deadline."""

from __future__ import annotations

import asyncio
import math
import time
from contextvars import copy_context

import pytest

from guerdon.errors import ConfigError
from guerdon.sandboxes import remaining, until
from guerdon.sandboxes.deadline import ROW_S, row_limit


def test_there_is_no_deadline_unless_set() -> None:
    assert remaining() is None
    with until(None):
        assert remaining() is None


def test_remaining_counts_down_to_zero_and_not_below() -> None:
    with until(time.monotonic() + 60):
        left = remaining()
        assert left is not None
        assert 59 < left <= 60
    with until(time.monotonic() - 60):
        assert remaining() == 0.0


@pytest.mark.parametrize(("outer", "inner"), [(10, 60), (60, 10), (10, None), (None, 10)])
def test_the_earliest_deadline_holds(outer: float | None, inner: float | None) -> None:
    now = time.monotonic()
    with until(None if outer is None else now + outer):
        with until(None if inner is None else now + inner):
            left = remaining()
            assert left is not None
            assert 9 < left <= 10
        assert (remaining() is None) == (outer is None)
    assert remaining() is None


def test_the_deadline_ends_with_its_block_also_by_an_error() -> None:
    with pytest.raises(KeyError), until(time.monotonic() + 60):
        raise KeyError
    assert remaining() is None


def test_tasks_and_to_thread_inherit_it_and_keep_their_own() -> None:
    async def main() -> list[float | None]:
        async def inner() -> float | None:
            with until(time.monotonic() + 5):
                await asyncio.sleep(0.01)
                return remaining()

        with until(time.monotonic() + 60):
            return [*await asyncio.gather(inner(), asyncio.to_thread(remaining)), remaining()]

    in_task, in_thread, outside = asyncio.run(main())
    assert in_task is not None
    assert in_thread is not None
    assert outside is not None
    assert in_task <= 5 < 50 < outside <= in_thread <= 60


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_deadline_that_is_no_time_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match="finite"), until(value):
        pass


def test_the_limit_of_a_row_is_the_shorter_one_and_goes_with_the_context() -> None:
    token = ROW_S.set(0.5)
    try:
        assert (row_limit(2.0), row_limit(0.1)) == (0.5, 0.1)
        assert copy_context().run(row_limit, 9.0) == 0.5
    finally:
        ROW_S.reset(token)
    assert row_limit(2.0) == 2.0
