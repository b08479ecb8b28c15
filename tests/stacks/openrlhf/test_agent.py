"""The agent through OpenRLHF's real loader, rollout actor, multi-turn executor and sampler."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from openrlhf_real import LABEL, NS, OUTS, PROMPT, Engine, Tokenizer, experiences, first_advantages, maker, prepared, responses, rollouts

from guerdon.backends.openrlhf.agent import rollout_of_agent
from guerdon.errors import ConfigError

TOTALS, OUTCOMES = [1.5, 1.0, 0.5, 0.0], [1.0, 1.0, 0.0, 0.0]
GDPO = [1.2990, 0.4330, -0.4330, -1.2990]


@pytest.fixture
def load(stack: Any, mine: Path) -> Any:
    """`load(arguments, reward=source)`: OpenRLHF's own loader on a two-line agent file."""

    def loaded(arguments: str = "", reward: str | None = None, head: str = "", body: str | None = None) -> Any:
        if reward is not None:
            (mine / "mine.py").write_text("import guerdon.rewards as R\n" + reward)
        made = f"AgentExecutor = agent_executor('mine.py:reward'{arguments})"
        (mine / "agent.py").write_text(f"from guerdon.backends.openrlhf import agent_executor\n{head}\n{body or made}\n")
        return stack.load_agent(str(mine / "agent.py"))

    return loaded


def test_a_group_gets_totals_outcomes_and_components(stack: Any, load: Any) -> None:
    found = experiences(stack, rollouts(stack, load()))
    assert [e.rewards.item() for e in found] == TOTALS
    assert [e.scores.item() for e in found] == OUTCOMES
    assert [e.info["guerdon/format"].item() for e in found] == [1.0, 0.0, 1.0, 0.0]


def test_terms_see_tokens_truncation_and_siblings(stack: Any, load: Any) -> None:
    reward = (
        "reward = (R.math_equal() + R.from_function(lambda r: r.num_tokens, name='n', reads=['num_tokens'])"
        " + R.from_function(lambda r: r.truncated, name='cut', reads=['truncated']) + R.duplicate_penalty()"
        " + R.from_function(lambda rs: [len(rs)] * len(rs), name='size', batch=True, reads=['group']))\n"
    )
    texts = ["\\boxed{4}</s>", "a b c d", "e f</s>"]
    found = experiences(stack, rollouts(stack, load(reward=reward), texts))
    assert [e.info["guerdon/n"].item() for e in found] == [len(t) for t in texts]
    assert [e.info["guerdon/cut"].item() for e in found] == [0.0, 1.0, 0.0]
    assert [e.info["guerdon/size"].item() for e in found] == [3.0] * 3


@pytest.mark.parametrize(("spec", "expected"), [("gdpo,whiten=none", GDPO), ("gopo", [2.0, 2 / 3, -2 / 3, -2.0])])
def test_an_aggregate_puts_the_advantage_into_reward_and_dr_grpo_leaves_it_there(
    stack: Any, load: Any, spec: str, expected: list[float]
) -> None:
    found = experiences(stack, rollouts(stack, load(f", aggregate={spec!r}")))
    assert [e.rewards.item() for e in found] == pytest.approx(expected, abs=1e-4)
    assert [e.info["guerdon/total"].item() for e in found] == TOTALS
    assert [e.scores.item() for e in found] == OUTCOMES
    made = maker(stack, "dr_grpo")
    advantages = first_advantages(made.compute_advantages_and_returns(prepared(made, found)))
    assert [advantages[i] for i in range(4)] == pytest.approx(expected, abs=1e-4)


def test_equal_prompts_at_the_same_time_stay_groups_of_their_own(stack: Any, load: Any) -> None:
    executor = load(", aggregate='gdpo,whiten=none'")

    async def both() -> Any:
        return await asyncio.gather(
            responses(stack, executor), responses(stack, executor, OUTS[2:], backwards=True), responses(stack, executor)
        )

    one, two, three = asyncio.run(both())
    assert [r["reward"] for r in one] == pytest.approx(GDPO, abs=1e-4)
    assert [r["reward"] for r in three] == pytest.approx(GDPO, abs=1e-4)
    assert [r["reward"] for r in two] == pytest.approx([0.5 * 2**-0.5, -0.5 * 2**-0.5], abs=1e-4)  # only the format differs, weight 0.5


def test_calls_in_a_row_are_groups_of_one(stack: Any, load: Any, caplog: pytest.LogCaptureFixture) -> None:
    executor = load(", aggregate='gopo'")

    async def go() -> Any:
        engine, params = Engine(OUTS), NS(max_tokens=64, logprobs=None)
        return [await executor.execute(PROMPT, LABEL, params, 512, Tokenizer(), engine) for _ in OUTS]

    assert [r["reward"] for r in asyncio.run(go())] == [0.0] * 4
    assert caplog.text.count("group of one") == 1


def test_an_engine_that_fails_once_fails_that_rollout_and_keeps_no_sibling_waiting(stack: Any, load: Any) -> None:
    executor = load()

    async def go() -> Any:
        actor, params = Engine([OUTS[0], RuntimeError("engine died"), OUTS[3]]), NS(max_tokens=64, logprobs=None)
        calls = [executor.execute(PROMPT, LABEL, params, 512, Tokenizer(), actor) for _ in range(3)]
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)

    good, bad, other = asyncio.run(go())
    assert (good["reward"], other["reward"]) == (1.5, 0.0)
    assert isinstance(bad, RuntimeError)
    with pytest.raises(RuntimeError, match="engine died"):  # what OpenRLHF makes of it
        asyncio.run(asyncio.wait_for(responses(stack, executor, [OUTS[0], RuntimeError("engine died")]), 20))


