"""Printed output is compared as testlib does: no checker takes a prefix, a set, or a NaN for the answer."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.errors import ConfigError
from guerdon.verifiers.code import CHECKERS, Float, Tokens
from guerdon.verifiers.code.checkers import compare

BIG = "7" * 5000

TABLE = [
    # case, output, expected, the checkers that accept it
    ("exact", "1 2\n3\n", "1 2\n3\n", "tokens lines exact float livecodebench apps"),
    ("no final newline", "1 2", "1 2\n", "tokens lines float livecodebench apps"),
    ("trailing blanks", "1 2  \n", "1 2\n", "tokens lines float livecodebench apps"),
    ("leading blank", " 1 2\n", "1 2\n", "tokens float livecodebench apps"),
    ("double inner space", "1  2\n", "1 2\n", "tokens float livecodebench apps"),
    ("tab separated", "1\t2\n", "1 2\n", "tokens float livecodebench apps"),
    ("CRLF", "1 2\r\n3\r\n", "1 2\n3\n", "tokens lines float livecodebench apps"),
    ("extra blank line at the end", "1\n\n", "1\n", "tokens lines float livecodebench apps"),
    ("blank line in the middle", "1\n\n2\n", "1\n2\n", "tokens float"),
    ("newline for space", "1\n2\n", "1 2\n", "tokens float"),
    ("1.0 for 1", "1.0", "1", "float livecodebench apps"),
    ("1 for 1.0", "1", "1.0", "float livecodebench apps"),
    ("1e-7 absolute error", "0.3333334", "0.3333333", "float apps"),
    ("relative error 1e-6", "1000000.5", "1000000.0", "float apps"),
    ("error 1e-4", "0.3334", "0.3333", ""),
    ("float in a line of several words", "x 0.3333334 y", "x 0.3333333 y", "float apps"),
    ("big integers that differ in the last digit", "1000000000000000001", "1000000000000000000", ""),
    ("leading zeros", "007", "7", "float livecodebench apps"),
    ("+5 for 5", "+5", "5", "float livecodebench apps"),
    ("Yes for YES", "Yes", "YES", ""),
    ("NO for YES", "NO", "YES", ""),
    ("order swapped in a line", "2 1", "1 2", ""),
    ("order of lines swapped", "2\n1\n", "1\n2\n", ""),
    ("duplicate dropped", "1 2", "1 2 2", ""),
    ("unsorted echo", "3 1 2", "1 2 3", ""),
    ("first line only", "1\n", "1\n2\n", ""),
    ("extra line", "1\n2\n3\n", "1\n2\n", ""),
    ("nothing for no lines", "", "\n", "tokens lines float livecodebench apps"),
    ("nothing for something", "", "1\n", ""),
    ("nan", "nan", "1.0", ""),
    ("inf", "inf", "1.0", ""),
    ("a finite number for inf", "1e300", "inf", ""),
    ("-0 for 0", "-0", "0", "float livecodebench apps"),
    ("-0.0 for 0.0", "-0.0", "0.0", "float livecodebench apps"),
    ("1e3 for 1000", "1e3", "1000", "float livecodebench apps"),
    ("byte order mark", "\ufeff1", "1", ""),
    ("non-breaking space", "1\u00a02", "1 2", ""),
    ("Unicode digit", "\u0661", "1", ""),
    ("digits permuted", "21", "12", ""),
    ("112 for 12", "112", "12", ""),
    ("0.0004 for 0.00001", "0.0004", "0.00001", ""),
    ("5000 digits", BIG, BIG, "tokens lines exact float livecodebench apps"),
    ("5000 digits, one off", BIG[:-1] + "8", BIG, ""),
    ("words permuted", "b a", "a b", ""),
    ("other words", "a b c", "x y z", ""),
    ("a word for a number", "hello", "12", ""),
    ("underscores in a number", "1_0", "10", ""),
]


@pytest.mark.parametrize("name", ["tokens", "lines", "exact", "float", "livecodebench", "apps"])
@pytest.mark.parametrize(("case", "output", "expected", "accepted"), TABLE, ids=[row[0] for row in TABLE])
def test_the_table_of_cases(name: str, case: str, output: str, expected: str, accepted: str) -> None:
    assert compare(CHECKERS[name], output.encode(), expected) is (name in accepted.split())


@pytest.mark.parametrize(
    ("name", "output", "expected", "accepted"),
    [
        ("yesno", "yes\nNo", "YES NO", True),
        ("yesno", "NO", "YES", False),
        ("unordered_tokens", "2 1\n2", "1 2 2", True),
        ("unordered_tokens", "1 2", "1 2 2", False),
        ("unordered_lines", "b  2\na 1\n", "a 1\nb 2", True),
        ("unordered_lines", "1 a\nb 2\n", "a 1\nb 2", False),
        ("unordered_lines", "a 1\n", "a 1\na 1", False),
        ("code_contests", "Yes 0.333334", "YES 0.333333", True),
        ("code_contests", "No 0.333334", "YES 0.333333", False),
    ],
)
def test_order_and_case_are_forgiven_only_where_asked(name: str, output: str, expected: str, accepted: bool) -> None:
    assert compare(CHECKERS[name], output.encode(), expected) is accepted


WORDS = st.lists(st.text(alphabet="ab01.-+ \n", max_size=5), max_size=5).map(" ".join)


@given(WORDS, WORDS)
def test_exact_implies_lines_implies_tokens_implies_float(output: str, expected: str) -> None:
    chain = [CHECKERS[name](output, expected) for name in ("exact", "lines", "tokens", "float")]
    assert chain == sorted(chain)


@given(st.floats(allow_nan=True), st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_passes_only_near_the_expected_one(got: float, expected: float) -> None:
    passed = Float(1e-6, 1e-6)(repr(got), repr(expected))
    assert passed == (abs(got - expected) <= max(1e-6, 1e-6 * abs(expected)) or repr(got) == repr(expected))


def test_the_tolerance_scales_with_the_expected_value_not_with_the_output() -> None:
    assert not Float(0.0, 0.1)("1e9", "1.0")


@pytest.mark.parametrize("output", ["9" * 100_000, "1e999999", "-" * 100_000, "1." * 50_000, " " * 100_000, "1e" + "9" * 100_000])
def test_hostile_output_takes_linear_time(output: str) -> None:
    start = time.perf_counter()
    for checker in CHECKERS.values():
        checker(output, "1.0")
        checker(output, output[:-1])
    assert time.perf_counter() - start < 2


def test_bytes_that_are_not_text_equal_nothing() -> None:
    assert not any(compare(checker, b"\xff\xfe1", "1") for checker in CHECKERS.values())


@pytest.mark.parametrize(
    "wrong",
    [{"abs_tol": -1}, {"rel_tol": float("nan")}, {"numbers": "near"}, {"any_order": "words"}, {"any_order": "lines", "numbers": "close"}],
)
def test_wrong_arguments_are_refused_when_built(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Tokens(**wrong)  # type: ignore[arg-type]
