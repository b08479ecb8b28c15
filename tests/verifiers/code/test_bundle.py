"""Our jail programs need nothing but the standard library, and run under another Python too."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import MAGIC_NUMBER

import pytest

from guerdon.sandboxes.base import sandbox
from guerdon.sandboxes.zygote import Zygote
from guerdon.verifiers.code.answers import solve_job
from guerdon.verifiers.code.bundle import program
from guerdon.verifiers.code.results import Candidate

MODULES = [("wire", "solve"), ("wire", "stubs", "trial"), ("wire", "stubs", "suites", "trial")]


@pytest.mark.parametrize("modules", MODULES)
@pytest.mark.parametrize("python", ["same", "other"])
def test_a_program_loads_without_guerdon(modules: tuple[str, ...], python: str) -> None:
    source = program(*modules).replace('space["main"]()', "import sys; print('guerdon' in sys.modules, callable(space['main']))")
    if python == "other":  # its compiled code cannot be read there: the text is compiled
        source = source.replace(repr(MAGIC_NUMBER), "b'other'")
    done = subprocess.run([sys.executable, "-I", "-S", "-"], input=source, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False True\n", "")


def test_another_python_answers_the_same(box: Zygote) -> None:
    job = solve_job(Candidate("def f(x): return {x: (1.5, [x])}"), ['[null,"f",["a"],{}]'], None)
    other = type(job)(job.source.replace(repr(MAGIC_NUMBER), "b'other'"), stdin=job.stdin, channel=True)
    one, two = sandbox(box).run_many([job, other])
    assert one.channel == two.channel == b'["r",null]\n["v",{"d":[["a",{"t":[1.5,["a"]]}]]},null]\n'
