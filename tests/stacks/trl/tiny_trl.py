"""A policy and a tokenizer small enough to train on a CPU in a second, without downloads, and short ways to train with TRL.

One token a character: random completions hold digits, so that rewards differ within a group.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.chat_template_utils import qwen3_chat_template

import guerdon.rewards as R
from guerdon import Rollout

CHARACTERS = [chr(c) for c in range(32, 127)] + ["\n"]
SPECIAL = ["<pad>", "<eos>", "<|user|>", "<|assistant|>", "<unk>"]
TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<eos>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
QUIET: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 12,
    "learning_rate": 1e-3,
    "logging_steps": 1,
    "report_to": [],
    "use_cpu": True,
    "bf16": False,
    "activation_checkpointing": False,
    "save_strategy": "no",
    "disable_tqdm": True,
    "seed": 0,
}


def make_tokenizer(special: Sequence[str] = SPECIAL, template: str = TEMPLATE) -> Any:
    """`special` begins with the padding and the end of text."""
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate([*special, *CHARACTERS])}, merges=[], unk_token="<unk>"))
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=special[0],
        eos_token=special[1],
        unk_token="<unk>",
        additional_special_tokens=[t for t in special[2:] if t != "<unk>"],
        padding_side="left",
    )
    fast.chat_template = template
    return fast


def make_tool_tokenizer() -> Any:
    """With the template of Qwen3, whose tool calls TRL can parse."""
    return make_tokenizer(["<pad>", "<|im_end|>", "<|im_start|>", "<unk>"], qwen3_chat_template)


def make_model(tokenizer: Any, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(config)


def make_dataset(rows: int = 16, *, chat: bool = False, **columns: Sequence[Any]) -> Dataset:
    def prompt(i: int) -> Any:
        text = f"{i}+{i + 1}="
        return [{"role": "user", "content": text}] if chat else text

    own = {name: list(values) for name, values in columns.items()}
    return Dataset.from_dict({"prompt": [prompt(i) for i in range(rows)], "answer": [str(2 * i + 1) for i in range(rows)], **own})


class Watch(TrainerCallback):
    """Keeps the advantages that TRL trained with, step by step."""

    def __init__(self) -> None:
        self.trainer: Any = None
        self.steps: list[list[float]] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.steps.append(list(self.trainer._logs["advantages"]))


def train(
    funcs: Any,
    output: Path,
    *,
    kind: str = "grpo",
    steps: int = 4,
    dataset: Any = None,
    trainer: dict[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """A trainer that has made `steps` steps. `.watched` holds the advantages of each."""
    tokenizer = make_tokenizer()
    config_class, trainer_class = {"grpo": (GRPOConfig, GRPOTrainer), "rloo": (RLOOConfig, RLOOTrainer)}[kind]
    args = config_class(output_dir=str(output), max_steps=steps, **{**QUIET, **settings})
    watch = Watch()
    made = trainer_class(
        model=make_model(tokenizer),
        reward_funcs=funcs,
        args=args,
        train_dataset=make_dataset() if dataset is None else dataset,
        processing_class=tokenizer,
        callbacks=[watch],
        **(trainer or {}),
    )
    watch.trainer = made
    with contextlib.redirect_stdout(io.StringIO()):
        made.train()
    made.watched = watch.steps
    return made


def history(trainer: Any, key: str) -> list[float]:
    """A metric, step by step."""
    return [entry[key] for entry in trainer.state.log_history if key in entry]


def digits(completion: str) -> float:
    """The share of characters that are digits: a dense reward for a policy that babbles."""
    return sum(c.isdigit() for c in completion) / max(1, len(completion))


def dense(rollout: Rollout) -> float:
    """`digits` of a rollout."""
    return digits(rollout.completion)


def composed() -> Any:
    """Correctness, format, length, a dense term, and one that is only watched."""
    length = R.soft_overlong(max_tokens=12, cache=8, tokenizer=list)  # characters: special tokens are not in the text
    watched = R.repetition(ngram=1, tokenizer=list)
    return R.math_equal() + 0.2 * R.boxed_format() + 0.5 * length + 1.0 * R.from_function(dense) + 0.0 * watched


def rescored(trainer: Any, reward: Any) -> Any:
    """The scores that guerdon gives to the completions of the trainer's last batch, without the adapter."""
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in trainer._logs["completion"]]
    prompts = [p if isinstance(p, str) else p[-1]["content"] for p in trainer._logs["prompt"]]
    answers = {f"{i}+{i + 1}=": str(2 * i + 1) for i in range(16)}
    return reward.score([Rollout(text, prompt, answers[prompt]) for text, prompt in zip(texts, prompts, strict=True)])
