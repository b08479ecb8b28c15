"""The subclass of OpenRLHF's executor behind `agent_executor`. Importing this imports OpenRLHF."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from openrlhf.utils.agent import AgentExecutorBase, AgentInstanceBase, MultiTurnAgentExecutor, SingleTurnAgentExecutor

from guerdon.backends.openrlhf.agent import rollout_of_agent
from guerdon.backends.openrlhf.groups import Groups
from guerdon.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

    from guerdon.backends.openrlhf.agent import GroupScorer
    from guerdon.types import Rollout

__all__ = ["GroupExecutor", "executor_class"]

log = logging.getLogger("guerdon")


def executor_class(scorer: GroupScorer, agent: type | None) -> type:
    """A class that OpenRLHF can instantiate without arguments."""
    if agent is not None and not (isinstance(agent, type) and issubclass(agent, AgentInstanceBase)):
        raise ConfigError(f"agent_executor: agent= expects a subclass of openrlhf.utils.agent.AgentInstanceBase, got {agent!r}")
    return type("AgentExecutor", (GroupExecutor,), {"scorer": scorer, "agent": agent, "__doc__": GroupExecutor.__doc__})


class GroupExecutor(AgentExecutorBase):
    """Generates as OpenRLHF does, and holds each rollout back until its group has been scored. See `agent_executor`."""

    scorer: ClassVar[GroupScorer]
    agent: ClassVar[type | None] = None

    def __init__(self) -> None:
        self._inner = SingleTurnAgentExecutor() if self.agent is None else MultiTurnAgentExecutor(self.agent)
        self._groups: Groups[tuple[dict[str, Any], Rollout | str], dict[str, Any]] = Groups(self._settle)
        self._warned = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "execute" in vars(cls):  # called from a coroutine of its own, it would see groups of one
            raise ConfigError(f"{cls.__name__}: override generate(), not execute(): execute() finds the siblings by who calls it")

    def execute(  # not async: the n calls of a prompt are told by their caller
        self, prompt: Any, label: Any, sampling_params: Any, max_length: int, hf_tokenizer: Any, llm_engine: Any, images: Any = None
    ) -> asyncio.Task[dict[str, Any]]:
        """One rollout, with its reward once the whole group has one."""
        making = self._made(
            prompt=prompt,
            label=label,
            sampling_params=sampling_params,
            max_length=max_length,
            hf_tokenizer=hf_tokenizer,
            llm_engine=llm_engine,
            images=images,
        )
        return self._groups.join(making)

    async def generate(self, **call: Any) -> dict[str, Any]:
        """One rollout without a reward, by OpenRLHF's own executor. Override this to generate differently."""
        output: dict[str, Any] = await self._inner.execute(**call)
        return output

    async def _made(self, **call: Any) -> tuple[dict[str, Any], Rollout | str]:
        output, tokenizer = await self.generate(**call), call["hf_tokenizer"]
        special = (getattr(getattr(tokenizer, "tokenizer", tokenizer), name, None) for name in ("eos_token", "pad_token"))
        end_tokens = (*self.scorer.end_tokens, *(token for token in special if isinstance(token, str) and token))
        return output, rollout_of_agent(output, tokenizer, self.scorer.names, end_tokens)

    async def _settle(self, made: Sequence[tuple[dict[str, Any], Rollout | str]]) -> list[dict[str, Any]]:
        if len(made) == 1 and not self._warned and (self.scorer.spec is not None or "group" in self.scorer.reward.reads):
            self._warned = True
            log.warning("a group of one rollout has no advantage and no siblings: expected --rollout.n_samples_per_prompt of 2 or more")
        answers = await self.scorer([row for _, row in made])
        return [
            {**output, **answer, "extra_logs": {**(output.get("extra_logs") or {}), **answer["extra_logs"]}}
            for (output, _), answer in zip(made, answers, strict=True)
        ]
