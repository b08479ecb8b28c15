"""The verifier: what a completion's constraints are worth, and which text they are asked of."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from guerdon.errors import ConfigError
from guerdon.types import Rollout, Status, Verdict, Verifier
from guerdon.verifiers.instructions import InstructionsVerifier

NO_COMMA = {"instruction_id": "punctuation:no_comma"}
TITLE = {"instruction_id": "detectable_format:title"}
QUOTED = {"instruction_id": "startend:quotation"}
BULLETS = {"instruction_id": "detectable_format:number_bullet_lists", "num_bullets": 2}
ENDS = {"instruction_id": "startend:end_checker", "end_phrase": "Bye."}
REPEATS = {"instruction_id": "combination:repeat_prompt", "prompt_to_repeat": "Say *this*."}


def judge(completion: str, answer: Any, **options: Any) -> Verdict:
    (verdict,) = InstructionsVerifier(**options).judge([Rollout(completion, answer=answer)])
    return verdict


def test_all_asks_for_every_constraint() -> None:
    assert judge("<<a>> b", [NO_COMMA, TITLE]).status is Status.CORRECT
    failed = judge("<<a>>, b", [TITLE, NO_COMMA, QUOTED])
    assert (failed.status, failed.reason) == (Status.INCORRECT, "constraint_unmet")
    assert failed.detail == "punctuation:no_comma: 1 comma"
    assert [(name, holds) for name, holds, _ in failed.info["constraints"]] == [
        ("detectable_format:title", True),
        ("punctuation:no_comma", False),
        ("startend:quotation", False),
    ]


@pytest.mark.parametrize(("text", "score"), [("<<a>>", 1.0), ("<<a>>, b", 0.5), ("a, b", 0.0)])
def test_fraction_is_the_share_that_holds(text: str, score: float) -> None:
    verdict = judge(text, [NO_COMMA, TITLE], score="fraction")
    assert verdict == Verdict.graded(score, verdict.reason, verdict.detail, info=verdict.info)


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "<think>, </think>", "<think>a</think> \n", "<think>no comma", "<think>a</think>b <think>c", "\u200b\ufeff", "\u2800"],
)
def test_nothing_to_check_is_no_answer(text: str) -> None:
    verdict = judge(text, [NO_COMMA])
    assert (verdict.status, verdict.reason, verdict.score) == (Status.NO_ANSWER, "no_answer", 0.0)


def test_reasoning_is_stripped_up_to_its_last_end() -> None:
    text = "<think>one, two</think> three, </think>\n\nno comma"
    assert judge(text, [NO_COMMA]).score == 1.0
    assert judge(text, [NO_COMMA], strip_thinking=False).score == 0.0
    assert judge("<think>kept", [NO_COMMA], strip_thinking=False).score == 1.0


def test_best_alternative_decides() -> None:
    either = {"any_of": [[TITLE, QUOTED], [NO_COMMA, QUOTED, ENDS]]}
    assert judge("<<a>>, Bye.", either).score == 0.0
    assert judge('"<<a>>, b"', either).score == 1.0
    assert judge("Well. Bye.", either, score="fraction").score == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "constraint", "why"),
    [
        ("Sure:\n* one\n* two\n* three", BULLETS, "the last line removed"),
        ("Sure, here it is:\nno comma", NO_COMMA, "the first line removed"),
        ('Sure:\n"So."\nDone!', QUOTED, "both removed"),
        ("Good. *Bye.*", ENDS, "the asterisks removed"),
        ("Good. **Bye**.\nAnything else?", ENDS, "last line and asterisks removed"),
        ("Sure:\nSay this. Done\n", {**REPEATS, "prompt_to_repeat": "Say this."}, "the first line removed, the last one empty"),
    ],
)
def test_loose_accepts_what_holds_for_a_variant(text: str, constraint: dict[str, Any], why: str) -> None:
    assert judge(text, [constraint]).score == 0.0, why
    assert judge(text, [constraint], loose=True).score == 1.0, why


def test_loose_asks_each_constraint_of_its_own_variant() -> None:
    text = "Say *this*. Sure, I will.\nno comma"
    assert judge(text, [REPEATS, NO_COMMA]).score == 0.0
    assert judge(text, [REPEATS, NO_COMMA], loose=True).score == 1.0


def test_loose_accepts_no_blank_variant() -> None:
    assert judge("one, two", [NO_COMMA], loose=True).score == 0.0


def test_order_and_length_are_kept() -> None:
    rollouts = [Rollout(text, answer=[NO_COMMA]) for text in ("a", "a, b", "", "b")]
    assert [verdict.score for verdict in InstructionsVerifier().judge(rollouts)] == [1.0, 0.0, 0.0, 1.0]
    assert InstructionsVerifier().judge([]) == []


def test_column_is_declared_and_read() -> None:
    verifier = InstructionsVerifier(column="rules")
    assert isinstance(verifier, Verifier)
    assert verifier.reads == {"rules|instruction_id_list"}
    assert verifier.judge([Rollout("a", answer="ignored", columns={"rules": [NO_COMMA]})])[0].score == 1.0


def test_verifier_is_a_value() -> None:
    verifier = InstructionsVerifier(score="fraction", loose=True)
    assert pickle.loads(pickle.dumps(verifier)) == verifier
    assert len({verifier, InstructionsVerifier(score="fraction", loose=True), InstructionsVerifier()}) == 2


@pytest.mark.parametrize("options", [{"column": ""}, {"column": None}, {"score": "some"}, {"loose": 1}, {"strip_thinking": "no"}])
def test_wrong_arguments_are_refused_when_built(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="got "):
        InstructionsVerifier(**options)
