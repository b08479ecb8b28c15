"""Exact text: the completion's answer is the reference, letter for letter.

Equal means equal after Unicode NFC, with outer white space dropped and inner runs of it made one blank. Never "contains": an
answer that is part of the reference, or the other way round, is wrong. No numbers are compared here ("42" is not "42.0", "0042"
is not "42"): that is `guerdon.verifiers.math`.
"""

from __future__ import annotations

import numbers
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from guerdon.errors import ConfigError
from guerdon.types import Rollout, Status, Verdict
from guerdon.verifiers.base import judge_rows, strip_reasoning

__all__ = ["ExactVerifier", "final_text"]

NFC_LIMIT = 4096
"""Longer texts are compared without NFC: CPython's takes quadratic time on runs of combining marks (0.8 s for 20,000 of them)."""


def final_text(completion: str) -> str:
    """What the completion offers as its answer: after the reasoning, the last `<answer>` span if there is one, else all of it.

    A last `<answer>` that is never closed runs to the end, since stop strings cut the closing tag.

    >>> final_text("<think>4?</think> It is <answer> 4 </answer>.")
    ' 4 '
    """
    rest = strip_reasoning(completion)
    _, tag, span = rest.rpartition("<answer>")
    return span.partition("</answer>")[0] if tag else rest


@dataclass(frozen=True)
class ExactVerifier:
    """Is the completion's answer the text in `column`, exactly?

    The answer is `final_text` of the completion. Numbers and booleans as references are compared as `str` writes them ("4", "0.5",
    "True"). `{"any_of": [...]}` holds alternatives. `ignore_case` folds case (Unicode casefold).

    CORRECT, INCORRECT `mismatch`, NO_ANSWER for an empty answer, BAD_REFERENCE for a reference that is missing, blank, NaN, or
    neither text nor number.

    >>> said = ["Paris ", "", "Pa"]
    >>> [v.status.value for v in ExactVerifier().judge([Rollout(text, answer="Paris") for text in said])]
    ['correct', 'no_answer', 'incorrect']
    """

    column: str = "answer"
    ignore_case: bool = False

    VERSION: ClassVar[int] = 1
    PACKAGES: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ConfigError(f"ExactVerifier: column must be the name of a data column, got {self.column!r}")

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        """One verdict per rollout, in order."""
        return judge_rows(rollouts, self.column, self._judge)

    def _judge(self, rollout: Rollout, reference: Any) -> Verdict:
        if not isinstance(reference, str | numbers.Number):
            what = (
                f'column {self.column!r}: expected text or a number, got {type(reference).__name__}; alternatives are {{"any_of": [...]}}'
            )
            return Verdict.of(Status.BAD_REFERENCE, "malformed_reference", what)
        wanted = self._normal(_squeezed(str(reference)))
        if not wanted or reference != reference:  # NaN: how a data frame writes a missing value
            return Verdict.of(Status.BAD_REFERENCE, "missing_reference", f"column {self.column!r} is blank on this row")
        found = _squeezed(final_text(rollout.completion))
        if not found:
            return Verdict.of(Status.NO_ANSWER, "no_answer", "the answer is empty")
        # No text that normalises to `wanted` is longer than its full decomposition: neither folding nor decomposing shortens a text.
        if len(found) <= len(_decomposed(wanted)) and self._normal(found) == wanted:
            return Verdict.of(Status.CORRECT, extracted=found)
        return Verdict.of(Status.INCORRECT, "mismatch", f"expected {wanted!r:.80}", extracted=found)

    def _normal(self, text: str) -> str:
        text = _composed(text)
        return _composed(text.casefold()) if self.ignore_case else text


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _composed(text: str) -> str:
    return text if text.isascii() or len(text) > NFC_LIMIT else unicodedata.normalize("NFC", text)


def _decomposed(text: str) -> str:
    return text if text.isascii() or len(text) > NFC_LIMIT else unicodedata.normalize("NFD", text)
