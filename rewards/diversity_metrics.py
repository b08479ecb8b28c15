"""How varied is a group of rollouts? Plain numbers for logs and collapse alarms.

Pure functions of one group's completions, extracted answers or rewards, standard library only. They are measurements, not
rewards: the reward terms `distinct` and `duplicate_penalty` lie elsewhere. A completion is a text (n-grams of its
whitespace-separated words) or a sequence of token ids (n-grams of tokens). Where there is nothing to measure the result is NaN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from guerdon.errors import ConfigError

__all__ = [
    "answer_entropy",
    "collapsed",
    "distinct_n",
    "duplicate_counts",
    "effective_answers",
    "keep_first",
    "reward_range",
    "reward_std",
    "unique_ratio",
    "zero_spread_fraction",
]

Completion = str | Sequence[Hashable]

_NOISE = 16 * 2.0**-52  # as in guerdon.rewards.advantages, which this module does not load


def unique_ratio(completions: Sequence[Completion]) -> float:
    """Different completions per completion, in 1/G..1; texts must be equal to the letter to be the same.

    >>> unique_ratio(["a b", "a b", "a c", "d"])
    0.75
    """
    return len(set(_keys(completions))) / len(completions) if len(completions) else math.nan


def distinct_n(completions: Sequence[Completion], n: int) -> float:
    """Different n-grams per n-gram over the whole group (distinct-n of Li et al., arXiv:1510.03055, with a group as the corpus).

    NaN when no completion has n words. Raises ConfigError when n is below 1.

    >>> distinct_n(["the cat", "the dog"], 1)
    0.75
    """
    if n < 1:
        raise ConfigError(f"distinct_n: n expects a whole number of at least 1, got {n!r}")
    seen: set[tuple[Hashable, ...]] = set()
    total = 0
    for completion in completions:
        words = completion.split() if isinstance(completion, str) else list(completion)
        grams = list(zip(*(words[i:] for i in range(n)), strict=False))
        seen.update(grams)
        total += len(grams)
    return len(seen) / total if total else math.nan


def answer_entropy(answers: Iterable[Hashable | None]) -> float:
    """Shannon entropy of the extracted answers in nats; None (no answer) is left out. NaN when all are None.

    >>> round(answer_entropy(["4", "4", "5", None]), 4)
    0.6365
    """
    counts = Counter(answer for answer in answers if answer is not None)
    total = counts.total()
    if not total:
        return math.nan
    return math.fsum(count / total * math.log(total / count) for count in counts.values())


def effective_answers(answers: Iterable[Hashable | None]) -> float:
    """exp of `answer_entropy`: the number of equally frequent answers that would be as varied.

    >>> round(effective_answers(["4", "5", "4", "5"]), 12)
    2.0
    """
    return math.exp(answer_entropy(answers))


def reward_std(rewards: Iterable[float | None], ddof: int = 0) -> float:
    """Standard deviation of the rewards that are there (population by default). NaN for ddof rewards or fewer.

    >>> reward_std([1, 1, 0, 0, None])
    0.5
    """
    present = _present(rewards)
    if len(present) <= ddof:
        return math.nan
    shifted = [x - present[0] for x in present]  # equal rewards give exactly 0
    mean = math.fsum(shifted) / len(shifted)
    return math.hypot(*(x - mean for x in shifted)) / math.sqrt(len(shifted) - ddof)


def reward_range(rewards: Iterable[float | None]) -> float:
    """Largest minus smallest reward.

    >>> reward_range([0.5, None, 2.0])
    1.5
    """
    present = _present(rewards)
    return max(present) - min(present) if present else math.nan


def zero_spread_fraction(groups: Iterable[Iterable[float | None]]) -> float:
    """Fraction of the groups (that have a reward) whose rewards are equal up to rounding: they give GRPO no gradient.

    >>> zero_spread_fraction([[1, 1], [1, 0], [None, None]])
    0.5
    """
    scored = [present for present in map(_present, groups) if present]
    flat = [max(present) - min(present) <= _NOISE * max(map(abs, present)) for present in scored]
    return sum(flat) / len(flat) if flat else math.nan


def keep_first(completions: Sequence[Completion]) -> list[bool]:
    """Marks the first of every set of equal completions. Dropping the others before advantages changes the baseline.

    >>> keep_first(["a", "a", "b"])
    [True, False, True]
    """
    first: dict[Hashable, int] = {}
    return [first.setdefault(key, i) == i for i, key in enumerate(_keys(completions))]


def duplicate_counts(completions: Sequence[Completion]) -> list[int]:
    """How often each completion occurs in its group; 1/count is the weight that counts every text once.

    >>> duplicate_counts(["a", "a", "b"])
    [2, 2, 1]
    """
    keys = _keys(completions)
    counts = Counter(keys)
    return [counts[key] for key in keys]


def collapsed(current: Mapping[str, float], baseline: Mapping[str, float], ratio: float = 0.5) -> bool:
    """Alarm: every metric of the baseline has fallen below `ratio` times its value there.

    Meant for token entropy, distinct-2 and reward spread together: one of them alone falls in healthy training. A metric
    that is NaN now does not count as fallen. The threshold is a choice of this library, not of a paper.

    >>> collapsed({"distinct_2": 0.2, "reward_std": 0.1}, {"distinct_2": 0.6, "reward_std": 0.4})
    True
    """
    return bool(baseline) and all(current.get(name, math.nan) < ratio * value for name, value in baseline.items())


def _keys(completions: Iterable[Completion]) -> list[Hashable]:
    """A text is itself; tokens are their tuple."""
    return [completion if isinstance(completion, str) else tuple(completion) for completion in completions]


def _present(rewards: Iterable[float | None]) -> list[float]:
    return [float(x) for x in rewards if x is not None and not math.isnan(x)]
