"""The program is found by visible rules, in any text, in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.testing import HOSTILE
from guerdon.verifiers.code import extract_code

PROMPT = 'from typing import List\n\ndef f(x: List[int]) -> int:\n    """Doc."""\n'
GOOD = "def f(x):\n    return 1"


@pytest.mark.parametrize(
    ("completion", "code", "rule"),
    [
        (f"Sure:\n```python\n{GOOD}\n```\nIt works.", GOOD, "fenced"),
        (f"```py\n{GOOD}\n```", GOOD, "fenced"),
        (f"```\n{GOOD}\n```", GOOD, "fenced"),
        (f"~~~python\n{GOOD}\n~~~", GOOD, "fenced"),
        (f"1. So:\n   ```python\n{GOOD}\n   ```", GOOD, "fenced"),
        (f"```python\nold = 1\n```\nBetter:\n```python\n{GOOD}\n```", GOOD, "fenced"),
        (f"```python\n{GOOD}\n```\nRun it:\n```bash\npython f.py\n```", GOOD, "fenced"),
        (f"```python\n{GOOD}\n```\nOutput:\n```\n1\n```", GOOD, "fenced"),
        (f"```python\n{GOOD}\n```\n```python\nprint(", GOOD, "fenced"),
        (f"```python\n{GOOD}", GOOD, "fenced"),
        (f"````python\n{GOOD}\n```\n````", f"{GOOD}\n```", "fenced"),
        (f"<think>```python\nbad\n```</think>```python\n{GOOD}\n```", GOOD, "fenced"),
        (GOOD, GOOD, "whole"),
        ("print(1)", "print(1)", "whole"),
        ("I do not know.", None, "prose"),
        ("", None, "empty"),
        ("```python\n\n```", None, "prose"),
    ],
)
def test_where_the_program_is(completion: str, code: str | None, rule: str) -> None:
    found = extract_code(completion)
    assert (found.code, found.rule) == (code, rule)


@pytest.mark.parametrize(
    ("completion", "code", "rule"),
    [
        ("    return 2\n", PROMPT + "    return 2\n", "continuation"),
        ("\n    return 2\n", PROMPT + "\n    return 2\n", "continuation"),
        ("    return 2\n\ndef f(y):\n    return 3\n", PROMPT + "    return 2\n\ndef f(y):\n    return 3\n", "continuation"),
        (GOOD, GOOD, "whole"),
        ("```python\n    return 2\n```", PROMPT + "    return 2", "fenced_continuation"),
        (f"```python\n{GOOD}\n```", GOOD, "fenced"),
        (f"```python\n{GOOD}\n```\nUse:\n```python\nprint(f([1]))\n```", GOOD, "fenced"),
        ("f = lambda x: 1", "f = lambda x: 1", "whole"),
        ("", PROMPT, "continuation"),
    ],
)
def test_a_code_prompt_is_continued_unless_the_entry_point_is_defined(completion: str, code: str, rule: str) -> None:
    found = extract_code(completion, entry_point="f", prompt=PROMPT)
    assert (found.code, found.rule) == (code, rule)


def test_the_right_language_wins_over_a_later_block() -> None:
    text = "```cpp\nint main() {}\n```\n```python\nprint(1)\n```"
    assert extract_code(text, "cpp").code == "int main() {}"
    assert extract_code(text, "python").code == "print(1)"


@given(st.text(alphabet="`~\n pydef(x):=", max_size=60))
def test_what_is_found_is_part_of_the_completion(completion: str) -> None:
    code = extract_code(completion).code
    assert code is None or code in completion


ADVERSARIAL = ["```\n" * 30_000, "`" * 100_000, "a," * 50_000, "a_" * 50_000 + "(", "x(" * 50_000, "~~~`" * 30_000, "a, " * 30_000 + "="]


@pytest.mark.parametrize("text", [*HOSTILE, *ADVERSARIAL], ids=range(len(HOSTILE) + len(ADVERSARIAL)))
def test_hostile_text_takes_linear_time(text: str) -> None:
    start = time.perf_counter()
    extract_code(text)
    extract_code(text, entry_point="f", prompt=PROMPT)
    assert time.perf_counter() - start < 1
