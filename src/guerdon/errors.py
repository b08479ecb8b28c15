"""Every exception guerdon raises, in one tree::

    GuerdonError
    ├── ConfigError (ValueError)       an argument or a composition is wrong; raised when built
    │   ├── MissingInput               a term reads what the rollouts do not carry
    │   ├── MissingExtra (ImportError) an optional package is not installed; names the pip line
    │   └── LoadError                  an import string or a file did not give the object asked for
    ├── DataError (ValueError)         a data file or row cannot be read
    ├── AbstentionError                a row abstained and the policy is OnAbstain("raise")
    ├── BrokenRewardError (RuntimeError)  too many of the last rows were ERROR or BAD_REFERENCE
    ├── Abstain                        raised by user functions to abstain on one row (UNSCORED)
    └── SandboxError (RuntimeError)    a pool or sandbox could not be started or is closed

Scoring raises none of them for what a completion holds: that is data (see `guerdon.Status`).
All are picklable: they carry one message and nothing else.
"""

from __future__ import annotations

__all__ = [
    "Abstain",
    "AbstentionError",
    "BrokenRewardError",
    "ConfigError",
    "DataError",
    "GuerdonError",
    "LoadError",
    "MissingExtra",
    "MissingInput",
    "SandboxError",
]


class GuerdonError(Exception):
    """Base of every exception raised by guerdon."""


class ConfigError(GuerdonError, ValueError):
    """An argument, option or composition is wrong. The message says got, expected and the fix."""


class MissingInput(ConfigError):
    """A term reads a column, token count or other input that the rollouts do not carry."""


class MissingExtra(ConfigError, ImportError):
    """An optional package is not installed. The message names the pip line that installs it."""


class LoadError(ConfigError):
    """An import string (`pkg.mod:obj`, `file.py:obj`) did not give the object asked for."""


class DataError(GuerdonError, ValueError):
    """A data file or one of its rows cannot be read. The message says where and how to mend it."""


class AbstentionError(GuerdonError):
    """A row has no reward and the policy at this door is `OnAbstain("raise")`."""


class BrokenRewardError(GuerdonError, RuntimeError):
    """Too many of the last rows ended in ERROR or BAD_REFERENCE: the reward, not the policy, is broken."""


class Abstain(GuerdonError):
    """Raise it in a reward function to abstain on a row on purpose: status UNSCORED, no reward.

    Return None instead when the function does not concern the row (NOT_APPLICABLE).
    """


class SandboxError(GuerdonError, RuntimeError):
    """A worker pool or sandbox could not be started, or was used after it was closed."""
