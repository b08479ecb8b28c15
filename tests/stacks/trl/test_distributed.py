"""Two ranks, over gloo, with groups split between them: group terms and finished advantages are those of whole groups."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    output = tmp_path_factory.mktemp("split")
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        "2",
        str(HERE / "split_groups.py"),
        str(output),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]), "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads((output / "found.json").read_text())


def test_group_terms_see_siblings_on_other_ranks_and_each_row_is_scored_once(found: Any) -> None:
    group = found["group"]
    assert group["rows"] == 4
    assert sum(found["scored"]) == 4
    assert max(group["want"][0]) == 3.0, "the ranks of four siblings"
    for got, want in zip(group["got"], group["want"], strict=True):
        assert got == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("spec", ["gopo", "gdpo", "batch"])
def test_injected_advantages_are_those_of_whole_groups_and_of_the_whole_batch(spec: str, found: Any) -> None:
    injected = found["injected"][spec]
    assert len(injected["got"]) == 12, "three groups, the middle one split"
    assert injected["got"] == pytest.approx(injected["want"], abs=1e-6)
    assert max(map(abs, injected["got"])) > 0.1


def test_a_fault_on_one_rank_is_raised_on_all(found: Any) -> None:
    assert found["faults"][1].startswith("BrokenRewardError: ")
    assert found["faults"][0].startswith("GuerdonError: rank 1 could not score its rows: BrokenRewardError")


def test_a_row_that_cannot_be_sent_is_a_fault_on_all_ranks(found: Any) -> None:
    assert "pickle" in found["unsent"][1]
    assert found["unsent"][0].startswith("GuerdonError: rank 1 could not score its rows: ")
