"""What a trainer's arguments and data set must be for guerdon's functions: the keywords to pass, and the checks that need the reward.

The traps that TRL's arguments hold by themselves are in `guerdon.backends.trl.validate`. TRL is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Unpack

from guerdon.errors import ConfigError

if TYPE_CHECKING:
    from guerdon.backends.trl.findings import Finding
    from guerdon.backends.trl.rows import Scoring
    from guerdon.backends.trl.validate import Options

__all__ = ["sum_keywords", "validate_function"]


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


def validate_function(
    function: Any, scoring: Scoring, args: Any, train_dataset: Any, eval_dataset: Any, **options: Unpack[Options]
) -> tuple[Finding, ...]:
    """`guerdon.backends.trl.validate` of guerdon's function, or of a list of them, whose group size must be the trainer's, too."""
    from guerdon.backends.trl.settings import read_settings
    from guerdon.backends.trl.validate import validate

    given = dict(options.get("trainer_kwargs") or {})
    if eval_dataset is not None:
        given["eval_dataset"] = eval_dataset
    funcs = given.get("reward_funcs", function)  # all of the trainer's, where functions of the user's stand beside ours
    options["trainer_kwargs"] = given
    found = validate(args, funcs=funcs, train_dataset=train_dataset, **options)
    size = read_settings(args, options.get("num_processes"), options.get("trainer"))["num_generations"]
    if scoring.group_sizes and size is not None and size not in scoring.group_sizes:
        own = scoring.group_sizes[0]
        raise ConfigError(f"TRL: num_generations is {size} in the trainer's arguments, {own} in guerdon's function: make them equal")
    return found
