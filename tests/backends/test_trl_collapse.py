"""Collapse alarms on made series: they come where they should, once, and stay away from healthy training. No torch, no trainer."""

from __future__ import annotations

import json
import math
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from guerdon.backends.trl.collapse import KEYS, Alarm, CollapseDetector
from guerdon.backends.trl.diversity import LIMIT, batch_metrics
from guerdon.errors import ConfigError

Log = dict[str, Any]
SEEDS = range(6)


def noisy(seed: int, logs: int, **means: Callable[[float], float]) -> list[Log]:
    """Logs whose numbers follow functions of the share of the run, with the noise of batches of 64 rollouts averaged over 10 steps."""
    rng = random.Random(seed)
    names = {"entropy": "entropy", "spread": "reward_std", "distinct": "guerdon/distinct_2", "outcome": "guerdon/outcome"}
    relative = {"entropy": 0.05, "distinct": 0.05, "spread": 0.08, "kl": 0.2}
    series = []
    for i in range(logs):
        log: Log = {"loss": rng.gauss(0, 0.1), "learning_rate": 1e-6}
        for name, mean in means.items():
            value = mean(i / logs)
            sigma = relative[name] * value if name in relative else 0.02
            log[names.get(name, name)] = value + rng.gauss(0, sigma)
        series.append(log)
    return series


def run(series: list[Log], **settings: Any) -> list[Alarm]:
    detector = CollapseDetector(**settings)
    return [alarm for step, log in enumerate(series) for alarm in detector.update(step, log)]


def flat(value: float) -> Callable[[float], float]:
    return lambda share: value


def line(start: float, end: float) -> Callable[[float], float]:
    return lambda share: start + (end - start) * share


def late(before: float, after: float, at: float = 0.5) -> Callable[[float], float]:
    return lambda share: before if share < at else after


def decay(start: float, end: float) -> Callable[[float], float]:
    return lambda share: end + (start - end) * math.exp(-6 * share)


SICK: dict[str, tuple[str, dict[str, Callable[[float], float]]]] = {
    "collapse at once": ("collapse", {"entropy": late(0.8, 0.1), "spread": late(0.45, 0.05), "distinct": late(0.6, 0.15)}),
    "slow collapse": (
        "collapse",
        {"entropy": line(0.8, 0.05), "spread": line(0.45, 0.02), "distinct": line(0.6, 0.08), "outcome": flat(0.4)},
    ),
    "collapse onto a wrong answer": ("collapse", {"entropy": decay(0.8, 0.05), "spread": decay(0.4, 0.01), "outcome": decay(0.3, 0.0)}),
    "collapse after learning": (
        "collapse",
        {"entropy": late(0.5, 0.1, 0.7), "spread": late(0.45, 0.05, 0.7), "distinct": late(0.5, 0.1, 0.7), "outcome": late(0.6, 0.3, 0.7)},
    ),
    "exploration ends before the task is solved": (
        "collapse",
        {
            "entropy": decay(0.8, 0.02),
            "spread": decay(0.45, 0.02),
            "distinct": decay(0.6, 0.1),
            "outcome": lambda share: 0.6 - 0.3 * math.exp(-9 * share),
        },
    ),
    "collapse without n-grams": ("collapse", {"entropy": line(0.8, 0.05), "spread": line(0.45, 0.02)}),
    "collapse without entropy": ("collapse", {"distinct": line(0.8, 0.05), "spread": line(0.45, 0.02)}),
    "KL surge": ("kl_surge", {"kl": late(0.02, 1.0), "entropy": flat(0.6), "spread": flat(0.4)}),
    "KL explodes": ("kl_surge", {"kl": lambda share: 0.01 * math.exp(40 * max(0.0, share - 0.6))}),
    "hacking from the start": ("reward_hacking", {"reward": line(0.4, 1.0), "outcome": line(0.4, 0.1)}),
    "hacking after learning": (
        "reward_hacking",
        {"reward": line(0.3, 1.2), "outcome": lambda share: 0.3 + 0.6 * share if share < 0.5 else 0.6 - 0.6 * (share - 0.5)},
    ),
    "hacking of a penalty": ("reward_hacking", {"reward": line(-1.0, -0.2), "outcome": line(0.5, 0.2)}),
}

