"""Each of the 25 constraint types on hand-made texts: `cases.jsonl`, one case a line, each with its reason."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from guerdon.types import Rollout
from guerdon.verifiers.instructions import INSTRUCTIONS, InstructionsVerifier

CASES: list[dict[str, Any]] = [json.loads(line) for line in Path(__file__).with_name("cases.jsonl").read_text("utf-8").splitlines()]
LANGUAGE = ("language:response_language", "change_case:english_capital", "change_case:english_lowercase")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}: {case['why']}")
def test_case_is_judged_as_its_reason_says(case: dict[str, Any]) -> None:
    if case["id"] in LANGUAGE and importlib.util.find_spec("py3langid") is None:
        pytest.skip("py3langid (extra ifeval) is not installed")
    reference = {"instruction_id_list": [case["id"]], "kwargs": [case["args"]]}
    (verdict,) = InstructionsVerifier().judge([Rollout(case["text"], answer=reference)])
    ((_, holds, why),) = verdict.info["constraints"]
    assert holds is case["holds"], why
    assert verdict.score == float(case["holds"])


def test_every_type_has_three_cases_either_way() -> None:
    counts = Counter((case["id"], case["holds"]) for case in CASES)
    assert len(INSTRUCTIONS) == 25
    assert [(name, holds) for name in INSTRUCTIONS for holds in (True, False) if counts[name, holds] < 3] == []


def test_explanations_are_short() -> None:
    references = [{"instruction_id_list": [case["id"]], "kwargs": [case["args"]]} for case in CASES if case["id"] not in LANGUAGE]
    rollouts = [Rollout("Some text, of no importance.", answer=reference) for reference in references]
    whys = [verdict.info["constraints"][0][2] for verdict in InstructionsVerifier().judge(rollouts)]
    assert all(0 < len(why) <= 120 for why in whys)
