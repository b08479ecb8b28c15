"""The scoring stage: a callable class that Ray Data runs in a pool of actors, and a plain Ray actor as well.

It scores batches; it does not decide how many actors there are or whether groups are whole: `score_dataset` does.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from guerdon.abstention import OnAbstain
from guerdon.backends.door import as_reward, ascore_safely, score_safely
from guerdon.backends.ray.frames import first_values, names_of, plain, read, with_columns
from guerdon.backends.ray.sheet import Sheet, check_columns, layout_of, new_names
from guerdon.errors import ConfigError, LoadError, MissingExtra

if TYPE_CHECKING:
    from guerdon.backends.ray.frames import Columns

__all__ = ["RewardActor", "check_settings"]

LABEL = "the data set"

CONFIGURATION = (LoadError, MissingExtra)
"""What stops the pipeline: the fault of its configuration, not of a row."""


class RewardActor:
    """Scores rows with one reward, which is built once for each actor.

    As a stage of Ray Data it takes and gives batches; as a plain actor, `ray.remote(RewardActor)`, or without Ray, lists of rows:

    >>> import guerdon.rewards as R
    >>> RewardActor(R.exact()).score([{"completion": "4", "answer": "4", "source": "mine"}])[0]["reward"]
    1.0

    Rows and their order stay, and so do their other columns. Added are `reward` (null where the row abstains), `outcome` (correctness
    in 0..1, null where there is none), `abstained`, and for each component `guerdon/NAME` (null where it has no score) and
    `guerdon/NAME/status`; with `detail` also its `/reason` and `/detail`. Columns and types are the same in every batch. Rows may be
    what `guerdon score` reads, one rollout or one prompt with a list of them; the new cells of the latter are lists.

    `reward` is a reward or an import string. `columns` says which column holds what (`{"answer": "solution"}`), else names are
    detected. `group_by` names the column that tells groups apart, for terms that read the siblings of a rollout: batches must then hold
    whole groups. `deadline_s` bounds one batch in seconds; rows not done by then are ERROR. `on_abstain` fills or refuses rows without a
    reward. `max_broken` as in `reward.score`. `workers`: processes for slow checks; default: the CPUs of the actor, at least 1.

    Never raises for what a row holds: one that cannot be read or lacks what a term reads is ERROR `bad_column`. Raises ConfigError
    (MissingInput, LoadError, MissingExtra) for what is wrong with the configuration, with the fix, at the first batch at the latest.
    """

    def __init__(
        self,
        reward: Any,
        *,
        columns: Mapping[str, str] | None = None,
        group_by: str | None = None,
        deadline_s: float | None = 300.0,
        on_abstain: OnAbstain | None = None,
        detail: bool = False,
        max_broken: float = 1.0,
        workers: int | None = None,
    ) -> None:
        self.columns = check_settings("RewardActor", columns, group_by, deadline_s, on_abstain, max_broken, workers)
        _size_pools(workers)
        self.reward = as_reward(reward, "RewardActor")
        self.deadline_s = deadline_s
        self.on_abstain = on_abstain or OnAbstain()
        self.max_broken = max_broken
        self.new = new_names(self.reward, detail)

    def __call__(self, batch: Any) -> Any:
        """The batch with the new columns: a stage of Ray Data, for `batch_format` pyarrow, pandas or numpy."""
        if names_of(batch) == []:  # an empty block of a data set whose columns Ray does not know
            return batch
        sheet = self._read(*read(batch), whole=False)
        return with_columns(batch, self._scored(sheet), sheet.spans)

    def score(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The rows with the new keys. Terms that read the group see the rows of one prompt, or of one group, in this call."""
        sheet = self._plain(rows)
        return _joined(rows, self._scored(sheet), sheet.spans)

    async def ascore(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """`score` for a running event loop."""
        sheet = self._plain(rows)
        scores = await ascore_safely(
            self.reward, sheet.rollouts, self.deadline_s, fatal=CONFIGURATION, max_broken=self.max_broken, check=False
        )
        return _joined(rows, sheet.columns(scores, self.new, self.on_abstain), sheet.spans)

    def close(self) -> None:
        """End the worker processes and sandboxes of this actor's process. They end with it in any case."""
        from guerdon.sandboxes.registry import close

        close()

    def _plain(self, rows: Sequence[Mapping[str, Any]]) -> Sheet:
        if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
            raise ConfigError(f"RewardActor: score: expected a list of rows (mappings), got {rows!r:.80}")
        if not rows:
            return Sheet((), None)
        own = [plain(dict(row)) for row in rows]
        return self._read(own, first_values(own), whole=True)

    def _read(self, rows: Sequence[Mapping[str, Any]], sample: Mapping[str, Any], whole: bool) -> Sheet:
        layout = layout_of(sample, self.columns, LABEL)
        check_columns(self.reward, layout, sample, self.new, LABEL)
        if not (whole or layout.nested or "group" in self.columns) and "group" in self.reward.reads:
            raise ConfigError(
                f"{self.reward.name} reads the group, and a batch may hold a part of one: use score_dataset(..., group_by=KEY), or pass "
                "group_by= here and batches of whole groups"
            )
        return Sheet.read(rows, layout, self.reward)

    def _scored(self, sheet: Sheet) -> Columns:
        scores = score_safely(self.reward, sheet.rollouts, self.deadline_s, fatal=CONFIGURATION, max_broken=self.max_broken, check=False)
        return sheet.columns(scores, self.new, self.on_abstain)


def check_settings(
    where: str, columns: Any, group_by: Any, deadline_s: Any, on_abstain: Any, max_broken: Any, workers: Any
) -> dict[str, str]:
    """ConfigError for what no cluster should be started with. The columns, with that of the group."""
    if columns is not None and not (
        isinstance(columns, Mapping) and all(isinstance(name, str) for pair in columns.items() for name in pair)
    ):
        raise ConfigError(
            f"{where}: columns: expected a mapping such as {{'answer': 'solution', 'completion': 'text'}}, got {columns!r:.80}"
        )
    if group_by is not None and (not isinstance(group_by, str) or not group_by):
        raise ConfigError(f"{where}: group_by: expected the name of one column, got {group_by!r:.80}")
    if deadline_s is not None and (not _is_number(deadline_s) or not 0 < deadline_s < math.inf):
        raise ConfigError(f"{where}: deadline_s: expected finite seconds above 0, or None, got {deadline_s!r:.80}")
    if not _is_number(max_broken) or not 0 <= max_broken <= 1:
        raise ConfigError(f"{where}: max_broken: expected a share in 0..1, got {max_broken!r:.80}")
    if on_abstain is not None and not isinstance(on_abstain, OnAbstain):
        raise ConfigError(f"{where}: on_abstain: expected an OnAbstain, such as OnAbstain(fill=-1.0), or None; got {on_abstain!r:.80}")
    if workers is not None and (type(workers) is not int or workers < 1):
        raise ConfigError(f"{where}: workers: expected a whole number of at least 1, got {workers!r:.80}")
    return {**(columns or {}), **({"group": group_by} if group_by else {})}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _joined(rows: Sequence[Mapping[str, Any]], columns: Columns, spans: Sequence[int] | None) -> list[dict[str, Any]]:
    """Rows with the new cells; where a row has several places, lists of them."""
    out: list[dict[str, Any]] = []
    at = 0
    for i, row in enumerate(rows):
        span = slice(at, at := at + (1 if spans is None else spans[i]))
        cells = {name: list(values[span]) if spans is not None else values[span.start] for name, (_, values) in columns.items()}
        out.append({**row, **cells})
    return out


def _size_pools(workers: int | None) -> None:
    """Several actors share a host: in an actor each pool is as large as the CPUs it asked for, not as the host."""
    if workers is not None:
        os.environ["GUERDON_WORKERS"] = str(workers)
    elif "GUERDON_WORKERS" not in os.environ and (cpus := _cpus_of_actor()) is not None:
        os.environ["GUERDON_WORKERS"] = str(max(1, int(cpus)))


def _cpus_of_actor() -> float | None:
    """The CPUs that the Ray actor of this process asked for; None elsewhere."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    return None if context.get_actor_id() is None else float(context.get_assigned_resources().get("CPU", 0.0))
