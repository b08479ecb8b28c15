"""Length terms: penalties for long completions, and rewards that depend on length and correctness.

They count tokens, never characters: `num_tokens` of the rollout, or the completion through `tokenizer=`. They do not look at
what a completion says. Nothing here truncates or masks: see `abstain_if_truncated` for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from guerdon.errors import ConfigError, MissingInput
from guerdon.rewards.term import Combinator, Leaf, Term, require_name, require_term
from guerdon.rewards.tokens import Tokenizer, check_size, check_whole, encoder, tokens_of
from guerdon.types import Rollout, Status, Verdict

__all__ = ["CosineLength", "LengthPenalty", "SoftOverlong", "TokenCount", "cosine_length", "length_penalty", "soft_overlong"]


_NO_PENALTY = Verdict(0.0, Status.SCORED)


def _counts(term: Term, tokenizer: Tokenizer | None, rollouts: Sequence[Rollout]) -> list[int | Verdict]:
    """The tokens of each completion, or the verdict that says why they cannot be counted."""
    if tokenizer is None:
        if (lost := next((i for i, r in enumerate(rollouts) if r.num_tokens is None), None)) is not None:
            raise MissingInput(f"{term.name} reads 'num_tokens', which rollout {lost} lacks: pass it, or tokenizer= to the term")
        return [r.num_tokens or 0 for r in rollouts]
    encode = encoder(tokenizer)
    found = (tokens_of(encode, r.completion) for r in rollouts)
    return [ids if isinstance(ids, Verdict) else len(ids) for ids in found]


@dataclass(frozen=True)
class TokenCount(Leaf):
    """The number of tokens of each completion, as a score. A part of terms that combine length with something else."""

    tokenizer: Tokenizer | None = None
    name: str = "num_tokens"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset() if self.tokenizer is not None else frozenset({"num_tokens"})

    @property
    def is_brief(self) -> bool:
        return self.tokenizer is None

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [n if isinstance(n, Verdict) else Verdict(float(n), Status.SCORED) for n in _counts(self, self.tokenizer, rollouts)]


@dataclass(frozen=True)
class _LengthTerm(Leaf):
    """A penalty that grows with the number of tokens beyond `free`."""

    max_tokens: int
    scale: float
    tokenizer: Tokenizer | None
    name: str

    def __post_init__(self) -> None:
        require_name(self.name, type(self).__name__)
        check_whole(self.name, "max_tokens", self.max_tokens, 1)
        check_size(self.name, "scale", self.scale)
        if self.tokenizer is not None:
            encoder(self.tokenizer)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset() if self.tokenizer is not None else frozenset({"num_tokens"})

    @property
    def is_brief(self) -> bool:
        return self.tokenizer is None

    @property
    def free(self) -> int:
        """Tokens that cost nothing."""
        raise NotImplementedError

    def penalty(self, over: int) -> float:
        """The size of the penalty for `over` > 0 tokens beyond the free ones, before scaling."""
        raise NotImplementedError

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        free, out = self.free, []
        for n in _counts(self, self.tokenizer, rollouts):
            if isinstance(n, Verdict):
                out.append(n)
            elif n <= free:
                out.append(_NO_PENALTY)
            else:
                score = -self.scale * self.penalty(n - free)
                out.append(
                    Verdict(score, Status.SCORED, "overlong", f"{n} tokens, {n - free} more than {free}; the limit is {self.max_tokens}")
                )
        return out


@dataclass(frozen=True)
class SoftOverlong(_LengthTerm):
    """See `soft_overlong`."""

    cache: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.name, "cache", self.cache, 0)
        if self.cache > self.max_tokens:
            raise ConfigError(
                f"{self.name}: cache is the width of the buffer below max_tokens, so at most {self.max_tokens}; got {self.cache} "
                "(DAPO: max_tokens=20480, cache=4096)"
            )

    @property
    def free(self) -> int:
        return self.max_tokens - self.cache

    def penalty(self, over: int) -> float:
        return min(1.0, over / self.cache) if self.cache else 1.0


def soft_overlong(
    *, max_tokens: int, cache: int, scale: float = 1.0, tokenizer: Tokenizer | None = None, name: str = "soft_overlong"
) -> SoftOverlong:
    """Soft overlong punishment (DAPO, arXiv 2503.14476, eq. 13): 0 up to `max_tokens - cache` tokens, then linear down to `-scale` at
    `max_tokens`, and `-scale` beyond. `cache` is the width of that buffer in tokens, not a safe length; 0 makes a hard limit.

    The paper has scale 1. Reads `num_tokens`, unless `tokenizer=` counts the completion's tokens (without special ones, so an
    end-of-text token is not counted).

    >>> soft_overlong(max_tokens=100, cache=20)([Rollout("", num_tokens=n) for n in (80, 90, 100, 150)])
    [0.0, -0.5, -1.0, -1.0]
    """
    return SoftOverlong(max_tokens, scale, tokenizer, name, cache)


@dataclass(frozen=True)
class LengthPenalty(_LengthTerm):
    """See `length_penalty`."""

    safe_tokens: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.name, "safe_tokens", self.safe_tokens, 0)
        if self.safe_tokens >= self.max_tokens:
            raise ConfigError(f"{self.name}: safe_tokens must be below max_tokens={self.max_tokens}, got {self.safe_tokens}")

    @property
    def free(self) -> int:
        return self.safe_tokens

    def penalty(self, over: int) -> float:
        return over / (self.max_tokens - self.safe_tokens)


def length_penalty(
    *, safe_tokens: int, max_tokens: int, scale: float = 1.0, tokenizer: Tokenizer | None = None, name: str = "length_penalty"
) -> LengthPenalty:
    """`-scale * max(0, (n - safe_tokens) / (max_tokens - safe_tokens))` for n tokens: free up to `safe_tokens`, `-scale` at `max_tokens`,
    and on along the same line beyond, without a floor.

    The lambda form of DAPO's penalty (scale is lambda): equal to `soft_overlong(cache=max_tokens - safe_tokens)` up to
    `max_tokens`, steeper beyond. Reads `num_tokens`, unless `tokenizer=` counts the completion's tokens.

    >>> length_penalty(safe_tokens=80, max_tokens=100, scale=0.5)([Rollout("", num_tokens=n) for n in (80, 90, 100, 120)])
    [0.0, -0.25, -0.5, -1.0]
    """
    return LengthPenalty(max_tokens, scale, tokenizer, name, safe_tokens)


@dataclass(frozen=True)
class CosineLength(Combinator):
    """See `cosine_length`."""

    on: Term
    max_tokens: int
    correct: tuple[float, float]
    wrong: tuple[float, float]
    exceed: float
    threshold: float
    tokenizer: Tokenizer | None
    name: str

    def __post_init__(self) -> None:
        require_name(self.name, "cosine_length")
        require_term(self.on, f"{self.name}(on=)")
        check_whole(self.name, "max_tokens", self.max_tokens, 1)
        for label, pair in (("correct", self.correct), ("wrong", self.wrong)):
            if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(v, int | float) and math.isfinite(v) for v in pair):
                raise ConfigError(f"{self.name}: {label} must be two finite rewards, (at length 0, at max_tokens); got {pair!r}")
        for label, value in (("exceed", self.exceed), ("threshold", self.threshold)):
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise ConfigError(f"{self.name}: {label} must be a finite number, got {value!r}")
        if self.tokenizer is not None:
            encoder(self.tokenizer)

    @property
    def parts(self) -> tuple[Term, ...]:
        return (self.on, TokenCount(self.tokenizer))

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        return [self._one(on, count) for on, count in zip(*values, strict=True)]

    def _one(self, on: Verdict, count: Verdict) -> Verdict:
        if on.score is None or count.score is None:
            return on if on.score is None else count
        n, right = count.score, on.score >= self.threshold
        detail = f"{'right' if right else 'wrong'}, {n:.0f} of {self.max_tokens} tokens"
        if n >= self.max_tokens:
            return Verdict(self.exceed, Status.SCORED, "overlong", detail, on.extracted)
        short, long = self.correct if right else self.wrong
        score = long + 0.5 * (short - long) * (1.0 + math.cos(math.pi * n / self.max_tokens))
        return Verdict(score, Status.SCORED, "" if right else on.reason, detail, on.extracted)

    def outcome_term(self) -> Term | None:
        return self.on.outcome_term()


def _pair(rewards: tuple[float, float]) -> tuple[float, float]:
    """A list as the tuple that was meant; CosineLength refuses anything else."""
    return (rewards[0], rewards[1]) if isinstance(rewards, list) and len(rewards) == 2 else rewards


def cosine_length(
    *,
    on: Term,
    max_tokens: int,
    correct: tuple[float, float] = (2.0, 1.0),
    wrong: tuple[float, float] = (-10.0, 0.0),
    exceed: float = -10.0,
    threshold: float = 1.0,
    tokenizer: Tokenizer | None = None,
    name: str = "cosine_length",
) -> CosineLength:
    """The cosine reward of "Demystifying Long Chain-of-Thought Reasoning in LLMs" (arXiv 2502.03373, appendix C.1): right answers earn
    more when short, wrong ones lose less when long, and reaching `max_tokens` costs `exceed` either way.

    `correct` and `wrong` are the rewards (at length 0, at `max_tokens`), joined by half a cosine; the defaults are the paper's.
    TRL's defaults are `correct=(1.0, 0.5), wrong=(-1.0, -0.5)`, without `exceed`. A completion is right where `on` scores at least
    `threshold`. Where `on` abstains or does not apply, so does this; the outcome is that of `on`. It already holds the reward for
    correctness, so it replaces `on` in a sum. Deviation: the authors' code treats completions within 16 tokens of the limit
    as having reached it, and adds the repetition penalty to wrong ones; add `repetition` for that.

    >>> import guerdon.rewards as R
    >>> reward = R.cosine_length(on=R.exact(), max_tokens=1000)
    >>> reward([Rollout(text, answer="4", num_tokens=n) for text, n in [("4", 0), ("4", 500), ("5", 500), ("4", 1000)]])
    [2.0, 1.5, -5.0, -10.0]
    """
    return CosineLength(on, max_tokens, _pair(correct), _pair(wrong), exceed, threshold, tokenizer, name)
