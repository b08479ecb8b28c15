"""math-verify by itself, as a verifier: to compare guerdon with it. Not for rewards: guerdon's engine is right more often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from guerdon.sandboxes import Done, PoolSpec, pool
from guerdon.types import Rollout, Status, Verdict

__all__ = ["MathVerify"]

_PEER = PoolSpec("guerdon.verifiers.math.algebra:documented", memory_mb=1024, workers=1)
_STAGE = {"stage": "math_verify"}
_STATUS = {
    "equal": (Status.CORRECT, ""),
    "different": (Status.INCORRECT, "mismatch"),
    "unreadable": (Status.UNPARSEABLE, "unreadable"),
    "bad_reference": (Status.BAD_REFERENCE, "malformed_reference"),
}


@dataclass(frozen=True)
class MathVerify:
    """math-verify as its documentation calls it, in a killable worker so that it cannot freeze this process.

    Its own time limits need the main thread; here `timeout_s` bounds a verdict. What it overruns or breaks on is ERROR.
    """

    VERSION: ClassVar[int] = 1
    PACKAGES: ClassVar[tuple[str, ...]] = ("math-verify", "sympy", "latex2sympy2_extended")

    timeout_s: float = 10.0

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """One verdict per rollout, in order."""
        jobs = [(str(rollout.answer), rollout.completion) for rollout in rollouts]
        verdicts = []
        for result in pool(_PEER).map(jobs, self.timeout_s, self.timeout_s):
            if isinstance(result, Done):
                status, reason = _STATUS[result.value]
                verdicts.append(Verdict.of(status, reason, info=_STAGE, seconds=result.seconds))
            else:
                verdicts.append(
                    Verdict.of(Status.ERROR, "checker_timeout", result.detail or result.kind, info=_STAGE, seconds=result.seconds)
                )
        return verdicts
