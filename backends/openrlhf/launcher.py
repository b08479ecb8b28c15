"""Experimental: guerdon's advantages (GDPO, GOPO, any spec) inside OpenRLHF 0.11's trainer, whose estimators are a closed list.

`install` runs in every Ray worker and touches nothing until OpenRLHF's experience maker is imported there; then two methods of it are
wrapped. The components come out of `Experience.info`, where a reward file, HTTP server or agent of guerdon's put them. Refuses
versions and signatures other than those it was written for. The command is `python -m guerdon.backends.openrlhf.launch`.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import inspect
import json
import logging
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from guerdon.backends.door import PREFIX
from guerdon.backends.openrlhf.answers import ABSTAINED, weight_key
from guerdon.backends.openrlhf.specs import spec_of
from guerdon.errors import ConfigError

if TYPE_CHECKING:
    from guerdon.rewards.term import Term

__all__ = ["HOOK", "SETTINGS", "TARGET", "VERSION", "Settings", "advantages_of", "install", "patch"]

log = logging.getLogger("guerdon")

VERSION = "0.11."
TARGET = "openrlhf.trainer.ppo_utils.experience_maker"
HOOK = "guerdon.backends.openrlhf.launcher.install"
SETTINGS = "GUERDON_OPENRLHF"
"""The environment variable that carries the settings from the launcher to the workers."""

_SIGNATURES = {
    "__init__": (
        "self", "actor_model_group", "critic_model_group", "reward_model_group", "initial_model_group", "kl_controller", "strategy",
        "tokenizer", "kwargs",
    ),
    "compute_advantages_and_returns": ("self", "experiences"),
}  # fmt: skip
_ESTIMATOR = "guerdon"  # none of OpenRLHF's: with it compute_advantages_and_returns subtracts and divides by nothing


@dataclass(frozen=True)
class Settings:
    """What the workers have to know: the advantage as text, and the weight of each component (None: row by row)."""

    advantage: str
    weights: Mapping[str, float | None]

    @classmethod
    def of(cls, reward: Term, advantage: str) -> Settings:
        """From the reward that is trained on. ConfigError if there is no such advantage."""
        from guerdon.rewards.components import flatten

        spec_of(advantage, "--guerdon.advantage")
        return cls(advantage, {component.name: component.weight for component in flatten(reward)})

    def text(self) -> str:
        return json.dumps({"advantage": self.advantage, "weights": dict(self.weights)})

    @classmethod
    def read(cls) -> Settings:
        """From the environment of this process."""
        text = os.environ.get(SETTINGS)
        if not text:
            raise ConfigError(f"{SETTINGS} is not set in this process: start the training with python -m guerdon.backends.openrlhf.launch")
        return cls(**json.loads(text))


def install() -> None:
    """Patch the experience maker as soon as it is imported in this process (at once if it has been). Ray's worker_process_setup_hook."""
    if TARGET in sys.modules:
        patch(sys.modules[TARGET], Settings.read())
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module, by asking the others, and has it patched after it has run."""

    busy = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != TARGET or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                patch(module, Settings.read())

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def patch(module: ModuleType, settings: Settings) -> None:
    """Wrap the two methods of `module.RemoteExperienceMaker`, once. ConfigError if this is not the OpenRLHF it was written for."""
    found = version("openrlhf")
    if not found.startswith(VERSION):
        raise ConfigError(f"guerdon's launcher patches OpenRLHF {VERSION}x, found {found}; pip install 'openrlhf=={VERSION}*'")
    maker: Any = module.RemoteExperienceMaker
    if getattr(maker, "guerdon", None) is not None:
        return
    for name, expected in _SIGNATURES.items():
        got = tuple(inspect.signature(getattr(maker, name)).parameters)
        if got != expected:
            raise ConfigError(f"guerdon's launcher: {name} of OpenRLHF {found} takes {', '.join(got)}; expected {', '.join(expected)}")
    init, compute = maker.__init__, maker.compute_advantages_and_returns

    def checked_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        check_args(self.args)

    def with_advantages(self: Any, experiences: list[Any]) -> list[Any]:
        return compute_with(compute, settings, self, experiences)

    maker.__init__, maker.compute_advantages_and_returns, maker.guerdon = checked_init, with_advantages, settings


def check_args(args: Any) -> None:
    """ConfigError for flags that would change or double the advantage, before any model is loaded."""
    where = "guerdon's launcher"
    if args.algo.advantage.estimator != "reinforce":
        got = args.algo.advantage.estimator
        raise ConfigError(f"{where} puts its advantage in place of --algo.advantage.estimator reinforce, got {got}; pass reinforce")
    if not args.reward.remote_url:
        raise ConfigError(
            f"{where} reads the components of a reward file, server or agent: set --reward.remote_url or --train.agent_func_path"
        )
    for flag in ("overlong_buffer_len", "stop_properly_penalty_coef"):
        if getattr(args.reward, flag, None) is not None:
            raise ConfigError(
                f"{where}: --reward.{flag} would be added to the finished advantage: put R.soft_overlong in the reward (agent path)"
            )


def compute_with(compute: Any, settings: Settings, maker: Any, experiences: list[Any]) -> list[Any]:
    """OpenRLHF's own method with the rewards replaced by advantages and its estimator taken out; KL, clipping and returns stay its own.

    `info["reward"]` and `info["group_reward_std"]` go on showing the rewards.
    """
    import torch

    args = maker.args
    rewards = [e.rewards for e in experiences]
    finished = advantages_of(experiences, settings, args.rollout.n_samples_per_prompt)
    _warn_of_clipping(finished, args.reward.clip_range)
    own = args.algo.advantage.estimator
    try:
        for e, values in zip(experiences, finished, strict=True):
            e.rewards = torch.tensor(values, dtype=torch.float32)
        args.algo.advantage.estimator = _ESTIMATOR
        experiences = compute(maker, experiences)
    finally:
        args.algo.advantage.estimator = own
        for e, reward in zip(experiences, rewards, strict=True):
            e.rewards = reward
    _show(experiences, rewards, args.rollout.n_samples_per_prompt)
    return experiences


def _show(experiences: Sequence[Any], rewards: Sequence[Any], n: int) -> None:
    """Put the rewards and their spread within groups where OpenRLHF's logs look for them."""
    import torch

    for e, reward in zip(experiences, rewards, strict=True):
        e.info["reward"] = reward
    if n > 1:
        index = torch.tensor([i for e in experiences for i in e.index])
        flat_N = torch.empty(len(index))
        flat_N[index] = torch.cat([reward.reshape(-1).float() for reward in rewards])
        std_N = flat_N.reshape(-1, n).std(-1).repeat_interleave(n)[index]
        for e, std in zip(experiences, std_N.split([len(e.index) for e in experiences]), strict=True):
            e.info["group_reward_std"] = std


