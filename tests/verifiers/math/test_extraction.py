"""What is taken from a completion, by which rule, and what is never taken."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.verifiers.math import Extraction, MathRules, extract


@pytest.mark.parametrize(
    ("completion", "text", "rule"),
    [
        (r"So $x = \boxed{\frac{1}{2}}$.", r"\frac{1}{2}", "box"),
        (r"\fbox{7}", "7", "box"),
        (r"\boxed 5", "5", "box"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}", "box"),
        (r"\boxed{5 + \boxed{6}}", r"5 + \boxed{6}", "box"),
        (r"first \boxed{4}, no: \boxed{5}", "5", "box"),
        (r"\boxed{35 cm} ++++ \boxed{4}", "4", "box"),
        (r"Mark it with \boxed and the result is \boxed{42}", "42", "box"),
        ("The answer is 42", "42", "phrase"),
        ("The final answer is **42**. I hope it is right.", "42", "phrase"),
        ("The answer is $1,234.00", "$1,234.00", "phrase"),
        ("The final answer is:\n\\[\n5\n\\]\nas claimed", "\\[\n5\n\\]", "phrase"),
        ("the answer is 42 because geometry proves it", "42", "phrase"),
        ("(the answer is 5)", "5", "phrase"),
        ("The answer is Evelyn.", "Evelyn", "phrase"),
        ("First 8.\n\n**Answer:** 4.", "4", "answer_line"),
        ("---\nFinal Answer: **73**", "73", "answer_line"),
        ("ANSWER: 3.5", "3.5", "answer_line"),
        ("They have 60.\nA: 60", "60", "answer_line"),
        ("2+40=42\n#### 42\n" + "and this confirms it. " * 200, "42", "hash"),
        ("<answer> 5 </answer> and then 6", "5", "answer_tag"),
        ("<answer>4</answer> <answer>5</answer>", "5", "answer_tag"),
        (r"<answer>It is \boxed{5}.</answer>", "5", "box"),
        (r"<answer> \boxed{3}", "3", "box"),
        ("33.5 percent", "33.5 percent", "whole"),
        (r"-1 + \sqrt{3}", r"-1 + \sqrt{3}", "whole"),
        ("Evelyn", "Evelyn", "whole"),
        ("$$\n\\text{no three of them}\n$$", "$$\n\\text{no three of them}\n$$", "whole"),
        ("$x = 5$ if $n$ is odd", "$x = 5$ if $n$ is odd", "whole"),
        (r"We get 3. Final Answer: The volume of $ABC$ is 120. I hope so.", "120", "answer_line"),
        ('The answer is "$12 $ and $13 $".', "$12 $ and $13 $", "phrase"),
        (r"$**Answer:** \boxed{4}$", "4", "box"),
    ],
)
def test_a_stated_answer_is_found(completion: str, text: str, rule: str) -> None:
    assert extract(completion) == Extraction(text, rule)


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        (r"\boxed{42}, or rather \boxed{}", "empty_box"),
        (r"so \boxed{42} ... wait, \boxed{", "unterminated_box"),
        (r"\boxed{The answer is 42", "unterminated_box"),
        (r"<answer>\boxed{}</answer>", "empty_box"),
        (r"Mark your solution with \boxed ", "no_answer"),
        ("It could be 4. Or 5", "no_answer"),
        ("<think>\\boxed{5}</think> I do not know.", "no_answer"),
        ("<answer>5</answer> <answer> </answer>", "no_answer"),
        ("#### 1. Compute the sum\n#### Step 2: add", "no_answer"),
        ("$x$ and then $y$ again", "no_answer"),
        ("It may be 5", "no_answer"),
        ("", "no_answer"),
        ("\x00\ud800", "no_answer"),
    ],
)
def test_no_answer_says_why(completion: str, reason: str) -> None:
    found = extract(completion)
    assert (found.text, found.reason) == (None, reason)


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        (r"\boxed{4}" + "\nAnswer: 5", "5"),
        ("Answer: 4\n\\boxed{5}", "5"),
        ("#### 4\nThe answer is 5.", "5"),
        ("The answer is 4.\n#### 5", "5"),
        (r"Answer: \boxed{5}", "5"),
        (r"\boxed{5}, and the answer is obvious.", "5"),
        ("Answer: 5\nThe answer is obvious.", "5"),
    ],
)
def test_the_last_statement_wins(completion: str, text: str) -> None:
    assert extract(completion).text == text


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        (r"$\boxed{4}, \boxed{5}$", "4, 5"),
        (r"\(\boxed{1}\) and \(\boxed{-2}\).", "1, -2"),
        (r"\boxed{(9, 2)} \quad \text{and} \quad \boxed{(9, 5)}", "(9, 2), (9, 5)"),
        (r"\boxed{5}, \boxed{5}", "5"),
        (r"\boxed{1} papers and \boxed{2} bins", "1, 2"),
        (r"$x = \boxed{3}$ and $y = \boxed{5}$", "3, 5"),
        (r"\boxed{3}, \boxed{5}, and \boxed{7}", "3, 5, 7"),
        (r"We have \boxed{3}. And \boxed{5}", "5"),
        (r"\boxed{3} thus, \boxed{5}", "5"),
        (r"not \boxed{3} but \boxed{5}", "5"),
    ],
)
def test_joined_boxes_are_one_list(completion: str, text: str) -> None:
    assert extract(completion).text == text


@pytest.mark.parametrize(
    ("completion", "text", "rule"),
    [
        (r"\boxed{4}, so $x = 5$", "4", "box"),
        (r"We find that $x \neq 3$, since $3$ is not.", "3", "formula"),
        (r"so \(x = 5\) and \[y = 6\] hold", "y = 6", "formula"),
        (r"costs \$5 for $n$ of 7", "n", "formula"),
        ("It could be 4. Or 1,234.5", "1,234.5", "number"),
        ("a drop of 33.5 percent in all", "33.5 percent", "number"),
        ("The answer is that there are 3 of them, not 4 of 5", "5", "number"),
        ("The answer is Evelyn.", "Evelyn", "phrase"),
        ("<answer>809></answer> of 7", "809", "number"),
    ],
)
def test_a_lenient_search_goes_on_to_the_last_formula_and_number(completion: str, text: str, rule: str) -> None:
    assert extract(completion, MathRules.lenient()) == Extraction(text, rule)


@pytest.mark.parametrize(
    ("completion", "reason"), [(r"4 or \boxed{}", "empty_box"), (r"4 or \boxed{", "unterminated_box"), ("No idea at all", "no_answer")]
)
def test_a_lenient_search_rescues_no_broken_box(completion: str, reason: str) -> None:
    assert extract(completion, MathRules.lenient()).reason == reason


def test_reasoning_ends_at_the_templates_own_tag() -> None:
    completion = r"\boxed{4}</thought> \boxed{5}</thought> It is done."
    assert extract(completion).text == "5"
    assert extract(completion, MathRules(reasoning_end="</thought>")).text is None
    assert extract(r"<think>\boxed{4}</think>", MathRules(reasoning_end="")).text == "4"


_PIECES = [
    "\\boxed{",
    "\\boxed",
    "}",
    "{",
    "answer is ",
    "Answer:",
    "\nA:",
    "#### ",
    "<answer>",
    "</answer>",
    "$",
    "\\[",
    "\\",
    "**",
    " ",
    "\n",
    "1",
    "\ud800",
    "\x00",
]


@given(st.lists(st.sampled_from(_PIECES) | st.text(max_size=3), max_size=30).map("".join))
def test_every_text_has_either_an_answer_or_a_reason(completion: str) -> None:
    found = extract(completion)
    assert (found.text is None) == (found.reason in ("empty_box", "unterminated_box", "no_answer"))


@pytest.mark.parametrize(
    "piece",
    [
        *_PIECES,
        "\\boxed{1},",
        "answer is \\[",
        "answer is $",
        "answer to ",
        "Answer:\n",
        "\nAnswer: A: ",
        ". ",
        "{\\boxed{1}",
        "\\(",
        "1,",
        "Final A",
        "is ",
    ],
)
@pytest.mark.slow
def test_a_megabyte_is_read_in_linear_time(piece: str) -> None:
    start = time.process_time()
    extract(piece * (1_000_000 // len(piece)), MathRules.lenient())
    assert time.process_time() - start < 5.0  # 0.65 s at most when measured; quadratic would take minutes
