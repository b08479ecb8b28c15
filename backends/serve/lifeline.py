"""Ends a process with the one that started it, whatever becomes of that one. Linux only; elsewhere it does nothing."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

__all__ = ["follow_parent"]


def follow_parent(number: signal.Signals) -> None:
    """Have the kernel send `number` to this process when its parent's thread that started it ends."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG
