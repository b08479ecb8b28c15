"""The words of `validate`: a trap, what it is looked for in, and what was found. No stack is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from guerdon.backends.trl.rows import Scoring
from guerdon.backends.trl.settings import Kind, Settings

__all__ = ["Case", "Check", "Finding", "Severity", "Trap", "trap"]

Severity = Literal["error", "warning", "note"]

LOOKED_AT = 64
"""Rows of the data set that are looked at before training."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `inspect` found. `message` says what was got, what is expected and the fix.

    `error`: the run will stop, or train on rewards or advantages that are not those asked for. `warning`: it will train something else
    than the settings' names say. `note`: it is as documented, and often misunderstood.
    """

    code: str
    severity: Severity
    message: str

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"


@dataclass(frozen=True, eq=False)
class Case:
    """What the traps look at. None where the caller did not say."""

    settings: Settings
    funcs: Any = None
    dataset: Any = None
    columns: frozenset[str] | None = None
    eval_columns: frozenset[str] | None = None
    trainer: Mapping[str, Any] = field(default_factory=dict)
    gpu: bool | None = None

    @cached_property
    def functions(self) -> Sequence[Any]:
        """The reward functions one by one; empty where they are unknown."""
        if self.funcs is None:
            return ()
        return self.funcs if isinstance(self.funcs, list | tuple) else (self.funcs,)

    @cached_property
    def reads(self) -> frozenset[str]:
        """What the functions say they read: data columns (`a|b`: either), and fields of a rollout."""
        found: set[str] = set()
        for each in (self.funcs, *self.functions):
            scoring = getattr(getattr(each, "settings", each), "scoring", None)
            names = getattr(each, "reads", getattr(scoring, "reads", None))
            found |= names if isinstance(names, frozenset) else set()
        return frozenset(found)

    @cached_property
    def scorings(self) -> list[Scoring]:
        """How guerdon's functions score: one for each reward."""
        found: list[Scoring] = []
        for each in (self.funcs, *self.functions):
            scoring = getattr(getattr(each, "settings", each), "scoring", None)
            if isinstance(scoring, Scoring) and all(scoring is not known for known in found):
                found.append(scoring)
        return found

    @cached_property
    def sample(self) -> list[tuple[int, Mapping[str, Any]]]:
        """Some rows from all over the data set, each with its number; empty where it is streamed, or several by name."""
        data = self.dataset
        if not self.scorings or isinstance(data, Mapping) or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
            return []
        n, taken = len(data), min(len(data), LOOKED_AT)
        places = [i * (n - 1) // max(1, taken - 1) for i in range(taken)]
        return [(place, row) for place in places if isinstance(row := data[place], Mapping)]

    @cached_property
    def finished(self) -> list[Any]:
        """The functions that return finished advantages instead of rewards, as those say that have `returns_advantages = True`."""
        return [f for f in self.functions if getattr(f, "returns_advantages", False) is True]

    @cached_property
    def own_weights(self) -> list[float | None]:
        """For each function the entry of `reward_weights` that it asks for; None where it says nothing."""
        found = [getattr(f, "weight", None) for f in self.functions]
        return [weight if isinstance(weight, float) else None for weight in found]

    @cached_property
    def weights(self) -> list[Any] | None:
        """`reward_weights`; None where TRL gives each function 1, or will not take what was given."""
        given = self.settings["reward_weights"]
        return list(given) if isinstance(given, list | tuple) else None


Check = Callable[[Case], Iterator["str | Finding"]]


@dataclass(frozen=True, slots=True)
class Trap:
    """One way to go wrong in TRL: how it is seen, and what happens if it is not mended."""

    code: str
    severity: Severity
    bites: str
    check: Check
    kinds: tuple[Kind, ...]

    def find(self, case: Case) -> list[Finding]:
        if case.settings.kind not in self.kinds:
            return []
        return [found if isinstance(found, Finding) else Finding(self.code, self.severity, found) for found in self.check(case)]


def trap(code: str, severity: Severity, bites: str, kinds: tuple[Kind, ...] = ("grpo", "gmpo", "rloo")) -> Callable[[Check], Trap]:
    """Makes a Trap of a check, which yields one message for each time it bites, or a Finding where that is less severe."""
    return lambda check: Trap(code, severity, bites, check, kinds)


def gpu_visible() -> bool | None:
    """Whether torch sees a GPU or its like (MPS, XPU, NPU); None while torch is not loaded, which is not done for this."""
    torch = sys.modules.get("torch")
    return None if torch is None else bool(getattr(torch, "accelerator", torch.cuda).is_available())
