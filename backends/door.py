"""What every door to a training stack shares: taking a reward, checking it against what the stack carries, scoring without ever
raising, and the flat row of plain floats that stacks log.

A door is an adapter, a server or a reward file. Nothing here knows any stack.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from guerdon.errors import ConfigError, MissingInput
from guerdon.loading import load
from guerdon.rewards.components import flatten
from guerdon.rewards.term import Term, require_term
from guerdon.types import Rollout, Status

if TYPE_CHECKING:
    from guerdon.rewards.scores import Scores

__all__ = ["FLAGS", "PREFIX", "as_reward", "ascore_safely", "flat_keys", "flat_row", "refuse_reads", "require_outcome", "score_safely"]

log = logging.getLogger("guerdon")

PREFIX = "guerdon/"

FLAGS: Mapping[str, Status] = {
    f"{PREFIX}rows/{status.value}": status
    for status in (Status.ERROR, Status.BAD_REFERENCE, Status.UNSCORED, Status.TIMEOUT, Status.NO_ANSWER, Status.UNPARSEABLE)
}
"""Keys of a flat row that say whether a weighted component, or the outcome, has this status there."""


def as_reward(reward: Any, where: str) -> Term:
    """The reward itself, or the one that an import string (`pkg.mod:obj`, `file.py:obj`) names."""
    return require_term(load(reward) if isinstance(reward, str) else reward, where)


def refuse_reads(reward: Term, where: str, lacks: Mapping[str, str]) -> None:
    """MissingInput if the reward reads something this door never has. `lacks` gives the fix for each input.

    >>> import guerdon.rewards as R
    >>> refuse_reads(R.soft_overlong(max_tokens=8, cache=2), "the reward file", {"num_tokens": "use the agent"})
    Traceback (most recent call last):
    guerdon.errors.MissingInput: soft_overlong reads 'num_tokens', which the reward file does not carry: use the agent
    """
    for component in flatten(reward):
        for name in sorted(component.term.reads & lacks.keys()):
            raise MissingInput(f"{component.name} reads {name!r}, which {where} does not carry: {lacks[name]}")
    for name in sorted(reward.reads & lacks.keys()):
        raise MissingInput(f"{reward.name} reads {name!r}, which {where} does not carry: {lacks[name]}")


def require_outcome(reward: Term, where: str) -> None:
    """ConfigError if nothing in the reward is backed by a verifier: `where` tells correctness from the shaped total."""
    if reward.outcome_term() is None:
        raise ConfigError(
            f"{where} needs an outcome (correctness in 0..1, apart from shaping), and nothing in {reward.name!r} gives one: "
            "use a verifier, or name a term with reward.with_outcome(...)"
        )


Fatal = tuple[type[Exception], ...]


def score_safely(
    reward: Term, rollouts: Sequence[Rollout], deadline_s: float | None, *, fatal: Fatal = (), max_broken: float = 1.0, check: bool = True
) -> Scores:
    """`reward.score` for doors whose stack cannot bear an exception: whatever goes wrong is ERROR on the rows, and logged.

    A door that may stop for faults of the configuration names them in `fatal`, and sets `max_broken` as in `reward.score`. Without
    `check`, absent inputs are met row by row.
    """
    from guerdon.rewards.evaluate import evaluate

    try:
        scores = evaluate(reward, rollouts, deadline_s, check=check)
    except Exception as error:
        scores = _lost(reward, rollouts, error, fatal)
    return _watched(reward, scores, max_broken)


async def ascore_safely(
    reward: Term, rollouts: Sequence[Rollout], deadline_s: float | None, *, fatal: Fatal = (), max_broken: float = 1.0, check: bool = True
) -> Scores:
    """`score_safely` for a running event loop."""
    from guerdon.rewards.evaluate import aevaluate

    try:
        scores = await aevaluate(reward, rollouts, deadline_s, check=check)
    except Exception as error:
        scores = _lost(reward, rollouts, error, fatal)
    return _watched(reward, scores, max_broken)


def _watched(reward: Term, scores: Scores, max_broken: float) -> Scores:
    from guerdon.rewards.health import watch

    try:
        return watch(reward, scores, warn_broken=min(0.2, max_broken), max_broken=max_broken)
    except Warning as warning:  # where warnings are errors
        log.warning("%s", warning)
        return scores


def _lost(reward: Term, rollouts: Sequence[Rollout], error: Exception, fatal: Fatal) -> Scores:
    from guerdon.rewards.scores import lost_scores

    if isinstance(error, fatal):
        raise error
    log.error("reward %r: %d rows could not be scored: %s: %s", reward.name, len(rollouts), type(error).__name__, error)
    return lost_scores(reward, rollouts, error)


def flat_keys(reward: Term) -> tuple[str, ...]:
    """The keys of `flat_row`: the same for every row of a reward, as stacks that make columns of them need.

    >>> import guerdon.rewards as R
    >>> flat_keys(R.math_equal())[-2:]
    ('guerdon/math_equal', 'guerdon/math_equal/scored')
    """
    keys = [f"{PREFIX}abstained", f"{PREFIX}no_outcome", *FLAGS]
    for component in flatten(reward):
        keys += [f"{PREFIX}{component.name}", f"{PREFIX}{component.name}/scored"]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(f"the metric {twice!r} would stand for two things: give a term another name, with name=")
    return tuple(keys)


def flat_row(scores: Scores, row: int) -> dict[str, float]:
    """One row as finite floats under constant keys: each component's value (0 where it has none: see its `/scored`, 1 or 0), whether
    the row abstained, whether it lacks an outcome, and which statuses (`FLAGS`) it has.

    >>> import guerdon.rewards as R
    >>> flat = flat_row(R.math_equal().score([Rollout("no idea", answer="4")]), 0)
    >>> flat["guerdon/abstained"], flat["guerdon/rows/no_answer"], flat["guerdon/math_equal"], flat["guerdon/math_equal/scored"]
    (0.0, 1.0, 0.0, 1.0)
    """
    outcome = scores.outcomes[row]
    weights = scores.weights_NK[row].tolist()
    statuses = [outcome.status, *(found[row].status for found, weight in zip(scores.verdicts.values(), weights, strict=True) if weight)]
    flat = {f"{PREFIX}abstained": float(not scores.valid_N[row]), f"{PREFIX}no_outcome": float(outcome.score is None)}
    flat.update((key, float(status in statuses)) for key, status in FLAGS.items())
    for name, verdicts in scores.verdicts.items():
        score = verdicts[row].score
        flat[f"{PREFIX}{name}"] = 0.0 if score is None else score
        flat[f"{PREFIX}{name}/scored"] = float(score is not None)
    return flat
