"""OpenRLHF's texts as rollouts: the completion out of the query, the answer and columns out of the label.

`query` is what the tokenizer decoded from prompt and completion together, special tokens kept. A prompt does not always survive that
round trip: a BOS token is put before it, white space moves around special tokens, letters are normalised (NFC), an image's token is
repeated, and a prompt that is too long has lost its beginning. What still cannot be told apart from its prompt is no rollout: nothing is
scored by guesswork. Needs neither OpenRLHF nor torch.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from guerdon.rollouts import split_label
from guerdon.types import Rollout

__all__ = ["END_TOKENS", "column_names", "completion_of", "rollout_of", "split_label", "without_end"]

END_TOKENS: tuple[str, ...] = (
    "</s>",  # Llama 2, Mistral
    "<|im_end|>",  # ChatML: Qwen
    "<|endoftext|>",  # GPT-2, Qwen, Phi
    "<|eot_id|>",  # Llama 3
    "<|end_of_text|>",  # Llama 3, Granite
    "<|eom_id|>",  # Llama 3, before a tool's turn
    "<|eot|>",  # Llama 4
    "<eos>",  # Gemma
    "<end_of_turn>",  # Gemma
    "<|end|>",  # Phi
    "<|return|>",  # gpt-oss
    "<｜end▁of▁sentence｜>",  # DeepSeek, with its full-width bars
    "<|END_OF_TURN_TOKEN|>",  # Command R
    "[EOS]",
    "<pad>",
    "<|pad|>",
    "[PAD]",
)
"""Texts of end-of-sequence and padding tokens: cut from the end of completions, where format terms would otherwise meet them."""

_SPECIAL = re.compile(r"\s*(?:<[^<>\s]{1,40}>|\[[A-Z]{2,12}\])")
_WORD = re.compile(r"\S+")
_IMAGES = re.compile(r"(<[^<>\s]{0,40}(?:image|img|video|audio)[^<>\s]{0,40}>)(?:\1)+", re.IGNORECASE)
SEEN_OF_PROMPT = 32
"""A query that begins inside its prompt (OpenRLHF cuts long ones) must share at least so many letters with its end."""


def without_end(text: str, end_tokens: tuple[str, ...] = END_TOKENS) -> str:
    r"""The text without the end tokens at its very end. Blanks are cut only where a token follows or precedes them.

    >>> without_end("\\boxed{4}<|im_end|>\n")
    '\\boxed{4}'
    """
    while (stripped := text.rstrip()).endswith(end_tokens):
        token = max((t for t in end_tokens if stripped.endswith(t)), key=len)
        text = stripped[: -len(token)]
    return text


def completion_of(query: str, prompt: str) -> str | None:
    """What follows the prompt in the query; None where the prompt cannot be found at its beginning.

    >>> completion_of("<s> 2+2? 4", "2+2?"), completion_of("5+5? 10", "2+2?")
    (' 4', None)
    """
    if query.startswith(prompt):
        return query[len(prompt) :]
    query, prompt = unicodedata.normalize("NFC", query), unicodedata.normalize("NFC", prompt)
    first, wanted, blanks = _SPECIAL.match(query), _letters(prompt), len(prompt) - len(prompt.rstrip())
    for text in (query, query[first.end() :] if first else query):
        if wanted and (found := _after_letters(text, wanted, blanks)) is not None:
            return found
    if (once := _IMAGES.sub(r"\1", query)) != query:
        found = completion_of(once, _IMAGES.sub(r"\1", prompt))
        return found if found is not None and query.endswith(found) else None
    return _after_end_of(query.lstrip("\ufffd"), wanted, blanks)  # a cut may have gone through a letter


def _letters(text: str) -> str:
    """The text without white space."""
    return "".join(text.split())


def _after_letters(query: str, wanted: str, blanks: int) -> str | None:
    """What follows these letters if the query begins with them, white space aside, and without so many blanks."""
    seen = 0
    for word in _WORD.finditer(query):
        text = word.group()[: len(wanted) - seen]
        if not wanted.startswith(text, seen):
            return None
        seen += len(text)
        if seen == len(wanted):
            rest = query[word.start() + len(text) :]
            return rest[min(blanks, len(rest) - len(rest.lstrip())) :]
    return None


def _after_end_of(query: str, wanted: str, blanks: int) -> str | None:
    """What follows the longest end of the prompt's letters that the query begins with: none of its examples is left over."""
    seen = _letters(query)
    start = wanted.find(seen[:SEEN_OF_PROMPT], 1) if len(seen) >= SEEN_OF_PROMPT else -1
    while start > 0:
        if seen.startswith(wanted[start:]):
            return _after_letters(query, wanted[start:], blanks)
        start = wanted.find(seen[:SEEN_OF_PROMPT], start + 1)
    return None


def column_names(reads: Iterable[str]) -> frozenset[str]:
    """`answer` and the names of the data columns that a reward reads (`a|b`: either): the keys that make a label an object of columns."""
    return frozenset({"answer"}.union(*(name.split("|") for name in reads)))


def rollout_of(query: Any, prompt: Any, label: Any, names: frozenset[str], end_tokens: tuple[str, ...] = END_TOKENS) -> Rollout | str:
    """One row as a rollout, or why it is none. Never raises."""
    try:
        return _rollout(query, prompt, label, names, end_tokens)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _rollout(query: Any, prompt: Any, label: Any, names: frozenset[str], end_tokens: tuple[str, ...]) -> Rollout | str:
    if not isinstance(query, str) or not isinstance(prompt, str):
        return f"expected texts, got a query of type {type(query).__name__} and a prompt of type {type(prompt).__name__}"
    completion = completion_of(query, prompt)
    if completion is None:
        return f"the query does not begin with its prompt (prompt {prompt[:60]!r}, query {query[:60]!r})"
    answer, columns = split_label(label, names)
    return Rollout(without_end(completion, end_tokens), prompt, answer, columns=columns)
