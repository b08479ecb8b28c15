"""What the length, repetition and diversity terms share: tokenizers of every kind, and checks of their arguments.

Nothing here loads a tokenizer by the name of a model: pass the object, a callable, or an import string.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from guerdon.errors import ConfigError
from guerdon.loading import load
from guerdon.types import Status, Verdict

__all__ = ["Tokenizer", "check_size", "check_whole", "encoder", "tokens_of"]


class HasEncode(Protocol):
    """A tokenizer object: Hugging Face, tokenizers, tiktoken, SentencePiece."""

    def encode(self, text: str, /) -> Any: ...


Tokenizer = HasEncode | Callable[[str], Sequence[Hashable]] | str
"""An object with `encode`, a callable text -> ids, or an import string (`file.py:tokenizer`) that each process loads for itself."""


def encoder(tokenizer: Tokenizer) -> Callable[[str], Any]:
    """Text -> ids without special tokens, whatever kind of tokenizer it is. ConfigError when it is none.

    >>> encoder(str.split)("two words")
    ['two', 'words']
    """
    live: Any = load(tokenizer) if isinstance(tokenizer, str) else tokenizer
    if hasattr(live, "encode_ordinary"):  # tiktoken: its encode() raises on texts that look like special tokens
        return live.encode_ordinary  # type: ignore[no-any-return]
    encode: Any = getattr(live, "encode", live)
    if not callable(encode) or isinstance(live, str):
        raise ConfigError(f"tokenizer: expected an object with encode(text), a callable, or 'file.py:tokenizer'; got {type(live).__name__}")
    try:
        adds_special = "add_special_tokens" in inspect.signature(encode).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        adds_special = False
    return partial(encode, add_special_tokens=False) if adds_special else encode


def tokens_of(encode: Callable[[str], Any], text: str) -> Sequence[Hashable] | Verdict:
    """The ids of a text, or an ERROR verdict when the tokenizer raises. Lone surrogates, which many refuse, count as '?'."""
    try:
        found = encode(text)
    except Exception:
        try:
            found = encode(text.encode("utf-8", "replace").decode())
        except Exception as error:
            return Verdict.of(Status.ERROR, "exception", f"tokenizer: {type(error).__name__}: {error}"[:2000])
    if isinstance(found, Mapping):  # what calling a Hugging Face tokenizer gives: its length is 2, whatever the text
        found = found.get("input_ids", found)
    ids: Sequence[Hashable] = getattr(found, "ids", found)
    return ids


def check_whole(where: str, label: str, value: Any, least: int) -> None:
    """ConfigError unless `value` is an integer of at least `least`."""
    if type(value) is not int or value < least:
        raise ConfigError(f"{where}: {label} must be a whole number of at least {least}, got {value!r}")


def check_size(where: str, label: str, value: Any) -> None:
    """ConfigError unless `value` is the size of a penalty: finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ConfigError(f"{where}: {label} is the size of the penalty, finite and at least 0; got {value!r} (the score is its negative)")
