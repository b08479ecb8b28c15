"""A reward file for verl 0.9: `reward.custom_reward_function.path=examples/verl_reward.py`.

The same `reward` scores files (`guerdon score rollouts.jsonl --reward examples/verl_reward.py:reward`) and drives every other trainer.
Rows of the data set need `data_source`, `reward_model.ground_truth` and `extra_info`, as verl's own examples have them.
"""

from __future__ import annotations

import guerdon.rewards as R
from guerdon.backends.verl import acompute_score_from, compute_score_from

reward = R.by_column(
    "data_source",
    {
        "openai/gsm8k": 1.0 * R.math_equal() + 0.2 * R.boxed_format(),
        "mbpp": R.code_tests(),  # ground_truth: {"inputs": [...], "outputs": [...]}, also as JSON
    },
)

compute_score = compute_score_from(reward)  # verl's default name
acompute_score = acompute_score_from(reward)  # reward.custom_reward_function.name=acompute_score: awaited on verl's own event loop
