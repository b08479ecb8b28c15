"""Plain data crosses unchanged, and nothing else crosses."""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.verifiers.code.results import show
from guerdon.verifiers.code.wire import Refused, dumps, loads, nodes, parse

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**300), 2**300)
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters())
    | st.binary(max_size=20)
    | st.complex_numbers(allow_nan=False)
    | st.decimals(allow_nan=False, min_value=-(10**20), max_value=10**20)
    | st.fractions(min_value=-1000, max_value=1000)
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
        | st.builds(range, st.integers(-9, 9), st.integers(-9, 9))
    ),
    max_leaves=12,
)


def exact(value: Any) -> Any:
    """The value with every type spelled out: 1, 1.0 and True are three."""
    if isinstance(value, dict):
        return (dict, [(exact(k), exact(v)) for k, v in value.items()])
    if isinstance(value, set | frozenset):
        return (type(value), sorted(map(repr, map(exact, value))))
    if isinstance(value, list | tuple):
        return (type(value), [exact(v) for v in value])
    return (type(value), repr(value))


@given(PLAIN)
def test_plain_data_comes_back_equal_with_its_types(value: Any) -> None:
    line = dumps(value)
    assert line.isascii()
    assert "\n" not in line
    assert exact(loads(line)) == exact(value)


def test_nan_and_infinities_cross() -> None:
    assert math.isnan(loads(dumps(float("nan"))))
    assert loads(dumps([float("inf"), -float("inf")])) == [math.inf, -math.inf]


class Colour(IntEnum):
    RED = 3


class Always(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__

    def __index__(self) -> int:
        return 99

    def __repr__(self) -> str:
        return "99"


class Shout(str):
    def __str__(self) -> str:
        return "99"

    def __len__(self) -> int:
        return 99


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (namedtuple("P", "x y")(1, 2), (1, 2)),
        (Colour.RED, 3),
        (Always(5), 5),
        (Shout("ab"), "ab"),
        (type("F", (float,), {})(-0.0), -0.0),
        (type("L", (list,), {"__iter__": lambda self: iter([9])})([1]), [1]),
    ],
)
def test_a_subclass_crosses_as_the_plain_value_it_holds(value: Any, plain: Any) -> None:
    assert exact(loads(dumps(value))) == exact(plain)


@pytest.mark.parametrize("value", [object(), (x for x in "ab"), int, len, {1: object()}])
def test_what_is_not_plain_is_refused_or_handed_over(value: Any) -> None:
    with pytest.raises(Refused):
        dumps(value)
    assert '{"o":7}' in dumps(value, lambda _: '{"o":7}')


def test_numpy_scalars_are_plain_and_arrays_stay_out_of_this_process() -> None:
    numpy = pytest.importorskip("numpy")
    assert exact(loads(dumps([numpy.int64(3), numpy.float64(0.5), numpy.bool_(True)]))) == exact([3, 0.5, True])
    with pytest.raises(Refused):
        loads(dumps(numpy.arange(3)))


def test_cycles_depth_and_size_end_in_refusal() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    for value in (loop, deep, "x" * 5_000_000, [0] * 5_000_000):
        with pytest.raises(Refused):
            dumps(value)


HOSTILE = [
    "",
    "{",
    "[1,",
    "NaN",
    "[Infinity]",
    "9" * 5000,
    '{"i":"' + "f" * 200_000 + '"}',
    "[" * 100_000,
    '{"t":' * 100_000,
    '{"x":1}',
    '{"s":[[1]]}',
    '{"d":[[1]]}',
    '{"d":5}',
    '{"D":"1e999999999"}',
    '{"q":[1,0]}',
    '{"f":"1"}',
    '{"f":1}',
    '{"i":5}',
    '{"b":"zz"}',
    '{"c":[1]}',
    '{"r":["a"]}',
    '{"a":1,"b":2}',
    '{"n":["S1000000000",[1],["x"]]}',
    '{"o":["1",[]]}',
    "\ud800",
    "[" + "1," * 1_100_000 + "1]",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_are_refused_quickly(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(Refused):
        loads(text)
    assert time.perf_counter() - start < 3


@given(st.text(max_size=40) | st.binary(max_size=40))
def test_no_text_raises_anything_but_refused(text: Any) -> None:
    try:
        node = parse(text)
        assert nodes(node) >= 1
        assert isinstance(show(node), str)
    except Refused:
        pass


def test_equal_sets_are_equal_lines() -> None:
    assert dumps({"a", "b", "c", "d"}) == dumps({"d", "c", "b", "a"})


@pytest.mark.parametrize(
    "value", [[1, "a", None], (1,), (), {"a": (1, 2)}, {1, 2}, set(), frozenset({1}), 2.5, "it's", range(0, 3), {}, True]
)
def test_values_are_shown_as_python_prints_them(value: Any) -> None:
    assert show(parse(dumps(value))) == repr(value).replace("range(0, 3)", "range(0, 3, 1)")


def test_what_is_shown_is_short() -> None:
    assert len(show(parse(dumps([[["x" * 500] * 20] * 20] * 4)), 200)) <= 200


def test_decimal_and_fraction_cross() -> None:
    assert loads(dumps([Decimal("1.50"), Fraction(2, 3)])) == [Decimal("1.5"), Fraction(2, 3)]