def advantages_of(experiences: Sequence[Any], settings: Settings, n: int) -> list[list[float]]:
    """The advantages of each experience's rows. The groups are n consecutive rows in the order before shuffling, which `index` tells."""
    import numpy as np

    from guerdon.rewards.advantages import advantages

    index = [i for e in experiences for i in e.index]

    def column(key: str) -> Any:
        return np.concatenate([e.info[key].reshape(-1).float().numpy() for e in experiences]).astype(float)

    for key in (ABSTAINED, *(f"{PREFIX}{name}/scored" for name in settings.weights)):
        if any(key not in e.info for e in experiences):
            there = sorted(k for k in experiences[0].info if k.startswith(PREFIX)) or ["nothing of guerdon's"]
            raise ConfigError(
                f"guerdon's launcher: the rollouts carry no {key!r}; they have {', '.join(there)}: --guerdon.reward must be the "
                "reward that the reward file, server or agent uses"
            )
    spec, named = spec_of(settings.advantage, SETTINGS), settings.weights.items()
    values: Any
    if spec.combine == "sum_first":  # sums of float32 components tell totals apart that are equal, and ranks make much of it
        values, weights = np.concatenate([e.rewards.reshape(-1).float().numpy() for e in experiences]).astype(float), None
    else:
        values = np.stack([np.where(column(f"{PREFIX}{k}/scored") > 0, column(f"{PREFIX}{k}"), math.nan) for k, _ in named], axis=1)
        weights = np.stack([np.full(len(index), w) if w is not None else column(weight_key(k)) for k, w in named], axis=1)
    tokens_N = np.concatenate([e.action_mask.sum(-1).reshape(-1).numpy() for e in experiences]).astype(float)
    groups = [i // n for i in index]
    found = advantages(values, groups, weights, spec, valid_N=column(ABSTAINED) == 0, num_tokens_N=tokens_N).tolist()
    at = iter(found)
    return [[next(at) for _ in e.index] for e in experiences]


_warned: set[str] = set()


def _warn_of_clipping(finished: Sequence[Sequence[float]], clip_range: Sequence[float] | None) -> None:
    largest = max((abs(value) for values in finished for value in values), default=0.0)
    if clip_range and largest > min(-clip_range[0], clip_range[1]) and "clip" not in _warned:
        _warned.add("clip")
        log.warning("an advantage of %.3g is cut to --reward.clip_range %s: widen it", largest, " ".join(map(str, clip_range)))
