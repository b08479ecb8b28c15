"""Where the program is in a completion, by visible rules. Reads lines; parses nothing, so no text is too hostile for it.

1. What follows the last `</think>` counts.
2. The last closed fenced block of the right language that defines the entry point; else the last closed one; else one that the
   completion never closed. Blocks tagged with another language do not count unless none other is there.
3. Without a block, the whole completion: as the continuation of a code prompt that defines the entry point, or as it stands if it
   looks like code.

Does not repair programs: no trimming of prose, no closing of brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from guerdon.verifiers.base import strip_reasoning

__all__ = ["Extraction", "extract_code"]

_TAGS: dict[str, tuple[str, ...]] = {
    "python": ("python", "py", "python3", "python 3", "pypy", "pypy3"),
    "cpp": ("cpp", "c++", "cc", "cxx", "c++17", "c++20", "cplusplus"),
    "c": ("c",),
    "java": ("java",),
    "javascript": ("javascript", "js", "node", "nodejs"),
    "bash": ("bash", "sh", "shell", "zsh"),
    "go": ("go", "golang"),
    "rust": ("rust", "rs"),
}
_FENCE = re.compile(r"[ \t]{0,8}(`{3,}|~{3,})[ \t]*([^\s`]*)")
_CODE = re.compile(
    r"^(?:def |async def |class |import \w|from [\w.]+ import|if __name__|for \w|while |with |try:|print\(|return |@\w|#include|"
    r"using |int main|public |fn |func |package |let |const |var |function |[A-Za-z_]\w*(?:, *[A-Za-z_]\w*)* *[-+*/%|&]?= *\S|"
    r"[A-Za-z_][\w.]*\(.*\)$|[ \t]+return )",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Extraction:
    """`code` is None when the completion holds none; `rule` says which rule found it."""

    code: str | None
    rule: str


@dataclass(frozen=True, slots=True)
class _Block:
    tag: str
    code: str
    closed: bool


def extract_code(completion: str, language: str = "python", entry_point: str = "", prompt: str = "") -> Extraction:
    """The program in a completion. `prompt` is a code prompt that the completion may continue (HumanEval).

    >>> extract_code("Sure!\\n```python\\nprint(1)\\n```\\nDone.")
    Extraction(code='print(1)', rule='fenced')
    >>> extract_code("    return 1\\n", entry_point="f", prompt="def f():\\n").code
    'def f():\\n    return 1\\n'
    >>> extract_code("I cannot do that.").code is None
    True
    """
    text = strip_reasoning(completion)
    blocks = [block for block in _blocks(text) if block.code.strip()]
    right = [b for b in blocks if b.tag in _TAGS.get(language, (language,))] or [b for b in blocks if not b.tag or b.tag not in _OTHERS]
    right = right or blocks
    right = [b for b in right if b.closed] or right
    defines = _definition(entry_point)
    if right:
        chosen = next((b for b in reversed(right) if entry_point and defines.search(b.code)), right[-1])
        return _continued(chosen.code, "fenced", entry_point, prompt)
    if not text.strip():
        continues = bool(entry_point and prompt and completion == text)
        return _continued(text, "continuation", entry_point, prompt) if continues else Extraction(None, "empty")
    if entry_point and _definition(entry_point).search(prompt) and not _stands_alone(text, entry_point):
        return Extraction(prompt + text, "continuation")
    return Extraction(text, "whole") if _CODE.search(text) else Extraction(None, "prose")


def _continued(code: str, rule: str, entry_point: str, prompt: str) -> Extraction:
    if entry_point and _definition(entry_point).search(prompt) and not _stands_alone(code, entry_point):
        return Extraction(prompt + code, f"{rule}_continuation" if rule != "continuation" else rule)
    return Extraction(code, rule)


def _stands_alone(code: str, entry_point: str) -> bool:
    """Whether the code defines the entry point itself, instead of going on inside its body."""
    first = next((line for line in code.split("\n") if line.strip()), "")
    return not first.startswith((" ", "\t")) and _definition(entry_point).search(code) is not None


@lru_cache(maxsize=1024)
def _definition(entry_point: str) -> re.Pattern[str]:
    return re.compile(rf"^(?:async )?(?:def|class) +{re.escape(entry_point)}\b|^{re.escape(entry_point)} *[:=]", re.M)


_OTHERS = frozenset(tag for tags in _TAGS.values() for tag in tags) | {"text", "txt", "output", "json", "console", "diff", "markdown"}


def _blocks(text: str) -> list[_Block]:
    """Fenced blocks, in one pass. A fence closes with at least as many of the same sign and nothing after them."""
    found: list[_Block] = []
    opened: tuple[str, str] | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if opened is None:
            if fence:
                opened, lines = (fence[1], fence[2].lower()), []
        elif fence and fence[1].startswith(opened[0]) and not line[fence.end() :].strip() and not fence[2]:
            found.append(_Block(opened[1], "\n".join(lines), True))
            opened = None
        else:
            lines.append(line)
    if opened is not None:
        found.append(_Block(opened[1], "\n".join(lines), False))
    return found
