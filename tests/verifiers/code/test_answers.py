"""Values that come out of the jail are compared outside, without trusting them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.sandboxes.base import RunResult
from guerdon.verifiers.code.answers import decide, read_answers, same_json
from guerdon.verifiers.code.checkers import Float
from guerdon.verifiers.code.wire import dumps, parse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def node(value: Any) -> Any:
    return parse(dumps(value))


@pytest.mark.parametrize(
    ("sign", "got", "expected"),
    [
        ("==", 1, 1.0),
        ("==", 1, True),
        ("==", {1: [2]}, {1: [2]}),
        ("==", {1, 2}, frozenset({2, 1})),
        ("!=", [1], (1,)),
        ("<", 1, 2.5),
        (">=", "b", "a"),
        ("in", 3, (1, 2, 3)),
        ("is", None, None),
        ("is", True, True),
        ("truth", [0], True),
        ("truth", (), False),
        ("truth", 0.0, False),
        ("truth", 1 << 100, True),
    ],
)
def test_a_relation_holds_as_in_python(sign: str, got: Any, expected: Any) -> None:
    assert decide(sign, node(got), node(expected))


@pytest.mark.parametrize(
    ("sign", "got", "expected"),
    [
        ("==", (1,), [1]),
        ("==", float("nan"), float("nan")),
        ("==", "1", 1),
        ("==", [1, 2], [1]),
        ("is", 1, True),
        ("is", 0, False),
        ("<", "a", 1),
        ("<", [1], [2]),
        ("in", 4, (1, 2, 3)),
        ("truth", 1, False),
    ],
)
def test_a_relation_does_not_hold_as_in_python(sign: str, got: Any, expected: Any) -> None:
    assert not decide(sign, node(got), node(expected))


@given(JSON, JSON)
def test_equal_as_json_is_equal_in_python(one: Any, other: Any) -> None:
    assert same_json(node(one), node(one))
    assert same_json(node(one), node(other)) == (one == other)


@pytest.mark.parametrize(
    ("got", "expected", "equal"),
    [
        ((1, (2,)), [1, [2]], True),
        ({1: "a"}, {"1": "a"}, True),
        ({(1,): "a"}, {"1": "a"}, False),
        ({1, 2}, [1, 2], False),
        (float("nan"), float("nan"), False),
        ({1, 2}, {1, 2}, False),
        ([], {}, False),
    ],
)
def test_only_what_json_can_hold_equals_json(got: Any, expected: Any, equal: bool) -> None:
    assert same_json(node(got), node(expected)) is equal


def test_a_tolerance_concerns_floats_only() -> None:
    near = lambda got, expected: abs(got - expected) <= 0.1  # noqa: E731
    assert same_json(node([1.05, {"a": 2.0}]), node([1, {"a": 2.05}]), near)
    assert not same_json(node([10]), node([11]), lambda got, expected: True)
    assert Float(0.1, 0).abs_tol == 0.1


def test_a_set_of_colliding_integers_is_never_built() -> None:
    prime = (1 << 61) - 1
    hostile = parse('{"s":[' + ",".join(f'{{"i":"{hex(prime * k)}"}}' for k in range(1, 30_000)) + "]}")
    start = time.perf_counter()
    assert not decide("==", hostile, node({1, 2, 3}))
    assert not decide("in", hostile, node([1, 2]))
    assert time.perf_counter() - start < 1


def run(channel: bytes, status: str = "ok", **fields: Any) -> RunResult:
    return RunResult(status, channel=channel, **fields)  # type: ignore[arg-type]


FORGED = [
    b'["v",{"a":1,"b":2},null]',
    b'["v",{},null]',
    b'["v",[{"t":5}],null]',
    b'["x",7,null]',
    b'["v"]',
    b"15",
    b"\xff\xfe",
    b'["v",' + b"[" * 50_000 + b",null]",
    b'["s"]',
]


@pytest.mark.parametrize("line", FORGED)
def test_a_forged_line_of_any_shape_is_a_wrong_answer(line: bytes) -> None:
    answers = read_answers(run(b'["r",null]\n' + line + b"\n"), 1)
    for judge in (lambda got: decide("==", got, 15), lambda got: decide("<", got, 15), lambda got: same_json(got, 15)):
        assert answers.outcome(0, judge, "", "").reason in ("mismatch", "runtime_error")


def test_more_answers_than_calls_are_worth_nothing() -> None:
    answers = read_answers(run(b'["r",null]\n["v",15,null]\n["v",15,null]\n'), 1)
    assert answers.outcome(0, lambda got: True, "", "").reason == "runtime_error"


@pytest.mark.parametrize("channel", [b"", b"junk\n", b'["v",15,null]\n', b'["r",null]', b'["r"]\n'])
def test_without_the_first_line_nothing_counts(channel: bytes) -> None:
    assert read_answers(run(channel), 1).outcome(0, lambda got: True, "", "").reason == "runtime_error"


def test_half_a_line_is_no_answer() -> None:
    answers = read_answers(run(b'["r",null]\n["v",15,null]\n["v",1', "timeout", timed_out_by="cpu"), 2)
    assert [answers.outcome(i, lambda got: True, "", "").reason for i in (0, 1)] == ["", "cpu_limit"]
