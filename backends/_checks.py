"""What the axes check when built: one line that says who, got and expected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from guerdon.errors import ConfigError

__all__ = ["require", "require_choice", "require_number"]


def require(condition: bool, owner: object, message: str) -> None:
    """ConfigError "Owner: message" unless the condition holds."""
    if not condition:
        raise ConfigError(f"{type(owner).__name__}: {message}")


def require_choice(owner: object, name: str, choices: Sequence[str]) -> None:
    got = getattr(owner, name)
    require(got in choices, owner, f"{name} expects one of {', '.join(choices)}, got {got!r}")


def require_number(owner: object, *names: str, above: float = 0.0, optional: bool = False, inclusive: bool = False) -> None:
    """A finite number above (or at least) the bound; None too where optional."""
    for name in names:
        got: Any = getattr(owner, name)
        if got is None and optional:
            continue
        number = isinstance(got, (int, float)) and not isinstance(got, bool) and math.isfinite(got)
        bound = f"{'of at least' if inclusive else 'above'} {above:g}{', or None' if optional else ''}"
        require(number and (got > above or (inclusive and got == above)), owner, f"{name} expects a finite number {bound}, got {got!r}")
