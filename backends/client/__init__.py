"""A Python client of `guerdon serve`: the same rewards, scored by a server on another machine.

It sends rollouts and reads verdicts; nothing is scored here, and the reward's code is not needed here. Needs httpx (extra `remote` or
`serve`), which is loaded by the first call.
"""

from guerdon.backends.client.client import RewardClient
from guerdon.backends.client.wire import RemoteScore

__all__ = ["RemoteScore", "RewardClient"]
