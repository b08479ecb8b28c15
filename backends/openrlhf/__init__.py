"""OpenRLHF 0.11: a two-line reward file, an agent that scores whole groups, and an experimental launcher with guerdon's advantages.

    reward_func = reward_func_from("my.py:reward")       # --reward.remote_url reward_file.py
    AgentExecutor = agent_executor("my.py:reward")       # --train.agent_func_path agent.py

OpenRLHF is never imported before it is needed, and never a dependency. HTTP is `guerdon serve`. See docs/openrlhf.md.
"""

from __future__ import annotations

from guerdon.backends.openrlhf.agent import agent_executor
from guerdon.backends.openrlhf.reward_file import RewardFunc, reward_func_from
from guerdon.backends.openrlhf.rows import END_TOKENS

__all__ = ["END_TOKENS", "RewardFunc", "agent_executor", "reward_func_from"]
