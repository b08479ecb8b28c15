"""Functions for the worker tests. Loaded by path inside workers; nothing here is imported by the tests."""

import os
import signal
import sys
import time
from pathlib import Path

from guerdon.sandboxes import mark

KEPT = []


def do(what, *args):
    """One target for all of them, so that the tests share one pool."""
    return globals()[what](*args)


def echo(value):
    return value


def pid():
    return os.getpid()


def spin():
    while True:
        pass


def tower():
    """Never returns to the interpreter: no signal handler of Python's could run."""
    return 9**9**9


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def limits():
    return signal.getitimer(signal.ITIMER_REAL)[0], signal.getitimer(signal.ITIMER_PROF)[0]


def overrun_in(phase):
    mark("reference")
    mark(phase)
    time.sleep(60)


def fill_memory():
    return [bytearray(1 << 20) for _ in range(1 << 20)]


def keep_memory(mb):
    KEPT.append(bytearray(mb << 20))
    return os.getpid()


def fail(text):
    raise ValueError(text)


class Rude(Exception):
    def __str__(self):
        raise RuntimeError("no text for you")


def fail_rudely():
    raise Rude


def leave():
    sys.exit(3)


def unpicklable():
    return lambda: None


def vanish(code):
    os._exit(code)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def vanish_once(path):
    """Dies the first time, succeeds the second."""
    if not Path(path).exists():
        Path(path).write_text("here")
        os._exit(0)
    return "second time"


def note_pid_and_sleep(path, seconds):
    """Leaves its pid for the test to kill; answers at once when it is run again."""
    if Path(path).exists():
        return "second time"
    Path(path).with_suffix(".part").write_text(str(os.getpid()))
    Path(path).with_suffix(".part").rename(path)
    time.sleep(seconds)
    return "first time"


def shout():
    print("x" * 100_000)
    print("err", file=sys.stderr)
    os.write(1, b"raw" * 1000)
    return sys.stdin.read()


def deaf():
    """Escapes both kernel timers."""
    for which in (signal.ITIMER_REAL, signal.ITIMER_PROF):
        signal.setitimer(which, 0)
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    time.sleep(60)


def fork_and_return():
    """Both copies come back from the call; only one may answer."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "once"


def leave_a_child(path):
    """A child that outlives the job and holds its pipes."""
    child = os.fork()
    if not child:
        time.sleep(60)
    Path(path).write_text(str(child))
    os._exit(0)


def close_everything():
    os.closerange(3, 256)
    time.sleep(60)


def set_order():
    return os.getpid(), list({"alpha", "beta", "gamma", "delta", "epsilon"})


def settings():
    return {
        "sigint": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "ground": os.environ.get("SYMPY_GROUND_TYPES"),
        "mine": os.environ.get("GUERDON_TEST_VALUE"),
        "main": sys.modules["__main__"].__dict__.get("__file__"),
        "multiprocessing": "multiprocessing" in sys.modules,
        "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else [],
    }
