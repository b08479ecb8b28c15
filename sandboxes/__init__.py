"""Contain what must not be trusted to behave or to end.

Here: sandboxes for programs nobody trusts (`Job`, `RunResult`, `sandbox(Zygote())`), killable workers for slow functions (`pool`),
the registry of this process's live things (`close`, `session`), and the deadline of the current call (`until`, `remaining`).
Importing it starts nothing and loads no heavy module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guerdon.sandboxes._worker import mark
from guerdon.sandboxes.base import Capabilities, Job, Level, Limits, RunResult, RunStatus, Sandbox, SandboxSpec, at_least, sandbox
from guerdon.sandboxes.deadline import DEADLINE, remaining, until
from guerdon.sandboxes.registry import close, session
from guerdon.sandboxes.workers import Done, Failed, Pool, PoolSpec, pool
from guerdon.sandboxes.zygote import Zygote

if TYPE_CHECKING:
    from guerdon.sandboxes.docker import Docker
    from guerdon.sandboxes.remote import Piston, SandboxFusion

__all__ = [
    "DEADLINE",
    "Capabilities",
    "Docker",
    "Done",
    "Failed",
    "Job",
    "Level",
    "Limits",
    "Piston",
    "Pool",
    "PoolSpec",
    "RunResult",
    "RunStatus",
    "Sandbox",
    "SandboxFusion",
    "SandboxSpec",
    "Zygote",
    "at_least",
    "close",
    "mark",
    "pool",
    "remaining",
    "sandbox",
    "session",
    "until",
]

_LAZY = {"Docker": "guerdon.sandboxes.docker", "Piston": "guerdon.sandboxes.remote", "SandboxFusion": "guerdon.sandboxes.remote"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'guerdon.sandboxes' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
