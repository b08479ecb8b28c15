"""User functions in killable workers: what `from_function(..., isolate=...)` calls.

The worker imports the function by its import string; rollouts and results cross by pickle. It isolates time and memory
(an overrun is killed), not trust: for untrusted code use a sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from guerdon.errors import Abstain
from guerdon.loading import load, spec_of
from guerdon.sandboxes import Failed, PoolSpec, pool
from guerdon.sandboxes.deadline import row_limit
from guerdon.types import Rollout, Status, Verdict

__all__ = ["call_isolated"]

_REASONS = {"cpu": "checker_timeout", "wall": "checker_timeout", "deadline": "deadline", "lost": "lost_worker"}


def call_isolated(function: Callable[..., Any] | str, timeout_s: float, rollouts: Sequence[Rollout], batch: bool) -> list[Any]:
    """What the function gave for each rollout: a value, an Abstain, or a Verdict that says how the call ended."""
    spec = function if isinstance(function, str) else spec_of(function)
    jobs: list[tuple[Any, ...]] = [(spec, list(rollouts), True)] if batch else [(spec, [r], False) for r in rollouts]
    limit_s = timeout_s if batch else row_limit(timeout_s)
    results = pool(PoolSpec(target="guerdon.rewards.isolated:run")).map(jobs, limit_s, timeout_s / 2)
    out: list[Any] = []
    for job, result in zip(jobs, results, strict=True):
        if isinstance(result, Failed):
            reason = _REASONS.get(result.kind, "exception")
            out += [Verdict.of(Status.ERROR, reason, f"{spec}: {result.detail}"[:2000])] * len(job[1])
        else:
            out += result.value
    return (
        out
        if len(out) == len(rollouts)
        else [Verdict.of(Status.ERROR, "wrong_length", f"{spec} returned {len(out)} scores")] * len(rollouts)
    )


def run(spec: str, rollouts: list[Rollout], batch: bool) -> list[Any]:
    """In the worker: call the function; a deliberate abstention travels as a value."""
    f = load(spec)
    try:
        return list(f(rollouts)) if batch else [f(rollouts[0])]
    except Abstain as abstention:
        return [abstention] * len(rollouts)
