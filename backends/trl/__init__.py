"""TRL: a guerdon reward as `reward_funcs` of GRPOTrainer, RLOOTrainer and their kin, or as finished advantages. Public hooks only.

Importing this loads neither torch nor transformers nor trl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guerdon.backends.trl.advantage import advantage_func
from guerdon.backends.trl.functions import reward_funcs

# At once, though it is seldom called: a module loaded later would take its own name's place here.
from guerdon.backends.trl.validate import validate

if TYPE_CHECKING:
    from guerdon.backends.trl.monitor import CollapseMonitor

__all__ = ["CollapseMonitor", "advantage_func", "reward_funcs", "validate"]


def __getattr__(name: str) -> Any:
    if name == "CollapseMonitor":
        from guerdon.backends.trl.monitor import CollapseMonitor

        return CollapseMonitor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
