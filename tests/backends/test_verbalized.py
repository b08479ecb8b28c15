"""Verbalized sampling: the prompt, the parser against whatever a model writes, the tail and the sampler."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.backends.verbalized import Candidate, build_prompt, parse, sample, tail
from guerdon.errors import ConfigError


def texts(text: str, k: int | None = None) -> list[str]:
    return [each.text for each in parse(text, k)]


def test_what_the_prompt_shows_is_what_the_parser_reads() -> None:
    assert texts(build_prompt("A task.", 3, 0.1).replace("0.00", "0.5")) == ["response"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("nothing here", []),
        ("[a] (probability: 0.5)", ["a"]),
        ("Sure:\n1. [a] (probability: 0.5)\n2. [b] (Probability: 50%) done", ["a", "b"]),
        ("Here are [two]: [a] (probability: 0.5)", ["a"]),
        ("[f[0] = [1]] (probability: 0.5)", ["f[0] = [1]"]),
        ("[two\nlines] (probability:0.5)", ["two\nlines"]),
        ("[a] (probability: nan) [b] (probability: NaN)", []),
        ("[a] (probability: -0.5) [b] (probability: inf) [c] (probability: 1e-1) [d] (probability: 0) [e] (probability: 1.2)", []),
        ("[a] (probability: ٠.٥) [b] (probability: 0_5)", []),
        ("[] (probability: 0.5) a] (probability: 0.5) (probability: 0.5)", []),
        ("[a] (probability: 0.5", []),
        ("[a] (probability: (probability: 0.5)", []),
        ("[\ud800\x00] (probability: 1)", ["\ud800\x00"]),
    ],
)
def test_parse(text: str, found: list[str]) -> None:
    assert texts(text) == found


def test_the_first_k_are_kept() -> None:
    assert texts("[a] (probability: 0.1) [b] (probability: 0.2) [c] (probability: 0.7)", 2) == ["a", "b"]


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_characters="[]", exclude_categories=["Cs"]), min_size=1).filter(str.strip), st.floats(1e-6, 1.0)
        ),
        min_size=1,
        max_size=8,
    )
)
def test_probabilities_are_renormalised(pairs: list[tuple[str, float]]) -> None:
    if any("(probability:" in text.lower() for text, _ in pairs):
        return
    found = parse("\n".join(f"[{text}] (probability: {probability:.6f})" for text, probability in pairs))
    assert [each.text for each in found] == [text.strip() for text, _ in pairs]
    assert sum(each.probability for each in found) == pytest.approx(1.0)


@given(st.text())
def test_nothing_raises(text: str) -> None:
    assert all(0 < each.probability <= 1 for each in parse(text))


@pytest.mark.parametrize(
    "text", ["[" * 500_000, "(probability:" * 80_000, "]" * 500_000 + "(probability: 0.5)", "[a] (probability: 0." + "9" * 500_000]
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    start = time.process_time()
    assert parse(text) == []
    assert time.process_time() - start < 2


def test_tail_and_sampler() -> None:
    candidates = [Candidate("a", 0.9), Candidate("b", 0.06), Candidate("c", 0.04)]
    assert [each.text for each in tail(candidates, 0.1)] == ["b", "c"]
    assert tail(candidates, 0.01) == []
    drawn = [sample(candidates, number).text for number in range(300)]
    assert 230 < drawn.count("a") < 300
    assert sample(candidates, 7) == sample(candidates, 7)


def test_what_cannot_be_asked_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="no candidates"):
        sample([], 0)
    with pytest.raises(ConfigError, match="threshold"):
        build_prompt("task", threshold=1.5)
