"""From a TRL reward call to rollouts and scores: the one place that knows what TRL passes, for whoever scores inside TRL.

Public: `Scoring` says how a reward is scored, `Scoring.rollouts` reads a call, `Scoring.score` gives its `Scores`. Nothing here knows what
becomes of them, and nothing here talks to other ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from guerdon.backends.door import as_reward, refuse_reads, score_safely
from guerdon.errors import ConfigError
from guerdon.rewards.components import Component, flatten
from guerdon.rewards.inputs import ALWAYS
from guerdon.rewards.term import Term
from guerdon.rollouts import from_trl
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.rewards.scores import Scores

__all__ = ["DEADLINE_S", "LARGEST", "OWN", "Scoring", "group_labels", "make_scoring"]

DEADLINE_S = 300.0
"""Default bound on the scoring of one batch, in seconds: a fraction of the 1800 s after which NCCL gives up on a late rank."""

LARGEST = 1e15
"""A score of greater magnitude, weighted or not, counts as broken: TRL computes in float32, where sums of squares end at 3.4e38."""

OWN = frozenset({"completions", "prompt", "completion", "trainer_state", "log_metric", "log_extra"})
"""Arguments of TRL's, and of `from_trl`, that are no columns."""
FIELDS = ("num_tokens", "token_ids", "messages", "truncated")
NO_EOS = "pass eos_token_id=tokenizer.eos_token_id: a completion that does not end with it was cut"


@dataclass(frozen=True)
class Scoring:
    """A reward (or its import string, loaded in each process) and how batches of TRL are scored with it. Picklable."""

    source: Term | str
    deadline_s: float | None = DEADLINE_S
    group_sizes: tuple[int, ...] = ()
    eos_token_ids: frozenset[int] = frozenset()
    max_broken: float = 0.5

    @cached_property
    def reward(self) -> Term:
        return as_reward(self.source, "TRL")

    @cached_property
    def components(self) -> tuple[Component, ...]:
        return flatten(self.reward)

    @cached_property
    def reads(self) -> frozenset[str]:
        return self.reward.reads

    @property
    def reads_group(self) -> bool:
        """Whether a rollout's score depends on its siblings."""
        return "group" in self.reads

    def __getstate__(self) -> dict[str, Any]:  # not what was loaded or derived here
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def rollouts(self, completions: Sequence[Any], prompts: Sequence[Any] | None, ids: Any, arguments: Mapping[str, Any]) -> list[Rollout]:
        """The rows of a call: TRL's keyword arguments, all optional but the completions. Groups are numbered within the call."""
        n = len(completions)
        columns = _columns({"prompts": prompts, "completion_ids": ids, **arguments}, n)
        prompts, ids = (columns.pop(name, [None] * n) for name in ("prompts", "completion_ids"))
        for name in columns.keys() & {name for read in self.reads for name in read.split("|")}:
            columns[name] = [_plain(value) for value in columns[name]]
        rows = zip(*columns.values(), strict=True) if columns else iter([()] * n)
        out = [
            from_trl(prompt, completion, own, **dict(zip(columns, row, strict=True)))
            for prompt, completion, own, row in zip(prompts, completions, ids, rows, strict=True)
        ]
        labels: Sequence[int | None] | None = group_labels([rollout.prompt for rollout in out], self.group_sizes)
        if labels or self.eos_token_ids:
            cuts = [self._cut(rollout.token_ids) for rollout in out]
            out = [replace(r, group=g, truncated=cut) for r, g, cut in zip(out, labels or [None] * n, cuts, strict=True)]
        if out and not self._covered(columns, out[0]):
            self.reward.check_inputs(out)
        return out

    def score(self, rollouts: Sequence[Rollout]) -> Scores:
        """The scores. Raises for faults of the configuration (ConfigError and its kind, BrokenRewardError), for nothing else."""
        scores = score_safely(self.reward, rollouts, self.deadline_s, fatal=(ConfigError,), max_broken=self.max_broken, check=False)
        return _bounded(scores)

    def _cut(self, token_ids: tuple[int, ...] | None) -> bool | None:
        if token_ids is None or not self.eos_token_ids:
            return None
        return bool(token_ids) and token_ids[-1] not in self.eos_token_ids

    def _covered(self, columns: Mapping[str, Any], rollout: Rollout) -> bool:
        """Whether the call has all that the reward reads. A column that it lacks is a fault of the configuration; one that is there,
        but empty on the few rows of this batch, is theirs: a row without an answer must not end a run."""
        there = {*columns} - {*FIELDS} | ALWAYS | {name for name in FIELDS if getattr(rollout, name) is not None}
        return all(any(name in there for name in read.split("|")) for read in self.reads)


