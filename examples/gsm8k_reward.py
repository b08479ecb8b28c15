"""A reward for grade-school maths: right answer, boxed, not too long.

    guerdon score rollouts.jsonl --reward examples/gsm8k_reward.py:reward -o scores.jsonl
    guerdon filter rollouts.jsonl --reward examples/gsm8k_reward.py:reward --keep 0.2:0.8 -o kept.jsonl

`words` counts blanks, for data without token counts. With rollouts that carry `num_tokens` leave `tokenizer=` out; with a
model, pass its tokenizer.
"""

from __future__ import annotations

import guerdon.rewards as R


def words(text: str) -> list[str]:
    """The words between blanks, as a stand-in for tokens."""
    return text.split()


reward = (
    1.0 * R.math_equal()  # the outcome: what filters and pass rates look at
    + 0.2 * R.boxed_format()
    + 0.5 * R.soft_overlong(max_tokens=250, cache=100, tokenizer=words)
)
