"""What of the estimators needs no torch: their specs, and the settings of verl's GDPO."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon.backends.verl import ESTIMATORS, Estimator, gdpo_overrides
from guerdon.errors import ConfigError
from guerdon.rewards.advantages import GDPO, GOPO


def test_every_spec_of_totals_has_an_estimator_equal_by_value() -> None:
    assert {"guerdon_gopo", "guerdon_scalerl"} < ESTIMATORS.keys()
    assert not [name for name in ESTIMATORS if "gdpo" in name]
    assert pickle.loads(pickle.dumps(ESTIMATORS["guerdon_gopo"])) == Estimator(GOPO) == ESTIMATORS["guerdon_gopo"]


def test_a_spec_of_components_is_refused() -> None:
    with pytest.raises(ConfigError, match="gdpo_overrides"):
        Estimator(GDPO)


def routed(math_weight: float, code_weight: float) -> Any:
    return R.by_column("data_source", {"a": math_weight * R.math_equal(), "b": code_weight * R.math_equal() + R.boxed_format()})


@pytest.mark.parametrize(
    ("reward", "keys", "weights"),
    [
        (R.math_equal() + 0.2 * R.boxed_format(), "[guerdon/math_equal,guerdon/boxed_format]", "[1.0,0.2]"),
        (R.math_equal() + 0.0 * R.boxed_format(), "[guerdon/math_equal]", "[1.0]"),
        (routed(0.5, 0.5), "[guerdon/math_equal,guerdon/boxed_format]", "[0.5,1.0]"),
        (2.0 * R.math_equal(name="it's:1"), "['guerdon/it\\'s:1']", "[2.0]"),
        (2.0 * R.math_equal(name="naïf"), "['guerdon/naïf']", "[2.0]"),
    ],
    ids=["sum", "zero weight", "routes", "odd name", "accents"],
)
def test_gdpo_overrides_hold_keys_and_weights(reward: Any, keys: str, weights: str) -> None:
    overrides = gdpo_overrides(reward)
    assert overrides[0] == "algorithm.adv_estimator=gdpo"
    assert overrides[1:3] == [f"+algorithm.gdpo_reward_keys={keys}", f"+algorithm.gdpo_reward_weights={weights}"]


def test_gdpo_overrides_refuse_weights_that_differ_by_row() -> None:
    with pytest.raises(ConfigError, match=r"math_equal weighs 0.5 or 1.0"):
        gdpo_overrides(routed(0.5, 1.0))