def _columns(arguments: Mapping[str, Any], n: int) -> dict[str, Sequence[Any]]:
    """What has a value for each row among the keyword arguments: lists, arrays and tensors; what is TRL's own is left out."""
    columns = {}
    for name, values in arguments.items():
        if name in OWN or not (isinstance(values, list | tuple) or bool(getattr(values, "ndim", 0))):
            continue
        if len(values) != n:
            raise ConfigError(f"TRL: column {name!r} has {len(values)} values for {n} completions; a reward function gets one a completion")
        columns[name] = values
    return columns


def _plain(value: Any) -> Any:
    """A cell of a data set that is formatted as numpy or torch, as Python has it."""
    return value.tolist() if hasattr(value, "tolist") else value


def _bounded(scores: Scores) -> Scores:
    """The scores with every number that TRL cannot bear made ERROR, and counted as that."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        large_NK = (np.abs(scores.values_NK) > LARGEST) | (np.abs(scores.values_NK * scores.weights_NK) > LARGEST)
    if not large_NK.any():
        return scores
    lost = Verdict.of(Status.ERROR, "too_large", f"beyond {LARGEST:g} by itself or times its weight")
    verdicts = {
        name: [lost if large else verdict for verdict, large in zip(column, large_K, strict=True)]
        for (name, column), large_K in zip(scores.verdicts.items(), large_NK.T.tolist(), strict=True)
    }
    valid_N = scores.valid_N & ~(large_NK & (scores.weights_NK != 0)).any(axis=1)
    values_NK, total_N = np.where(large_NK, np.nan, scores.values_NK), np.where(valid_N, scores.total_N, np.nan)
    return replace(scores, values_NK=values_NK, verdicts=verdicts, valid_N=valid_N, total_N=total_N)


def group_labels(prompts: Sequence[Any], sizes: Sequence[int] = ()) -> list[int] | None:
    """A group number for each row, where TRL keeps the completions of one prompt together. None: no prompt follows itself.

    The first of `sizes` (num_generations, then that of evaluation) whose blocks hold one prompt each is the group size. Without, it
    is the largest that divides every run of equal prompts, so that neighbouring rows of the data set with one prompt stay apart
    as far as the batch can tell.

    >>> group_labels(["p", "p", "q", "q", "q", "q"])
    [0, 0, 1, 1, 2, 2]
    >>> group_labels(["p", "p", "p", "p"], [2])
    [0, 0, 1, 1]
    """
    n = len(prompts)
    starts = [i for i in range(n) if i == 0 or prompts[i] != prompts[i - 1]]
    runs = [end - start for start, end in zip(starts, [*starts[1:], n][: len(starts)], strict=True)]
    size = next((size for size in sizes if all(run % size == 0 for run in runs)), 0) or math.gcd(*runs)
    if size <= 1 and 1 not in sizes:
        return None
    return [i // size for i in range(n)]


def make_scoring(
    reward: Any,
    deadline_s: float | None,
    num_generations: int | None,
    num_generations_eval: int | None,
    eos_token_id: Any,
    max_broken: float,
) -> Scoring:
    """A checked `Scoring`. ConfigError, or MissingInput for a reward that reads what TRL does not pass."""
    sizes = []
    for name, size in (("num_generations", num_generations), ("num_generations_eval", num_generations_eval)):
        if size is not None and (type(size) is not int or size < 1):
            raise ConfigError(f"TRL: {name} expects a whole number of at least 1, as in the trainer's arguments; got {size!r}")
        sizes += [] if size is None else [size]
    if deadline_s is not None and not (_is_number(deadline_s) and 0 < deadline_s < math.inf):
        raise ConfigError(f"TRL: deadline_s expects finite seconds above 0, or None for no deadline; got {deadline_s!r}")
    if not (_is_number(max_broken) and 0.0 < max_broken <= 1.0):
        raise ConfigError(f"TRL: max_broken expects a share above 0 and up to 1; got {max_broken!r}")
    scoring = Scoring(reward, deadline_s, tuple(sizes), _eos(eos_token_id), max_broken)
    if not scoring.eos_token_ids:
        refuse_reads(scoring.reward, "TRL", {"truncated": NO_EOS})
    return scoring


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _eos(given: Any) -> frozenset[int]:
    """One token id, several, or none."""
    ids = [] if given is None else [given] if isinstance(given, int) else given
    if not isinstance(ids, list | tuple | set | frozenset) or not all(type(i) is int for i in ids):
        raise ConfigError(f"TRL: eos_token_id expects a token id or a list of them (tokenizer.eos_token_id); got {given!r:.80}")
    return frozenset(ids)
