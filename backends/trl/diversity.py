"""How varied a batch is, as the metrics that a collapse alarm reads. Plain numbers; the standard library only.

They are measured where completions are scored and go to the trainer's log from there. Groups that ranks split are measured in part.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

from guerdon.backends.door import PREFIX
from guerdon.rewards.diversity_metrics import Completion, distinct_n, reward_std, zero_spread_fraction

__all__ = ["LIMIT", "batch_metrics"]

LIMIT = 128
"""Tokens (or words) of a completion that count: distinct-n falls with length, and answers that grow would look like a collapse. It also
bounds the cost, some 20 microseconds of CPU a completion."""


def batch_metrics(
    completions: Sequence[Completion], groups: Sequence[Hashable], rewards: Sequence[float | None] = ()
) -> Iterator[tuple[str, float]]:
    """Name and value of each metric, means over the groups; a metric that no group can give is left out.

    `completions` are token ids or texts (none: rewards only), `groups` the group of each, `rewards` (optional) the total of each, None
    or NaN where it has none. `guerdon/distinct_2`: different bigrams per bigram of a group, over the first `LIMIT` tokens.
    `guerdon/group_reward_std`: population std of a group's rewards. `guerdon/frac_reward_zero_std`: share of groups whose rewards are
    all equal. Groups of one say nothing and are left out.

    >>> dict(batch_metrics(["a b c", "a b d"], [0, 0], [1.0, 0.0]))["guerdon/distinct_2"]
    0.75
    """
    rows: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        rows.setdefault(group, []).append(i)
    together = [at for at in rows.values() if len(at) > 1]
    heads = [[_head(completions[i]) for i in at] for at in together] if len(completions) else []
    scored = [[rewards[i] for i in at] for at in together] if len(rewards) else []
    found = {
        "distinct_2": _mean([distinct_n(group, 2) for group in heads]),
        "group_reward_std": _mean([reward_std(group) for group in scored]),
        "frac_reward_zero_std": zero_spread_fraction(scored),
    }
    for name, value in found.items():
        if math.isfinite(value):
            yield f"{PREFIX}{name}", value


def _head(completion: Completion) -> Completion:
    return completion.split(maxsplit=LIMIT)[:LIMIT] if isinstance(completion, str) else completion[:LIMIT]


def _mean(values: Sequence[float]) -> float:
    there = [value for value in values if not math.isnan(value)]
    return math.fsum(there) / len(there) if there else math.nan