HOSTILE = """
import math, threading, time
from guerdon import Abstain
def user(rollout):
    text = rollout.completion
    if "hang" in text: threading.Event().wait(30)
    if "raise" in text: raise RuntimeError
    if "nan" in text: return math.nan
    if "inf" in text: return math.inf
    if "abstain" in text: raise Abstain("no")
    return 0.5
reward = R.math_equal(name='math') + R.from_function(user)
"""


@pytest.mark.filterwarnings("ignore:reward .* could not be scored:RuntimeWarning")
@pytest.mark.parametrize("aggregate", ["", ", aggregate='gdpo,whiten=none'"])
def test_rows_that_break_get_no_advantage_and_the_others_are_as_without_them(stack: Any, load: Any, aggregate: str) -> None:
    executor = load(aggregate + ", deadline_s=1.5", reward=HOSTILE)
    broken = ["nan</s>", "inf</s>", "raise</s>", "abstain</s>", "hang</s>"]
    start = time.monotonic()
    found = experiences(stack, rollouts(stack, executor, ["\\boxed{4}</s>", "no</s>", *broken]))
    assert time.monotonic() - start < 6
    alone = experiences(stack, rollouts(stack, executor, ["\\boxed{4}</s>", "no</s>"]))
    made = maker(stack, "dr_grpo", n=7, micro=7)
    advantages = first_advantages(made.compute_advantages_and_returns(prepared(made, found)))
    pair = maker(stack, "dr_grpo", n=2)
    expected = first_advantages(pair.compute_advantages_and_returns(prepared(pair, alone)))
    assert [advantages[i] for i in range(7)] == pytest.approx([expected[0], expected[1], *[0.0] * 5], abs=1e-6)
    assert [e.info["guerdon/abstained"].item() for e in found] == [0.0] * 2 + [1.0] * 5
    assert [e.info["guerdon/rows/unscored"].item() for e in found] == [0.0] * 5 + [1.0, 0.0]


@pytest.mark.filterwarnings("ignore:reward .* could not be scored:RuntimeWarning")
def test_a_group_without_any_reward_gets_the_fill_value_and_fails_the_filter(stack: Any, load: Any) -> None:
    found = experiences(stack, rollouts(stack, load(), label=""))
    assert [e.rewards.item() for e in found] == [0.0] * 4
    assert [e.scores.item() for e in found] == [0.0] * 4
    assert [e.info["guerdon/abstained"].item() for e in found] == [1.0] * 4


TURNS = """
import torch
from openrlhf.utils.agent import AgentInstanceBase
class Agent(AgentInstanceBase):
    def __init__(self): self.turn = 0
    async def step(self, states, **kwargs):
        self.turn += 1
        return {"rewards": torch.tensor(7.0), "environment_feedback": "<tool>go on</tool>" if self.turn < 2 else "", "done": self.turn == 2,
                "extra_logs": {"turns": float(self.turn)}}
"""


def test_several_turns_are_one_rollout_whose_messages_tell_who_spoke(stack: Any, load: Any) -> None:
    reward = "reward = R.math_equal() + R.from_function(lambda r: r.num_tokens, name='n', reads=['messages', 'num_tokens'])\n"
    out = rollouts(stack, load(", agent=Agent", reward=reward, head=TURNS), ["step</s>", "\\boxed{4}</s>"])
    (first, second) = experiences(stack, out)
    assert (first.scores.item(), second.scores.item()) == (0.0, 1.0)
    assert (first.rewards.item(), second.rewards.item()) == (len("step</s>") * 2, 1 + len("\\boxed{4}</s>") * 2)  # not the agent's 14
    assert second.info["turns"].item() == 2.0
    seen = rollout_of_agent(out[1], Tokenizer(), frozenset({"answer"}), ("</s>",))
    assert not isinstance(seen, str)
    assert seen.messages is not None
    assert [(m.role, m.content) for m in seen.messages] == [
        ("assistant", "\\boxed{4}"),
        ("tool", "<tool>go on</tool>"),
        ("assistant", "\\boxed{4}"),
    ]
    assert seen.token_ids == tuple(ord(c) for c in "\\boxed{4}</s>" * 2)


def test_a_subclass_changes_the_generation_and_must_not_touch_execute(load: Any, stack: Any) -> None:
    body = (
        "class AgentExecutor(agent_executor('mine.py:reward')):\n"
        "    async def generate(self, **call):\n        output = await super().generate(**call)\n        return {**output, 'label': '5'}\n"
    )
    assert [r["reward"] for r in rollouts(stack, load(body=body))] == [0.5, 0.0, 1.5, 0.0]
    with pytest.raises(ConfigError, match="override generate"):
        load(body=body.replace("generate(self", "execute(self"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (", aggregate='gdpo'", "whole batch.*whiten=none"),
        (", aggregate='batch'", "whole batch"),
        (", aggregate='best'", "no advantage is called"),
        (", agent=dict", "AgentInstanceBase"),
        (", deadline_s=0", "deadline_s"),
        (", end_tokens='</s>'", "end_tokens"),
        (", on_abstain=OnAbstain('raise')", "on_abstain"),
    ],
)
def test_what_cannot_be_done_is_refused_when_loaded(load: Any, arguments: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(arguments, head="from guerdon import OnAbstain")


def test_a_reward_without_outcome_is_refused(load: Any) -> None:
    with pytest.raises(ConfigError, match="outcome"):
        load(reward="reward = R.boxed_format()\n")
