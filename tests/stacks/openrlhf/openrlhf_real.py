"""OpenRLHF's real modules on a CPU: only what sits on the GPU (vLLM, DeepSpeed, flash-attn) is replaced before they are imported."""

from __future__ import annotations

import asyncio
import importlib.machinery
import json
import sys
import warnings
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

STUBS = [
    "vllm",
    "vllm.inputs",
    "vllm.utils",
    "deepspeed",
    "deepspeed.ops",
    "deepspeed.ops.adam",
    "deepspeed.runtime",
    "deepspeed.runtime.zero",
    "deepspeed.runtime.zero.partition_parameters",
    "deepspeed.utils",
    "flash_attn",
    "flash_attn.bert_padding",
    "flash_attn.utils",
    "flash_attn.utils.distributed",
]
NS = SimpleNamespace
PROMPT = "Q: 2+2?\n"
LABEL = json.dumps({"answer": "4", "data_source": "gsm8k"})
OUTS = ("<think>a</think>\\boxed{4}</s>", "\\boxed{4}</s>", "<think>b</think>\\boxed{5}</s>", "no</s>")


def stub() -> None:
    """Put stand-ins into sys.modules, with the specs and paths that importlib asks for."""
    for name in STUBS:
        if name not in sys.modules:
            module = MagicMock(name=name)
            module.__spec__, module.__path__ = importlib.machinery.ModuleSpec(name, None), []
            sys.modules[name] = module


def real() -> SimpleNamespace:
    """OpenRLHF's own classes and functions."""
    stub()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from openrlhf.trainer.ppo_utils import experience_maker, samples_generator
        from openrlhf.trainer.ppo_utils.experience import Experience, balance_experiences, make_experience_batch, split_experience_batch
        from openrlhf.trainer.ray import vllm_engine
        from openrlhf.utils import agent

    return NS(
        agent=agent,
        Executor=agent.SingleTurnAgentExecutor,
        load_agent=vllm_engine._load_agent_executor,
        Actor=vllm_engine.RolloutRayActor.__ray_metadata__.modified_class,
        Generator=samples_generator.SamplesGenerator,
        generator_module=samples_generator,
        maker_module=experience_maker,
        Maker=experience_maker.RemoteExperienceMaker,
        Experience=Experience,
        balance=balance_experiences,
        split=split_experience_batch,
        join=make_experience_batch,
    )


class Tokenizer:
    """One token a character."""

    eos_token = "</s>"
    pad_token_id = 0

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        import torch

        return {"input_ids": torch.tensor([[ord(c) for c in text]])}

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return "".join(map(chr, ids))


class Engine:
    """Gives its texts in turn, the last first where `backwards`; a text that is an exception is raised."""

    def __init__(self, texts: Sequence[Any], backwards: bool = False) -> None:
        self.texts, self.asked, self.backwards = list(texts), 0, backwards

    async def generate(self, ids: Any, params: Any, multi_modal_data: Any = None) -> Any:
        turn = self.asked % len(self.texts)
        self.asked += 1
        await asyncio.sleep(0.005 * (len(self.texts) - turn if self.backwards else turn))
        text = self.texts[turn]
        if isinstance(text, BaseException):
            raise text
        reason = "stop" if text.endswith("</s>") else "length"
        return NS(outputs=[NS(token_ids=[ord(c) for c in text], text=text, finish_reason=reason, logprobs=None)])


def rollouts(stack: Any, executor: Any, texts: Sequence[Any] = OUTS, prompt: str = PROMPT, label: Any = LABEL) -> list[dict[str, Any]]:
    """The real `generate_responses` of one prompt."""
    return asyncio.run(responses(stack, executor, texts, prompt, label))


def responses(
    stack: Any, executor: Any, texts: Sequence[Any] = OUTS, prompt: str = PROMPT, label: Any = LABEL, backwards: bool = False
) -> Coroutine[Any, Any, list[dict[str, Any]]]:
    actor = Engine(texts, backwards)
    actor.executor = executor  # type: ignore[attr-defined]
    params = NS(max_tokens=64, logprobs=None)
    found: Coroutine[Any, Any, list[dict[str, Any]]] = stack.Actor.generate_responses(
        actor, prompt=prompt, label=label, sampling_params=params, max_length=512, hf_tokenizer=Tokenizer(), num_samples=len(texts)
    )
    return found


def experiences(stack: Any, outputs: Sequence[dict[str, Any]]) -> list[Any]:
    """The real sampler's Experience of each response."""
    generator = stack.Generator.__new__(stack.Generator)
    return [generator._process_response_into_experience(output, max_len=512) for output in outputs]


def maker(stack: Any, estimator: str = "reinforce", n: int = 4, micro: int = 2, init: bool = False, **reward: Any) -> Any:
    """The real experience maker on a namespace of flags."""
    flags = {"overlong_buffer_len": None, "overlong_penalty_factor": 1, "stop_properly_penalty_coef": None, "remote_url": ["reward.py"]}
    args = NS(
        algo=NS(advantage=NS(estimator=estimator, gamma=1.0, lambd=1.0, no_std_norm=False), kl=NS(use_loss=False)),
        reward=NS(**{**flags, "clip_range": (-10, 10), **reward}),
        rollout=NS(n_samples_per_prompt=n, max_new_tokens=64, micro_batch_size=micro),
        data=NS(max_len=512),
        train=NS(dynamic_batch_enable=False),
    )
    if init:
        return stack.Maker(None, None, None, None, NS(value=0.0), NS(args=args), Tokenizer())
    made = stack.Maker.__new__(stack.Maker)
    made.strategy, made.args, made.advantage_estimator = NS(args=args), args, estimator
    made.kl_ctl, made.tokenizer = NS(value=0.0), Tokenizer()
    return made


def prepared(made: Any, found: Sequence[Any], shuffle: Callable[[list[Any]], list[Any]] = list) -> list[Any]:
    """Micro-batches as the trainer makes them, before advantages."""
    import torch

    batches = shuffle(made.split_rollout_samples(list(found)))
    for batch in batches:
        batch.kl = torch.zeros_like(batch.action_mask, dtype=torch.float32)
    return batches


def first_advantages(batches: Sequence[Any]) -> dict[int, float]:
    """The advantage of each rollout (its first token's), by index."""
    return {
        index: float(values[mask.bool()][0])
        for batch in batches
        for index, values, mask in zip(batch.index, batch.advantages, batch.action_mask, strict=True)
    }
