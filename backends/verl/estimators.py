"""guerdon's advantages inside verl: estimators for `algorithm.adv_estimator`, and the settings of verl's own GDPO.

Estimators see what verl gives them: the reward of each row, summed over its tokens, and its group. Torch is imported when one is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from guerdon.backends.door import PREFIX, as_reward
from guerdon.backends.verl.score import ABSTAINED
from guerdon.errors import ConfigError
from guerdon.rewards.advantages import SPECS, AdvantageSpec, advantages
from guerdon.rewards.components import flatten
from guerdon.rewards.term import Term

__all__ = ["ESTIMATORS", "Estimator", "gdpo_overrides", "register"]


@dataclass(frozen=True)
class Estimator:
    """An `AdvantageSpec` as an advantage estimator of verl.

    Rows whose reward is `ABSTAINED`, and rows without a token in `response_mask` (padding), are outside all statistics and get 0; with
    a KL penalty in the reward the mark is lost, and the row counts with its penalty alone. Groups are verl's `uid`. A session of
    several outputs counts once for each of them.

    Raises ConfigError for a spec that normalises components: verl gives an estimator the total. Called, it raises it where the std of
    the group is asked for and `algorithm.norm_adv_by_std_in_grpo` is off.
    """

    spec: AdvantageSpec

    def __post_init__(self) -> None:
        if self.spec.combine != "sum_first":
            raise ConfigError(
                "Estimator: verl gives an estimator the total reward, not its components; use its gdpo: gdpo_overrides(reward)"
            )

    def __call__(self, token_level_rewards: Any, response_mask: Any, index: Any, config: Any = None, **_: Any) -> tuple[Any, Any]:
        """Advantages and returns, both of shape (rows, tokens) and the same."""
        import torch

        if self.spec.scale == "group" and config is not None and config.get("norm_adv_by_std_in_grpo", True) is False:
            raise ConfigError(
                "algorithm.norm_adv_by_std_in_grpo=False is for verl's own grpo, and this estimator divides by the std: "
                "use algorithm.adv_estimator=guerdon_dr_grpo"
            )
        with torch.no_grad():
            rewards_N = token_level_rewards.double().sum(dim=-1)
            tokens_N = response_mask.sum(dim=-1)
            mark = torch.tensor(ABSTAINED, dtype=token_level_rewards.dtype)  # 0 in float16, where it is lost
            valid_N = (tokens_N > 0) & ~((token_level_rewards == mark.item()) & (token_level_rewards != 0)).any(dim=-1)
            found = advantages(
                rewards_N.cpu().numpy(), index, spec=self.spec, valid_N=valid_N.cpu().numpy(), num_tokens_N=tokens_N.double().cpu().numpy()
            )
            out = torch.as_tensor(found, dtype=torch.float32, device=response_mask.device).unsqueeze(-1) * response_mask
        return out, out


ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {f"guerdon_{name}": Estimator(spec) for name, spec in SPECS.items() if spec.combine == "sum_first"}
)
"""Estimators by the names verl knows them under, once `register` ran: `guerdon_gopo`, `guerdon_scalerl`, `guerdon_grpo`, ..."""


def register() -> None:
    """Register `ESTIMATORS` with verl, in this process. verl does it by itself in every process: see `guerdon.backends.verl.plugin`."""
    from verl.trainer.ppo.core_algos import register_adv_est

    for name, estimator in ESTIMATORS.items():
        register_adv_est(name)(estimator)


def gdpo_overrides(reward: Term | str) -> list[str]:
    """The Hydra overrides with which verl's own GDPO normalises this reward's components, with its weights.

    They also select the trainer that hands components to the estimator: in verl 0.9.1 the default one (`trainer.use_v1=True`) does not.
    Components of weight 0 are left out. Where a component does not apply or abstains verl counts 0, not a missing value.

    Raises ConfigError where a component has another weight on another route, which verl cannot express.

    >>> import guerdon.rewards as R
    >>> for override in gdpo_overrides(R.math_equal() + 0.2 * R.boxed_format()):
    ...     print(override)
    algorithm.adv_estimator=gdpo
    +algorithm.gdpo_reward_keys=[guerdon/math_equal,guerdon/boxed_format]
    +algorithm.gdpo_reward_weights=[1.0,0.2]
    trainer.use_v1=False
    """
    keys, weights = [], []
    for component in flatten(as_reward(reward, "gdpo_overrides")):
        shares = {weight for _, weight in component.shares}
        if len(shares) > 1:
            raise ConfigError(
                f"gdpo_overrides: {component.name} weighs {' or '.join(map(str, sorted(shares)))} depending on the row, and verl has one "
                "weight for all; give it one, or give its parts names of their own with name="
            )
        if weight := shares.pop():
            keys.append(_quoted(f"{PREFIX}{component.name}"))
            weights.append(str(float(weight)))
    return [
        "algorithm.adv_estimator=gdpo",
        f"+algorithm.gdpo_reward_keys=[{','.join(keys)}]",
        f"+algorithm.gdpo_reward_weights=[{','.join(weights)}]",
        "trainer.use_v1=False",
    ]


def _quoted(key: str) -> str:
    """As an element of a Hydra list."""
    return key if re.fullmatch(r"[\w./-]+", key, re.ASCII) else "'" + key.replace("\\", "\\\\").replace("'", "\\'") + "'"
