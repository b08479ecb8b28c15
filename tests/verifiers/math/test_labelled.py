"""Labelled data that is too large for the repository: accuracy on pairs, attacks, hostile inputs, replays of recorded runs.

`replay_disagreements.jsonl` holds every rollout of the replays (Qwen2.5-3B and a Llama-3B, recorded by reasoning-gym-eval, Apache-2.0)
on which guerdon and the recorded label differ, with who is right: `ours_wrong`, `label_wrong` (wrong by guerdon's conventions, or judged
by a damaged reference), or `convention` (both can be defended). `policy_exceptions.jsonl` in tests/data holds the pairs of policy scope
that guerdon judges otherwise than their label, with a reason. `math_verify_disagreements.jsonl` holds the pairs on which guerdon and
math-verify differ, with who is right by guerdon's conventions.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import guerdon
from guerdon import Rollout, Status, Verdict
from guerdon.verifiers.math import MathRules, MathVerifier, equivalent, verify
from guerdon.verifiers.math.peer import MathVerify

EXCEPTIONS = Path(__file__).parents[2] / "data" / "policy_exceptions.jsonl"
DATA = Path(__file__).parent / "data"
SETS = (
    "mathverify_tests",
    "inspect_tests",
    "nemo_tests",
    "nemo_judge",
    "hendrycks_tests",
    "olympiadbench_judge",
    "hardverify",
    "public_issues",
)
LENIENT = MathRules.lenient()


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    guerdon.close()


def lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [json.loads(line) for line in file]


def right(row: dict[str, Any]) -> bool:
    whole = row["form"] == "response"
    return (verify(row["pred"], row["gold"], LENIENT) if whole else equivalent(row["pred"], row["gold"])).score == 1.0


def misjudged(guerdon_data: Path, name: str) -> list[tuple[int, bool]]:
    """The rows judged otherwise than their label, with the label."""
    rows = lines(guerdon_data / f"math_pairs/{name}.jsonl.gz")
    return [(index, row["label"]) for index, row in enumerate(rows) if right(row) != row["label"]]


@pytest.mark.parametrize("name", ["math500_synth", "gsm8k_models"])
def test_plain_pairs_are_judged_without_fault(guerdon_data: Path, name: str) -> None:
    assert misjudged(guerdon_data, name) == []


@pytest.fixture(scope="module")
def targets(guerdon_data: Path) -> tuple[Counter[str], list[tuple[str, str, int, bool]]]:
    """How many pairs of each scope have a sure label, and those that are misjudged: scope, set, index, label."""
    audit = {(n["set"], n["index"]): n["scope"] for n in lines(guerdon_data / "math_pairs/audit.jsonl") if n["label_ok"] is True}
    missed = [
        (audit[name, index], name, index, label)
        for name in SETS
        for index, label in misjudged(guerdon_data, name)
        if audit.get((name, index), "prose") != "prose"
    ]
    return Counter(audit.values()), missed


def test_hard_pairs_are_judged_right(targets: tuple[Counter[str], list[tuple[str, str, int, bool]]]) -> None:
    counts, missed = targets
    wrong = [miss for miss in missed if miss[0] == "rule"]
    assert len(wrong) <= 0.02 * counts["rule"]
    assert sum(not label for *_, label in wrong) <= 2


def test_every_departure_from_a_policy_has_its_reason(targets: tuple[Counter[str], list[tuple[str, str, int, bool]]]) -> None:
    counts, missed = targets
    wrong = {(name, index) for scope, name, index, _ in missed if scope == "policy"}
    assert len(wrong) <= 0.05 * counts["policy"]
    assert wrong == {(row["set"], row["index"]) for row in lines(EXCEPTIONS) if row["reason"]}


@pytest.mark.slow
def test_every_difference_from_math_verify_is_listed(guerdon_data: Path) -> None:
    listed = {(row["set"], row["index"]): row["guerdon"] for row in lines(DATA / "math_verify_disagreements.jsonl")}
    differ = {}
    for name in (*SETS, "math500_synth", "gsm8k_models"):
        rows = lines(guerdon_data / f"math_pairs/{name}.jsonl.gz")
        said = [row["pred"] if row["form"] == "response" or "$" in row["pred"] else f"\\boxed{{{row['pred']}}}" for row in rows]
        verdicts = MathVerify().judge([Rollout(text, answer=row["gold"]) for text, row in zip(said, rows, strict=True)])
        ours = [right(row) for row in rows]
        differ |= {(name, k): own for k, (own, verdict) in enumerate(zip(ours, verdicts, strict=True)) if own != (verdict.score == 1.0)}
    assert differ == listed


def test_every_answer_equals_itself_bare_and_boxed(guerdon_data: Path) -> None:
    answers = [row["answer"] for name in ("math500", "math_test") for row in lines(guerdon_data / f"problems/{name}.jsonl.gz")]
    assert len(answers) == 5500
    assert [a for a in answers if {equivalent(a, a).score, verify(f"\\boxed{{{a}}}", a).score} != {1.0}] == []


@pytest.mark.parametrize("rules", [MathRules(), LENIENT, MathRules(fallback=False)])
def test_attacks_earn_nothing_and_right_answers_do(guerdon_data: Path, rules: MathRules, tmp_path: Path) -> None:
    rows = lines(guerdon_data / "attacks/math.jsonl")
    marked = [row["response"].replace("/tmp/guerdon_pwned", str(tmp_path / "ran")) for row in rows]
    verdicts = MathVerifier(rules=rules).judge([Rollout(text, answer=row["gold"]) for text, row in zip(marked, rows, strict=True)])
    accepted = {row["name"]: verdict.score == 1.0 for row, verdict in zip(rows, verdicts, strict=True)}
    assert [row["name"] for row in rows if accepted[row["name"]] != (row["expect"] == "accept")] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_hostile_inputs_are_judged_in_time_and_hold_nobody_up(guerdon_data: Path) -> None:
    """As completions and as references, from a thread, beside an event loop. A killed worker's place is left time to be filled."""
    timeout_s = 1.0
    rows = lines(guerdon_data / "attacks/math_hostile.jsonl")
    verifier = MathVerifier(timeout_s=timeout_s)
    equivalent(r"\sum_{j=1}^n j", r"\sum_{k=1}^n k")  # the workers are up
    took: list[tuple[float, str, Verdict]] = []

    def judge() -> None:
        for row in rows:
            for rollout in (Rollout(row["response"], answer=row["gold"]), Rollout(r"\boxed{\sqrt 5}", answer=row["response"])):
                start = time.perf_counter()
                verdict = verifier.judge([rollout])[0]
                took.append((time.perf_counter() - start, row["name"], verdict))
                if took[-1][0] > timeout_s / 4:
                    time.sleep(2.0)

    async def lag() -> float:
        """The worst delay of a timer while the thread judges."""
        thread, worst = threading.Thread(target=judge), 0.0
        thread.start()
        while thread.is_alive():
            start = time.perf_counter()
            await asyncio.sleep(0.005)
            worst = max(worst, time.perf_counter() - start - 0.005)
        return worst

    worst = asyncio.run(lag())
    assert len(took) == 2 * len(rows)
    assert [(name, seconds) for seconds, name, _ in took if seconds > timeout_s + 0.3] == []
    assert worst < 0.05
    rewarded = {name for _, name, verdict in took if verdict.score == 1.0}
    assert rewarded <= {"(x+y+z)^{50} expand", "cos pi/n sum", "sqrt tower eq", "boxed soup 3000", "boxed+dollars", "boxed nest 300"}


