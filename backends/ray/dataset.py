"""`score_dataset`: what there is to check and to decide before a scoring stage joins a Ray Data pipeline. It starts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guerdon.abstention import OnAbstain
from guerdon.backends.door import as_reward
from guerdon.backends.ray.actor import LABEL, RewardActor, check_settings
from guerdon.backends.ray.frames import sample_of
from guerdon.backends.ray.sheet import check_columns, layout_of, new_names
from guerdon.errors import ConfigError, MissingExtra
from guerdon.rewards.term import Term

__all__ = ["score_dataset"]

CPUS = 0.5
"""What an actor asks for by default: as many actors as CPUs, and half of the CPUs free for the tasks that feed them."""


def score_dataset(
    ds: Any,
    reward: Any,
    *,
    columns: Mapping[str, str] | None = None,
    group_by: str | None = None,
    num_partitions: int | None = None,
    batch_size: int = 256,
    concurrency: int | tuple[int, int] | None = None,
    num_cpus: float | None = None,
    workers: int | None = None,
    deadline_s: float | None = 300.0,
    on_abstain: OnAbstain | None = None,
    detail: bool = False,
    max_broken: float = 1.0,
    **ray_options: Any,
) -> Any:
    """A Ray Data set with the columns of `RewardActor` added, lazily: nothing is scored before the result is consumed.

    `concurrency` is the number of actors, or the least and the most of a pool that grows; default: one a CPU of the cluster. `num_cpus` is
    what each asks for; default 0.5. `ray_options` go to `map_batches` (or `map_groups`); the rest is as in `RewardActor`.

    `group_by` brings the rows of a group together first, a shuffle into `num_partitions` (Ray's default is 200, too many for small data),
    and each group is scored by itself. Rewards that read the group need it, unless rows hold their rollouts in a list. Blocks may come
    out in any order, and after a shuffle rows too: keep an id.

    Raises ConfigError for a pool whose actors would hold every CPU: the tasks that feed them could never run, and the pipeline would wait
    for ever. Raises MissingInput where the data set is known to lack what the reward reads; where Ray does not know the columns before it
    runs (after `map_batches`, with JSON files), that is checked on the first batch.
    """
    mapping = check_settings("score_dataset", columns, group_by, deadline_s, on_abstain, max_broken, workers)
    if ours := sorted({"fn_constructor_kwargs", "fn_constructor_args", "fn_args", "fn_kwargs", "compute"} & ray_options.keys()):
        raise ConfigError(f"score_dataset: {', '.join(ours)}: set by score_dataset itself; size the pool with concurrency= and num_cpus=")
    try:
        import ray
        from ray.data import ActorPoolStrategy
    except ImportError:
        raise MissingExtra("score_dataset needs Ray Data: pip install 'guerdon[ray]'") from None
    term = as_reward(reward, "score_dataset")
    schema = ds.schema(fetch_if_missing=False)
    _check(term, schema, mapping, detail)
    least, most, cpus = plan([node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]], concurrency, num_cpus)
    arguments = {
        "reward": _for_actors(reward, ray),
        "columns": columns,
        "group_by": group_by,
        "deadline_s": deadline_s,
        "on_abstain": on_abstain,
        "detail": detail,
        "max_broken": max_broken,
        "workers": workers,
    }
    options = {
        "compute": ActorPoolStrategy(size=least) if least == most else ActorPoolStrategy(min_size=least, max_size=most),
        "num_cpus": cpus,
        "batch_format": "pyarrow",
        "fn_constructor_kwargs": arguments,
        **ray_options,
    }
    if group_by is not None:
        return ds.groupby(group_by, num_partitions=num_partitions).map_groups(RewardActor, **options)
    return ds.map_batches(RewardActor, batch_size=batch_size, **options)


def plan(nodes: Sequence[float], concurrency: int | tuple[int, int] | None, num_cpus: float | None) -> tuple[int, int, float]:
    """Least and most actors and the CPUs of each, so that some node keeps a whole CPU for the tasks around them.

    `nodes`: the CPUs of each node. A cluster without any may still grow: nothing is refused there.

    >>> plan([2.0], None, None)
    (2, 2, 0.5)
    >>> plan([2.0], 2, 1.0)
    Traceback (most recent call last):
    guerdon.errors.ConfigError: score_dataset: 2 actors of 1 CPU hold all but 0 of the cluster's 2 CPUs: ...
    """
    total, hosts = sum(nodes), sum(1 for cpus in nodes if cpus)
    least, most = _pool(concurrency if concurrency is not None else max(1, int(total)))
    if num_cpus is None:
        # an actor on each of many small nodes could leave none of them a whole CPU
        num_cpus = max(0.0, min(CPUS, (total - hosts) / least)) if total else CPUS
    left = max(0.0, total - least * num_cpus)
    if total and num_cpus and left < 1:
        raise ConfigError(
            f"score_dataset: {least} actor{'s' * (least > 1)} of {num_cpus:g} CPU hold all but {left:g} of the cluster's {total:g} CPUs: "
            f"the tasks that feed them need one, and would wait for ever; lower concurrency= or num_cpus= (default {CPUS}), or pass "
            f"concurrency=(1, {most}) where the cluster grows"
        )
    return least, most, num_cpus


def _pool(concurrency: int | tuple[int, int]) -> tuple[int, int]:
    sizes = concurrency if isinstance(concurrency, tuple) else (concurrency, concurrency)
    if len(sizes) != 2 or not all(type(size) is int for size in sizes) or not 1 <= sizes[0] <= sizes[1]:
        raise ConfigError(
            f"score_dataset: concurrency: expected a number of actors, or (least, most) of a pool that grows; got {concurrency!r}"
        )
    return sizes


def _check(reward: Term, schema: Any, columns: Mapping[str, str], detail: bool) -> None:
    """What the columns tell, as far as they are known."""
    new = new_names(reward, detail)
    nested = "rollouts" in columns
    if schema is not None and hasattr(schema.base_schema, "metadata"):  # of Arrow; pandas' does not tell lists from texts
        sample = sample_of(schema.base_schema)
        layout = layout_of(sample, columns, LABEL)
        check_columns(reward, layout, sample, new, LABEL)
        nested = layout.nested
    if "group" in reward.reads and not nested and "group" not in columns:
        raise ConfigError(
            f"{reward.name} reads the group, and Ray splits data sets anywhere: pass group_by=KEY with the column that tells prompts apart "
            "(or keep the rollouts of a prompt in a list, columns={'rollouts': KEY})"
        )


def _for_actors(reward: Any, ray: Any) -> Any:
    """The reward as actors get it. A relative file would be looked for where they run, unless Ray brings the working directory along."""
    if isinstance(reward, str):
        path, _, name = reward.rpartition(":")
        if path.endswith(".py") and Path(path).is_file() and not ray.get_runtime_context().runtime_env.get("working_dir"):
            return f"{os.path.abspath(path)}:{name}"
        return reward
    try:
        ray.cloudpickle.dumps(reward)
    except Exception as error:
        raise ConfigError(
            f"score_dataset: the reward cannot be sent to actors ({type(error).__name__}: {error}); pass an import string, "
            "'package.module:object' or 'file.py:object'"
        ) from None
    return reward
