"""Import strings: modules and files, and one line that says what, where and how to mend it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guerdon.errors import LoadError
from guerdon.loading import load, spec_of


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_module_attribute_may_be_dotted() -> None:
    assert load("collections:OrderedDict.fromkeys")("ab") == {"a": None, "b": None}


def test_a_file_runs_once_per_process(tmp_path: Path) -> None:
    file = write(tmp_path, "once.py", "made = object()\n")
    assert load(f"{file}:made") is load(f"{file}:made")


def test_two_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = write(tmp_path / "a", "same.py", "x = 1"), write(tmp_path / "b", "same.py", "x = 2")
    assert [load(f"{one}:x"), load(f"{two}:x")] == [1, 2]


def test_a_file_may_import_the_modules_beside_it_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "beside_it_12.py", "value = 7")
    file = write(tmp_path, "imports_it.py", "from beside_it_12 import value")
    monkeypatch.chdir("/")
    assert load(f"{file}:value") == 7


@pytest.mark.parametrize(
    ("text", "spec", "said"),
    [
        ("x = 1", "{file}", "expected 'package.module:object'"),
        ("x = 1", "{file}:y", "has no 'y'; it has x"),
        ("x = 1", "{folder}/none.py:x", "no such file"),
        ("x = 1/0", "{file}:x", "ZeroDivisionError"),
        ("import nope_nope", "{file}:x", "nope_nope"),
        ("x = 1", "no_such_package_1.mod:x", "no module named 'no_such_package_1'"),
        ("x = 1", "json:nope", "has no 'nope'"),
    ],
)
def test_what_cannot_be_loaded_is_one_line_with_the_reason(tmp_path: Path, text: str, spec: str, said: str) -> None:
    file = write(tmp_path, "mine.py", text)
    with pytest.raises(LoadError) as failure:
        load(spec.format(file=file, folder=tmp_path))
    assert said in str(failure.value)
    assert "\n" not in str(failure.value)


def test_threads_that_load_one_file_at_once_get_it_whole(tmp_path: Path) -> None:
    file = write(tmp_path, "slow.py", "import time\ntime.sleep(0.3)\nmade = object()\n")
    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(load, [f"{file}:made"] * 4))) == 1


def test_a_file_may_load_another_and_itself_be_named_for_another_process(tmp_path: Path) -> None:
    inner = write(tmp_path, "inner.py", "def f(rollout):\n    return 2.0\n")
    outer = write(tmp_path, "outer.py", f"from guerdon.loading import load\nf = load({f'{inner}:f'!r})\n")
    assert spec_of(load(f"{outer}:f")) == f"{inner}:f"
