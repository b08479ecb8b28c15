"""`guerdon audit answers` and `guerdon audit pairs`: what they find, what they measure, what they refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import guerdon
from guerdon.cli import main

PAIRS = [
    {"gold": r"\frac12", "pred": "0.5", "label": True, "source": "ours#1", "form": "answer"},
    {"gold": "5", "pred": "6", "label": False, "source": "ours#2", "form": "answer"},
    {"gold": "5", "pred": "That makes 5.", "label": True, "source": "theirs::case", "form": "response"},
    {"gold": "forty two", "pred": "42", "label": True, "source": "theirs::case", "form": "answer"},
    {"gold": r"2^{-99}", "pred": r"2^{-98}", "label": False, "source": "theirs::case", "form": "answer"},
]
NOTES = [
    {"set": "pairs", "index": 0, "scope": "rule", "label_ok": True},
    {"set": "pairs", "index": 3, "scope": "prose", "label_ok": True},
    {"set": "pairs", "index": 4, "scope": "rule", "label_ok": "unsure"},
    {"set": "other", "index": 1, "scope": "rule", "label_ok": True},
]
VERIFIER = """
from guerdon import Status, Verdict

class Same:
    def judge(self, rollouts):
        return [Verdict.of(Status.CORRECT if r.completion == r.answer else Status.INCORRECT) for r in rollouts]

same = Same()
"""


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    guerdon.close()


def lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def audit(*args: str) -> Result:
    return CliRunner().invoke(main, ["audit", *args])


def document(*args: str) -> dict[str, Any]:
    result = audit(*args, "--json")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_pairs_are_counted_by_source_and_scope(tmp_path: Path) -> None:
    file = lines(tmp_path / "pairs.jsonl", PAIRS)
    lines(tmp_path / "audit.jsonl", NOTES)
    measured = document("pairs", file, "--verifier", "math")["verifiers"]["math"]
    assert (measured["pairs"], measured["false_positives"], measured["false_negatives"]) == (5, 0, 1)
    assert {name: tally["pairs"] for name, tally in measured["by_source"].items()} == {"ours": 2, "theirs": 3}
    assert {name: tally["pairs"] for name, tally in measured["by_scope"].items()} == {"rule": 1, "prose": 1}
    assert [row["candidate"] for row in measured["wrong"]] == ["42"]
    assert sum(measured["stages"].values()) == 5
    assert measured["milliseconds"]["p50"] <= measured["milliseconds"]["p99"] <= measured["milliseconds"]["max"]


def test_another_verifier_is_put_to_the_same_pairs(tmp_path: Path) -> None:
    flips = document("pairs", lines(tmp_path / "pairs.jsonl", PAIRS), "--verifier", "math", "--against", "math-verify")["flips"]
    assert [(flip["candidate"], flip["right"]) for flip in flips] == [(r"2^{-98}", "verifier")]


def test_any_verifier_is_measured(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(VERIFIER)
    file = lines(tmp_path / "pairs.jsonl", PAIRS)
    for name in ("same", "Same"):
        spec = f"{tmp_path}/mine.py:{name}"
        assert document("pairs", file, "--verifier", spec)["verifiers"][spec]["false_negatives"] == 3


def test_the_report_for_people_names_what_is_wrong_and_what_flips(tmp_path: Path) -> None:
    result = audit("pairs", lines(tmp_path / "pairs.jsonl", PAIRS), "--verifier", "math", "--against", "math-verify")
    assert result.exit_code == 0
    assert "math: 1 wrong" in result.stdout
    assert "forty two" in result.stdout
    assert "math and math-verify differ on 1: math is right on 1, math-verify on 0" in result.stdout


@pytest.mark.parametrize(
    ("rows", "args", "message"),
    [
        ([{"gold": "1", "pred": "1"}], ["--verifier", "math"], "no label"),
        ([{"gold": "1", "pred": "1", "label": "yes"}], ["--verifier", "math"], "true or false"),
        ([], ["--verifier", "math"], "no pairs"),
        (PAIRS, ["--verifier", "math:tau"], "expected math, math-verify"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(tmp_path: Path, rows: list[dict[str, Any]], args: list[str], message: str) -> None:
    result = audit("pairs", lines(tmp_path / "pairs.jsonl", rows), *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_answers_that_judge_nothing_or_contradict_each_other_are_found(tmp_path: Path) -> None:
    rows = [
        {"prompt": "a", "answer": "5"},
        {"prompt": "a", "answer": "5.0"},
        {"prompt": "b", "answer": "5"},
        {"prompt": "b", "answer": "6"},
        {"prompt": "c", "answer": r"\frac{0}{0}"},
        {"prompt": "d", "answer": "the set of all primes that divide n"},
        {"prompt": "e", "answer": {"any_of": ["4", ""]}},
    ]
    file = lines(tmp_path / "data.jsonl", rows)
    found = document("answers", file)
    assert [(f["line"], f["problem"]) for f in found["findings"]] == [(4, "conflict"), (5, "unparseable"), (6, "prose"), (7, "unparseable")]
    assert (found["rows"], found["serious"]) == (7, 3)
    result = audit("answers", file)
    assert result.exit_code == 1
    assert "the answer has no value" in result.stdout


def test_a_clean_data_set_passes(tmp_path: Path) -> None:
    file = lines(tmp_path / "data.jsonl", [{"q": "a", "sol": "5"}, {"q": "b", "sol": r"so \boxed{\sqrt2}"}])
    result = audit("answers", file, "--columns", "answer=sol,prompt=q")
    assert result.exit_code == 0
    assert "nothing to mend" in result.stdout
