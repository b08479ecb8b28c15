"""`guerdon audit code`: payloads that must earn nothing, beside programs that must."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

WRONG = "def f(a, b):\n    return -1\n"


def test_an_audit_finds_a_hole(tmp_path: Path, guerdon: Callable[..., Result]) -> None:
    (tmp_path / "wrong.func.py").write_text(WRONG)
    assert guerdon("audit", "code", "--attacks", str(tmp_path)).exit_code == 0
    (tmp_path / "solves.stdio.py").write_text("input(); print(sum(int(x) ** 2 for x in input().split()))")
    (tmp_path / "attacks.json").write_text(json.dumps([{"id": "solves", "cheat": "solves the task"}]))
    result = guerdon("audit", "code", "--attacks", str(tmp_path), "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["holes"]) == (1, 1)
    assert [f["id"] for f in document["findings"] if f["score"] != f["expected"]] == ["solves"]
    assert "HOLE solves" in guerdon("audit", "code", "--attacks", str(tmp_path)).stdout


def test_what_is_no_folder_of_payloads_is_a_usage_error(tmp_path: Path, guerdon: Callable[..., Result]) -> None:
    assert guerdon("audit", "code", "--attacks", str(tmp_path)).exit_code == 2
    (tmp_path / "x.py").write_text("")
    assert guerdon("audit", "code", "--attacks", str(tmp_path)).exit_code == 2
    (tmp_path / "x.py").rename(tmp_path / "x.func.py")
    (tmp_path / "attacks.json").write_text("{")
    assert guerdon("audit", "code", "--attacks", str(tmp_path)).exit_code == 2
