"""A reward file for OpenRLHF: `--reward.remote_url examples/openrlhf_reward.py`, with `--data.label_key` naming the answers.

The path of the reward is relative to this file.
"""

from __future__ import annotations

from guerdon.backends.openrlhf import reward_func_from

reward_func = reward_func_from("gsm8k_reward.py:reward")
