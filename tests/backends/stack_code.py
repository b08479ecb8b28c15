"""The loss code of TRL, verl and OpenRLHF itself, loaded on a CPU: tests and benchmarks compare with it.

verl and OpenRLHF are installed without what they need; the packages they import around the loss are stubs here, the loss is theirs. TRL is
imported whole and its `_compute_loss` runs on a bare object whose forward pass is replaced. `available(name)` says what is installed.
"""

from __future__ import annotations

import collections
import importlib.util
import inspect
import sys
import textwrap
import types
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def available(name: str) -> bool:
    with suppress(ValueError):  # a stub of ours has no spec
        return importlib.util.find_spec("torch") is not None and importlib.util.find_spec(name) is not None
    return True


@cache
def root(name: str) -> Path:
    """The folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def stub(name: str, path: Path | None = None, **attributes: Any) -> None:
    module = types.ModuleType(name)
    module.__path__ = [str(path)] if path else []
    module.__dict__.update(attributes)
    sys.modules[name] = module


def load(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# --- verl ---------------------------------------------------------------------------------------------------------------------


class VerlActor:
    """ActorConfig as far as the losses read it, from Hydra overrides."""

    def __init__(self, **settings: Any) -> None:
        defaults = {
            "clip_ratio": 0.2,
            "clip_ratio_low": None,
            "clip_ratio_high": None,
            "tau_pos": 1.0,
            "tau_neg": 1.05,
            "policy_loss": None,
        }
        self.__dict__ |= {**defaults, "global_batch_info": {}, **settings}

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


@cache
def verl() -> Any:
    """`verl.trainer.ppo.core_algos`."""
    import torch

    base = root("verl")
    for name in ("utils", "trainer", "workers"):
        stub(f"verl.{name}", base / name)
    stub("verl", base)
    stub("verl.trainer.config", AlgoConfig=type("AlgoConfig", (), {}))
    stub("verl.workers.config", ActorConfig=VerlActor)
    stub("verl.utils.device", get_device_name=lambda: "cpu", get_torch_device=lambda: torch.cpu, is_npu_available=False)
    stub("verl.utils.import_utils", deprecated=lambda *args, **kwargs: lambda function: function)
    stub("tensordict", TensorDict=dict)
    stub("omegaconf", DictConfig=dict)
    groups: Any = load("verl.utils.groupwise", base / "utils/groupwise.py")
    utils: Any = sys.modules["verl.utils"]
    utils.as_torch_index, utils.group_mean_std = groups.as_torch_index, groups.group_mean_std
    load("verl.utils.torch_functional", base / "utils/torch_functional.py")
    return load("verl.trainer.ppo.core_algos", base / "trainer/ppo/core_algos.py")


@cache
def verl_correction() -> Any:
    """`verl.trainer.ppo.rollout_corr_helper`."""
    verl()
    stub("verl.protocol", DataProto=object)
    stub("verl.trainer.config.algorithm", RolloutCorrectionConfig=object)
    stub("verl.workers.config.actor", PolicyLossConfig=object)
    return load("verl.trainer.ppo.rollout_corr_helper", root("verl") / "trainer/ppo/rollout_corr_helper.py")


# --- OpenRLHF -----------------------------------------------------------------------------------------------------------------


@cache
def openrlhf() -> tuple[Any, Any]:
    """`openrlhf.models.loss` and `openrlhf.models.utils`."""
    base = root("openrlhf")
    stub("deepspeed")
    stub("openrlhf", base)
    stub("openrlhf.models", base / "models")
    utils = load("openrlhf.models.utils", base / "models/utils.py")
    return load("openrlhf.models.loss", base / "models/loss.py"), utils


def openrlhf_parse(words: list[str]) -> Any:
    """The arguments after OpenRLHF's own parser and checks: the body of its main, with the training left out."""
    import argparse
    import ast
    import os
    from datetime import datetime

    base = root("openrlhf")
    module = ast.parse((base / "cli/train_ppo_ray.py").read_text())
    body = next(node for node in module.body if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)).body
    stub("openrlhf", base)
    stub("openrlhf.utils", base / "utils")
    seen: list[Any] = []
    namespace = {"argparse": argparse, "os": os, "datetime": datetime, "train": seen.append}
    before, sys.argv = sys.argv, ["train_ppo_ray", *words]
    try:
        exec(compile(ast.Module(body, []), "train_ppo_ray", "exec"), namespace)
    finally:
        sys.argv = before
    return seen[0]


# --- TRL ----------------------------------------------------------------------------------------------------------------------

TRL_DEFAULTS: dict[str, Any] = {
    "delta": None, "use_bias_correction_kl": True, "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "steps_per_generation": 1,
    "vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0,
}  # fmt: skip


@cache
def trl_source() -> str:
    from trl import GRPOTrainer

    return inspect.getsource(GRPOTrainer._generate_and_score_completions)


