"""The languages a program may be in: how each is compiled and started, and what of this machine it needs to see.

Python runs in the warm interpreter itself; C++, Java, Go and Rust are compiled in a jail of their own first; JavaScript and Bash are
started. A language whose toolchain is not on the PATH is not available, with the reason. No toolchain is ever downloaded.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from guerdon.errors import ConfigError

__all__ = ["LANGUAGES", "Language", "available", "find", "main_class", "trees"]

LANGUAGES = ("python", "cpp", "java", "javascript", "bash", "go", "rust")
BASE_TREE = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc/alternatives", "/etc/ld.so.cache")


@dataclass(frozen=True, slots=True)
class Language:
    """How to run one language. `{flags}`, `{source}`, `{class}` and `{memory_mb}` are filled in; `compile` empty: none.

    `address_space`: whether a memory limit may bound reserved address space; JVM, node and Go reserve far more than they use.
    `overhead_mb`: what its runtime needs before the program has anything. `output`: the folder or file that compiling makes.
    """

    name: str
    source: str
    run: tuple[str, ...]
    compile: tuple[str, ...] = ()
    output: str = "program"
    tree: tuple[str, ...] = ()
    address_space: bool = True
    overhead_mb: int = 0
    stack_mb: int = 64
    env: tuple[tuple[str, str], ...] = ()

    def compile_command(self, source: str, flags: tuple[str, ...]) -> list[str]:
        """The compiler's argument list."""
        return _fill(self.compile, flags, {"source": self.source_name(source)})

    def run_command(self, source: str, flags: tuple[str, ...], memory_mb: int) -> list[str]:
        """The program's argument list, without the job's own arguments."""
        name = main_class(source) if self.name == "java" else ""
        return _fill(self.run, flags, {"source": self.source, "class": name, "memory_mb": str(memory_mb)})

    def source_name(self, source: str) -> str:
        """The file the source goes to: javac wants it named for the public class."""
        return f"{main_class(source)}.java" if self.name == "java" else self.source


def _fill(template: tuple[str, ...], flags: tuple[str, ...], values: dict[str, str]) -> list[str]:
    words: list[str] = []
    for word in template:
        words += list(flags) if word == "{flags}" else [re.sub(r"\{(\w+)\}", lambda match: values[match[1]], word)]
    return words


_CLASS = re.compile(r"\b(?:class|record|enum|interface)\s+([A-Za-z_]\w*)")


def main_class(source: str) -> str:
    """The class to start: the last one declared before the first `main`, else the public one, else Main.

    >>> main_class("class A {} public class Sol { public static void main(String[] a) {} }")
    'Sol'
    """
    main = re.search(r"\bstatic\s{1,20}(?:final\s{1,20})?void\s{1,20}main\b", source)
    names = _CLASS.findall(source[: main.start()]) if main else []
    public = re.search(r"\bpublic\s{1,20}(?:final\s{1,20}|abstract\s{1,20})?class\s{1,20}([A-Za-z_]\w*)", source)
    return str(public[1]) if public else str(names[-1]) if names else "Main"


def available() -> tuple[str, ...]:
    """The languages whose toolchain is on this machine."""
    return tuple(name for name in LANGUAGES if isinstance(find(name), Language))


def trees() -> tuple[str, ...]:
    """All paths that programs of the available languages need to read."""
    found = [find(name) for name in LANGUAGES]
    paths = [path for language in found if isinstance(language, Language) for path in language.tree]
    return tuple(dict.fromkeys([*BASE_TREE, *paths]))


