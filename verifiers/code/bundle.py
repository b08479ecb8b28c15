"""The sources of our own jail programs, compiled here once: a jail of the same Python starts them without compiling.

Nothing of guerdon is imported in a jail. A program is a few modules of this package run one after another in one namespace, with
a copy of the builtins of its own.
"""

from __future__ import annotations

import marshal
from functools import lru_cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path

__all__ = ["program"]

# Only modules that every warm interpreter holds: importing zlib to unpack costs 0.7 ms a run, more than reading the longer text.
_LOADER = """\
import builtins, marshal, _frozen_importlib_external
space = {{"__name__": "guerdon_jail", "__builtins__": dict(vars(builtins))}}
if _frozen_importlib_external.MAGIC_NUMBER == {magic!r}:
    parts = marshal.loads(bytes.fromhex({compiled!r}))
else:
    parts = [compile(text, "<guerdon>", "exec", dont_inherit=True, optimize=2) for text in {sources!r}]
for part in parts:
    exec(part, space)
space["main"]()
"""


@lru_cache(maxsize=8)
def program(*modules: str) -> str:
    """Python source that runs `modules` (names of this package, the last with a `main`) and needs nothing but the standard library."""
    texts = [_own(Path(__file__).with_name(f"{name}.py").read_text("utf-8")) for name in modules]
    parts = [compile(text, "<guerdon>", "exec", dont_inherit=True, optimize=2) for text in texts]
    return _LOADER.format(magic=MAGIC_NUMBER, compiled=marshal.dumps(parts).hex(), sources=texts)


def _own(text: str) -> str:
    """Without what only exists outside: imports of guerdon (the names are in the shared namespace already)."""
    return "\n".join("" if line.startswith("from guerdon.") else line for line in text.split("\n"))
