"""Group barrier, group scoring and advantage texts of the OpenRLHF agent and launcher. No OpenRLHF needed."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import OnAbstain, Rollout
from guerdon.backends.openrlhf import agent_executor, launch
from guerdon.backends.openrlhf.agent import make_scorer, rollout_of_agent
from guerdon.backends.openrlhf.groups import Groups
from guerdon.backends.openrlhf.launcher import SETTINGS, Settings
from guerdon.backends.openrlhf.reward_file import DEADLINE_S
from guerdon.backends.openrlhf.rows import END_TOKENS
from guerdon.backends.openrlhf.specs import spec_of
from guerdon.errors import ConfigError, MissingExtra
from guerdon.rewards.advantages import GDPO, GOPO


class Sizes:
    """Settles a group by telling each member the sorted names of all."""

    def __init__(self) -> None:
        self.groups = Groups(self.settle)

    async def settle(self, made: Sequence[str]) -> list[str]:
        await asyncio.sleep(0)
        return ["".join(sorted(made))] * len(made)

    async def make(self, name: str, seconds: float = 0.0) -> str:
        await asyncio.sleep(seconds)
        if name == "!":
            raise ValueError("broken")
        return name

    async def ask(self, names: str, **seconds: float) -> list[Any]:
        """As OpenRLHF does: all calls at once, then a gather."""
        calls = [self.groups.join(self.make(name, seconds.get(name, 0.0))) for name in names]
        return await asyncio.gather(*calls, return_exceptions=True)


def run(work: Any) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(work, 10)

    return asyncio.run(bounded())


def test_the_calls_of_one_go_are_settled_together() -> None:
    assert run(Sizes().ask("abc", a=0.02, c=0.01)) == ["abc"] * 3


def test_groups_of_several_callers_are_never_mixed() -> None:
    sizes = Sizes()

    async def work() -> Any:
        return await asyncio.gather(*(sizes.ask(names) for names in ("ab", "ab", "c", "abd")))

    assert run(work()) == [["ab"] * 2, ["ab"] * 2, ["c"], ["abd"] * 3]
    assert not sizes.groups._open
    assert not sizes.groups._running


def test_one_caller_may_come_again() -> None:
    sizes = Sizes()

    async def work() -> Any:
        return [await sizes.ask("ab"), await sizes.ask("abc")]

    assert run(work()) == [["ab"] * 2, ["abc"] * 3]


def test_a_member_that_fails_fails_alone() -> None:
    first, broken, last = run(Sizes().ask("a!b", b=0.02))
    assert (first, last) == ("ab", "ab")
    assert isinstance(broken, ValueError)


def test_a_group_of_failures_ends() -> None:
    assert all(isinstance(found, ValueError) for found in run(Sizes().ask("!!")))


@pytest.mark.parametrize("when", ["before it starts", "while it is made", "while it waits"])
def test_a_cancelled_member_keeps_nobody_waiting(when: str) -> None:
    sizes = Sizes()

    async def work() -> Any:
        seconds = 0.0 if when == "while it waits" else 5.0
        calls = [sizes.groups.join(sizes.make("x", seconds)), *(sizes.groups.join(sizes.make(name, 0.05)) for name in "ab")]
        if when != "before it starts":
            await asyncio.sleep(0.02)
        calls[0].cancel()
        return await asyncio.gather(*calls, return_exceptions=True)

    gone, *others = run(work())
    assert isinstance(gone, asyncio.CancelledError)
    assert others == ["abx" if when == "while it waits" else "ab"] * 2


def test_a_settling_that_breaks_is_told_to_everyone() -> None:
    async def settle(made: Sequence[str]) -> list[str]:
        raise RuntimeError("no")

    async def work() -> Any:
        groups, sizes = Groups(settle), Sizes()
        found = await asyncio.gather(*(groups.join(sizes.make(name)) for name in "ab"), return_exceptions=True)
        await asyncio.sleep(0)
        return found

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    try:
        assert [type(e) for e in loop.run_until_complete(work())] == [RuntimeError] * 2
    finally:
        loop.close()


REWARD = R.math_equal() + R.from_function(lambda r: None if "none" in r.completion else len(r.completion), name="size")


def settle(rows: Sequence[Rollout | str], aggregate: Any = None, on_abstain: OnAbstain = OnAbstain("drop"), reward: Any = REWARD) -> Any:  # noqa: B008
    return asyncio.run(make_scorer(reward, aggregate, DEADLINE_S, on_abstain, END_TOKENS)(rows))


ROWS: list[Rollout | str] = [
    Rollout("\\boxed{4}", answer="4", group=0),
    Rollout("no", answer="4", group=0),
    Rollout("lost", group=0),
    "cannot be read",
]


def test_rows_without_a_reward_get_the_mean_of_their_group() -> None:
    assert [row["reward"] for row in settle(ROWS)] == [10.0, 2.0, 6.0, 6.0]
    assert [row["scores"] for row in settle(ROWS)] == [1.0, 0.0, 0.5, 0.5]
    assert [row["extra_logs"]["guerdon/abstained"] for row in settle(ROWS)] == [0.0, 0.0, 1.0, 1.0]
    assert len({frozenset(row["extra_logs"]) for row in settle(ROWS)}) == 1


def test_or_the_fill_value() -> None:
    assert [row["reward"] for row in settle(ROWS, on_abstain=OnAbstain("fill", -1.0))] == [10.0, 2.0, -1.0, -1.0]
    assert [row["reward"] for row in settle(ROWS[2:], on_abstain=OnAbstain("drop", -2.0))] == [-2.0, -2.0]


def test_or_no_advantage_and_their_total_apart() -> None:
    found = settle(ROWS, "gopo")
    assert [row["reward"] for row in found] == [2.0, -2.0, 0.0, 0.0]
    assert [row["extra_logs"]["guerdon/total"] for row in found] == [10.0, 2.0, 6.0, 6.0]


@pytest.mark.parametrize("huge", [1e20, 1e39, 1e100, 1e305])
@pytest.mark.parametrize("aggregate", [None, "gopo", "dr_grpo", "gdpo,whiten=none"])
def test_a_value_beyond_float32_takes_no_part(huge: float, aggregate: str | None) -> None:
    reward = R.math_equal() + R.from_function(lambda r: huge if "!" in r.completion else len(r.completion), name="size")
    rows = [*ROWS[:2], Rollout("\\boxed{4}!", answer="4", group=0)]
    *others, lost = [row["reward"] for row in settle(rows, aggregate, reward=reward)]
    assert others == [row["reward"] for row in settle(rows[:2], aggregate, reward=reward)]
    assert lost == (sum(others) / 2 if aggregate is None else 0.0)
    assert settle(rows, aggregate, reward=reward)[2]["extra_logs"]["guerdon/abstained"] == 1.0


def test_a_fill_value_beyond_float32_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"within 1e\+18"):
        settle(ROWS, on_abstain=OnAbstain("drop", 1e39))


class Tokenizer:
    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return "".join(map(chr, ids))


OUTPUT = {
    "prompt": "Q",
    "label": '{"answer": "4", "level": 2}',
    "observation_tokens": [ord(c) for c in "Qab</s>env4</s>"],
    "action_ranges": [(1, 7), (10, 15)],
    "truncated": False,
}


def test_an_output_is_a_rollout_of_the_policys_tokens() -> None:
    rollout = rollout_of_agent(OUTPUT, Tokenizer(), frozenset({"answer"}), END_TOKENS)
    assert isinstance(rollout, Rollout)
    assert (rollout.completion, rollout.num_tokens, rollout.truncated, rollout.answer, rollout.columns) == (
        "4",
        11,
        False,
        "4",
        {"level": 2},
    )
    assert [(m.role, m.content) for m in rollout.messages or ()] == [("assistant", "ab"), ("tool", "env"), ("assistant", "4")]


@pytest.mark.parametrize("change", [{"action_ranges": None}, {"observation_tokens": "text"}, {"prompt": 3}])
def test_an_output_that_is_none_says_why(change: dict[str, Any]) -> None:
    assert isinstance(rollout_of_agent({**OUTPUT, **change}, Tokenizer(), frozenset(), END_TOKENS), str)


def test_no_budget_to_generate_is_an_empty_completion() -> None:
    rollout = rollout_of_agent({**OUTPUT, "action_ranges": []}, Tokenizer(), frozenset({"answer"}), END_TOKENS)
    assert isinstance(rollout, Rollout)
    assert (rollout.completion, rollout.num_tokens) == ("", 0)


@pytest.mark.parametrize(
    ("text", "spec"),
    [("gdpo", GDPO), (" gopo , ties=ordinal , rank_span=1 ", spec_of("gopo,ties=ordinal,rank_span=1", "")), ("gopo", GOPO)],
)
def test_an_advantage_is_named_by_text(text: str, spec: object) -> None:
    assert spec_of(text, "x") == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best", "no advantage is called 'best'"),
        ("gdpo,whiten", "axis=value"),
        ("gdpo,ddof=one", "ddof expects a number"),
        ("gdpo,colour=red", "axis=value"),
        ("gdpo,whiten=white", "whiten expects one of"),
        (3, "got int"),
    ],
)
def test_texts_that_name_none_are_refused(text: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spec_of(text, "x")


def test_settings_survive_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.of(0.5 * R.math_equal() + R.by_column("k", {"a": R.exact()}), "gdpo,eps=1e-6")
    assert settings.weights == {"math_equal": 0.5, "exact": None}
    monkeypatch.setenv(SETTINGS, settings.text())
    assert Settings.read() == settings
    monkeypatch.delenv(SETTINGS)
    with pytest.raises(ConfigError, match=r"guerdon\.backends\.openrlhf\.launch"):
        Settings.read()


def test_an_agent_does_not_aggregate_under_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS, Settings.of(R.math_equal(), "gdpo").text())
    settle(ROWS)
    with pytest.raises(ConfigError, match="the launcher aggregates already"):
        settle(ROWS, "gopo")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--guerdon.reward", "nowhere.py:reward"], "no such file"),
        (["--guerdon.reward", "guerdon.rewards:boxed_format"], "expected a reward"),
        (["--guerdon.reward", "math:tau", "--guerdon.advantage", "gdpo"], "expected a reward"),
    ],
)
def test_the_launcher_stops_before_ray_with_a_line(flags: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        launch.main(flags)


@pytest.mark.skipif(importlib.util.find_spec("openrlhf") is not None, reason="OpenRLHF is installed")
def test_without_openrlhf_the_agent_says_what_is_missing() -> None:
    with pytest.raises(MissingExtra, match="pip install 'openrlhf"):
        agent_executor(R.math_equal())
