"""Layout is judged by its tags and boxes, whatever stands in them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guerdon.rewards as R
from guerdon import Rollout, Verdict
from guerdon.errors import ConfigError
from guerdon.reasons import REASONS


def one(term: R.Term, completion: str) -> Verdict:
    return term.verdicts([Rollout(completion)])[0]


def fault(term: R.Term, completion: str) -> str:
    """The reason for a 0; the empty text for a 1."""
    verdict = one(term, completion)
    assert (verdict.score == 0.0) == bool(verdict.reason and verdict.detail)
    return verdict.reason


THINK = R.think_format()


@pytest.mark.parametrize(
    "completion",
    [
        "<think>a</think>b",
        "<think>\nline 1\n\nline 2\n</think>\n<answer>9</answer>",
        "\n <think>a</think>\n\nb\n",
        "<think>1 < 2 <b>x</b></think>y",
        "<think>\ud800</think>\udfff",
    ],
)
def test_one_block_and_a_rest_is_the_format(completion: str) -> None:
    assert one(THINK, completion).score == 1.0


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("", "missing_tag"),
        ("b", "missing_tag"),
        ("a</think>b", "missing_tag"),
        ("So: <think>a</think>b", "missing_tag"),
        ("<Think>a</Think>b", "missing_tag"),
        ("<think>a", "unclosed_tag"),
        ("</think><think>a", "missing_tag"),
        ("<think>a<think>b</think>c", "repeated_tag"),
        ("<think>a</think>b<think>c</think>d", "repeated_tag"),
        ("<think>a</think>b</think>c", "repeated_tag"),
        ("<think>a</think>b<think>", "repeated_tag"),
        ("<think></think>b", "empty_tag"),
        ("<think> \n\t</think>b", "empty_tag"),
        ("<think>\u200b\u00a0\x00</think>b", "empty_tag"),
        ("<think>\u2800\ufff9</think>b", "empty_tag"),
        ("<think>a</think>\U000e0041\U0001d173", "empty_tag"),
        ("<think>a</think>", "empty_tag"),
        ("<think>a</think> \n", "empty_tag"),
    ],
)
def test_every_fault_of_a_block_is_named(completion: str, reason: str) -> None:
    assert fault(THINK, completion) == reason


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("a</think>b", ""),
        ("\na\n</think>\nb", ""),
        ("<think>a</think>b", ""),
        ("\n<think>\na</think>b", ""),
        ("a<think>b</think>c", "repeated_tag"),
        ("<think>a<think>b</think>c", "repeated_tag"),
        ("a</think>b</think>c", "repeated_tag"),
        ("a", "unclosed_tag"),
        ("</think>b", "empty_tag"),
        ("<think></think>b", "empty_tag"),
        ("a</think>", "empty_tag"),
    ],
)
def test_a_prefilled_block_needs_no_opening_tag(completion: str, reason: str) -> None:
    assert fault(R.think_format(prefilled=True), completion) == reason


def test_the_tags_can_be_others() -> None:
    term = R.think_format(open="[THINK]", close="[/THINK]", name="reason")
    assert (term.name, term([Rollout("[THINK]a[/THINK]b"), Rollout("<think>a</think>b")])) == ("reason", [1.0, 0.0])


@pytest.mark.parametrize(
    "completion",
    [
        "<think>a</think><answer>b</answer>",
        "<think>a</think>\n\n<answer>b</answer>",
        " <think>a\nb</think> \t<answer>\nc\n</answer>\n",
        "<think>a<b>c</b></think><answer>d</answer>",
    ],
)
def test_blanks_around_tags_are_allowed(completion: str) -> None:
    assert one(R.tags("think", "answer"), completion).score == 1.0


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("", "missing_tag"),
        ("<think>a</think>", "missing_tag"),
        ("<answer>b</answer>", "missing_tag"),
        ("<answer>b</answer><think>a</think>", "text_outside"),
        ("<think>a<answer>b</answer></think>", "missing_tag"),
        ("<think>a<answer>b</think></answer>", "missing_tag"),
        ("<think>a</think><answer>b", "unclosed_tag"),
        ("<think>a<answer>b</answer>", "unclosed_tag"),
        ("<think>a</answer></think><answer>b", "unclosed_tag"),
        ("<think>a</think><answer></answer>", "empty_tag"),
        ("<think>\u200b</think><answer>b</answer>", "empty_tag"),
        ("<think>a</think><answer>b</answer><answer>c</answer>", "repeated_tag"),
        ("<think>a</think><answer>b</answer></answer>", "repeated_tag"),
        ("<think><think>a</think></think><answer>b</answer>", "repeated_tag"),
        ("Well <think>a</think><answer>b</answer>", "text_outside"),
        ("<think>a</think>so<answer>b</answer>", "text_outside"),
        ("<think>a</think><answer>b</answer>!", "text_outside"),
    ],
)
def test_every_fault_of_tags_is_named(completion: str, reason: str) -> None:
    assert fault(R.tags("think", "answer"), completion) == reason


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("Well <think>a</think>so<answer>b</answer>!", ""),
        ("<answer>b</answer><think>a</think>", "missing_tag"),
        ("<think>a<answer>b</answer></think>", "missing_tag"),
        ("<think>a</think><answer> </answer>", "empty_tag"),
    ],
)
def test_text_outside_is_allowed_where_it_is_asked_for(completion: str, reason: str) -> None:
    assert fault(R.tags("think", "answer", strict=False), completion) == reason


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("a</think><answer>b</answer>", ""),
        ("<think>a</think><answer>b</answer>", ""),
        ("</think><answer>b</answer>", "empty_tag"),
        ("a<think>b</think><answer>c</answer>", "text_outside"),
        ("a</think>b</answer>", "missing_tag"),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_the_first_tag_may_be_prefilled(completion: str, reason: str, strict: bool) -> None:
    assert fault(R.tags("think", "answer", prefilled=True, strict=strict), completion) == reason


@given(st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "a", " ", "\n"]), max_size=9))
def test_strict_tags_accept_exactly_one_shape(pieces: list[str]) -> None:
    squeezed = [piece for piece in pieces if piece.strip()]
    inner = [i for i, piece in enumerate(squeezed) if piece == "a"]
    shape = "".join(piece if i not in inner or i - 1 not in inner else "" for i, piece in enumerate(squeezed))
    assert (one(R.tags("think", "answer"), "".join(pieces)).score == 1.0) == (shape == "<think>a</think><answer>a</answer>")


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        ("\\boxed{5}", ""),
        ("so \\fbox{5}.", ""),
        ("\\boxed{\\frac{1}{2}}", ""),
        ("\\boxed{\\{\\}}", ""),
        ("\\boxed{\\emptyset}", ""),
        ("<think>x</think>\\boxed{5}", ""),
        ("\\boxed{} \\boxed{5}", ""),
        ("\\boxed {5}", ""),
        ("5", "no_box"),
        ("Mark your solution with \\boxed ", "no_box"),
        ("\\boxed 5", "no_box"),
        ("<think>\\boxed{5}</think>5", "no_box"),
        ("\\boxed{}", "empty_box"),
        ("\\boxed{ \n}", "empty_box"),
        ("\\boxed{\\text{}}", "empty_box"),
        ("\\boxed{\\textit{\\mathsf{}}\\mbox{}}", "empty_box"),
        ("\\boxed{\\underline{\\hphantom{}}}", "empty_box"),
        ("\\boxed{\\text{\\emph{ }}\\\\}", "empty_box"),
        ("\\boxed{\\text{__}}", "empty_box"),
        ("\\boxed{\\mathbb{R}}", ""),
        ("\\boxed{\\fbox{}}", "empty_box"),
        ("\\boxed{\\,\\quad{}$ $}", "empty_box"),
        ("\\boxed{\u200b}", "empty_box"),
        ("\\boxed{5} \\boxed{}", "empty_box"),
        ("\\boxed{5", "unterminated_box"),
        ("\\boxed{5} \\boxed{6", "unterminated_box"),
        ("\\boxed{5\\}", "unterminated_box"),
    ],
)
def test_the_last_box_must_be_closed_and_filled(completion: str, reason: str) -> None:
    assert fault(R.boxed_format(), completion) == reason


@pytest.mark.parametrize(
    ("completion", "reason"), [("\\boxed{5}", ""), ("\\boxed{\\boxed{5}}", ""), ("\\boxed{4} \\boxed{5}", "several_boxes"), ("5", "no_box")]
)
def test_one_box_alone_can_be_asked_for(completion: str, reason: str) -> None:
    assert fault(R.boxed_format(once=True), completion) == reason


@pytest.mark.parametrize("term", [THINK, R.tags("a"), R.boxed_format()], ids=lambda t: t.name)
@given(st.text(max_size=50))
def test_any_text_gets_0_or_1_with_a_listed_reason(term: R.Term, text: str) -> None:
    assert one(term, text).score in (0.0, 1.0)
    assert one(term, text).reason in ("", *REASONS)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: R.think_format(open=""), "open"),
        (lambda: R.think_format(open="<t>", close="<t>"), "contains"),
        (lambda: R.think_format(name="a b"), "name"),
        (lambda: R.think_format(prefilled="no"), "True or False"),  # type: ignore[arg-type]
        (lambda: R.tags("a", strict=0), "True or False"),  # type: ignore[arg-type]
        (lambda: R.boxed_format(once="yes"), "True or False"),  # type: ignore[arg-type]
        (lambda: R.tags(), "at least one"),
        (lambda: R.tags("a", "a"), "once"),
        (lambda: R.tags("<a>"), "brackets"),
    ],
)
def test_arguments_are_checked_when_built(build: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        build()


@pytest.mark.parametrize("piece", ["<think>", "</think>", "<", "\\boxed{", "}", "{", " ", "\u200b", "\\", "\\text{", "\\boxed{\\text "])
@pytest.mark.slow
def test_time_is_linear_in_hostile_text(piece: str) -> None:
    terms = [THINK, R.think_format(prefilled=True), R.tags("think", "answer", strict=False), R.boxed_format()]
    texts = [head + piece * (500_000 // len(piece)) + tail for head in ("", "<think>", "\\boxed{") for tail in ("", "</think>x", "}")]
    start = time.process_time()
    for term in terms:
        term.verdicts([Rollout(text) for text in texts])
    assert time.process_time() - start < 10.0
