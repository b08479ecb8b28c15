"""Rows, configurations and a queue in memory, as verl's own code makes them."""

from __future__ import annotations

import asyncio
import copy
import os
import sys
import time
import warnings
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from tensordict import TensorDict


class _TransferQueue(ModuleType):
    """Stands in for the package of that name, which verl's trainer imports and its wheel does not bring."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


TQ: Any = _TransferQueue("transfer_queue")
TQ.__spec__ = ModuleSpec("transfer_queue", None)
sys.modules.setdefault("transfer_queue", TQ)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Ray's moved modules, and one for each engine that is not installed
    import verl
    import verl.trainer.ppo.v1
    from verl import DataProto
    from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
    from verl.trainer.ppo import core_algos
    from verl.trainer.ppo.ray_trainer import compute_advantage
    from verl.trainer.ppo.reward import load_reward_manager


__all__ = [
    "EOS",
    "MANAGER",
    "DataProto",
    "Letters",
    "MemoryQueue",
    "composed",
    "compute_advantage",
    "config",
    "core_algos",
    "file_overrides",
    "manager",
    "objects",
    "rows",
    "run",
    "timed",
]

EOS = 1
PROMPT = [5, 6, 7]


class Letters:
    """A tokenizer whose tokens are characters."""

    all_special_ids = (0, EOS)
    eos_token_id = EOS

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        found = ids.tolist() if hasattr(ids, "tolist") else ids
        return "".join(chr(i) for i in found if i not in self.all_special_ids)


def composed(*overrides: str, name: str = "ppo_trainer") -> Any:
    """verl's real configuration, composed by Hydra with these overrides. Takes a second."""
    with initialize_config_dir(os.path.join(os.path.dirname(verl.__file__), "trainer", "config"), version_base=None):
        return compose(name, overrides=list(overrides))


_composed_once = lru_cache(composed)


def config(*overrides: str, name: str = "ppo_trainer") -> Any:
    """The same, with the overrides set on a copy of what was composed once."""
    found = copy.deepcopy(_composed_once(name=name))
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        OmegaConf.update(found, override.key_or_group, override.value(), force_add=override.is_add())
    return found


def objects(items: list[Any]) -> Any:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def rows(texts: list[str], *, truth: Any = "4", source: list[str] | str = "gsm8k", ends: bool = True, **columns: Any) -> DataProto:
    """A batch as an agent loop hands it to a reward worker: right-padded responses, columns as arrays of objects."""
    ids = [[ord(c) for c in text] + [EOS] * ends for text in texts]
    longest, n = max(map(len, ids)), len(texts)
    responses = torch.tensor([i + [0] * (longest - len(i)) for i in ids])
    mask = torch.tensor([[1] * len(PROMPT) + [1] * len(i) + [0] * (longest - len(i)) for i in ids])
    sources = [source] * n if isinstance(source, str) else source
    return DataProto(
        batch=TensorDict({"prompts": torch.tensor([PROMPT] * n), "responses": responses, "attention_mask": mask}, batch_size=n),
        non_tensor_batch={
            "data_source": objects(sources),
            "reward_model": objects([{"ground_truth": truth, "style": "rule"}] * n),
            "extra_info": objects([{"index": i} for i in range(n)]),
            **{key: objects(values) for key, values in columns.items()},
        },
    )


def manager(*overrides: str) -> Any:
    """The reward manager that verl loads for this configuration."""

    async def load() -> Any:  # on a loop: verl would leave one open
        return load_reward_manager(config(*overrides), Letters())

    return asyncio.run(load())


def timed(*overrides: str, data: DataProto, tokenizer: Any = None) -> tuple[list[dict[str, Any]], float]:
    """What verl's reward worker gives for the batch, and the seconds it took."""

    async def score() -> tuple[list[dict[str, Any]], float]:
        worker = object.__new__(RewardLoopWorker)  # its constructor downloads a tokenizer
        worker.config = config(*overrides)
        worker.reward_manager = load_reward_manager(worker.config, tokenizer or Letters())
        start = time.monotonic()
        return await worker.compute_score_batch(data), time.monotonic() - start

    return asyncio.run(score())


def run(*overrides: str, data: DataProto, tokenizer: Any = None) -> list[dict[str, Any]]:
    """What verl's reward worker gives for the batch."""
    return timed(*overrides, data=data, tokenizer=tokenizer)[0]


def file_overrides(file: Path, name: str = "compute_score") -> tuple[str, str]:
    return f"reward.custom_reward_function.path={file}", f"reward.custom_reward_function.name={name}"


MANAGER = (
    "reward.reward_manager.source=importlib",
    "reward.reward_manager.name=GuerdonRewardManager",
    "reward.reward_manager.module.path=pkg://guerdon.backends.verl",
)


class MemoryQueue:
    """The calls of TransferQueue that sampling makes."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, dict[str, Any]]] = {}
        self.fields: dict[str, dict[str, Any]] = {}

    def put(self, partition: str, key: str, tag: dict[str, Any], **fields: Any) -> None:
        self.tags.setdefault(partition, {}).setdefault(key, {}).update(tag)
        self.fields.setdefault(key, {}).update(fields)

    @classmethod
    def installed(cls) -> MemoryQueue:
        """A new one, whose calls verl's trainer makes."""
        memory, used = cls(), sys.modules["transfer_queue"]
        for name in ("kv_list", "kv_batch_get", "kv_clear", "async_kv_put"):
            setattr(used, name, getattr(memory, name))
        return memory

    async def async_kv_put(self, key: str, partition_id: str, tag: dict[str, Any]) -> None:
        self.put(partition_id, key, tag)

    def kv_list(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {partition: dict(tags) for partition, tags in self.tags.items()}

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, list[Any]]:
        return {name: [self.fields[key][name] for key in keys] for name in select_fields}

    def kv_clear(self, partition_id: str, keys: list[str]) -> None:
        for key in keys:
            self.tags[partition_id].pop(key, None)
