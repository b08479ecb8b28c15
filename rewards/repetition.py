"""A penalty for completions that repeat themselves.

It sees one completion at a time: repetition between the siblings of a group is `distinct` and `duplicate_penalty`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from guerdon.rewards.term import Leaf, require_name
from guerdon.rewards.tokens import Tokenizer, check_size, check_whole, encoder, tokens_of
from guerdon.types import Rollout, Status, Verdict

__all__ = ["Repetition", "ngrams", "repetition", "units_of"]

_NONE = Verdict(0.0, Status.SCORED)


def units_of(encode: Callable[[str], Any] | None, text: str) -> Sequence[Hashable] | Verdict:
    """What n-grams are made of: lower-case words, or the tokens of `encode`."""
    return text.lower().split() if encode is None else tokens_of(encode, text)


def ngrams(units: Sequence[Hashable], n: int) -> list[tuple[Hashable, ...]]:
    """Every run of n units, in order.

    >>> ngrams("abc", 2)
    [('a', 'b'), ('b', 'c')]
    """
    return list(zip(*(units[i:] for i in range(n)), strict=False))


@dataclass(frozen=True)
class Repetition(Leaf):
    """See `repetition`."""

    ngram: int
    max_penalty: float
    tokenizer: Tokenizer | None
    name: str

    def __post_init__(self) -> None:
        require_name(self.name, "repetition")
        check_whole(self.name, "ngram", self.ngram, 1)
        check_size(self.name, "max_penalty", self.max_penalty)
        if self.tokenizer is not None:
            encoder(self.tokenizer)

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        encode = None if self.tokenizer is None else encoder(self.tokenizer)
        return [self._one(units_of(encode, r.completion)) for r in rollouts]

    def _one(self, units: Sequence[Hashable] | Verdict) -> Verdict:
        if isinstance(units, Verdict):
            return units
        grams = ngrams(units, self.ngram)
        repeated = len(grams) - len(set(grams))
        if not repeated:
            return _NONE
        detail = f"{repeated} of {len(grams)} {self.ngram}-grams occurred before"
        return Verdict(-self.max_penalty * repeated / len(grams), Status.SCORED, "repeated", detail)


def repetition(*, ngram: int = 3, max_penalty: float = 1.0, tokenizer: Tokenizer | None = None, name: str = "repetition") -> Repetition:
    """`-max_penalty * (1 - distinct / total)` over the completion's n-grams: 0 without repetition, towards `-max_penalty` for a loop.

    After "Demystifying Long Chain-of-Thought Reasoning in LLMs" (arXiv 2502.03373, appendix C.2), in the per-completion form
    of the authors' code and of TRL; the paper also puts the penalty on the repeated tokens themselves, which a reward per
    completion cannot. `max_penalty` is a size: the score is its negative. Units are lower-case words, which see nothing in
    scripts without blanks: there, and to match TRL, pass `tokenizer=` (`tokenizer=list` counts characters). Fewer than `ngram`
    units score 0. Repeated markup (tables, code) counts as repetition.

    >>> repetition(ngram=2)([Rollout("to be or not to be"), Rollout("the cat sat")])
    [-0.2, 0.0]
    """
    return Repetition(ngram, max_penalty, tokenizer, name)
