"""What several verifiers share: alternatives in a reference, reasoning stripped, one judgement per row.

`judge_rows` is the one place that turns a missing or multiple reference into verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guerdon.types import Rollout, Status, Verdict

__all__ = ["VISIBLE", "alternatives", "best_of", "is_blank", "judge_rows", "strip_reasoning"]

VISIBLE = re.compile(
    r"[^\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""A character that shows: not white space, a control or zero-width character, a filler or a tag character (Unicode's
Default_Ignorable_Code_Point and the blank symbols)."""


def alternatives(answer: Any) -> tuple[Any, ...]:
    """The references of an answer: `{"any_of": [...]}` holds several, anything else is one.

    >>> alternatives({"any_of": ["4", "four"]}), alternatives("4")
    (('4', 'four'), ('4',))
    """
    if isinstance(answer, Mapping) and set(answer) == {"any_of"}:
        several = answer["any_of"]
        several = several.tolist() if hasattr(several, "tolist") else several  # an array, from Parquet
        if isinstance(several, Sequence) and not isinstance(several, str):
            return tuple(several)
    return (answer,)


def best_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict for several alternatives: the best score; a 1 decides even if others abstain, else an abstention passes through."""
    scored = [v for v in verdicts if v.score is not None]
    best = max(scored, key=lambda v: v.score or 0.0, default=None)
    if best is not None and (best.score == 1.0 or len(scored) == len(verdicts)):
        return best
    return next(v for v in verdicts if v.score is None)


def judge_rows(rollouts: Sequence[Rollout], column: str, judge: Callable[[Rollout, Any], Verdict]) -> list[Verdict]:
    """`judge(rollout, reference)` for each row; a missing or empty reference is BAD_REFERENCE, alternatives give the best."""
    return [_judge_row(rollout, column, judge) for rollout in rollouts]


def _judge_row(rollout: Rollout, column: str, judge: Callable[[Rollout, Any], Verdict]) -> Verdict:
    references = alternatives(rollout.column(column))
    if not references or references == (None,):
        return Verdict.of(Status.BAD_REFERENCE, "missing_reference", f"column {column!r} is empty on this row")
    if len(references) == 1:
        return judge(rollout, references[0])
    return best_of([judge(rollout, reference) for reference in references])


def is_blank(text: str) -> bool:
    """Whether nothing of the text would show.

    >>> is_blank(" \\u200b\\n"), is_blank(".")
    (True, False)
    """
    return VISIBLE.search(text) is None


def strip_reasoning(completion: str, close: str = "</think>") -> str:
    """What follows the last closing reasoning tag; the whole completion when there is none.

    >>> strip_reasoning("<think>maybe 5</think>4")
    '4'
    """
    return completion.rpartition(close)[2]
