"""What user code returned or raised, as verdicts. Nothing here calls user code, save to turn its values into floats and text.

An exception is data (ERROR) unless it is the caller's: an input, extra or object that is missing, Ctrl-C, cancellation.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from guerdon.errors import Abstain, LoadError, MissingExtra, MissingInput
from guerdon.types import Status, Verdict

__all__ = ["as_verdict", "as_verdicts", "caught", "failed", "shown"]


def shown(value: Any, limit: int = 80) -> str:
    """`repr`, cut short, of a value that may refuse to be shown (integers beyond 4,300 digits do).

    >>> shown("text"), shown(10**5000)
    ("'text'", '<int>')
    """
    try:
        return repr(value)[:limit]
    except Exception:
        return f"<{type(value).__name__}>"


def failed(where: str, error: BaseException) -> Verdict:
    """The verdict of a check that raised. Survives exceptions whose message raises."""
    try:
        text = str(error)
    except Exception:
        text = "its message cannot be read"
    return Verdict.of(Status.ERROR, "exception", f"{where}: {type(error).__name__}: {text}"[:2000])


def caught(error: BaseException) -> BaseException:
    """An exception of user code, to be made a verdict; raised again if it is not of the check but of the whole call.

    SystemExit and libraries' timeouts that derive from BaseException are the check's, unless a signal handler raised them (SIGTERM
    ends the program, not a row); so is a CancelledError that no one asked for (a client closed under it).
    """
    if isinstance(error, MissingInput | MissingExtra | LoadError | KeyboardInterrupt | GeneratorExit):
        raise error
    if not isinstance(error, Exception):
        import asyncio

        if _of_a_signal(error) or (isinstance(error, asyncio.CancelledError) and _being_cancelled()):
            raise error
    return error


def _of_a_signal(error: BaseException) -> bool:
    """Whether a signal handler now installed is among the frames that the exception came through."""
    import signal

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {getattr(getattr(handler, "__func__", handler), "__code__", None) for handler in handlers} - {None}
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code not in codes:
        trace = trace.tb_next
    return trace is not None


def _being_cancelled() -> bool:
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop in this thread
        return False
    return task is not None and task.cancelling() > 0


def as_verdict(value: Any, name: str, outcome: bool) -> Verdict:
    """What a user function returned for one row, or the exception it raised, as a verdict."""
    if isinstance(value, Verdict):
        return value
    if value is None:
        return Verdict.of(Status.NOT_APPLICABLE, "not_concerned")
    if isinstance(value, Abstain):
        return Verdict.of(Status.UNSCORED, "abstained", str(value))
    if isinstance(value, BaseException):
        return failed(name, value)
    try:
        if isinstance(value, str | bytes | bytearray):  # float() would read them
            raise TypeError("text is not a score")
        score = float(value)
    except Exception as error:  # a tensor of two elements raises RuntimeError
        return _wrong_type(name, "a number, None or a Verdict", value, f" ({type(error).__name__}: {error})")
    return Verdict.graded(score) if outcome else Verdict(score, Status.SCORED)


def as_verdicts(values: Any, n: int, name: str, outcome: bool) -> list[Verdict]:
    """What a user function returned for a batch of `n` rows, or the exception it raised or raises when read."""
    if isinstance(values, Mapping | AbstractSet | str | bytes):  # these iterate, but not over scores in order
        return [_wrong_type(name, "a list of scores", values)] * n
    try:
        found = [values] * n if isinstance(values, BaseException) else list(values)
    except BaseException as error:
        wrong = not hasattr(values, "__iter__") and isinstance(error, TypeError)
        return [_wrong_type(name, "a list of scores", values) if wrong else as_verdict(caught(error), name, outcome)] * n
    if len(found) != n:
        return [Verdict.of(Status.ERROR, "wrong_length", f"{name} returned {len(found)} scores for {n} rollouts")] * n
    return [as_verdict(value, name, outcome) for value in found]


def _wrong_type(name: str, expected: str, value: Any, why: str = "") -> Verdict:
    if hasattr(value, "cr_await") and hasattr(value, "close"):  # a coroutine: Python warns of one that is never awaited
        value.close()
        why = "; make the function `async def`"
    return Verdict.of(Status.ERROR, "wrong_type", f"{name}: expected {expected}, got {shown(value)}{why}"[:2000])
