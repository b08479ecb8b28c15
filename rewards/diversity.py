"""Group terms: what does a rollout add to its siblings?

They compare the completions of one prompt (`reads` holds "group"), so the whole group must be scored in one call. A value
that is the same for the whole group has no advantage in GRPO, so each rollout gets a value of its own. Measurements for logs
and alarms are in `guerdon.rewards.diversity_metrics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from guerdon.errors import ConfigError
from guerdon.rewards.repetition import ngrams, units_of
from guerdon.rewards.term import Combinator, Leaf, Term, require_name, require_term
from guerdon.rewards.tokens import Tokenizer, check_size, check_whole, encoder
from guerdon.types import Rollout, Status, Verdict, group_ids

__all__ = ["Distinct", "DuplicatePenalty", "distinct", "duplicate_penalty"]

_ALONE = Verdict.of(Status.NOT_APPLICABLE, "not_concerned", "a group of one has no siblings to differ from")
_UNIQUE = Verdict(0.0, Status.SCORED)


@dataclass(frozen=True)
class Distinct(Leaf):
    """See `distinct`."""

    ngram: int
    tokenizer: Tokenizer | None
    name: str

    def __post_init__(self) -> None:
        require_name(self.name, "distinct")
        check_whole(self.name, "ngram", self.ngram, 1)
        if self.tokenizer is not None:
            encoder(self.tokenizer)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"group"})

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        encode = None if self.tokenizer is None else encoder(self.tokenizer)
        grams = [self._grams(units_of(encode, r.completion)) for r in rollouts]
        groups = group_ids(rollouts)
        sizes = Counter(groups)
        holders: Counter[tuple[int, Hashable]] = Counter()  # in how many rollouts of its group each n-gram occurs
        for group, own in zip(groups, grams, strict=True):
            if not isinstance(own, Verdict):
                holders.update((group, gram) for gram in own)
        return [
            own if isinstance(own, Verdict) else _ALONE if sizes[group] == 1 else self._novelty(group, own, holders)
            for group, own in zip(groups, grams, strict=True)
        ]

    def _grams(self, units: Sequence[Hashable] | Verdict) -> frozenset[Hashable] | Verdict:
        if isinstance(units, Verdict):
            return units
        return frozenset(ngrams(units, min(self.ngram, max(len(units), 1))))

    def _novelty(self, group: int, own: frozenset[Hashable], holders: Counter[tuple[int, Hashable]]) -> Verdict:
        fresh = sum(holders[group, gram] == 1 for gram in own)
        return Verdict(fresh / len(own) if own else 0.0, Status.SCORED, "", f"{fresh} of {len(own)} {self.ngram}-grams are in no sibling")


def distinct(*, ngram: int = 2, tokenizer: Tokenizer | None = None, name: str = "distinct") -> Distinct:
    """How new a rollout is within its group, in 0..1: the share of its different n-grams that occur in no sibling.

    Distinct-n of the whole group (Li et al., arXiv 1510.03055) would be the same for all siblings and so without any advantage;
    this is its share by rollout. 0 for a completion that a sibling repeats, and for an empty one; a completion shorter than
    `ngram` units is one n-gram. A group of one does not apply. Units are lower-case words, or tokens with `tokenizer=`.
    Nonsense is new as well: give it where it is also right, `R.gate(R.distinct(), on=...)`.

    >>> distinct(ngram=1)([Rollout("red", prompt="p"), Rollout("red blue", prompt="p"), Rollout("red", prompt="p")])
    [0.0, 0.5, 0.0]
    """
    return Distinct(ngram, tokenizer, name)


@dataclass(frozen=True)
class DuplicatePenalty(Combinator):
    """See `duplicate_penalty`."""

    penalty: float
    keep_first: bool
    on: Term | None
    name: str

    def __post_init__(self) -> None:
        require_name(self.name, "duplicate_penalty")
        check_size(self.name, "penalty", self.penalty)
        if not isinstance(self.keep_first, bool):
            raise ConfigError(f"{self.name}: keep_first must be True or False, got {self.keep_first!r}")
        if self.on is not None:
            require_term(self.on, f"{self.name}(on=)")

    @property
    def parts(self) -> tuple[Term, ...]:
        return () if self.on is None else (self.on,)

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | {"group"}

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        verdicts: Sequence[Verdict | None] = values[0] if values else [None] * len(rollouts)
        texts = [r.completion if v is None else v.extracted for r, v in zip(rollouts, verdicts, strict=True)]
        keys = [(group, None if text is None else " ".join(text.split())) for group, text in zip(group_ids(rollouts), texts, strict=True)]
        counts = Counter(keys)
        seen: set[tuple[int, str | None]] = set()
        out = []
        for key, verdict in zip(keys, verdicts, strict=True):
            if verdict is not None and verdict.score is None:
                out.append(verdict)
                continue
            free = key[1] is None or counts[key] == 1 or (self.keep_first and key not in seen)
            seen.add(key)
            out.append(_UNIQUE if free else self._duplicate(counts[key]))
        return out

    def _duplicate(self, count: int) -> Verdict:
        return Verdict(-self.penalty, Status.SCORED, "duplicate", f"{count} rollouts of the group say the same")


def duplicate_penalty(
    penalty: float = 1.0, *, keep_first: bool = False, on: Term | None = None, name: str = "duplicate_penalty"
) -> DuplicatePenalty:
    """`-penalty` for each rollout whose completion equals a sibling's (up to white space), else 0.

    All copies pay, whatever their order; `keep_first=True` lets the first one off, and then the order of the rows counts. With
    `on=` what that term extracted is compared instead of the completion (`on=R.math_equal()`: the final answers); a rollout it
    extracted nothing from duplicates nobody, and where it abstains or does not apply so does this. Right answers are
    duplicates of each other, so with `on=` keep the penalty below what being right earns. Not one of DAPO's techniques.
    Nothing is removed from the group: the penalty enters its mean and standard deviation.

    >>> import guerdon.rewards as R
    >>> R.duplicate_penalty()([Rollout("a b", prompt="p"), Rollout("a  b", prompt="p"), Rollout("c", prompt="p")])
    [-1.0, -1.0, 0.0]
    """
    return DuplicatePenalty(penalty, keep_first, on, name)
