"""What an object that is no reward is, and the line that would make a reward of it. Looks at signatures; calls nothing."""

from __future__ import annotations

from typing import Any

__all__ = ["described"]


def described(found: Any, name: str) -> str:
    """`found`, named `name` in its file, as a message says it: what it is, and how to mend it."""
    if isinstance(found, type):
        return f"the class {found.__name__}; build one in the file, e.g. reward = {_built(found)}, and name that"
    if hasattr(found, "judge"):
        return f"the verifier {type(found).__name__}; lift it in the file: reward = R.verified({name})"
    if callable(found):
        return _described_callable(found, name)
    return f"{type(found).__name__} {found!r:.60}"


def _built(cls: type) -> str:
    made = f"{cls.__name__}(...)"
    if hasattr(cls, "judge"):
        return f"R.verified({made})"
    calls = any("__call__" in vars(base) for base in cls.__mro__)  # hasattr would find that of type
    return f"R.from_function({made}, name=...)" if calls and not hasattr(cls, "verdicts") else made


def _described_callable(found: Any, name: str) -> str:
    import functools
    import inspect

    plain = inspect.isroutine(found) or isinstance(found, functools.partial)
    what = (
        f"the function {getattr(found, '__name__', name)}"
        if plain
        else f"an object of the class {type(found).__name__}, which can be called"
    )
    try:
        parameters = inspect.signature(found).parameters
    except (ValueError, TypeError):  # some builtins have none
        return f"{what}; lift it in the file: reward = R.from_function({name}, name=...)"
    if not parameters.keys().isdisjoint({"completions", "prompts"}):
        return f"{what}, with the parameters of TRL; lift it in the file: reward = R.from_trl({name})"
    kinds = [parameter.kind for parameter in parameters.values() if parameter.default is parameter.empty]
    if all(kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD) for kind in kinds):
        given = "..." if inspect.Parameter.KEYWORD_ONLY in kinds else ""
        return f"{what}, which takes no rollout; if it builds the reward, call it in the file: reward = {name}({given})"
    options = ", batch=True" if list(parameters) == ["rollouts"] else ""
    options += "" if plain and getattr(found, "__name__", "") != "<lambda>" else ", name=..."
    otherwise = ", or call it if it builds the reward" if plain else ""
    return f"{what}; lift it in the file: reward = R.from_function({name}{options}){otherwise}"