HEALTHY: dict[str, dict[str, Callable[[float], float]]] = {
    "steady": {
        "entropy": flat(0.6), "spread": flat(0.4), "distinct": flat(0.6), "kl": flat(0.05), "reward": flat(0.5), "outcome": flat(0.4),
    },
    "solved: everything falls, the outcome nears 1": {
        "entropy": decay(0.8, 0.05), "spread": decay(0.45, 0.02), "distinct": decay(0.6, 0.1), "reward": line(0.4, 1.1),
        "outcome": lambda share: 1 - 0.6 * math.exp(-8 * share),
    },
    "converged: everything falls while the outcome rises": {
        "entropy": decay(0.8, 0.3), "spread": decay(0.45, 0.2), "distinct": decay(0.6, 0.25), "outcome": line(0.2, 0.8),
    },
    "learning: entropy and n-grams fall, the spread stays": {
        "entropy": decay(1.2, 0.2), "spread": line(0.3, 0.45), "distinct": decay(0.7, 0.3),
        "reward": line(0.1, 0.6), "outcome": line(0.1, 0.6),
    },
    "the spread alone falls": {"entropy": flat(0.6), "spread": line(0.5, 0.05), "distinct": flat(0.6), "outcome": flat(0.5)},
    "entropy alone falls, nothing else is logged": {"entropy": decay(0.9, 0.05)},
    "entropy and n-grams fall, no spread is logged": {"entropy": decay(0.9, 0.05), "distinct": decay(0.6, 0.1)},
    "entropy falls, spread falls, n-grams stay": {"entropy": decay(0.9, 0.1), "spread": decay(0.5, 0.1), "distinct": flat(0.6)},
    "KL grows from 0 as the policy learns": {"kl": lambda share: 0.3 * share, "reward": line(0.2, 0.6), "outcome": line(0.2, 0.6)},
    "KL grows with the square": {"kl": lambda share: 0.4 * share * share},
    "a tiny KL jumps": {"kl": late(0.001, 0.05)},
    "a tiny KL multiplies": {"kl": lambda share: 1e-5 * math.exp(8 * share)},
    "reward and outcome rise": {"reward": line(0.1, 1.0), "outcome": line(0.1, 0.9)},
    "reward and outcome fall": {"reward": line(1.0, 0.2), "outcome": line(0.8, 0.1)},
    "outcome falls, the reward stays": {"reward": flat(0.5), "outcome": line(0.5, 0.2)},
    "shaping is learned, the outcome stays": {"reward": line(0.2, 1.0), "outcome": flat(0.4)},
    "outcome dips within noise": {"reward": line(0.2, 1.0), "outcome": line(0.45, 0.40)},
}  # fmt: skip


@pytest.mark.parametrize("name", SICK)
def test_sick_runs_raise_their_alarm_once_and_no_other(name: str) -> None:
    kind, means = SICK[name]
    for seed in SEEDS:
        assert [alarm.kind for alarm in run(noisy(seed, 150, **means))] == [kind], seed


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_runs_raise_none(name: str) -> None:
    for seed in SEEDS:
        assert run(noisy(seed, 300, **HEALTHY[name])) == [], seed


def test_an_alarm_comes_within_one_window_of_a_sudden_collapse() -> None:
    steps = [run(noisy(seed, 150, **SICK["collapse at once"][1]))[0].step for seed in SEEDS]
    assert min(steps) > 75
    assert max(steps) <= 75 + 10


def test_no_alarm_before_two_windows() -> None:
    series = [{"entropy": 0.8 * 0.5**i, "reward_std": 0.4 * 0.5**i} for i in range(40)]
    assert run(series[:19]) == []
    assert [alarm.step for alarm in run(series)] == [19]


def gapped(series: list[Log], seed: int) -> Iterator[Log]:
    rng = random.Random(seed)
    for log in series:
        yield {k: rng.choice([v, v, v, v, v, v, None, math.nan]) for k, v in log.items()}
        if rng.random() < 0.3:
            yield {f"eval_{k}": 0.0 for k in log} | {"eval_loss": 1.0}
    yield {"train_runtime": 3.0, "train_loss": 0.1}


@pytest.mark.parametrize("name", SICK)
def test_gaps_nan_and_evaluation_logs_do_not_hide_an_alarm(name: str) -> None:
    kind, means = SICK[name]
    found = [run(list(gapped(noisy(seed, 300, **means), seed))) for seed in SEEDS]
    assert sum(kind in [alarm.kind for alarm in alarms] for alarms in found) >= len(SEEDS) - 1
    assert {alarm.kind for alarms in found for alarm in alarms} == {kind}


