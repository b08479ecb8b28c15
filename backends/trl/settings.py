"""One view of a TRL configuration: a GRPOConfig, RLOOConfig or GMPOConfig, or the keyword arguments one is about to be made with.

It knows the defaults of TRL 1.16 for the settings that the traps read, and the arithmetic of generation batches. It judges nothing,
and loads neither torch nor trl.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from guerdon.errors import ConfigError

__all__ = ["CHOICES", "DEFAULTS", "Kind", "Settings", "read_settings"]

Kind = Literal["grpo", "gmpo", "rloo", "other"]
"""Whose arguments: those of a trainer that is none of the three are read for the functions' weights alone."""

_SHARED: dict[str, Any] = {
    "per_device_train_batch_size": 8, "per_device_eval_batch_size": 8, "gradient_accumulation_steps": 1, "generation_batch_size": None,
    "steps_per_generation": None, "num_generations": 8, "num_generations_eval": None, "num_iterations": 1, "beta": 0.0, "epsilon": 0.2,
    "epsilon_high": None, "mask_truncated_completions": False, "sync_ref_model": False, "ref_model_mixup_alpha": 0.6,
    "ref_model_sync_steps": 512, "reward_weights": None, "remove_unused_columns": False, "use_vllm": False, "vllm_mode": "colocate",
    "bf16": None, "fp16": False, "use_cpu": False, "do_eval": False, "eval_strategy": "no",
}  # fmt: skip
_GRPO = _SHARED | {
    "loss_type": "dapo", "scale_rewards": "group", "multi_objective_aggregation": "sum_then_normalize",
    "importance_sampling_level": "token", "delta": None, "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "vespo_k_pos": 2.0,
    "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0,
    "top_entropy_quantile": 1.0, "use_adaptive_entropy": False, "entropy_target": 0.2, "entropy_coef_min": 0.0,
    "entropy_coef_max": 1.0, "entropy_coef_delta": 0.005, "vllm_importance_sampling_correction": True,
    "vllm_importance_sampling_mode": "sequence_mask", "vllm_importance_sampling_clip_max": 3.0, "vllm_importance_sampling_clip_min": None,
    "vllm_importance_sampling_cap": None,
}  # fmt: skip
_RLOO = _SHARED | {"num_generations": 2, "beta": 0.05, "normalize_advantages": False, "reward_clip_range": None}

DEFAULTS: Mapping[Kind, Mapping[str, Any]] = MappingProxyType(
    {"grpo": _GRPO, "gmpo": _GRPO | {"epsilon": 0.4}, "rloo": _RLOO, "other": {"reward_weights": None}}
)
"""What TRL 1.16 takes where a setting is not given. A contract test compares them with the installed classes."""

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "loss_type": ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"),
        "scale_rewards": ("group", "batch", "none"),
        "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
        "importance_sampling_level": ("token", "sequence"),
        "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
        "vllm_mode": ("colocate", "server"),
    }
)
"""The values that the code of TRL 1.16 compares each setting with; the configuration classes check none of them."""


@dataclass(frozen=True, eq=False)
class Settings:
    """The settings of one run. `world` is the number of processes."""

    kind: Kind
    values: Mapping[str, Any]
    world: int
    built: bool
    """A configuration object: what was given and what is a default cannot be told apart in it."""

    def __getitem__(self, name: str) -> Any:
        """The value that TRL will see."""
        default = DEFAULTS[self.kind].get(name)
        value = self.values.get(name, default)
        if name == "scale_rewards" and isinstance(value, bool):
            return "group" if value else "none"
        return value

    def given(self, name: str) -> bool:
        """Whether it was set, as far as that can be known: present in keyword arguments, different from the default in an object."""
        if not self.built:
            return name in self.values
        return name in self.values and self[name] != DEFAULTS[self.kind].get(name)

    def number(self, name: str) -> float | None:
        """The value if it is a number; None for everything else, which TRL will refuse itself."""
        value = self[name]
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def whole(self, name: str) -> int | None:
        value = self[name]
        return value if type(value) is int else None

    @property
    def steps(self) -> int | None:
        """Micro-batches that one generation batch is split into."""
        if (steps := self.whole("steps_per_generation")) is not None:
            return steps
        batch, rows = self.whole("generation_batch_size"), self.whole("per_device_train_batch_size")
        if batch is not None and rows:
            return batch // (rows * self.world)
        return self.whole("gradient_accumulation_steps")

    @property
    def local_rows(self) -> int | None:
        """Completions that one process scores at a time."""
        rows, steps = self.whole("per_device_train_batch_size"), self.steps
        return rows * steps if rows is not None and steps is not None else None

    @property
    def generation_rows(self) -> int | None:
        """Completions that all processes make at a time."""
        batch = self.whole("generation_batch_size")
        if batch is not None and self.whole("steps_per_generation") is None:
            return batch
        return None if self.local_rows is None else self.local_rows * self.world

    @property
    def gdpo(self) -> bool:
        return bool(self["multi_objective_aggregation"] == "normalize_then_sum")


def read_settings(config: Any, num_processes: int | None = None, trainer: Kind | None = None) -> Settings:
    """The view of a configuration object or of keyword arguments. `trainer` says which class the arguments are for.

    >>> read_settings({"num_generations": 4, "gradient_accumulation_steps": 3}, num_processes=2).generation_rows
    48
    """
    if trainer is not None and trainer not in DEFAULTS:
        raise ConfigError(f"trainer expects one of {', '.join(DEFAULTS)}, or None; got {trainer!r}")
    if num_processes is not None and (type(num_processes) is not int or num_processes < 1):
        raise ConfigError(f"num_processes expects a whole number of at least 1, or None; got {num_processes!r}")
    if config is None or isinstance(config, str | bytes | type):
        raise ConfigError(f"expected a GRPOConfig, an RLOOConfig, or a dict of the arguments for one; got {config!r:.80}")
    if isinstance(config, Mapping):
        kind = trainer or ("rloo" if config.keys() & (_RLOO.keys() - _SHARED.keys()) else "grpo")
        return Settings(kind, dict(config), num_processes or _environment_world(), built=False)
    kind = trainer or _kind_of(type(config))
    values = {name: getattr(config, name) for name in DEFAULTS[kind] if hasattr(config, name)}
    world = num_processes or getattr(config, "world_size", None) or _environment_world()
    return Settings(kind, values, world, built=True)


def _kind_of(cls: type) -> Kind:
    names = [base.__name__ for base in cls.__mro__]
    known: dict[str, Kind] = {"RLOOConfig": "rloo", "GMPOConfig": "gmpo", "GRPOConfig": "grpo", "TrainingArguments": "other"}
    return next((known[name] for name in names if name in known), "grpo")


def _environment_world() -> int:
    """What torchrun and accelerate launch set."""
    text = os.environ.get("WORLD_SIZE", "")
    return max(1, int(text)) if text.isdigit() else 1
