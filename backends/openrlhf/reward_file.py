"""The reward file: `reward_func = reward_func_from("my.py:reward")` is all that `--reward.remote_url reward_file.py` needs.

OpenRLHF calls it from threads, one rollout at a time, swallows its exceptions and then trains without a reward or dies of a missing one.
So it never raises and always answers finite numbers, within a deadline of its own; rows without a reward get the fill value and are
counted. It sees texts and one label: no tokens, no truncation, no siblings. Needs neither OpenRLHF nor torch.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guerdon.abstention import OnAbstain
from guerdon.backends.door import as_reward, refuse_reads, require_outcome, score_safely
from guerdon.backends.openrlhf.answers import ABSTAINED, Answers, check_fill
from guerdon.backends.openrlhf.rows import END_TOKENS, column_names, rollout_of
from guerdon.errors import ConfigError
from guerdon.rewards.term import Term
from guerdon.types import Rollout

__all__ = ["DEADLINE_S", "LACKS", "RewardFunc", "absolute", "check_deadline", "check_end_tokens", "reward_func_from"]

log = logging.getLogger("guerdon")

DEADLINE_S = 60.0
"""Seconds one call may take. OpenRLHF's HTTP client gives up after 180, its reward files are waited for without end."""

_AGENT = "train with the agent (guerdon.backends.openrlhf.agent_executor and --train.agent_func_path)"
LACKS: Mapping[str, str] = {
    "num_tokens": f"give the term tokenizer=, or use --reward.overlong_buffer_len with --reward.overlong_penalty_factor, or {_AGENT}",
    "truncated": f"leave it to --reward.stop_properly_penalty_coef, or {_AGENT}",
    "group": f"OpenRLHF sends one rollout a call; {_AGENT}",
    "token_ids": _AGENT,
    "messages": _AGENT,
}
"""What OpenRLHF's reward files and HTTP requests do not carry, with the way out."""


class RewardFunc:
    """See `reward_func_from`. Picklable: it holds where its reward comes from, and loads it in each process."""

    def __init__(self, source: Term | str, deadline_s: float, on_abstain: OnAbstain, end_tokens: tuple[str, ...]) -> None:
        where = "the reward file"
        self.source, self.deadline_s, self.on_abstain, self.end_tokens = source, deadline_s, on_abstain, end_tokens
        self.reward = as_reward(source, where)
        refuse_reads(self.reward, where, LACKS)
        require_outcome(self.reward, where)
        self._answers = Answers(self.reward)
        self._names = column_names(self.reward.reads)

    def __reduce__(self) -> tuple[Any, ...]:
        return RewardFunc, (self.source, self.deadline_s, self.on_abstain, self.end_tokens)

    def __repr__(self) -> str:
        return f"reward_func_from({self.source!r}, deadline_s={self.deadline_s:g})"

    def __call__(self, queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **_: Any) -> dict[str, Any]:
        """`rewards`, `scores` (outcomes; 0 where there is none, see `guerdon/no_outcome`) and `extra_logs`: a list each, in order."""
        try:
            rows = self._rows(queries, prompts, labels)
        except Exception as error:
            log.error("reward %r: a call could not be read: %s: %s", self.reward.name, type(error).__name__, error)
            rows = [f"{type(error).__name__}: {error}"] * (len(queries) if hasattr(queries, "__len__") else 1)
        rollouts = [row for row in rows if isinstance(row, Rollout)]
        scores = score_safely(self.reward, rollouts, self.deadline_s, check=False)
        totals, outcomes = scores.total_N.tolist(), scores.outcome_N.tolist()
        rewards, correct, logs, at = [], [], [], 0
        for row in rows:
            if isinstance(row, Rollout):
                flat, total, outcome = self._answers.row(scores, at), totals[at], outcomes[at]
                at += 1
            else:
                flat, total, outcome = self._answers.lost(row), math.nan, math.nan
            logs.append(flat)
            rewards.append(float(self.on_abstain.value) if flat[ABSTAINED] else total)
            correct.append(0.0 if math.isnan(outcome) else outcome)
        return {"rewards": rewards, "scores": correct, "extra_logs": {key: [flat[key] for flat in logs] for key in self._answers.keys}}

    def _rows(self, queries: Sequence[Any], prompts: Sequence[Any], labels: Sequence[Any]) -> list[Rollout | str]:
        labels = [None] * len(queries) if labels is None else labels
        if not len(queries) == len(prompts) == len(labels):
            raise ValueError(f"expected lists of one length, got {len(queries)} queries, {len(prompts)} prompts and {len(labels)} labels")
        rows = zip(queries, prompts, labels, strict=True)
        return [rollout_of(query, prompt, label, self._names, self.end_tokens) for query, prompt, label in rows]


