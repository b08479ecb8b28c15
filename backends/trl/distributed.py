"""What ranks must do together: groups that are split over them, and faults that one alone would raise while the others wait.

Where torch.distributed is not initialised, or has one rank, nothing here is called. Every rank must call these at the same
point of the step, as it does for TRL's own collectives; torch and accelerate are imported by those who have loaded them.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from guerdon.backends.trl.rows import Scoring, group_labels
from guerdon.errors import GuerdonError
from guerdon.rewards.grading import failed
from guerdon.rewards.scores import Scores
from guerdon.types import Rollout

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

    sent, said, fault = b"", "", None
    try:
        sent = pickle.dumps(work())  # here: what cannot be sent is a fault of this rank too
    except Exception as error:
        said, fault = failed("", error).detail.removeprefix(": "), error
    found: list[tuple[bytes, str]] = gather_object([(sent, said)])
    if fault is not None:
        raise fault
    for rank, (_, message) in enumerate(found):
        if message:
            raise GuerdonError(f"rank {rank} could not score its rows: {message}")
    return [pickle.loads(data) for data, _ in found]


def score_whole_groups(scoring: Scoring, read: Callable[[], list[Rollout]]) -> Scores:
    """The scores of this rank's rows, `groups_N` numbered over all ranks.

    Where a reward reads the group and some group is split, its rows are scored on the rank of its first row and sent back, so that each
    row is scored once. Otherwise each rank scores its own.
    """
    import numpy as np

    rank, _ = rank_and_world()
    own: list[Rollout] = []

    def digests() -> list[bytes]:
        own.extend(read())
        return [_digest(rollout.prompt) for rollout in own]

    parts = on_all_ranks(digests)
    flat = [digest for part in parts for digest in part]
    seen: dict[bytes, int] = {}
    labels = group_labels(flat, scoring.group_sizes) or [seen.setdefault(digest, len(seen)) for digest in flat]
    homes = [r for r, part in enumerate(parts) for _ in part]
    mine = [i for i, home in enumerate(homes) if home == rank]
    rows = [replace(rollout, group=labels[i]) for rollout, i in zip(own, mine, strict=True)]
    owner = dict(zip(reversed(labels), reversed(homes), strict=True))  # the rank of the first row
    split = any(owner[label] != home for label, home in zip(labels, homes, strict=True))
    if split and scoring.reads_group:
        everybody = [rollout for part in on_all_ranks(lambda: [_portable(row) for row in rows]) for rollout in part]
        at = [i for i, label in enumerate(labels) if owner[label] == rank]
        done = on_all_ranks(lambda: (at, scoring.score([everybody[i] for i in at])))
        place = {i: k for k, i in enumerate(i for places, _ in done for i in places)}
        scores = _picked([part for _, part in done], [place[i] for i in mine], done[rank][1].seconds)
    else:
        scores = scoring.score(rows)
    return replace(scores, groups_N=np.array([labels[i] for i in mine], dtype=np.int64))


def _digest(prompt: Any) -> bytes:
    """Equal prompts have equal digests on all ranks, which str hashes have not."""
    return hashlib.blake2s(repr(prompt).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _portable(rollout: Rollout) -> Rollout:
    """Without live environments, which belong to their rank."""
    return replace(rollout, columns={name: value for name, value in rollout.columns.items() if name != "environments"})


def _picked(parts: list[Scores], places: list[int], seconds: Mapping[str, float]) -> Scores:
    """The rows at `places` of the scores of all ranks, one after another."""
    import numpy as np

    arrays = [f.name for f in fields(Scores) if f.name.endswith(("_N", "_NK"))]
    outcomes = [outcome for part in parts for outcome in part.outcomes]
    verdicts = {name: [verdict for part in parts for verdict in part.verdicts[name]] for name in parts[0].names}
    return Scores(
        names=parts[0].names,
        verdicts={name: [column[i] for i in places] for name, column in verdicts.items()},
        outcomes=[outcomes[i] for i in places],
        seconds=seconds,
        **{name: np.concatenate([getattr(part, name) for part in parts])[places] for name in arrays},
    )
