"""Fingerprints: equal terms agree across processes, anything that decides a verdict changes them."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import guerdon.rewards as R
from guerdon import Rollout

from . import conftest
from .conftest import Shape, check


def by_source(rollout: Rollout) -> float:
    return 1.0


def other_source(rollout: Rollout) -> float:
    return 2.0


def closing_over(value: object) -> R.Term:
    def f(rollout: Rollout) -> float:
        return float(bool(value))

    return R.from_function(f)


DIFFERENT = [
    check(0),
    check(1, "check0"),
    Shape(0),
    0.5 * check(0),
    0.25 * check(0),
    R.gate(check(0), on=Shape(1)),
    R.gate(check(0), on=Shape(1), threshold=0.5),
    R.clip(check(0), 0, 1),
    R.by_status(check(0), {"correct": 1}),
    R.by_column("k", {"a": check(0)}),
    R.by_column("k", {"b": check(0)}),
    R.from_function(by_source, name="f"),
    R.from_function(other_source, name="f"),
    R.from_function(by_source, name="f", version="1"),
    closing_over(1),
    closing_over(2),
    R.soft_overlong(max_tokens=10, cache=2),
    R.soft_overlong(max_tokens=10, cache=3),
    (check(0) + Shape(1)).with_outcome("shape"),
    check(0) + Shape(1),
]


def test_whatever_decides_a_verdict_changes_the_fingerprint() -> None:
    prints = [r.fingerprint for r in DIFFERENT]
    assert None not in prints
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("reward", [closing_over(object()), 0.5 * closing_over(object())])
def test_what_cannot_be_named_is_not_cacheable(reward: R.Term) -> None:
    assert reward.fingerprint is None


SCALE = 2.0
PATTERN = re.compile("a+")
STATE: list[object] = []


def helper(value: float) -> float:
    return value * SCALE


def uses_a_global(rollout: Rollout) -> float:
    return SCALE


def scaled(factor: int, rollout: Rollout) -> float:
    return float(factor)


def uses_a_helper(rollout: Rollout) -> float:
    return helper(1.0)


def uses_a_pattern(rollout: Rollout) -> float:
    return float(PATTERN.match(rollout.completion) is not None)


def uses_a_live_thing(rollout: Rollout) -> float:
    return float(LIVE is not None)


def remembers(rollout: Rollout) -> float:
    global COUNT
    COUNT += 1
    return COUNT


def uses_a_module_of_ours(rollout: Rollout) -> float:
    return conftest.check(0)([rollout])[0] or 0.0


def calls_itself() -> Callable[[Rollout], float]:
    def f(rollout: Rollout) -> float:
        return 1.0 if rollout.completion else f(rollout)

    return f


LIVE, COUNT = object(), 0


def times(k: float) -> Callable[[Callable[[Rollout], float]], Callable[[Rollout], float]]:
    def decorate(f: Callable[[Rollout], float]) -> Callable[[Rollout], float]:
        @functools.wraps(f)
        def scaled(rollout: Rollout) -> float:
            return k * f(rollout)

        return scaled

    return decorate


def fingerprint(f: Any, **options: Any) -> str | None:
    return R.from_function(f, name="f", **options).fingerprint


@pytest.mark.parametrize(
    ("f", "name", "value"),
    [
        (uses_a_global, "SCALE", 3.0),
        (uses_a_helper, "SCALE", 3.0),
        (uses_a_helper, "helper", by_source),
        (uses_a_pattern, "PATTERN", re.compile("b")),
    ],
)
def test_a_global_that_a_function_uses_enters_its_fingerprint(monkeypatch: pytest.MonkeyPatch, f: Any, name: str, value: object) -> None:
    before = fingerprint(f)
    assert before is not None
    monkeypatch.setitem(globals(), name, value)
    assert fingerprint(f) not in (None, before)


def test_a_decorator_with_its_arguments_enters_the_fingerprint() -> None:
    found = [fingerprint(f) for f in (by_source, times(2)(by_source), times(3)(by_source), times(2)(other_source))]
    assert len({*found, None}) == 5


@pytest.mark.parametrize("f", [uses_a_live_thing, remembers, uses_a_module_of_ours, Shape(0).verdicts], ids=str)
def test_a_function_whose_behaviour_cannot_be_known_is_not_cacheable(f: Any) -> None:
    assert fingerprint(f) is None


def test_lambdas_of_one_line_are_not_cacheable() -> None:
    one, other = (lambda r: 1.0), (lambda r: 0.0)
    assert fingerprint(one) is fingerprint(other) is None


def test_a_partial_has_the_fingerprint_of_what_it_holds() -> None:
    found = {fingerprint(functools.partial(scaled, k)) for k in (1, 2)}
    assert None not in found
    assert len(found) == 2


def test_a_function_that_closes_over_itself_has_a_fingerprint() -> None:
    assert fingerprint(calls_itself()) == fingerprint(calls_itself()) is not None


def test_a_cell_not_filled_yet_is_not_cacheable() -> None:
    def f(rollout: Rollout) -> float:
        return later

    assert fingerprint(f) is None
    later = 1.0
    assert fingerprint(f) is not None


def test_one_version_of_two_functions_gives_two_fingerprints() -> None:
    assert fingerprint(by_source, version="1") != fingerprint(other_source, version="1")


def test_a_function_called_in_two_ways_has_two_fingerprints() -> None:
    assert R.from_function(by_source, name="f", batch=True).fingerprint != R.from_trl(by_source, name="f").fingerprint


def test_a_verifier_named_by_an_import_string_has_its_own_fingerprint(tmp_path: Path) -> None:
    by_object = R.exact(ignore_case=True)
    (tmp_path / "own.py").write_text("import guerdon.rewards as R\nverifier = R.exact(ignore_case=True).verifier\n")
    assert R.verified(f"{tmp_path / 'own.py'}:verifier", name="exact").fingerprint == by_object.fingerprint
    (tmp_path / "plain.py").write_text("class V:\n    def judge(self, rollouts):\n        return []\n")
    assert R.verified(f"{tmp_path / 'plain.py'}:V").fingerprint is None


def test_a_version_bump_changes_the_fingerprint() -> None:
    @dataclass(frozen=True)
    class Old(Shape):
        VERSION: ClassVar[int] = 1

    before = Old(0).fingerprint
    Old.VERSION = 2
    assert Old(0).fingerprint != before


def test_a_deciding_package_enters_the_fingerprint() -> None:
    @dataclass(frozen=True)
    class Plain(Shape):
        PACKAGES: ClassVar[tuple[str, ...]] = ()

    before = Plain(0).fingerprint
    Plain.PACKAGES = ("pytest",)
    assert Plain(0).fingerprint != before


def test_the_fingerprint_is_the_same_in_another_process(tmp_path: Path) -> None:
    code = "import guerdon.rewards as R; print((0.5 * R.exact() + R.soft_overlong(max_tokens=10, cache=2)).fingerprint)"
    seen = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout for _ in range(2)}
    assert len(seen) == 1
    assert len(seen.pop().strip()) == 32