def reward_func_from(
    reward: Term | str,
    *,
    deadline_s: float = DEADLINE_S,
    on_abstain: OnAbstain = OnAbstain("fill", 0.0),  # noqa: B008  # frozen
    end_tokens: Sequence[str] = END_TOKENS,
) -> RewardFunc:
    """The `reward_func` of an OpenRLHF reward file: `reward_func(queries, prompts, labels) -> {"rewards", "scores", "extra_logs"}`.

    `reward` is a reward, or says where one is: `package.module:object`, or `my.py:object`, a path relative to the file that calls this,
    or else to the working folder. `scores`, which dynamic filtering reads, is the outcome, never the shaped total. `extra_logs` has the
    keys of `guerdon.backends.door.flat_row`, always all of them; they become `Experience.info`. Rows without a reward get
    `on_abstain.value` and `guerdon/abstained` 1: this door cannot drop a row, and raising would leave the whole micro-batch without
    a reward. `deadline_s` bounds a call (rows not done by then: ERROR `deadline`), `end_tokens` are cut from the end of completions.

    Raises ConfigError for a reward without an outcome or a policy other than fill, MissingInput for a term that reads what OpenRLHF
    does not send (`num_tokens`, `truncated`, `group`, ...), LoadError where there is no such reward. A column that a label lacks is met
    row by row: BAD_REFERENCE, counted, and logged once.

    >>> import guerdon.rewards as R
    >>> reward_func = reward_func_from(R.math_equal() + 0.2 * R.boxed_format())
    >>> answer = reward_func(["2+2? \\\\boxed{4}</s>", "2+2? 5</s>"], ["2+2? ", "2+2? "], ['{"answer": "4"}', "4"])
    >>> answer["rewards"], answer["scores"], answer["extra_logs"]["guerdon/abstained"]
    ([1.2, 0.0], [1.0, 0.0], [0.0, 0.0])
    """
    if isinstance(reward, str):
        reward = absolute(reward, sys._getframe(1).f_globals.get("__file__"))
    if not isinstance(on_abstain, OnAbstain) or on_abstain.policy != "fill":
        policy = on_abstain.policy if isinstance(on_abstain, OnAbstain) else on_abstain
        raise ConfigError(
            f"reward_func_from: expected on_abstain=OnAbstain('fill', value), got {policy!r}: OpenRLHF needs a number for every row, "
            f"and an exception costs the whole micro-batch its rewards; to leave rows out of their group's statistics {_AGENT}"
        )
    fill = check_fill(on_abstain, "reward_func_from")
    return RewardFunc(reward, check_deadline(deadline_s), fill, check_end_tokens(end_tokens))


def absolute(spec: str, caller: str | None) -> str:
    """`file.py:object` with the path made absolute: beside the calling file if it is there, else in the working folder."""
    where, colon, name = spec.rpartition(":")
    if not where.endswith(".py") or Path(where).expanduser().is_absolute():
        return spec
    beside = Path(caller).resolve().parent / where if caller else None
    path = beside if beside is not None and beside.is_file() else Path(where).resolve()
    return f"{path}{colon}{name}"


def check_deadline(deadline_s: float) -> float:
    """ConfigError unless it is a finite number of seconds above 0."""
    if isinstance(deadline_s, bool) or not isinstance(deadline_s, int | float) or not 0 < deadline_s < math.inf:
        raise ConfigError(f"deadline_s: expected finite seconds above 0, got {deadline_s!r}")
    return float(deadline_s)


def check_end_tokens(end_tokens: Sequence[str]) -> tuple[str, ...]:
    """ConfigError for what is no list, a text among them, whose letters would pass for tokens, and for empty tokens."""
    listed = isinstance(end_tokens, Sequence) and not isinstance(end_tokens, str)
    if not listed or not all(isinstance(token, str) and token.strip() for token in end_tokens):
        raise ConfigError(f"end_tokens: expected a list of texts such as ['</s>'], got {end_tokens!r:.80}")
    return tuple(end_tokens)