@pytest.mark.parametrize("name", HEALTHY)
def test_gaps_nan_and_evaluation_logs_raise_no_alarm(name: str) -> None:
    for seed in SEEDS:
        assert run(list(gapped(noisy(seed, 300, **HEALTHY[name]), seed))) == [], seed


def test_a_number_that_is_no_longer_logged_has_not_fallen() -> None:
    series = noisy(0, 60, entropy=flat(0.8), spread=flat(0.4), distinct=flat(0.6))
    sick = noisy(1, 60, entropy=flat(0.1), spread=flat(0.05))
    assert run(series + sick) == []


def test_infinity_is_a_gap_and_single_spikes_are_ignored() -> None:
    series = noisy(0, 100, kl=flat(0.05), reward=flat(0.5), outcome=flat(0.5), spread=flat(0.4), entropy=flat(0.5))
    for i in range(25, 100, 9):
        series[i] |= {"kl": 50.0, "reward": math.inf, "reward_std": math.inf, "entropy": 0.0}
    assert run(series) == []


def test_an_episode_alarms_once_and_a_second_one_again() -> None:
    well = {"entropy": flat(0.8), "spread": flat(0.4)}
    ill = {"entropy": flat(0.1), "spread": flat(0.05)}
    series = noisy(0, 40, **well) + noisy(1, 40, **ill) + noisy(2, 40, **well) + noisy(3, 40, **ill)
    assert [alarm.kind for alarm in run(series)] == ["collapse", "collapse"]
    flicker = noisy(0, 40, **well) + [log for i in range(40) for log in noisy(i, 1, **(ill if i % 4 else well))]
    assert len(run(flicker)) == 1


def test_the_number_of_alarms_that_hold_goes_back_to_zero() -> None:
    detector = CollapseDetector(window=4)
    sick = noisy(0, 12, kl=flat(0.02)) + noisy(1, 3, kl=flat(2.0))
    assert any(list(map(detector.update, range(15), sick)))
    assert detector.active == 1
    for i, log in enumerate(noisy(2, 40, kl=flat(0.02))):
        detector.update(15 + i, log)
    assert detector.active == 0


def test_the_first_name_that_is_logged_is_kept() -> None:
    """The std of the batch is another number than that of groups: a log that lacks one must not be read as a fall."""
    series = noisy(0, 100, entropy=decay(0.8, 0.05))
    for i, log in enumerate(series):
        log |= {"reward_std": 0.02, "guerdon/group_reward_std": 0.4 if i < 50 else None}
    assert run(series) == []


def test_a_few_logs_of_a_window_say_nothing() -> None:
    series = noisy(0, 100, entropy=decay(0.8, 0.05))
    for i, log in enumerate(series):
        log |= {"reward_std": 0.4} if i < 50 else {"reward_std": 0.02 if i % 5 == 0 else math.nan}
    assert run(series) == []


def test_under_finished_advantages_the_reward_itself_is_read() -> None:
    series = noisy(0, 150, outcome=line(0.5, 0.1))
    for i, log in enumerate(series):
        log |= {"reward": 0.0, "guerdon/reward": 0.3 + i / 150}
    assert [alarm.kind for alarm in run(series)] == ["reward_hacking"]


def test_names_can_be_given() -> None:
    series = [{"my/entropy": 0.8 * 0.9**i, "my/std": 0.4 * 0.9**i} for i in range(60)]
    assert run(series) == []
    assert len(run(series, keys={"entropy": "my/entropy", "spread": ["my/std"]})) == 1


def test_state_as_json_goes_on_where_it_was() -> None:
    series = noisy(3, 150, **SICK["slow collapse"][1])
    whole, first, second = CollapseDetector(), CollapseDetector(), CollapseDetector()
    expected = [whole.update(i, log) for i, log in enumerate(series)]
    found = [first.update(i, log) for i, log in enumerate(series[:77])]
    second.restore(json.loads(json.dumps(first.state())))
    found += [second.update(77 + i, log) for i, log in enumerate(series[77:])]
    assert found == expected
    assert any(expected)
    assert second.state() == whole.state()
    assert pickle.loads(pickle.dumps(whole)).state() == whole.state()


