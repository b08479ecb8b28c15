"""A table of answers that are and are not the same, with every convention; the page of conventions gives the reasons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guerdon.types import Status
from guerdon.verifiers.math.engine import compare, compile_answer
from guerdon.verifiers.math.rules import MathRules

ROWS = [json.loads(line) for line in Path(__file__).with_name("pairs.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['answer']} | {row['candidate']}")
def test_the_verdict_is_the_stated_one(row: dict[str, str]) -> None:
    status = compare(row["candidate"], compile_answer(row["answer"]), MathRules()).status
    assert status is not None, "undecided"
    assert (status is Status.CORRECT) == (row["verdict"] == "right")


@pytest.mark.parametrize("answer", sorted({row["answer"] for row in ROWS}))
def test_every_answer_equals_itself(answer: str) -> None:
    assert compare(answer, compile_answer(answer), MathRules()).status is Status.CORRECT
    assert compare(f" {answer} ", compile_answer(answer), MathRules()).status is Status.CORRECT
