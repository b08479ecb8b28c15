"""What a translation is: settings and gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from guerdon.errors import ConfigError

__all__ = ["Draft", "Gap", "Translation"]

LOSS_AXES = ("ratio", "gate", "aggregate")


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that a stack's settings do not say, and what to do about it."""

    axis: str
    text: str
    remedy: str = ""
    small: bool = False
    """The stack has it with a documented difference (an epsilon, a clamp, a normaliser) that leaves the method what it is."""

    def __str__(self) -> str:
        return f"{self.axis}: {self.text}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Translation:
    """A recipe in a stack's words. `settings` come as near as the stack can; `gaps` are what is left."""

    stack: str
    recipe: str
    target: str
    """What takes the settings: `trl.GRPOConfig`, `openrlhf.cli.train_ppo_ray`, `verl.trainer.main_ppo`."""
    settings: Mapping[str, Any]
    gaps: tuple[Gap, ...] = ()

    @property
    def support(self) -> Literal["native", "partial", "guerdon only"]:
        """`native`: no gap, or small ones. `guerdon only`: ratio, gate or aggregation is missing. `partial`: something else is."""
        missing = {gap.axis for gap in self.gaps if not gap.small}
        if missing & set(LOSS_AXES):
            return "guerdon only"
        return "partial" if missing else "native"

    def exact(self, *, small_gaps: bool = False) -> dict[str, Any]:
        """The settings, if they say all of the recipe (small gaps may be allowed).

        Raises ConfigError that lists the gaps.
        """
        if gaps := [gap for gap in self.gaps if not (small_gaps and gap.small)]:
            listed = " | ".join(map(str, gaps))
            raise ConfigError(f"recipe {self.recipe} is not exact in {self.stack}: {listed}")
        return dict(self.settings)

    def argv(self) -> list[str]:
        """The settings as words of a command line: `--flag value` for OpenRLHF, `key=value` for verl (Hydra)."""
        if self.stack == "verl":
            return [f"{key}={_hydra(value)}" for key, value in self.settings.items()]
        words: list[str] = []
        for flag, value in self.settings.items():
            if value is True:
                words.append(f"--{flag}")
            elif value is not False:
                words += [f"--{flag}", *(str(each) for each in (value if isinstance(value, tuple) else (value,)))]
        return words


def _hydra(value: Any) -> str:
    return "null" if value is None else str(value)


@dataclass(slots=True)
class Draft:
    """A translation being written."""

    settings: dict[str, Any] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def gap(self, axis: str, text: str, remedy: str = "") -> None:
        self.gaps.append(Gap(axis, text, remedy))

    def differs(self, axis: str, text: str, remedy: str = "") -> None:
        self.gaps.append(Gap(axis, text, remedy, small=True))
