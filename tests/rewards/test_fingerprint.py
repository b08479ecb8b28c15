"""Fingerprints: equal terms agree across processes, anything that decides a verdict changes them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import guerdon.rewards as R
from guerdon import Rollout

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
