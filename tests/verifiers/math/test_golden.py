"""Recorded verdicts, labelled rollouts, and what the parent process must never do.

The cases in data/ name their source and licence line by line: labelled pairs of MATH-500, grade-school-math, TinyV, inspect_ai,
hendrycks/math and OlympiadBench (MIT), Math-Verify and NeMo-Skills (Apache-2.0), facts retyped from public issue threads, and our own.
"""

from __future__ import annotations

import ast
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import guerdon
from guerdon import Rollout, Verdict
from guerdon.verifiers import math as package
from guerdon.verifiers.math import MathVerifier

DATA = Path(__file__).parent / "data"
GOLDEN_VERSION = 2
"""The VERSION the verdicts in golden.jsonl were recorded with."""


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    guerdon.close()


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def judged(completions: list[tuple[str, Any]]) -> list[Verdict]:
    """Verdicts that do not depend on how busy the host is."""
    return MathVerifier(timeout_s=60.0).judge([Rollout(text, answer=answer) for text, answer in completions])


@pytest.fixture(scope="module")
def golden() -> list[tuple[dict[str, Any], Verdict]]:
    cases = rows("golden.jsonl")
    return list(zip(cases, judged([(case["completion"], case["answer"]) for case in cases]), strict=True))


def test_verdicts_change_only_with_the_version(golden: list[tuple[dict[str, Any], Verdict]]) -> None:
    changed = [
        (case["answer"], case["completion"], case["verdict"], now)
        for case, v in golden
        if case["verdict"] != (now := [v.status.value, v.reason, v.info.get("rule", ""), v.info.get("stage", "")])
    ]
    assert (MathVerifier.VERSION, changed) == (GOLDEN_VERSION, []), "record the new verdicts, raise VERSION and GOLDEN_VERSION"


def test_no_wrong_answer_is_rewarded(golden: list[tuple[dict[str, Any], Verdict]]) -> None:
    assert [case for case, verdict in golden if verdict.score == 1.0 and not case["label"]] == []


def test_right_answers_are_rewarded(golden: list[tuple[dict[str, Any], Verdict]]) -> None:
    right = [verdict.score == 1.0 for case, verdict in golden if case["label"]]
    assert sum(right) / len(right) > 0.95


def test_labelled_rollouts_agree_without_a_worker() -> None:
    cases = rows("gsm8k_rollouts.jsonl")
    verdicts = judged([(case["text"], case["answer"]) for case in cases])
    assert [v.score == 1.0 for v in verdicts] == [case["label"] for case in cases]
    assert "math_verify" not in {v.info.get("stage") for v in verdicts}


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        yield from map(json.loads, file)


def test_gsm8k_rollouts_agree_with_their_labels(guerdon_data: Path) -> None:
    found = [(prompt["answer"], r) for prompt in lines(guerdon_data / "rollouts/gsm8k_test_rollouts.jsonl.gz") for r in prompt["rollouts"]]
    labelled = [(answer, r) for answer, r in found if r["label"] is not None]
    verdicts = judged([(r["text"], answer) for answer, r in labelled])
    agree = [(v.score == 1.0) == r["label"] for (_, r), v in zip(labelled, verdicts, strict=True)]
    assert sum(agree) / len(agree) >= 0.998


def test_competition_rollouts_lose_at_most_one_right_answer_in_a_hundred(guerdon_data: Path) -> None:
    found = [(prompt["answer"], r) for prompt in lines(guerdon_data / "rollouts/amc_aime_llama3b_x50.jsonl.gz") for r in prompt["rollouts"]]
    right = [(answer, r) for answer, r in found if r["score"]]
    assert sum(v.score == 1.0 for v in judged([(r["text"], answer) for answer, r in right])) >= 0.99 * len(right)


def test_the_parent_process_loads_no_algebra_system() -> None:
    code = (
        "import sys; from guerdon import Rollout; from guerdon.verifiers.math import MathVerifier, equivalent\n"
        "assert MathVerifier().judge([Rollout('#### 5', answer='5')])[0].score == 1.0\n"
        "assert equivalent('\\\\sum_{j=1}^n j', '\\\\sum_{k=1}^n k').info['stage'] == 'math_verify'\n"
        "print([name for name in ('sympy', 'math_verify', 'latex2sympy2_extended', 'numpy', 'mpmath') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.stdout.strip(), run.returncode) == ("[]", 0), run.stderr


def test_no_text_is_ever_evaluated_as_code() -> None:
    for path in Path(package.__file__).parent.rglob("*.py"):
        called = {node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                  for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}  # fmt: skip
        assert not called & {"eval", "exec", "sympify", "parse_expr", "literal_eval", "__import__"}, path.name
