"""verl's reward manager of guerdon: what `compute_score` gives, for rewards that also read token counts, token ids or truncation.

Imports verl, and with it torch. It does not gather groups: verl hands the rows of a group to reward workers at random.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from guerdon.backends.verl.rows import plain, rollout_of
from guerdon.backends.verl.score import RowReward
from guerdon.errors import ConfigError, MissingInput
from guerdon.rollouts import prompt_of
from guerdon.types import Rollout

__all__ = ["GuerdonRewardManager"]

APART = frozenset(
    {"data_source", "reward_model", "extra_info", "tool_extra_fields", "raw_prompt", "multi_modal_data", "multi_modal_inputs"}
)
"""Columns of verl that are parts of a rollout, or too large to copy."""


class ManagerReward(RowReward):
    """The manager's reward and options."""

    WHERE: ClassVar[str] = "verl's reward manager"


class GuerdonRewardManager(RewardManagerBase):
    """`reward.reward_manager.source=importlib`, `name=GuerdonRewardManager`, `module.path=pkg://guerdon.backends.verl`.

    `+reward.reward_kwargs.guerdon.reward` names the reward (`file.py:reward`); beside it may stand `deadline_s`, `on_abstain`, `fill`,
    `max_broken` and `brief`: see `compute_score_from`. Configuration faults raise ConfigError when the reward workers start.

    The rollout's columns are the keys of `extra_info`, what tools added, and verl's other columns; the prompt is `raw_prompt`.
    `num_tokens` and `token_ids` are the whole response, as in verl's DAPO manager: in tool calls the tool's tokens count too, as verl
    does not pass their mask here. `truncated`: as long as `rollout.response_length` allows, and no special token at the end.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        options = _select(config, "reward.reward_kwargs.guerdon") or {}
        self.reward = ManagerReward.of(dict(options), "+reward.reward_kwargs.guerdon.reward=file.py:reward")
        limit = _select(config, "actor_rollout_ref.rollout.response_length")
        self.max_tokens: int | None = None if limit is None else int(limit)
        self.special = frozenset(getattr(tokenizer, "all_special_ids", None) or ())
        if self.max_tokens is None and "truncated" in self.reward.term.reads:
            raise MissingInput(
                f"{self.reward.term.name} reads 'truncated', and the configuration has no actor_rollout_ref.rollout.response_length"
            )
        _check_keys(config, self.reward.keys)

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """The score of the last sequence of `data`, and its keys as `reward_extra_info`."""
        item = data[-1:][0]
        ids = _response(item)
        decode = asyncio.get_running_loop().run_in_executor(None, self._decode, ids)
        text = (await asyncio.gather(decode, return_exceptions=True))[0]
        row = await self.reward.arow(lambda: self._rollout(item, ids, text))
        return {"reward_score": row["score"], "reward_extra_info": row}

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _rollout(self, item: Any, ids: list[int], text: str | BaseException) -> Rollout:
        if isinstance(text, BaseException):
            raise text
        columns = item.non_tensor_batch
        extra = {key: plain(value) for key, value in columns.items() if key not in APART}
        extra |= plain(columns.get("extra_info") or {}) | plain(columns.get("tool_extra_fields") or {})
        extra |= {"num_turns": extra.get("__num_turns__"), "rollout_reward_scores": extra.get("reward_scores") or {}}
        if "raw_prompt" in columns:
            extra["prompt"] = prompt_of(plain(columns["raw_prompt"]))
        rollout = rollout_of(columns["data_source"], text, columns["reward_model"]["ground_truth"], extra)
        cut = None if self.max_tokens is None else len(ids) >= self.max_tokens and ids[-1] not in self.special
        return replace(rollout, token_ids=tuple(ids), num_tokens=len(ids), truncated=cut)


def _response(item: Any) -> list[int]:
    responses = item.batch["responses"]
    count = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
    ids: list[int] = responses[:count].tolist()
    return ids


def _select(config: Any, path: str) -> Any:
    """The value under a dotted path; None where there is none."""
    for name in path.split("."):
        config = None if config is None else config.get(name)
    return config


def _check_keys(config: Any, keys: tuple[str, ...]) -> None:
    """ConfigError for a key that the configuration asks for and no row will have."""
    algorithm: Mapping[str, Any] = config.get("algorithm") or {}
    groups = algorithm.get("filter_groups") or {}
    asked = {"algorithm.filter_groups.metric": groups.get("metric")} if groups.get("enable") else {}
    if algorithm.get("adv_estimator") == "gdpo":
        asked |= {f"algorithm.gdpo_reward_keys[{i}]": key for i, key in enumerate(algorithm.get("gdpo_reward_keys") or ())}
    for name, key in asked.items():
        if key not in (None, "reward", *keys):
            why = "; nothing in the reward gives an outcome: use a verifier, or reward.with_outcome(...)" if key == "acc" else ""
            raise ConfigError(f"{name}={key}: no row has it{why}. They have {', '.join(keys)}")
