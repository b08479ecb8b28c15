"""The agent path: rollouts with token counts, truncation flags and whole groups, through `--train.agent_func_path agent.py`.

This half knows nothing of OpenRLHF's classes: it makes rollouts of their dictionaries, scores a group in one batch, and says what each
member gets. Rows that abstain get the mean of their group, which leaves them out of every estimator that subtracts it.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from guerdon.abstention import OnAbstain
from guerdon.backends.door import as_reward, ascore_safely, require_outcome
from guerdon.backends.openrlhf.answers import ABSTAINED, TOTAL, Answers, check_fill
from guerdon.backends.openrlhf.launcher import SETTINGS
from guerdon.backends.openrlhf.reward_file import DEADLINE_S, absolute, check_deadline, check_end_tokens
from guerdon.backends.openrlhf.rows import END_TOKENS, column_names, split_label, without_end
from guerdon.backends.openrlhf.specs import spec_of, within_group
from guerdon.errors import ConfigError, MissingExtra
from guerdon.types import Message, Rollout

if TYPE_CHECKING:
    from guerdon.rewards.advantages import AdvantageSpec
    from guerdon.rewards.scores import Scores
    from guerdon.rewards.term import Term

__all__ = ["GroupScorer", "agent_executor", "make_scorer", "rollout_of_agent"]

log = logging.getLogger("guerdon")


def agent_executor(
    reward: Term | str,
    *,
    agent: type | None = None,
    aggregate: AdvantageSpec | str | None = None,
    deadline_s: float = DEADLINE_S,
    on_abstain: OnAbstain = OnAbstain("drop"),  # noqa: B008  # frozen
    end_tokens: Sequence[str] = END_TOKENS,
) -> type:
    """The class `AgentExecutor` of an OpenRLHF agent file, which scores the n rollouts of a prompt together, in one batch.

        AgentExecutor = agent_executor("my.py:reward")

    The reward may read `num_tokens`, `token_ids` (end token included, as OpenRLHF counts), `truncated`, `messages` and `group`. `reward` is
    found as by `reward_func_from`. `agent`: a subclass of OpenRLHF's `AgentInstanceBase` that plays several turns; its own step rewards
    give way to this reward, its extra logs stay. Subclasses may override `generate`, not `execute`.

    With `aggregate` (`"gdpo,whiten=none"`, `"gopo"` or an `AdvantageSpec` within the group) OpenRLHF gets the finished advantage as
    reward, 0 for rows without one, and the reward itself as `guerdon/total`; evaluation and reward curves then show advantages. Train it
    with `--algo.advantage.estimator dr_grpo` (which leaves centred values as they are) or `reinforce` (which whitens them).

    Rows without a reward get the mean of their group under `OnAbstain("drop")`, the value under `fill`, and `guerdon/abstained` 1; a group
    without any reward gets the value. Raises ConfigError for a reward without an outcome, a spec that needs the whole batch, or `raise`.
    """
    try:
        from guerdon.backends.openrlhf.executor import executor_class
    except ImportError as error:
        raise MissingExtra(f"agent_executor needs OpenRLHF ({error}): pip install 'openrlhf[vllm]==0.11.*'") from error
    if isinstance(reward, str):
        import sys

        reward = absolute(reward, sys._getframe(1).f_globals.get("__file__"))
    return executor_class(make_scorer(reward, aggregate, deadline_s, on_abstain, end_tokens), agent)


def make_scorer(
    reward: Term | str, aggregate: AdvantageSpec | str | None, deadline_s: float, on_abstain: OnAbstain, end_tokens: Sequence[str]
) -> GroupScorer:
    """The arguments of `agent_executor`, checked."""
    where = "agent_executor"
    term = as_reward(reward, where)
    require_outcome(term, where)
    if not isinstance(on_abstain, OnAbstain) or on_abstain.policy == "raise":
        raise ConfigError(
            f"{where}: expected on_abstain=OnAbstain('drop' or 'fill'), got {on_abstain!r}: an exception would end the training"
        )
    spec = None if aggregate is None else within_group(spec_of(aggregate, where), where)
    if spec is not None and os.environ.get(SETTINGS):
        raise ConfigError(
            f"{where}: the launcher aggregates already, over the whole batch: leave aggregate= out, or train without the launcher"
        )
    return GroupScorer(term, spec, check_deadline(deadline_s), check_fill(on_abstain, where), check_end_tokens(end_tokens))


@dataclass(frozen=True, eq=False)
class GroupScorer:
    """Scores one group at a time and says what each member gets: reward, score and logs. Never raises."""

    reward: Term
    spec: AdvantageSpec | None
    deadline_s: float
    on_abstain: OnAbstain
    end_tokens: tuple[str, ...]
    answers: Answers = field(init=False)
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "answers", Answers(self.reward, *(() if self.spec is None else (TOTAL,))))
        object.__setattr__(self, "names", column_names(self.reward.reads))

    async def __call__(self, rows: Sequence[Rollout | str]) -> list[dict[str, Any]]:
        """`reward`, `scores` and `extra_logs` of each row; a text says why a row is no rollout."""
        rollouts = [row for row in rows if isinstance(row, Rollout)]
        scores = await ascore_safely(self.reward, rollouts, self.deadline_s, check=False)
        at = iter(range(len(rollouts)))
        logs = [self.answers.row(scores, next(at)) if isinstance(row, Rollout) else self.answers.lost(row) for row in rows]
        totals = _spread(rows, scores.total_N.tolist())
        outcomes = _spread(rows, scores.outcome_N.tolist())
        valid = [not flat[ABSTAINED] for flat in logs]
        mean = _mean([total for total, ok in zip(totals, valid, strict=True) if ok])
        other = float(self.on_abstain.value) if mean is None or self.on_abstain.policy == "fill" else mean
        rewards = [total if ok else other for total, ok in zip(totals, valid, strict=True)]
        if self.spec is not None:
            for flat, total in zip(logs, rewards, strict=True):
                flat[TOTAL] = total
            rewards = self._advantages(rows, scores, valid)
        no_outcome = _mean([outcome for outcome in outcomes if not math.isnan(outcome)]) or 0.0
        correct = [no_outcome if math.isnan(outcome) else outcome for outcome in outcomes]
        return [{"reward": r, "scores": c, "extra_logs": flat} for r, c, flat in zip(rewards, correct, logs, strict=True)]

    def _advantages(self, rows: Sequence[Rollout | str], scores: Scores, valid: Sequence[bool]) -> list[float]:
        import numpy as np

        kept_N = np.array([ok for row, ok in zip(rows, valid, strict=True) if isinstance(row, Rollout)], dtype=bool)
        try:  # values too large for OpenRLHF are none, also where guerdon could count with them
            found = replace(scores, valid_N=kept_N).advantages(self.spec).tolist()
        except Exception as error:  # values beyond any use
            log.error("reward %r: no advantages for a group: %s: %s", self.reward.name, type(error).__name__, error)
            found = [0.0] * len(scores)
        return [0.0 if math.isnan(a) else a for a in _spread(rows, found)]


def _spread(rows: Sequence[Rollout | str], values: Sequence[float]) -> list[float]:
    """The values of the rollouts among the rows, NaN elsewhere."""
    left = iter(values)
    return [next(left) if isinstance(row, Rollout) else math.nan for row in rows]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def rollout_of_agent(output: Mapping[str, Any], tokenizer: Any, names: frozenset[str], end_tokens: tuple[str, ...]) -> Rollout | str:
    """What an executor of OpenRLHF returned as a rollout, or why it is none. What lies between the policy's turns is a tool's message."""
    try:
        tokens, ranges = output["observation_tokens"], output["action_ranges"]
        own = tuple(token for start, end in ranges for token in tokens[start:end])
        messages: list[Message] = []
        last = ranges[0][0] if ranges else len(tokens)
        for start, end in ranges:
            if start > last:
                messages.append(Message("tool", tokenizer.decode(tokens[last:start], skip_special_tokens=False)))
            messages.append(Message("assistant", without_end(tokenizer.decode(tokens[start:end], skip_special_tokens=False), end_tokens)))
            last = end
        answer, columns = split_label(output["label"], names)
        return Rollout(
            messages[-1].content if messages else "",
            output["prompt"],
            answer,
            messages=tuple(messages),
            token_ids=own,
            num_tokens=len(own),
            truncated=bool(output["truncated"]),
            group=0,  # one group a call
            columns=columns,
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"