@functools.cache
def find(name: str) -> Language | str:
    """A language, or why it is not available here. Raises ConfigError for a name that is not one of LANGUAGES."""
    if name not in LANGUAGES:
        raise ConfigError(f"no language {name!r}; expected one of {', '.join(LANGUAGES)}")
    if name == "python":
        return Language("python", "solution.py", ())
    tools = {
        "cpp": ("g++",),
        "java": ("javac", "java"),
        "javascript": ("node",),
        "bash": ("bash",),
        "go": ("go",),
        "rust": ("rustc", "cc"),
    }[name]
    paths = [shutil.which(tool) for tool in tools]
    missing = [tool for tool, path in zip(tools, paths, strict=True) if path is None]
    if missing:
        return f"{name} needs {' and '.join(missing)} on the PATH"
    return _MAKERS[name]([path for path in paths if path])


def _cpp(tools: list[str]) -> Language:
    return Language(
        "cpp", "main.cpp", ("./program",), (tools[0], "-O2", "-pipe", "{flags}", "-o", "program", "{source}"), tree=_homes(tools)
    )


def _java(tools: list[str]) -> Language:
    javac, java = (os.path.realpath(tool) for tool in tools)
    quick = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto")
    return Language(
        name="java",
        source="Main.java",
        compile=(
            javac,
            *(f"-J{flag}" for flag in quick),
            "-J-Xmx512m",
            "-proc:none",
            "-encoding",
            "UTF-8",
            "{flags}",
            "-d",
            "program",
            "{source}",
        ),
        run=(java, *quick, "-XX:TieredStopAtLevel=1", "-Xss64m", "-Xmx{memory_mb}m", "-cp", "program", "{class}"),
        tree=(*_homes([javac, java]), *_under("/etc", "java")),
        address_space=False,
        overhead_mb=1024,  # fourteen threads with stacks of 64 MB, hardly touched
        stack_mb=8,
    )


def _javascript(tools: list[str]) -> Language:
    return Language(
        name="javascript",
        source="main.js",
        run=(tools[0], "--max-old-space-size={memory_mb}", "--stack-size=3900", "{flags}", "{source}"),
        tree=(*_homes(tools), "/etc/ssl/openssl.cnf"),
        address_space=False,
        overhead_mb=384,
        stack_mb=8,  # libuv gives each thread of its pool as much as the main one
    )


def _bash(tools: list[str]) -> Language:
    return Language("bash", "main.sh", (tools[0], "{flags}", "{source}"), tree=_homes(tools))


def _go(tools: list[str]) -> Language:
    root = os.path.dirname(os.path.dirname(os.path.realpath(tools[0])))
    env = (("GOCACHE", "/tmp/.go"), ("GOPATH", "/tmp/.gopath"), ("GOROOT", root), ("CGO_ENABLED", "0"), ("GO111MODULE", "off"))
    return Language(
        name="go",
        source="main.go",
        compile=(f"{root}/bin/go", "build", "{flags}", "-o", "program", "{source}"),
        run=("./program",),
        tree=(root,),
        address_space=False,
        overhead_mb=64,
        env=env,
    )


def _rust(tools: list[str]) -> Language:
    root = subprocess.run(
        [tools[0], "--print", "sysroot"], capture_output=True, text=True, timeout=30
    ).stdout.strip()  # rustc may be rustup's shim
    rustc = f"{root}/bin/rustc" if root else tools[0]
    return Language(
        "rust", "main.rs", ("./program",), (rustc, "-O", "{flags}", "-o", "program", "{source}"), tree=(root or os.path.dirname(tools[0]),)
    )


_MAKERS = {"cpp": _cpp, "java": _java, "javascript": _javascript, "bash": _bash, "go": _go, "rust": _rust}


def _homes(tools: list[str]) -> tuple[str, ...]:
    """The installations of tools that live outside /usr: the folder above their bin."""
    homes = [os.path.dirname(os.path.dirname(os.path.realpath(tool))) for tool in tools]
    return tuple(home for home in dict.fromkeys(homes) if home not in ("/", "/usr") and not home.startswith("/usr/"))


def _under(folder: str, prefix: str) -> list[str]:
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.startswith(prefix)] if os.path.isdir(folder) else []