@pytest.mark.parametrize("name", ["math_evals_qwen3b", "amc_aime_llama3b_x50"])
def test_recorded_runs_are_judged_as_they_were_but_for_what_is_explained(guerdon_data: Path, name: str) -> None:
    found = [(row, k, rollout) for row in lines(guerdon_data / f"rollouts/{name}.jsonl.gz")
             for k, rollout in enumerate(row.get("rollouts") or [row])]  # fmt: skip
    verdicts = MathVerifier(timeout_s=30.0).judge([Rollout(rollout["text"], answer=row["answer"]) for row, _, rollout in found])
    differ = {
        (row["id"], row.get("source", k), verdict.status.value)
        for (row, k, rollout), verdict in zip(found, verdicts, strict=True)
        if (verdict.score == 1.0) != bool(rollout.get("label", rollout.get("score")))
    }
    known = {
        (note["id"], note["rollout"], note["status"]): note for note in lines(DATA / "replay_disagreements.jsonl") if note["set"] == name
    }
    assert differ == set(known)
    assert all(note["reason"] for note in known.values())
    standing = sum(note["class"] != "label_wrong" for note in known.values())
    assert standing <= 0.02 * len(found)
    assert sum(note["class"] == "ours_wrong" for note in known.values()) <= 0.005 * len(found)


def test_no_reference_is_blamed_for_a_hostile_completion(guerdon_data: Path) -> None:
    rows = lines(guerdon_data / "attacks/math_hostile.jsonl")
    verdicts = MathVerifier(timeout_s=1.0).judge([Rollout(row["response"], answer=row["gold"]) for row in rows])
    assert Status.BAD_REFERENCE not in {verdict.status for verdict in verdicts}
