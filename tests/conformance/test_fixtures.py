"""Every shipped fixture holds, and the comparison can fail."""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import run_fixtures
from run_fixtures import EXACT, KINDS, difference, failure

FILE = Path(__file__).parent / "algo_fixtures.json"
DATA = json.loads(FILE.read_text(encoding="utf-8"))
BY_ID = {fixture["id"]: fixture for fixture in DATA["fixtures"]}
WITH_TORCH = {"loss", "offpolicy_weight", "recipe", "divergence", "mask", "schedule"}
NO_TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the losses need torch (make stacks)")
EVERY = [pytest.param(each, marks=[NO_TORCH] if BY_ID[each]["kind"] in WITH_TORCH else []) for each in BY_ID]


def changed(identifier: str, **fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(BY_ID[identifier]), **fields}


def nudged(value: Any) -> Any:
    """The value with its last number moved by a millionth."""
    if isinstance(value, dict):
        last = list(value)[-1]
        return {**value, last: nudged(value[last])}
    return [*value[:-1], nudged(value[-1])] if isinstance(value, list) else value + 1e-6


@pytest.mark.parametrize("identifier", EVERY)
def test_fixture_holds(identifier: str) -> None:
    assert failure(BY_ID[identifier], DATA["batches"]) is None


@pytest.mark.parametrize("identifier", EVERY)
def test_fixture_with_a_nudged_expectation_fails(identifier: str) -> None:
    mutant = changed(identifier, expected=nudged(BY_ID[identifier]["expected"]))
    assert ": got " in str(failure(mutant, DATA["batches"]))


@pytest.mark.parametrize("kind", sorted({fixture["kind"] for fixture in DATA["fixtures"]}))
def test_every_shipped_kind_is_mapped(kind: str) -> None:
    assert kind in KINDS


@pytest.mark.parametrize(
    ("identifier", "params"),
    [
        ("adv.grpo.verl", {"ddof": 0, "eps": 1e-6}),
        ("adv.grpo.verl", {"ddof": 1, "eps": 1e-4}),
        ("adv.batch_std.real", {"center": "group", "scale": "batch_of_centered", "ddof": 1, "eps": 1e-4}),
        ("adv.batch_full.real", {"center": "group", "scale": "batch", "ddof": 1, "eps": 1e-4}),
        ("adv.gdpo.no_batch_step", {"weights": [1.0, 0.5], "ddof": 1, "eps": 1e-4, "batch_norm": True}),
        ("adv.gdpo.no_batch_step", {"weights": [0.5, 1.0], "ddof": 1, "eps": 1e-4, "batch_norm": False}),
        ("adv.gopo_midrank.binary", {"scale": 2.0, "ties": "ordinal"}),
        ("adv.gopo_midrank.binary", {"scale": 1.0, "ties": "average"}),
        ("adv.gopo_identity", {"transform": "linear"}),
    ],
)
def test_each_parameter_reaches_its_axis(identifier: str, params: dict[str, Any]) -> None:
    assert ": got " in str(failure(changed(identifier, params=params), {}))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"kind": "unheard"}, "unheard"),
        ({"algo": "ppo"}, "ppo"),
        ({"params": {"ddof": 1, "temperature": 2}}, "temperature"),
        ({"params": {"gamma": 0.9}}, "gamma"),
        ({"expected": {"advantages": [[0.0]], "ratio": 1.0}}, "advantages"),
        ({"expected": {"ratio": 1.0}}, "ratio"),
        ({"expected": {}}, "nothing"),
        ({"inputs": {}}, "rewards"),
    ],
)
def test_what_has_no_mapping_fails_and_is_named(fields: dict[str, Any], named: str) -> None:
    wrong = failure(changed("adv.grpo.verl", **fields), {})
    assert wrong is not None
    assert named in wrong


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ([1.0, 2.0], [1.0]),
        ([1.0], [1.0, 2.0]),
        (1.0, [1.0]),
        (float("nan"), 0.0),
        (0.0, None),
        (None, 0.0),
        (1.0 + 1e-8, 1.0),
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}),
        ("kept", "dropped"),
    ],
)
def test_comparison_can_fail(got: Any, expected: Any) -> None:
    assert difference(got, expected, **EXACT) is not None


@pytest.mark.parametrize(
    ("got", "expected"), [([[1.0 + 1e-10], [-0.0]], [[1], [0.0]]), (float("nan"), None), (True, 1), ({"a": 1}, {"a": 1.0})]
)
def test_comparison_allows_rounding_and_null_for_nothing(got: Any, expected: Any) -> None:
    assert difference(got, expected, **EXACT) is None


def test_a_discount_reaches_the_returns_of_tokens() -> None:
    fixture = changed("adv.reinforce_pp", inputs={"rewards": [1.0, 1.0], "lengths": [2.0, 1.0]}, params={"gamma": 0.5, "whiten": "token"})
    fixture["expected"] = {"token_advantages": [[-1.154700435, 0.577350218], [0.577350218, 0.0]]}  # of the returns 0.5, 1 and 1
    assert failure({**fixture, "tol": {"rtol": 0.0, "atol": 1e-7}}, {}) is None


def test_command_counts_and_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = changed("adv.dr_grpo"), changed("adv.dr_grpo", id="adv.wrong", expected={"advantages": [[1.0]]})
    file = tmp_path / "fixtures.json"
    file.write_text(json.dumps({"fixtures": [good, bad, changed("diversity.group")]}), encoding="utf-8")
    assert run_fixtures.main([str(file), "--kind", "advantage"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("FAILED adv.wrong: ")
    assert lines[-1] == "1 passed, 1 failed"
    assert run_fixtures.main([str(file), "--kind", "diversity"]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_asking_for_nothing_that_is_there_is_no_success(tmp_path: Path) -> None:
    file = tmp_path / "fixtures.json"
    file.write_text(json.dumps({"fixtures": []}), encoding="utf-8")
    assert run_fixtures.main([str(file)]) == 1
