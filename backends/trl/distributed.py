"""What ranks must do together: groups that are split over them, and faults that one alone would raise while the others wait.

Where torch.distributed is not initialised, or has one rank, nothing here is called. Every rank must call these at the same
point of the step, as it does for TRL's own collectives; torch and accelerate are imported by those who have loaded them.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from guerdon.backends.trl.rows import Scoring, group_labels
from guerdon.errors import GuerdonError
from guerdon.types import Rollout

if TYPE_CHECKING:
    from guerdon.rewards.scores import Scores

__all__ = ["on_all_ranks", "rank_and_world", "score_whole_groups"]

T = TypeVar("T")


def rank_and_world() -> tuple[int, int]:
    """This rank and the number of ranks, (0, 1) without torch.distributed."""
    if "torch.distributed" not in sys.modules:
        return 0, 1
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def on_all_ranks(work: Callable[[], T]) -> list[T]:
    """What `work` gives on each rank, in order. A rank's exception is raised on all of them: none is left waiting for another."""
    from accelerate.utils import gather_object

    result: T | None = None
    fault: Exception | None = None
    try:
        result = work()
    except Exception as error:
        fault = error
    found: list[tuple[T, str | None]] = gather_object([(result, None if fault is None else f"{type(fault).__name__}: {fault}")])
    if fault is not None:
        raise fault
    for rank, (_, message) in enumerate(found):
        if message is not None:
            raise GuerdonError(f"rank {rank} could not score its rows: {message}")
    return [value for value, _ in found]


def score_whole_groups(scoring: Scoring, read: Callable[[], list[Rollout]]) -> tuple[Scores, list[int]]:
    """The scores of this rank's rows, and the group of each, numbered over all ranks.

    Where a reward reads the group and some group is split, its rows are scored on the rank of its first row and sent back, so that each
    row is scored once. Otherwise each rank scores its own.
    """
    rank, _ = rank_and_world()
    own: list[list[Rollout]] = []

    def digests() -> list[bytes]:
        own.append(read())
        return [_digest(rollout.prompt) for rollout in own[0]]

    parts = on_all_ranks(digests)
    flat = [digest for part in parts for digest in part]
    seen: dict[bytes, int] = {}
    labels = group_labels(flat, scoring.group_sizes) or [seen.setdefault(digest, len(seen)) for digest in flat]
    homes = [r for r, part in enumerate(parts) for _ in part]
    first = homes.index(rank) if rank in homes else 0
    mine = labels[first : first + len(parts[rank])]
    rows = [replace(rollout, group=label) for rollout, label in zip(own[0], mine, strict=True)]
    owner = dict(zip(reversed(labels), reversed(homes), strict=True))  # the rank of the first row
    split = any(owner[label] != home for label, home in zip(labels, homes, strict=True))
    if not (split and scoring.reads_group):
        return scoring.score(rows), mine
    everybody = [rollout for part in on_all_ranks(lambda: [_portable(row) for row in rows]) for rollout in part]
    at = [i for i, label in enumerate(labels) if owner[label] == rank]
    done = on_all_ranks(lambda: (at, _rows_of(scoring.score([everybody[i] for i in at]))))
    by_row = {i: row for places, (_, scored) in done for i, row in zip(places, scored, strict=True)}
    seconds = done[rank][1][0]
    return _from_rows(scoring, [by_row[first + i] for i in range(len(rows))], mine, seconds), mine


def _digest(prompt: Any) -> bytes:
    """Equal prompts have equal digests on all ranks, which str hashes have not."""
    return hashlib.blake2s(repr(prompt).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _portable(rollout: Rollout) -> Rollout:
    """Without live environments, which belong to their rank."""
    return replace(rollout, columns={name: value for name, value in rollout.columns.items() if name != "environments"})


def _rows_of(scores: Scores) -> tuple[dict[str, float], list[tuple[Any, ...]]]:
    """Scores as seconds by component and one tuple a row, to be sent."""
    verdicts = zip(*scores.verdicts.values(), strict=True)
    numbers = (scores.weights_NK, scores.values_NK, scores.valid_N, scores.total_N, scores.outcome_N, scores.num_tokens_N)
    rows = zip(verdicts, scores.outcomes, *numbers, strict=True)
    return dict(scores.seconds), list(rows)


def _from_rows(scoring: Scoring, rows: list[tuple[Any, ...]], labels: list[int], seconds: dict[str, float]) -> Scores:
    import numpy as np

    from guerdon.rewards.scores import Scores

    names = tuple(c.name for c in scoring.components)
    verdicts, outcomes, weights, values, valid, total, outcome, tokens = zip(*rows, strict=True)
    return Scores(
        names=names,
        weights_NK=np.array(weights, dtype=float),
        values_NK=np.array(values, dtype=float),
        verdicts={name: list(column) for name, column in zip(names, zip(*verdicts, strict=True), strict=True)},
        valid_N=np.array(valid, dtype=bool),
        total_N=np.array(total, dtype=float),
        outcome_N=np.array(outcome, dtype=float),
        outcomes=list(outcomes),
        groups_N=np.array(labels, dtype=np.int64),
        num_tokens_N=np.array(tokens, dtype=float),
        seconds=seconds,
    )
