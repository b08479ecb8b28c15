"""Rewards: what does a completion earn? `import guerdon.rewards as R`.

Build rewards from the factories below and combine them with `weight * reward`, `reward + reward` and the named
combinators; every one is a frozen, picklable value. Nothing here trains a model; advantages are in
`guerdon.rewards.advantages`.
"""

from __future__ import annotations

from guerdon.rewards.adjust import abstain_if_truncated, by_status, clip, optional, scale_by_column
from guerdon.rewards.diversity import distinct, duplicate_penalty
from guerdon.rewards.format import boxed_format, tags, think_format
from guerdon.rewards.function import from_function
from guerdon.rewards.learned import judge, remote
from guerdon.rewards.length import cosine_length, length_penalty, soft_overlong
from guerdon.rewards.logic import all_of, any_of, gate
from guerdon.rewards.repetition import repetition
from guerdon.rewards.route import by_column
from guerdon.rewards.sums import WeightedSum
from guerdon.rewards.term import Combinator, Leaf, Term
from guerdon.rewards.trl_function import from_trl
from guerdon.rewards.verified import choice, code_tests, exact, instructions, json_schema, math_equal, verified

__all__ = [
    "Combinator",
    "Leaf",
    "Term",
    "WeightedSum",
    "abstain_if_truncated",
    "all_of",
    "any_of",
    "boxed_format",
    "by_column",
    "by_status",
    "choice",
    "clip",
    "code_tests",
    "cosine_length",
    "distinct",
    "duplicate_penalty",
    "exact",
    "from_function",
    "from_trl",
    "gate",
    "instructions",
    "json_schema",
    "judge",
    "length_penalty",
    "math_equal",
    "optional",
    "remote",
    "repetition",
    "scale_by_column",
    "soft_overlong",
    "tags",
    "think_format",
    "verified",
]
