"""The repository as a whole: rooms and links, the built package, what importing costs, and rules about the source."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import guerdon
from guerdon.reasons import REASONS

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("rewards", "verifiers", "backends", "sandboxes", "filters")
HEAVY = {"numpy", "torch", "sympy", "datasets", "transformers", "ray", "jsonschema", "httpx", "asyncio"}


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; fails with all it said when it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_linked_into_the_package(room: str) -> None:
    link = ROOT / "src" / "guerdon" / room
    assert link.is_symlink(), f"{link} is not a symlink: clone with core.symlinks=true"
    assert os.readlink(link) == f"../../{room}"
    assert (ROOT / room / "__init__.py").is_file()


def test_version_is_the_packages_version() -> None:
    assert guerdon.__version__ == importlib.metadata.version("guerdon")


def test_importing_loads_nothing_heavy() -> None:
    loaded = run(sys.executable, "-c", "import sys, guerdon, guerdon.rewards, guerdon.cli; print(*sys.modules)").split()
    assert "guerdon.rewards" in loaded
    assert HEAVY & {name.partition(".")[0] for name in loaded} == set()


def test_importing_is_fast() -> None:
    # The budget is 100 ms of CPU; twice that here, because the machine that runs the tests is busy with them.
    assert "budget" in run(sys.executable, ROOT / "benchmarks" / "bench_imports.py", "--budget-ms", "200", "--repeats", "5")


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of the package, parsed, by its path in the repository."""
    files = [file for folder in ("src/guerdon", *ROOMS) for file in (ROOT / folder).rglob("*.py")]
    return {str(file.relative_to(ROOT)): ast.parse(file.read_bytes()) for file in files}


def texts(node: ast.expr | None) -> Iterator[str]:
    """The literal strings an expression may give: constants and both sides of a choice."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from (*texts(one), *texts(other))
        case ast.BoolOp(values=values):
            yield from (text for value in values for text in texts(value))


def reasons(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The literal reasons of verdicts, by line: `Verdict(score, status, reason)`, `Verdict.of(status, reason)`,
    `Verdict.graded(fraction, reason)`, the same through `cls` or `replace`, and any `reason=`."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        place = 2 if name in ("Verdict", "cls") else 1 if name.endswith(("Verdict.of", "Verdict.graded")) else None
        given = [call.args[place]] if place is not None and len(call.args) > place else []
        given += [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
        yield from ((call.lineno, text) for expression in given for text in texts(expression) if text)


def test_every_reason_in_the_source_is_in_the_table() -> None:
    found = [(file, line, reason) for file, tree in sources().items() for line, reason in reasons(tree)]
    assert found
    assert [where for where in found if where[2] not in REASONS] == []


def test_no_module_evaluates_text() -> None:
    # sympify and parse_expr call eval. `model.eval()` is something else, so only the bare name counts.
    banned = {"sympify", "parse_expr"}
    found = [
        f"{file}:{node.lineno} {ast.unparse(node)}"
        for file, tree in sources().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id in banned | {"eval"})
        or (isinstance(node, ast.Attribute) and node.attr in banned)
        or (isinstance(node, ast.ImportFrom) and banned & {alias.name for alias in node.names})
    ]
    assert found == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that `build` makes from the sdist it made before."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.slow
def test_wheel_built_from_the_sdist_holds_every_file(wheel: Path) -> None:
    # Other build backends lose linked folders without an error; so does setuptools data files that pyproject.toml does not name.
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("guerdon/")}
    own = {file.relative_to(ROOT / "src") for file in (ROOT / "src" / "guerdon").rglob("*") if not file.is_symlink()}
    linked = {Path("guerdon") / file.relative_to(ROOT) for room in ROOMS for file in (ROOT / room).rglob("*")}
    files = {str(path) for path in own | linked if "__pycache__" not in path.parts and (ROOT / "src" / path).is_file()}
    assert {f"guerdon/{room}/__init__.py" for room in ROOMS} < files
    assert packed == files


@pytest.mark.slow
def test_wheel_works_outside_the_clone(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "-qq", "-c", ROOT / "constraints.txt", wheel)
    code = f"import guerdon, {', '.join(f'guerdon.{room}' for room in ROOMS)}; print(guerdon.__file__)"
    assert run(python, "-c", code, cwd=tmp_path).startswith(str(tmp_path))
    run(python.with_name("guerdon"), "demo", cwd=tmp_path)
