"""What a filter says of a prompt, and what a filter is."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol, TypeVar

__all__ = ["Decision", "Filter"]

Evidence = TypeVar("Evidence", contravariant=True)


class Decision(StrEnum):
    """What becomes of a prompt. Only KEEP keeps it.

    >>> [decision.value for decision in Decision]
    ['keep', 'too_easy', 'too_hard', 'zero_variance', 'unscorable']
    """

    KEEP = "keep"
    """The prompt has something to teach."""
    TOO_EASY = "too_easy"
    """The pass rate lies above the band."""
    TOO_HARD = "too_hard"
    """The pass rate lies below the band."""
    ZERO_VARIANCE = "zero_variance"
    """All scorable rollouts got the same: no advantage, no gradient."""
    UNSCORABLE = "unscorable"
    """Too few rollouts could be scored to tell: the reference, the check or the host is to be mended, not the prompt dropped as hard."""


class Filter(Protocol[Evidence]):
    """A rule that decides on the evidence of one prompt: a `PassRate`, or the scores of its group. Pure."""

    def decide(self, evidence: Evidence, /) -> Decision: ...
