"""RLOOTrainer trains on guerdon's functions, with the keywords that its configuration has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_trl import composed, history, make_dataset, rescored, train
from trl import RLOOConfig

from guerdon.backends.trl import reward_funcs
from guerdon.rewards.advantages import RLOO

pytestmark = pytest.mark.filterwarnings("ignore:.*activation_checkpointing:FutureWarning")


@pytest.mark.parametrize("chat", [False, True], ids=["plain", "conversational"])
def test_rloo_trains_four_steps_on_the_rewards_that_guerdon_computes(chat: bool, tmp_path: Path) -> None:
    reward = composed()
    funcs = reward_funcs(reward)
    keywords = funcs.config_kwargs(config=RLOOConfig)
    assert keywords == {"reward_weights": [1.0, 0.2, 0.5, 1.0, 0.0]}
    trainer = train(funcs, tmp_path, kind="rloo", beta=0.0, dataset=make_dataset(chat=chat), **keywords)
    assert trainer.state.global_step == 4
    assert trainer.watched[-1] == pytest.approx(rescored(trainer, reward).advantages(RLOO).tolist(), abs=1e-5)
    assert max(map(abs, trainer.watched[-1])) > 0.1
    assert history(trainer, "guerdon/abstained") == [0.0] * 4
