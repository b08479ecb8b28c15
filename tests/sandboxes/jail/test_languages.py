"""Every language whose toolchain is here, and compiling once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from guerdon.errors import ConfigError
from guerdon.sandboxes import Job, Limits, RunResult, Zygote
from guerdon.sandboxes.compile_cache import Artefact, CompileCache, key, unpack
from guerdon.sandboxes.languages import LANGUAGES, available, find, main_class

ADD = {
    "python": "a, b = map(int, input().split()); print(a + b)",
    "cpp": "#include <iostream>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }",
    "java": """import java.util.*;
        public class Adder { public static void main(String[] a) {
            Scanner s = new Scanner(System.in); System.out.println(s.nextInt() + s.nextInt()); } }""",
    "javascript": "const [a, b] = require('fs').readFileSync('/dev/stdin', 'utf8').split(' ').map(Number); console.log(a + b)",
    "bash": "read a b; echo $((a + b))",
    "go": 'package main\nimport "fmt"\nfunc main() { var a, b int; fmt.Scan(&a, &b); fmt.Println(a + b) }',
    "rust": """fn main() {
        let mut s = String::new(); std::io::stdin().read_line(&mut s).unwrap();
        let v: Vec<i64> = s.split_whitespace().map(|x| x.parse().unwrap()).collect(); println!("{}", v[0] + v[1]); }""",
}
FAIL = {
    "python": "raise SystemExit(3)",
    "cpp": "int main() { return 3; }",
    "java": "class Main { public static void main(String[] a) { System.exit(3); } }",
    "javascript": "process.exit(3)",
    "bash": "exit 3",
    "go": 'package main\nimport "os"\nfunc main() { os.Exit(3) }',
    "rust": "fn main() { std::process::exit(3) }",
}
HOG = {
    "python": "x = bytearray(1 << 40)",
    "cpp": "#include <vector>\nint main() { std::vector<std::vector<char>> v; for (;;) v.emplace_back(1 << 24, 1); }",
    "java": """class Main { public static void main(String[] a) {
        var l = new java.util.ArrayList<byte[]>(); for (;;) l.add(new byte[1 << 24]); } }""",
    "javascript": "const l = []; for (;;) l.push(new Array(1 << 20).fill(l.length))",
    "bash": "x=0123456789abcdef; while :; do x=$x$x; done",
    "go": """package main
        func main() { l := [][]byte{}; for { b := make([]byte, 1<<24); for i := range b { b[i] = 1 }; l = append(l, b) } }""",
    "rust": "fn main() { let mut v: Vec<Vec<u8>> = vec![]; loop { v.push(vec![1; 1 << 24]); } }",
}
COMPILED = ("cpp", "java", "go", "rust")


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    if request.param not in available():
        pytest.skip(str(find(request.param)))
    return str(request.param)


@pytest.fixture(scope="module", params=["namespaces", "landlock"])
def rung(request: pytest.FixtureRequest) -> Iterator[Any]:
    from guerdon.errors import SandboxError

    try:
        box = Zygote(workers=2, level=request.param).start()
    except SandboxError as error:
        pytest.skip(str(error))
    with box:
        yield box


def test_a_program_reads_and_writes(rung: Any, language: str) -> None:
    results = rung.run_many([Job(ADD[language], language, stdin=f"{n} 2\n".encode()) for n in range(3)])
    assert [(result.status, result.stdout) for result in results] == [("ok", b"%d\n" % (n + 2)) for n in range(3)], results[0]


def test_an_exit_code_comes_back(rung: Any, language: str) -> None:
    result = rung.run(Job(FAIL[language], language))
    assert (result.status, result.exit_code) == ("nonzero", 3), result


@pytest.mark.slow
def test_memory_is_bounded(rung: Any, language: str) -> None:
    result = rung.run(Job(HOG[language], language, limits=Limits(memory_mb=128, wall_s=60, cpu_s=20)))
    assert result.status in ("memory", "signal"), result
    assert result.maxrss_mb < 1200


@pytest.mark.parametrize("name", COMPILED)
def test_what_does_not_compile_says_so(rung: Any, name: str) -> None:
    if name not in available():
        pytest.skip(str(find(name)))
    result = rung.run(Job("this is no program", name))
    assert result.status == "compile_error"
    assert b"error" in result.stderr


@pytest.mark.parametrize("name", [name for name in COMPILED if name in available()][:1])
def test_a_program_is_compiled_once(box: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    drive = box._fleet.drive
    monkeypatch.setattr(box._fleet, "drive", lambda requests, *rest: seen.append(len(requests)) or drive(requests, *rest))
    job = Job(ADD[name] + "\n// once", name, stdin=b"1 2\n")
    for _ in range(2):
        assert {result.stdout for result in box.run_many([job] * 5)} == {b"3\n"}
    assert seen == [1, 5, 5]


@pytest.mark.skipif("cpp" not in available(), reason="no C++")
def test_flags_reach_the_compiler_and_make_another_program(box: Any) -> None:
    source = "#include <cstdio>\nint main() { puts(NAME); }"
    jobs = [Job(source, "cpp", flags=(f'-DNAME="{name}"',)) for name in ("one", "two")]
    assert [result.stdout for result in box.run_many(jobs)] == [b"one\n", b"two\n"]


@pytest.mark.skipif("cpp" not in available(), reason="no C++")
def test_the_compiler_is_in_a_jail_too(rung: Any) -> None:
    result = rung.run(Job('#include "/etc/shadow"\nint main() {}', "cpp"))
    assert result.status == "compile_error"
    assert b"root:" not in result.stderr


@pytest.mark.skipif("cpp" not in available(), reason="no C++")
@pytest.mark.slow
def test_a_compiler_bomb_is_bounded() -> None:
    limits = Limits(cpu_s=2, wall_s=20, memory_mb=1024, output_kb=65536, disk_mb=64)
    source = "template<int N> struct A { A<N-1> x; A<N-1> y; static const int v = A<N-1>::v + 1; };\nint main() { for (;;) {} }\n"
    source += "constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nstatic_assert(f(60) > 0);"
    with Zygote(workers=1, compile_limits=limits).start() as box:
        result = box.run(Job(source, "cpp", flags=("-fconstexpr-ops-limit=99999999999", "-fconstexpr-loop-limit=2147483647")))
    assert result.status == "compile_error"


@pytest.mark.skipif("cpp" not in available(), reason="no C++")
def test_an_abort_is_a_signal(box: Any) -> None:
    assert box.run(Job("#include <cstdlib>\nint main() { abort(); }", "cpp")).status == "signal"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("class A {} class B { public static void main(String[] a) {} }", "B"),
        ("public final class P { }", "P"),
        ("record R(int x) {} public class Q { static class In {} public static void main(String[] a) {} }", "Q"),
        ("nothing", "Main"),
        ("class " * 20_000, "class"),
    ],
)
def test_the_class_to_start_is_found(source: str, name: str) -> None:
    assert main_class(source) in (name, "Main") if source.startswith("class class") else main_class(source) == name


def test_a_name_that_is_no_language_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected one of"):
        find("cobol")


def test_the_key_knows_language_flags_and_source() -> None:
    keys = {key("cpp", (), "a"), key("rust", (), "a"), key("cpp", ("-g",), "a"), key("cpp", (), "b"), key("cpp", (), "\ud800")}
    assert len(keys) == 5


@pytest.mark.parametrize("channel", [b"", b"[", b"[1]\n", b'[["../x", 1]]\ny', b'[["/x", 1]]\ny', b'{"a": 1}\n'])
def test_what_is_no_artefact_is_a_compile_error(channel: bytes) -> None:
    artefact = unpack(RunResult("ok", channel=channel))
    assert artefact.failure is not None
    assert artefact.failure.status == "compile_error"


def test_the_cache_forgets_the_oldest_and_keeps_no_accident() -> None:
    cache = CompileCache(room=5000)
    for name in "abc":
        cache.put(name, Artefact((("program", bytes(1000)),)))
    assert [cache.get(name) is not None for name in "abc"] == [False, True, True]
    cache.put("late", Artefact(failure=RunResult("compile_error", timed_out_by="wall")))
    cache.put("lost", Artefact(failure=RunResult("infra_error")))
    assert (cache.get("late"), cache.get("lost")) == (None, None)
