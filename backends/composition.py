"""`Recipe`: one value on each axis, checked together. Named ones are made by the functions of `guerdon.backends.recipes`.

A recipe computes nothing. It says what it reads, what differs from another, and what each training stack can run of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from guerdon.backends._checks import require
from guerdon.backends.axes import KL, Aggregate, Masks, Overlong, Ratio, RolloutCorrection, Selection
from guerdon.backends.gates import DivergenceMask, GammaWeight, Gate, Pairwise, Surrogate, Unclipped
from guerdon.errors import ConfigError
from guerdon.rewards.advantages import AdvantageSpec

if TYPE_CHECKING:
    from guerdon.backends.translate import Translation

__all__ = ["Recipe"]

_ALWAYS = 4
"""How many fields of an axis `describe` shows whether or not they are at their defaults."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "advantage": (AdvantageSpec,),
    "ratio": (Ratio,),
    "gate": (Gate,),
    "aggregate": (Aggregate,),
    "kl": (KL, type(None)),
    "rollout_correction": (RolloutCorrection, type(None)),
    "masks": (Masks,),
    "selection": (Selection,),
    "overlong": (Overlong, type(None)),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """An algorithm as a composition; vary one with `recipe.but(gate=Clip(0.2, 0.3))`.

    Raises ConfigError when two axes contradict each other.

    >>> Recipe(gate=GammaWeight())
    Traceback (most recent call last):
    ...
    guerdon.errors.ConfigError: Recipe: gate GammaWeight reads the ratio of sequences: use ratio=Ratio('product'), got level='token'
    """

    advantage: AdvantageSpec = field(default_factory=AdvantageSpec)
    ratio: Ratio = field(default_factory=Ratio)
    gate: Gate = field(default_factory=Unclipped)
    aggregate: Aggregate = field(default_factory=Aggregate)
    kl: KL | None = None
    rollout_correction: RolloutCorrection | None = None
    masks: Masks = field(default_factory=Masks)
    selection: Selection = field(default_factory=Selection)
    overlong: Overlong | None = None
    """The length penalty that belongs to the reward; the loss does not read it."""
    group_size: int | None = None
    """Completions a prompt, where the method names a number; None leaves it open."""
    name: str = "custom"

    def __post_init__(self) -> None:
        for axis, types in _TYPES.items():
            got = getattr(self, axis)
            expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in types)
            require(isinstance(got, types), self, f"{axis} expects {expected}, got {got!r}")
        size = self.group_size
        require(size is None or (isinstance(size, int) and size >= 1), self, f"group_size expects a whole number above 0, got {size!r}")
        alone = size == 1 and (self.advantage.center in ("group", "loo") or self.advantage.scale in ("group", "rank"))
        require(not alone, self, "group_size=1 leaves every advantage 0: a group baseline needs at least 2 completions a prompt")
        self._check_ratio_and_gate()
        self._check_rollout_correction()

    def _check_ratio_and_gate(self) -> None:
        level, gate = self.ratio.level, type(self.gate).__name__
        sequences = isinstance(self.gate, (GammaWeight, Pairwise))
        message = f"gate {gate} reads the ratio of sequences: use ratio=Ratio('product'), got level={level!r}"
        require(not sequences or level == "product", self, message)
        tokens = isinstance(self.gate, DivergenceMask)
        require(not tokens or level == "token", self, f"gate {gate} compares tokens: use ratio=Ratio('token'), got level={level!r}")
        clipped = level == "geometric_clipped"
        require(not clipped or isinstance(self.gate, Unclipped), self, f"level={level!r} clips already: use gate=Unclipped(), got {gate}")
        live = level == "geometric_token" and not isinstance(self.gate, Surrogate)
        require(not live, self, f"level={level!r} differs from 'geometric' in the gradient alone, which gate {gate} stops: use 'geometric'")
        if isinstance(self.gate, Pairwise):
            require(
                self.group_size == 2,
                self,
                f"gate Pairwise compares the two completions of a prompt: use group_size=2, got {self.group_size}",
            )
            how = self.aggregate.how
            require(how == "sequence_mean", self, f"gate Pairwise is one loss a pair: use Aggregate('sequence_mean'), got {how!r}")

    def _check_rollout_correction(self) -> None:
        correction = self.rollout_correction
        if correction is None:
            return
        anchored = self.ratio.anchor == "rollout"
        require(not anchored, self, "ratio anchor='rollout' already corrects for the rollout policy: use rollout_correction=None")
        folds = correction.fold == isinstance(self.gate, GammaWeight)
        message = f"rollout_correction fold={correction.fold}: gate GammaWeight takes fold=True, any other fold=False"
        require(folds, self, message)

    @property
    def reads(self) -> frozenset[str]:
        """The inputs that the loss cannot do without, by the names `losses.policy_loss` gives them; `old_logp_NT` defaults to logp_NT."""
        from_logits = isinstance(self.gate, DivergenceMask) and self.gate.from_logits
        wants = {
            "rollout_logp_NT": self.rollout_correction is not None or self.ratio.anchor == "rollout",
            "ref_logp_NT": (self.kl is not None and self.kl.place == "loss") or self.masks.token_weight != "1",
            "truncated_N": self.masks.truncated,
            "entropy_NT": self.masks.entropy_quantile is not None,
            "keep_NT": from_logits or self.masks.duplicates != "keep",
            "group_size": self.aggregate.how == "prompt_mean" or isinstance(self.gate, Pairwise),
            "length": self.aggregate.how == "token_sum" and self.aggregate.length is None,
        }
        return frozenset(name for name, wanted in wants.items() if wanted)

    def but(self, **changes: Any) -> Recipe:
        """A copy with other axes, named `custom` unless a name is given."""
        known = [each.name for each in fields(self)]
        for name in changes:
            if name not in known:
                raise ConfigError(f"Recipe: no axis {name!r}; there are {', '.join(known)}")
        return replace(self, **{"name": "custom", **changes})

    def describe(self) -> str:
        """Its axes, one a line; of long axes only what is not at its default."""
        return "\n".join(f"{axis:<20}{text}" for axis, text in self._axes().items())

    def diff(self, other: Recipe) -> str:
        """The axes on which they differ, one a line: `axis: this -> other`; empty if only the name differs."""
        mine, theirs = self._axes(), other._axes()
        return "\n".join(f"{axis}: {mine[axis]} -> {theirs[axis]}" for axis in mine if mine[axis] != theirs[axis])

    def _axes(self) -> dict[str, str]:
        axes = {each.name: _terse(getattr(self, each.name)) for each in fields(self) if each.name not in ("name", "group_size")}
        return {**axes, "group_size": str(self.group_size or "any")}

    def trl(self) -> Translation:
        """GRPOConfig keyword arguments for TRL 1.16, and what they cannot say. See `guerdon.backends.translate`."""
        from guerdon.backends.translate import to_trl

        return to_trl(self)

    def openrlhf(self) -> Translation:
        """Flags of `openrlhf.cli.train_ppo_ray` 0.11, and what they cannot say."""
        from guerdon.backends.translate import to_openrlhf

        return to_openrlhf(self)

    def verl(self) -> Translation:
        """Hydra overrides for verl 0.9, and what they cannot say."""
        from guerdon.backends.translate import to_verl

        return to_verl(self)


def _terse(value: Any) -> str:
    """`Clip(eps_low=0.2, eps_high=0.28)`: the first fields of an axis, and whatever else is not at its default."""
    if value is None:
        return "none"
    parts = []
    for place, each in enumerate(fields(value)):
        got = getattr(value, each.name)
        if got != each.default if place >= _ALWAYS else got not in (None, False, "keep", "1"):
            parts.append(f"{each.name}={_terse(got) if hasattr(got, '__dataclass_fields__') else repr(got)}")
    return f"{type(value).__name__}({', '.join(parts)})"
