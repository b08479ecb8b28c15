"""What the engine must not contain or load: evaluation of text, timers, threads, heavy packages."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from guerdon.verifiers.math import engine
from guerdon.verifiers.math.engine import compare, compile_answer
from guerdon.verifiers.math.rules import MathRules

FILES = sorted(Path(engine.__file__).parent.glob("*.py"))
FORBIDDEN_NAMES = {"eval", "exec", "compile", "sympify", "parse_expr", "__import__", "open", "globals", "literal_eval"}
FORBIDDEN_MODULES = {"sympy", "signal", "threading", "multiprocessing", "subprocess", "os", "importlib", "ast", "asyncio"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_text_is_evaluated_and_nothing_runs_beside(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_NAMES
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & FORBIDDEN_MODULES
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.module.split(".")[0] not in FORBIDDEN_MODULES


def test_importing_loads_neither_sympy_nor_mpmath() -> None:
    code = "import sys, guerdon.verifiers.math.engine; print([m for m in ('sympy', 'mpmath', 'numpy', 'math_verify') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


PAYLOADS = [
    "__import__('os').system('touch {marker}')",
    "1+__import__('os').system('touch {marker}')",
    "\\pi if open('{marker}','w') else 1",
    "[open('{marker}','w')]",
    "(lambda: open('{marker}','w'))()",
    "2**(open('{marker}','w').fileno())",
    "().__class__.__base__.__subclasses__()",
    "\\input{{{marker}}}",
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_runs_or_is_right(payload: str, tmp_path: Path) -> None:
    text = payload.format(marker=tmp_path / "marker")
    for answer in ("5", "0", "\\pi", "1", "\\frac{x}{2}"):
        assert compare(text, compile_answer(answer), MathRules()).status != "correct"
    compile_answer(text)
    assert not list(tmp_path.iterdir())
