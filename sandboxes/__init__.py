"""Contain what must not be trusted to behave or to end.

Here: killable workers for slow functions (`pool`), the registry of this process's live things (`close`, `session`), and the
deadline of the current call (`until`, `remaining`). Importing it starts nothing and loads no heavy module.
"""

from __future__ import annotations

from guerdon.sandboxes._worker import mark
from guerdon.sandboxes.deadline import DEADLINE, remaining, until
from guerdon.sandboxes.registry import close, session
from guerdon.sandboxes.workers import Done, Failed, Pool, PoolSpec, pool

__all__ = ["DEADLINE", "Done", "Failed", "Pool", "PoolSpec", "close", "mark", "pool", "remaining", "session", "until"]
