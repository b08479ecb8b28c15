"""The command line, `guerdon`: score and filter files of rollouts, look at the installation, see a demonstration.

Each command is a module; `guerdon.cli.app` holds what they share at the door: one line on stderr and exit code 2 for
whatever is wrong with the input, no traceback, no partial file. Nothing here computes a reward.
"""

from __future__ import annotations

from guerdon.cli.app import main

__all__ = ["main"]
