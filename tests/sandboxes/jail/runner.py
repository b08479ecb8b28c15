"""A process with a sandbox of its own, driven by pickles over its standard streams: for sandboxes of another user or another kernel.

argv: the folder guerdon is imported from. Requests: ("start", spec), ("run", jobs), ("processes",), ("deny",
{number: error}), ("lower", {limit: value}).
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from typing import Any


def descendants(pid: int) -> list[int]:
    """All processes below one, by /proc."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def deny(errors: dict[int, int]) -> None:
    """A kernel without some system calls, for this process and its children: number -> error code."""
    import struct

    from guerdon.sandboxes.jail.syscalls import Blob, prctl, raw

    rows = [(0x20, 0, 0, 0)]
    for number, code in errors.items():
        rows += [(0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | code)]
    rows.append((0x06, 0, 0, 0x7FFF0000))
    code = Blob(b"".join(struct.pack("HBBI", *row) for row in rows))
    program = Blob(struct.pack("HxxxxxxQ", len(rows), code.address))
    prctl(38, 1)
    raw("seccomp", 1, 0, program.address)


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    box: Any = None
    while True:
        try:
            verb, *args = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        try:
            if verb == "start":
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    box = args[0].start()
                answer: Any = (box.capabilities(), [str(warning.message) for warning in caught])
            elif verb == "run":
                answer = box.run_many(args[0])
            elif verb == "processes":
                answer = {pid: descendants(pid) for pid in box._fleet.pids()}
            elif verb == "deny":
                answer = deny(args[0])
            else:  # "lower": hard limits, which cannot be raised again
                import resource

                answer = [resource.setrlimit(limit, (value, value)) for limit, value in args[0].items()]
        except Exception as error:
            answer = error
        pickle.dump(answer, answers)
        answers.flush()
    if box is not None:
        box.close()


if __name__ == "__main__":
    main()
