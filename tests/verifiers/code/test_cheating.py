"""No program earns anything but by returning what it cannot see. Each payload here is one kind of trick, tried in every shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guerdon import Verdict
from guerdon.cli.audit import run_audit

Judge = Callable[..., Verdict]

# The task: f(a, b) = a*a + 7*b.
SHAPES: dict[str, Any] = {
    "calls": {"fn_name": "f", "inputs": [[1, 2], [3, 4]], "outputs": [15, 37]},
    "check": {"entry_point": "f", "test": "def check(candidate):\n    assert candidate(1, 2) == 15\n    assert candidate(3, 4) == 37\n"},
    "tolerance": "assert abs(f(1, 2) - 15) < 1e-6\nassert abs(f(3, 4) - 37) < 1e-6\n",
    "unittest": """
import unittest
from solution import f
class T(unittest.TestCase):
    def test_a(self):
        self.assertEqual(f(1, 2), 15)
        self.assertAlmostEqual(f(3, 4), 37)
""",
    "pytest": """
import pytest
from solution import f
def test_a():
    assert f(1, 2) == pytest.approx(15)
    assert f(3, 4) == 37
""",
}

WRONG = """
def f(a, b):
    return -1
"""

PAYLOADS = {
    "exit at import": "import os\nos._exit(0)\n",
    "raise SystemExit in the call": "def f(a, b):\n    raise SystemExit(0)\n",
    "equal to everything": """
class E:
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __contains__ = lambda s, *o: True
    __ne__ = lambda s, o: False
    __abs__ = __sub__ = __rsub__ = __round__ = lambda s, *o: s
    __hash__ = None
def f(a, b): return E()
""",
    "an int equal to everything": """
class E(int):
    __eq__ = __lt__ = lambda s, o: True
    __abs__ = __sub__ = __rsub__ = lambda s, *o: s
def f(a, b): return E(5)
""",
    "a float equal to everything": """
class E(float):
    __eq__ = lambda s, o: True
    __sub__ = lambda s, o: 0.0
def f(a, b): return E('nan')
""",
    "not a number": "def f(a, b): return float('nan')\n",
    "builtins replaced": f"""
import builtins
builtins.abs = lambda x: 0
builtins.isinstance = lambda *a: True
builtins.all = lambda x: True
{WRONG}""",
    "the frames of the harness": """
import sys
def f(a, b):
    frame = sys._getframe(1)
    while frame:
        for v in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if isinstance(v, dict) and 'outputs' in v: return v['outputs'][0]
        frame = frame.f_back
    return -1
""",
    "everything the collector knows": """
import gc
def f(a, b):
    for o in gc.get_objects():
        if isinstance(o, dict) and ('outputs' in o or 'expected' in o): return o.get('outputs', o.get('expected'))
    return -1
""",
    "answers written to the channel": """
import os
os.write(3, b'["r",null]\\n' + b'["v",true,null]\\n' * 9)
os._exit(0)
""",
    "opaque answers on the channel": """
import os
os.write(3, b'["r",null]\\n' + b'["v",{"o":["0",["int"]]},null]\\n' * 2)
os._exit(0)
""",
    "verdicts on the channel": """
import os
os.write(3, b'[[[true,0,"","",null],[true,1,"","",null]],[],0,false,false,null]\\n' * 3)
os._exit(0)
""",
    "assertions that do nothing": f"""
import unittest
for n in dir(unittest.TestCase):
    if n.startswith('assert'): setattr(unittest.TestCase, n, lambda *a, **k: None)
{WRONG}""",
    "a test skipped by name": """
class SkipTest(Exception): pass
def f(a, b):
    raise SkipTest('x')
""",
    "an interrupt": "def f(a, b):\n    raise KeyboardInterrupt\n",
    "files for the next run": f"""
for n in ('conftest.py', 'test_solution.py', 'sitecustomize.py', 'json.py'):
    open(n, 'w').write('import os; os._exit(0)')
{WRONG}""",
    "answers learnt in an earlier run": """
import os
P = '/tmp/.learnt'
def f(a, b):
    seen = os.path.exists(P)
    open(P, 'w').close()
    return a * a + 7 * b if seen and a != 3 else -1
""",
    "text that ends the source early": "def f(a, b):\n    return -1\nx = '''\n",
    "the right answer to the first call only": """
import os
n = 0
def f(a, b):
    global n
    n += 1
    return a * a + 7 * b if n == 1 else os._exit(0)
""",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("trick", PAYLOADS)
def test_a_trick_earns_nothing_and_does_not_abstain(judge: Judge, trick: str, shape: str) -> None:
    verdict = judge(PAYLOADS[trick], SHAPES[shape], timeout_s=2.0)
    assert verdict.score == 0, verdict


@pytest.mark.parametrize("shape", SHAPES)
def test_the_right_program_passes_beside_them(judge: Judge, shape: str) -> None:
    assert judge("def f(a, b):\n    return a * a + 7 * b\n", SHAPES[shape]).score == 1


@pytest.mark.parametrize(
    "code",
    [
        "print(*range(5000))",
        "print('nan')",
        "print('YES')\nprint('NO')",
        "import sys; sys.exit(0)",
        "print(open('/proc/self/environ').read())",
    ],
)
def test_a_program_that_prints_everything_or_nothing_earns_nothing(judge: Judge, code: str) -> None:
    assert judge(code, {"inputs": ["1", "2"], "outputs": ["14", "30"]}, checker="float").score == 0


@pytest.mark.slow
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_no_payload_of_the_collection_earns_or_abstains(guerdon_data: Path, tmp_path: Path, level: str) -> None:
    spec = tmp_path / "spec.py"
    spec.write_text(f"from guerdon.sandboxes.zygote import Zygote\nspec = Zygote(level={level!r})\n")
    findings = run_audit(guerdon_data / "attacks" / "code", timeout_s=1.0, spec=f"{spec}:spec")
    assert len({finding.id for finding in findings}) == 53 + 2
    assert [finding for finding in findings if not finding.fine] == []
