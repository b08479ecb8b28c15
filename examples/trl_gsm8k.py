"""GRPO in TRL on a guerdon reward: right answer, boxed, not too long.

    python examples/trl_gsm8k.py                 # four steps of a tiny random model on the CPU; downloads nothing
    python examples/trl_gsm8k.py --gdpo          # every component normalised by itself (GDPO), by TRL
    python examples/trl_gsm8k.py --gopo          # ranks within the group (GOPO), computed by guerdon
    accelerate launch examples/trl_gsm8k.py --model Qwen/Qwen2.5-1.5B-Instruct --dataset openai/gsm8k

Needs `pip install "guerdon[trl]"`. The tiny model learns nothing; it shows what is called with what, and what is logged.
"""

from __future__ import annotations

import argparse
from typing import Any

import guerdon.rewards as R
from guerdon.backends.trl import CollapseMonitor, advantage_func, reward_funcs
from guerdon.rewards.advantages import GOPO

INSTRUCTION = "Solve the problem step by step. End with the answer in \\boxed{}."


def make_reward(max_tokens: int) -> R.WeightedSum:
    """The outcome, and two terms that shape: the total is what is trained on, the outcome is what is reported."""
    return R.math_equal() + 0.2 * R.boxed_format() + 0.5 * R.soft_overlong(max_tokens=max_tokens, cache=max_tokens // 4)


def real(model: str, dataset: str) -> tuple[Any, Any, Any]:
    """Model, tokenizer and data from the Hub. The column `answer` is what the reward reads; GSM8K ends it with '#### 42'."""
    from datasets import load_dataset
    from transformers import AutoTokenizer

    def chat(row: dict[str, Any]) -> dict[str, Any]:
        prompt = [{"role": "user", "content": f"{row['question']}\n{INSTRUCTION}"}]
        return {"prompt": prompt, "answer": row["answer"].rpartition("####")[2].strip()}

    data = load_dataset(dataset, "main", split="train")
    return model, AutoTokenizer.from_pretrained(model), data.map(chat, remove_columns=["question"])


def tiny() -> tuple[Any, Any, Any]:
    """A random model of 30,000 weights whose tokens are characters, and sums to do."""
    from datasets import Dataset
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    letters = ["<pad>", "<eos>", "<unk>", *map(chr, range(32, 127)), "\n"]
    characters = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[], unk_token="<unk>"))
    characters.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = Qwen2Config(vocab_size=len(letters), bos_token_id=None, eos_token_id=1, pad_token_id=0, **shape)
    rows = [{"prompt": [{"role": "user", "content": f"{i}+{i + 1}="}], "answer": str(2 * i + 1)} for i in range(16)]
    return Qwen2ForCausalLM(config), tokenizer, Dataset.from_list(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model of the Hub, or a folder (default: a tiny random one)")
    parser.add_argument("--dataset", default="openai/gsm8k")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--gdpo", action="store_true")
    how.add_argument("--gopo", action="store_true")
    options = parser.parse_args()

    from trl import GRPOConfig, GRPOTrainer

    model, tokenizer, data = real(options.model, options.dataset) if options.model else tiny()
    tokens, group = (1024, 8) if options.model else (16, 4)
    settings: dict[str, Any] = {"output_dir": "trl_gsm8k", "num_generations": group, "max_completion_length": tokens, "logging_steps": 1}
    if not options.model:
        settings |= {"max_steps": 4, "use_cpu": True, "bf16": False, "report_to": [], "save_strategy": "no", "disable_tqdm": True}

    reward = make_reward(tokens)
    funcs: Any
    if options.gopo:
        funcs = advantage_func(reward, GOPO, num_generations=group)
        settings |= funcs.config_kwargs()
    else:
        funcs = reward_funcs(reward, num_generations=group)
        settings |= funcs.config_kwargs("gdpo" if options.gdpo else "sum")
    args = GRPOConfig(per_device_train_batch_size=2 * group, **settings)
    funcs.validate(args, train_dataset=data)  # before a GPU hour is spent: settings that TRL would not honour, columns that are missing
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=funcs,
        args=args,
        train_dataset=data,
        processing_class=tokenizer,
        callbacks=[CollapseMonitor()],
    )
    trainer.train()
    for entry in trainer.state.log_history:
        shown = {key: round(value, 3) for key, value in entry.items() if key.startswith("guerdon/") and value}
        print(entry.get("step"), shown)


if __name__ == "__main__":
    main()
