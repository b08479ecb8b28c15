"""The published prompts: every constraint of all 541 is read, none is left out."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections import Counter
from pathlib import Path

import pytest

from guerdon.types import Rollout, Status
from guerdon.verifiers.instructions import INSTRUCTIONS, InstructionsVerifier


def test_every_published_constraint_is_read(guerdon_data: Path) -> None:
    if importlib.util.find_spec("py3langid") is None:
        pytest.skip("py3langid (extra ifeval) is not installed")
    with gzip.open(guerdon_data / "problems" / "ifeval_prompts.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    verdicts = InstructionsVerifier().judge([Rollout(row["prompt"], answer=row) for row in rows])
    assert len(rows) == 541
    assert {verdict.status for verdict in verdicts} <= {Status.CORRECT, Status.INCORRECT}
    read = Counter(name for verdict in verdicts for name, _, _ in verdict.info["constraints"])
    assert read == Counter(name for row in rows for name in row["instruction_id_list"])
    assert set(read) == set(INSTRUCTIONS)
    assert read.total() == 834
