"""guerdon: verifiable rewards for LLM reinforcement learning.

A reward is a value you can hold, combine, test, time and audit before it trains anything; every trainer gets the
same one. Start with `import guerdon.rewards as R`. Importing guerdon loads the standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guerdon.abstention import OnAbstain
from guerdon.errors import Abstain
from guerdon.types import Message, Reward, Rollout, Status, Verdict, Verifier

if TYPE_CHECKING:
    from guerdon.rewards.scores import Scores
    from guerdon.sandboxes.registry import close, session

__version__ = "0.1.0"

__all__ = [
    "Abstain",
    "Message",
    "OnAbstain",
    "Reward",
    "Rollout",
    "Scores",
    "Status",
    "Verdict",
    "Verifier",
    "__version__",
    "close",
    "session",
]

_LAZY = {"Scores": "guerdon.rewards.scores", "close": "guerdon.sandboxes.registry", "session": "guerdon.sandboxes.registry"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'guerdon' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return __all__
