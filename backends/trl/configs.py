"""What a trainer's arguments and data set must be for guerdon's functions: the keywords to pass, and the checks that need the reward.

The traps that TRL's arguments hold by themselves are in `guerdon.backends.trl.validate`. TRL is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from guerdon.errors import ConfigError

if TYPE_CHECKING:
    from guerdon.backends.trl.rows import Scoring

__all__ = ["check_inputs", "sum_keywords"]

LOOKED_AT = 64
"""Rows of the data set that are looked at before training."""


def sum_keywords(weights: list[float], mixed: Sequence[str], aggregation: str, config: type | None) -> dict[str, Any]:
    """`reward_weights` and `multi_objective_aggregation`, as far as `config` has them. `mixed`: components weighted row by row."""
    if aggregation not in ("sum", "gdpo"):
        raise ConfigError(f"config_kwargs: aggregation expects 'sum' or 'gdpo', got {aggregation!r}")
    if aggregation == "gdpo" and mixed:
        raise ConfigError(
            f"config_kwargs: {', '.join(mixed)} has another weight on other rows, which TRL's 'normalize_then_sum' would divide out; "
            "use advantage_func(reward, GDPO), which weighs after it has normalised"
        )
    rule = {"sum": "sum_then_normalize", "gdpo": "normalize_then_sum"}[aggregation]
    keywords: dict[str, Any] = {"reward_weights": weights, "multi_objective_aggregation": rule}
    if config is None:
        return keywords
    if not is_dataclass(config):
        raise ConfigError(f"config_kwargs: config expects a class of arguments such as GRPOConfig or RLOOConfig, got {config!r:.80}")
    known = {f.name for f in fields(config)}
    name = getattr(config, "__name__", "the config")
    if aggregation == "gdpo" and "multi_objective_aggregation" not in known:
        raise ConfigError(f"config_kwargs: {name} has no multi_objective_aggregation; use advantage_func(reward, GDPO, trainer=...)")
    if "reward_weights" not in known and any(weight != 1.0 for weight in weights):
        raise ConfigError(f"config_kwargs: {name} has no reward_weights, and the weights are {weights}: use reward_funcs(weighted=True)")
    return {key: value for key, value in keywords.items() if key in known}


def check_inputs(scoring: Scoring, args: Any, train_dataset: Any) -> None:
    """What needs the reward itself: ConfigError where its group size is not the trainer's, MissingInput where some rows of the data, taken
    all over it, lack what it reads on them, routes included."""
    from guerdon.backends.trl.settings import read_settings

    size = read_settings(args)["num_generations"]
    if scoring.group_sizes and size is not None and size not in scoring.group_sizes:
        own = scoring.group_sizes[0]
        raise ConfigError(f"TRL: num_generations is {size} in the trainer's arguments, {own} in guerdon's function: make them equal")
    if hasattr(train_dataset, "__getitem__") and hasattr(train_dataset, "__len__") and not isinstance(train_dataset, Mapping):
        n, taken = len(train_dataset), min(len(train_dataset), LOOKED_AT)
        _dry_run(scoring, [train_dataset[i * (n - 1) // max(1, taken - 1)] for i in range(taken)])


def _dry_run(scoring: Scoring, rows: list[Any]) -> None:
    """Read the rows as a call of TRL would, with empty completions: routes, chats and groups as they are in the data."""
    if not rows or "prompt" not in rows[0]:
        return
    chat = not isinstance(rows[0]["prompt"], str)
    completions = [[{"role": "assistant", "content": ""}] if chat else ""] * len(rows)
    arguments = {name: [row.get(name) for row in rows] for name in rows[0]}
    ids = [[min(scoring.eos_token_ids, default=0)]] * len(rows)
    scoring.reward.check_inputs(scoring.rollouts(completions, [row["prompt"] for row in rows], ids, arguments))