def test_state_is_a_copy() -> None:
    detector = CollapseDetector(window=4)
    detector.update(0, {"entropy": 1.0})
    state = detector.state()
    detector.update(1, {"entropy": 1.0})
    assert (state["seen"], len(state["tail"])) == (1, 1)


def test_memory_does_not_grow_with_the_run() -> None:
    detector = CollapseDetector(window=4)
    sizes = []
    for i, log in enumerate(noisy(0, 2000, entropy=flat(0.5), spread=flat(0.4))):
        detector.update(i, log)
        sizes += [len(json.dumps(detector.state()))] if i % 100 == 99 else []
    assert max(sizes[10:]) < 1.2 * max(sizes[:10])


def test_messages_hold_the_numbers_and_advice() -> None:
    alarm = run(noisy(0, 150, **SICK["hacking from the start"][1]))[0]
    assert alarm.then["outcome"] > alarm.now["outcome"]
    assert f"outcome {alarm.then['outcome']:.3g} -> {alarm.now['outcome']:.3g}" in str(alarm)
    assert "read the completions" in str(alarm)
    blind = run(noisy(0, 150, **SICK["collapse without n-grams"][1]))[0]
    assert "cannot be told from a solved task" in str(blind)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 3}, "window"),
        ({"window": 5.0}, "window"),
        ({"ratio": 1.0}, "ratio"),
        ({"kl_factor": 1.0}, "kl_factor"),
        ({"noise": math.nan}, "noise"),
        ({"outcome_drop": -0.1}, "outcome_drop"),
        ({"keys": {"loss": "loss"}}, "keys"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CollapseDetector(**settings)


def test_batch_metrics_are_means_over_groups() -> None:
    tokens = [[1, 2, 3], [1, 2, 3], [4, 5, 6], [7, 8, 9]]
    found = dict(batch_metrics(tokens, [0, 0, 1, 1], [1.0, 1.0, 0.0, None]))
    assert found["guerdon/distinct_2"] == pytest.approx((0.5 + 1.0) / 2)
    assert found["guerdon/group_reward_std"] == 0.0
    assert found["guerdon/frac_reward_zero_std"] == 1.0


def test_what_cannot_be_measured_is_left_out() -> None:
    assert dict(batch_metrics([[1, 2]], [0], [1.0])) == {}
    assert dict(batch_metrics([], [], [])) == {}
    assert dict(batch_metrics(["a", "b"], [0, 0], [math.nan, None])) == {}


def test_long_answers_are_measured_on_their_head() -> None:
    rng = random.Random(0)
    vocabulary = 40
    short = [[rng.randrange(vocabulary) for _ in range(LIMIT)] for _ in range(4)]
    long = [[*tokens, *(rng.randrange(vocabulary) for _ in range(4 * LIMIT))] for tokens in short]
    groups = [0] * 4
    assert dict(batch_metrics(long, groups))["guerdon/distinct_2"] == dict(batch_metrics(short, groups))["guerdon/distinct_2"]
    words = [" ".join(map(str, tokens)) for tokens in long]
    assert dict(batch_metrics(words, groups))["guerdon/distinct_2"] == dict(batch_metrics(short, groups))["guerdon/distinct_2"]


def test_every_number_is_known_by_a_name() -> None:
    assert KEYS.keys() == {"entropy", "distinct", "spread", "kl", "reward", "outcome"}


def test_a_better_number_that_the_first_log_lacked_is_read_from_then_on_and_not_compared_with_the_other() -> None:
    """Finished advantages: TRL's reward is about 0, and a first batch without a total has no other."""
    rng = random.Random(0)
    gamed = [
        {"reward": 0.0, "guerdon/reward": 0.2 + 0.01 * i + rng.gauss(0, 0.01), "guerdon/outcome": 0.8 - 0.01 * i + rng.gauss(0, 0.01)}
        for i in range(60)
    ]
    healthy = [{"reward": 0.0, "guerdon/reward": 0.5, "guerdon/outcome": 0.8 - 0.01 * i} for i in range(60)]
    first = [{"reward": 0.0, "guerdon/outcome": 0.8}]
    assert [alarm.kind for alarm in run(first + gamed)] == ["reward_hacking"]
    assert run(first * 30 + healthy) == []