def trl_block(first: str, last: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Run the lines of TRL's `_generate_and_score_completions` from `first` through `last`."""
    from trl.trainer import grpo_trainer

    source = trl_source()
    start = source.rindex("\n", 0, source.index(first)) + 1
    end = source.index(last, start) + len(last)
    names = {**vars(grpo_trainer), **namespace}
    exec(textwrap.dedent(source[start:end]), names)
    return names


def trl_rollout_ratio(settings: dict[str, Any], old: Any, rollout: Any, mask: Any) -> Any:
    trainer = SimpleNamespace(
        **{f"vllm_importance_sampling_{key}": settings[f"vllm_importance_sampling_{key}"] for key in ("mode", "clip_max", "clip_min")}
    )
    names = {"self": trainer, "old_per_token_logps": old, "sampling_per_token_logps": rollout, "completion_mask": mask, "tool_mask": None}
    first = "mask = completion_mask if tool_mask is None else completion_mask * tool_mask\n                per_token_logps_diff"
    return trl_block(first, "invalid_mis_mask, value=0.0\n                    )", names)["vllm_importance_sampling_ratio"]


def trl_advantages(settings: dict[str, Any], rewards_NK: Any, group_size: int) -> Any:
    import torch

    scale, how = settings.get("scale_rewards", "group"), settings.get("multi_objective_aggregation", "sum_then_normalize")
    columns = rewards_NK.shape[1]
    trainer = SimpleNamespace(
        multi_objective_aggregation=how,
        scale_rewards=scale,
        reward_weights=torch.ones(columns, dtype=rewards_NK.dtype),
        reward_funcs=[0] * columns,
    )
    names = {"self": trainer, "rewards_per_func": rewards_NK.clone(), "num_generations": group_size, "device": "cpu"}
    last = "advantages = torch.nan_to_num(advantages, nan=0.0)"
    return trl_block("unscorable_mask = torch.isnan(rewards_per_func)", last, names)["advantages"]


def trl_loss(
    settings: dict[str, Any],
    logp: Any,
    *,
    advantages: Any,
    mask: Any,
    old: Any,
    rollout: Any = None,
    ref: Any = None,
    entropy: Any = None,
    gmpo: bool = False,
) -> Any:
    """TRL's loss under GRPOConfig settings."""
    import torch
    from trl import GRPOTrainer

    cls: Any = GRPOTrainer
    if gmpo:
        from trl.experimental.gmpo import GMPOTrainer as cls
    trainer = object.__new__(cls)
    corrected = settings.get("vllm_importance_sampling_correction", False) and rollout is not None
    entropies = torch.zeros_like(logp) if entropy is None else entropy
    trainer.__dict__ |= {
        "model": SimpleNamespace(training=True),
        "_metrics": {"train": collections.defaultdict(list)},
        "_get_per_token_logps_and_entropies": lambda *args, **kwargs: (logp, entropies, None),
        "args": SimpleNamespace(**{**TRL_DEFAULTS, **{key: value for key, value in settings.items() if key in TRL_DEFAULTS}}),
        "aux_loss_enabled": False,
        "top_entropy_quantile": settings.get("top_entropy_quantile", 1.0),
        "off_policy_mask_threshold": settings.get("off_policy_mask_threshold"),
        "importance_sampling_level": settings.get("importance_sampling_level", "token"),
        "beta": settings.get("beta", 0.0),
        "loss_type": settings.get("loss_type", "dapo"),
        "epsilon_low": settings.get("epsilon", 0.2),
        "epsilon_high": settings.get("epsilon_high", 0.2),
        "use_vllm": corrected,
        "vllm_importance_sampling_correction": corrected,
        "current_gradient_accumulation_steps": 1,
        "max_completion_length": settings.get("max_completion_length"),
        "_entropy_bonus_enabled": False,
        "accelerator": SimpleNamespace(
            gather=lambda x: x, reduce=lambda x, reduction=None: x, num_processes=1, sync_gradients=True, gather_for_metrics=lambda x: x,
            pad_across_processes=lambda x, dim=0, pad_index=0: x,
        ),
    }  # fmt: skip
    rows = logp.shape[0]
    prompt, ids = torch.zeros(rows, 1, dtype=torch.long), torch.zeros(logp.shape, dtype=torch.long)
    inputs = {
        "prompt_ids": prompt, "prompt_mask": prompt + 1, "completion_ids": ids, "completion_mask": mask, "advantages": advantages,
        "old_per_token_logps": old, "num_items_in_batch": mask.sum(),
    }  # fmt: skip
    if ref is not None:
        inputs["ref_per_token_logps"] = ref
    if corrected:
        inputs["importance_sampling_ratio"] = trl_rollout_ratio(settings, old, rollout, mask)
        inputs["sampling_per_token_logps"] = rollout
    return trainer._compute_loss(trainer.model, inputs)
