"""Recorded samples and canonical solutions get the verdicts they had; every difference is classified."""

from __future__ import annotations

import gzip
import json
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import guerdon
from guerdon import Rollout, Verdict
from guerdon.sandboxes.zygote import Zygote
from guerdon.verifiers.code import CodeVerifier

pytestmark = pytest.mark.slow


def read(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def judged(rows: list[Rollout], timeout_s: float) -> list[Verdict]:
    return CodeVerifier(sandbox=Zygote(), timeout_s=timeout_s).judge(rows)


def test_codegen_samples_are_judged_as_recorded_in_under_three_minutes(guerdon_data: Path) -> None:
    problems = read(guerdon_data / "rollouts" / "humaneval_codegen16b_x100.jsonl.gz")
    rows = [
        Rollout(sample["text"], prompt=problem["prompt"], columns={"tests": problem["test"], "entry_point": problem["entry_point"]})
        for problem in problems
        for sample in problem["rollouts"]
    ]
    recorded = [sample["status"] for problem in problems for sample in problem["rollouts"]]
    guerdon.close()
    start = cpu_seconds()
    verdicts = judged(rows, timeout_s=1.5)
    guerdon.close()
    seconds = cpu_seconds() - start
    differ = Counter(status for status, verdict in zip(recorded, verdicts, strict=True) if (status == "passed") != (verdict.score == 1))
    assert not any(verdict.score is None for verdict in verdicts)
    assert differ.total() <= 0.003 * len(rows)
    # The recording's runner could not import some packages; the programs are right where these are, or are not needed.
    assert all(status.startswith("error:ModuleNotFoundError") for status in differ), differ
    print(f"{seconds:.0f} CPU seconds")
    assert seconds < 2 * 180  # on two cores; wall time would measure what else the machine does


def cpu_seconds() -> float:
    """CPU time of this process and of the children it has waited for."""
    return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


KNOWN = {"mbpp_724_power_base_sum", "mbpp_419_round_and_sum"}
"""The recording says wrong; by the tests they are right."""


def test_reflexion_samples_are_judged_as_labelled(guerdon_data: Path) -> None:
    samples = read(guerdon_data / "rollouts" / "reflexion_gpt_code.jsonl.gz")
    rows = [Rollout(s["text"], prompt=s["prompt"], columns={"tests": s["test"], "entry_point": s["entry_point"]}) for s in samples]
    verdicts = judged(rows, timeout_s=5.0)
    differ = [s["name"] for s, verdict in zip(samples, verdicts, strict=True) if s["label"] != (verdict.score == 1)]
    assert not any(verdict.score is None for verdict in verdicts)
    assert len(differ) <= 0.01 * len(rows)
    assert set(differ) <= KNOWN


@pytest.mark.parametrize("name", ["humaneval", "mbpp_sanitized"])
@pytest.mark.parametrize("form", ["continuation", "fenced"])
def test_canonical_solutions_pass(guerdon_data: Path, name: str, form: str) -> None:
    problems = read(guerdon_data / "problems" / f"{name}.jsonl.gz")
    rows = []
    for problem in problems:
        prompt = problem["prompt"]
        if name == "mbpp_sanitized":  # its docstrings are indented by four spaces, its solutions by tabs or two
            prompt = prompt.split("'''")[0].rstrip() + "\n"
        solution = problem["canonical_solution"]
        text = solution if form == "continuation" else f"```python\n{prompt}{solution}\n```"
        rows.append(Rollout(text, prompt=prompt, columns={"tests": problem["test"], "entry_point": problem["entry_point"]}))
    failed = [(p["task_id"], v.detail) for p, v in zip(problems, judged(rows, timeout_s=10.0), strict=True) if v.score != 1]
    assert failed == []
