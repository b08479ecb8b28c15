"""Nothing a completion holds raises, hangs or reaches another row."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.types import Rollout, Status
from guerdon.verifiers.instructions import InstructionsVerifier

LANGUAGE = ("language:response_language", "change_case:english_capital", "change_case:english_lowercase")
CASES = [json.loads(line) for line in Path(__file__).with_name("cases.jsonl").read_text("utf-8").splitlines()]
ARGUMENTS = {case["id"]: case["args"] for case in CASES if case["id"] not in LANGUAGE or importlib.util.find_spec("py3langid") is not None}
EVERYTHING: dict[str, Any] = {"instruction_id_list": list(ARGUMENTS), "kwargs": list(ARGUMENTS.values())}
anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=80) | st.text(
    alphabet="*[]<>\"'.,!-`#{}\n\t aZé१ا\ud800\x00", max_size=80
)


@given(st.lists(anything, max_size=4), st.booleans())
def test_any_text_gets_its_own_verdict(texts: list[str], loose: bool) -> None:
    verifier = InstructionsVerifier(score="fraction", loose=loose)
    together = verifier.judge([Rollout(text, answer=EVERYTHING) for text in texts])
    assert together == [verifier.judge([Rollout(text, answer=EVERYTHING)])[0] for text in texts]
    assert all(verdict.status.is_verified for verdict in together)


@given(anything, st.sampled_from(sorted(ARGUMENTS)))
def test_loose_holds_whenever_strict_does(text: str, name: str) -> None:
    reference = [{"id": name, "kwargs": ARGUMENTS[name]}]
    (strict,) = InstructionsVerifier().judge([Rollout(text, answer=reference)])
    (loose,) = InstructionsVerifier(loose=True).judge([Rollout(text, answer=reference)])
    assert (loose.score or 0.0) >= (strict.score or 0.0)


WORDS = (
    r"""* |**a|- -|[a|[]|<<|<<a|>>|{"a":|. |.)|!?|p. |P.P.|SECTION|SECTION |Dr. |A-|a.|``` |</think>|<think>"""
    "|\t\n|\ud800. |\u200f\u05d0|e\u0301"
)
UNITS = [*"a \n*-[]{\"'.1\x00。", *WORDS.split("|")]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.slow
def test_repetition_takes_time_in_proportion(unit: str) -> None:
    # The slowest takes half a second on an idle machine; a quadratic check would take far longer.
    text = unit * (200_000 // len(unit)) + "x"
    start = time.process_time()
    (verdict,) = InstructionsVerifier(score="fraction").judge([Rollout(text, answer=EVERYTHING)])
    assert verdict.status.is_verified
    assert time.process_time() - start < 4


def test_megabyte_of_prose_is_judged_in_seconds() -> None:
    text = "The quick brown fox, *so to speak*, jumps over [name]. Why?! P.S. SECTION 1 <<title>>\n\n" * 12_000
    start = time.process_time()
    (verdict,) = InstructionsVerifier(score="fraction").judge([Rollout(text, answer=EVERYTHING)])
    assert verdict.status is Status.PARTIAL
    assert time.process_time() - start < 10
