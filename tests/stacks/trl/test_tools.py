"""A conversation with a tool, through GRPOTrainer's own tool loop: what the last assistant message says is judged."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tiny_trl import QUIET, make_model, make_tool_tokenizer
from trl import GRPOConfig, GRPOTrainer

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.backends.trl import reward_funcs

pytestmark = pytest.mark.filterwarnings("ignore:.*activation_checkpointing:FutureWarning")

CALL = '<tool_call>\n{"name": "multiply", "arguments": {"a": 6, "b": 7}}\n</tool_call><|im_end|>'
FIRST = [CALL, "\\boxed{42}<|im_end|>", "\\boxed{41}<|im_end|>", CALL]
AFTER = ["It is \\boxed{42}<|im_end|>", "It is \\boxed{43}<|im_end|>"]


def multiply(a: int, b: int) -> int:
    """Multiplies.

    Args:
        a: The first number.
        b: The second number.
    """
    return a * b


class Script:
    """In place of `generate`: says FIRST, then AFTER what the tool answered."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, input_ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        texts = FIRST if len(input_ids) == len(FIRST) else AFTER
        ids = [self.tokenizer(text)["input_ids"] for text in texts]
        longest = max(map(len, ids))
        padded = torch.tensor([own + [self.tokenizer.pad_token_id] * (longest - len(own)) for own in ids])
        return torch.cat([input_ids, padded], dim=1)


def test_the_last_assistant_message_is_judged_and_the_tool_turns_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Rollout] = []

    def used_tool(rollout: Rollout) -> float:
        seen.append(rollout)
        return float(any(message.role == "tool" for message in rollout.messages or ()))

    funcs = reward_funcs(R.math_equal() + 0.5 * R.from_function(used_tool, reads={"messages"}))
    tokenizer = make_tool_tokenizer()
    model = make_model(tokenizer)
    settings = {**QUIET, "per_device_train_batch_size": 4, "max_completion_length": 400, **funcs.config_kwargs()}
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=funcs,
        args=GRPOConfig(output_dir=str(tmp_path), max_steps=1, **settings),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "6*7?"}], "answer": "42"}] * 4),
        processing_class=tokenizer,
        tools=[multiply],
    )
    monkeypatch.setattr(model, "generate", Script(tokenizer))
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    assert list(trainer._logs["rewards"]["math_equal"]) == [1.0, 1.0, 0.0, 0.0]
    assert list(trainer._logs["rewards"]["used_tool"]) == [1.0, 0.0, 0.0, 1.0]
    assert seen[0].completion == "It is \\boxed{42}"
    assert [message.role for message in seen[0].messages or ()] == ["assistant", "tool", "assistant"]
    assert seen[0].messages is not None
    assert seen[0].messages[1].content == "42"
    assert seen[0].messages[0].tool_calls
