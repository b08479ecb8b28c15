"""Random and mutated LaTeX: nothing raises, nothing takes long, memory stays flat."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from guerdon import Status
from guerdon.verifiers.math import MathRules, equivalent

RULES = MathRules(fallback=False)
LIMIT_S = 0.1
SLACK_MB = 48
"""What Python's allocator and the bounded caches may still take after a tenth of the run; a leak of one tree a call takes more."""
DATA = Path(__file__).parent
_words = str.split
FRAGMENTS = _words(
    r"""
\frac{ \sqrt{ ^{ _{ } { ( ) [ ] | \left \right ! ^ _ \sin \log_ \ln \arcsin \int_ \sum_{k=1}^{n} \pm \mp , ; = < \le \in \{ \} x y n k i e
\pi \infty 1 2 10 999999999 0 0.5 1e5 / * + - \cdot \text{ \begin{pmatrix} \end{pmatrix} & \\ \cup \setminus \circ % \$ ' and or not if cm
\binom{ \lfloor \mathbb{R} ² ≥ ٣ \boxed{ \overline{ \vec mod 1,234 . .. ... \dots \angle ° × π √ ∞ ^{^ 9^9^9 (( )) 100000! 7th np. **
"""
)
FRAGMENTS += [" ", "\ud800", "\x00", "\u200b", "\t"]
AROUND = _words(
    r"\sqrt{?} \frac{?}{?} (?)^{?} ?,? (?) \{?\} x=? ?\cup? ?<x \sin(?) 2^{?} (?)! ?+? \log(?) |?| ?\% \frac{1}{?} e^{?} \pm? [?]"
)


def seeds() -> list[str]:
    """Answers and candidates of the tables beside this file."""
    recorded = list(_lines("data/golden.jsonl"))
    tables = [row[key] for row in _lines("engine/pairs.jsonl") for key in ("answer", "candidate")]
    return tables + [str(row["answer"]) for row in recorded] + [row["completion"][-300:] for row in recorded]


def _lines(name: str) -> Iterator[dict[str, str]]:
    return map(json.loads, (DATA / name).read_text(encoding="utf-8").splitlines())


def mutated(rng: Random, text: str, pool: list[str]) -> str:
    for _ in range(rng.choice((1, 1, 2, 3, 5, 9))):
        at, kind = rng.randrange(len(text) + 1), rng.random()
        if kind < 0.3:
            text = text[:at] + rng.choice(FRAGMENTS) + text[at:]
        elif kind < 0.5:
            text = text[:at] + text[at + rng.choice((1, 1, 2, 5, 20)) :]
        elif kind < 0.6:
            end = at + rng.randrange(1, 30)
            text = text[:end] + text[at:end] * rng.choice((1, 2, 5)) + text[end:]
        elif kind < 0.75:
            other = rng.choice(pool)
            start = rng.randrange(len(other) + 1)
            text = text[:at] + other[start : start + rng.randrange(1, 40)] + text[at:]
        elif kind < 0.85:
            text = rng.choice(AROUND).replace("?", text[:200])
        elif kind < 0.9:
            text = "".join(rng.choices(FRAGMENTS, k=rng.randrange(1, 25)))
        else:
            text = text.replace(rng.choice("123456789xyn"), rng.choice(("x", "10", "y", "99", "-1", r"\pi", "0")))
    return text[:4000]


def cpu_s(candidate: str, answer: str) -> float:
    start = time.process_time()
    verdict = equivalent(candidate, answer, RULES)
    assert verdict.status is not Status.ERROR, (answer, candidate, verdict.detail)
    return time.process_time() - start


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.slow
def test_mutated_answers_are_compared_quickly_and_without_a_trace(deep: bool) -> None:
    rng, pool, count = Random(20), seeds(), 100_000 if deep else 10_000
    slow, before = [], 0.0
    for turn in range(count):
        base = rng.choice(pool)
        answer = mutated(rng, base, pool) if rng.random() < 0.6 else base
        candidate = mutated(rng, rng.choice((answer, answer, base, rng.choice(pool))), pool)
        if rng.random() < 0.02:
            candidate *= rng.choice((3, 10, 50))
        if cpu_s(candidate, answer) > LIMIT_S and min(cpu_s(candidate, answer) for _ in range(3)) > LIMIT_S:
            slow.append((answer, candidate))
        if turn == count // 10:
            before = peak_mb()
    assert slow == []
    assert peak_mb() - before < SLACK_MB
