"""Does a program do what it should? Tests in the field's shapes, run in a jail, graded outside of it.

`CodeVerifier` judges batches, `extract_code` shows what would be run and why, `read_tests` whether a reference is usable,
`CHECKERS` names the ways to compare printed output. Expected values never enter the jail of the model's program.
"""

from __future__ import annotations

from guerdon.verifiers.code.checkers import CHECKERS, Float, Program, Tokens
from guerdon.verifiers.code.extraction import Extraction, extract_code
from guerdon.verifiers.code.shapes import BadTests, Calls, Script, Stdio, read_tests
from guerdon.verifiers.code.verifier import CodeVerifier

__all__ = [
    "CHECKERS",
    "BadTests",
    "Calls",
    "CodeVerifier",
    "Extraction",
    "Float",
    "Program",
    "Script",
    "Stdio",
    "Tokens",
    "extract_code",
    "read_tests",
]
