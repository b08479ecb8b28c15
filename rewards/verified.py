"""Rewards backed by a verifier: math, choice, exact text, JSON schema, instructions, or a verifier of your own.

A `Verified` leaf is what outcomes are read from. It adds a name to a verifier and nothing else; the verifiers
themselves live in `guerdon.verifiers`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from guerdon.errors import ConfigError
from guerdon.loading import load
from guerdon.rewards.inputs import inputs_of
from guerdon.rewards.term import Leaf, Term, require_name
from guerdon.types import Rollout, Verdict, Verifier

if TYPE_CHECKING:
    from guerdon.sandboxes.base import SandboxSpec
    from guerdon.verifiers.code.checkers import Checker

__all__ = ["Verified", "choice", "code_tests", "exact", "instructions", "json_schema", "math_equal", "verified"]


@dataclass(frozen=True)
class Verified(Leaf):
    """See `verified`."""

    verifier: Verifier | str
    name: str

    def __post_init__(self) -> None:
        require_name(self.name, "verified")
        if not isinstance(self.verifier, str) and not hasattr(self.verifier, "judge"):
            raise ConfigError(f"verified: expected a verifier with judge(rollouts) or an import string, got {type(self.verifier).__name__}")
        if isinstance(self.verifier, type):
            raise ConfigError(
                f"verified: expected a verifier, got the class {self.verifier.__name__}; build one: {self.verifier.__name__}(...)"
            )
        if inspect.iscoroutinefunction(_live(self.verifier).judge):
            raise ConfigError(f"verified: judge of {self.name} is async; call it `ajudge`, beside a sync `judge`")

    @property
    def reads(self) -> frozenset[str]:
        return inputs_of(getattr(_live(self.verifier), "reads", ("answer",)))

    @property
    def fingerprint(self) -> str | None:
        from guerdon.rewards.fingerprint import fingerprint

        return fingerprint(replace(self, verifier=_live(self.verifier)))  # an import string says nothing of what it names

    @property
    def is_brief(self) -> bool:
        return type(_live(self.verifier)) in _brief_verifiers()

    @property
    def is_async(self) -> bool:
        return hasattr(_live(self.verifier), "ajudge")

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return list(_live(self.verifier).judge(rollouts))

    async def averdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        found: list[Verdict] = await _live(self.verifier).ajudge(rollouts)
        return found

    def outcome_term(self) -> Term | None:
        return self


@lru_cache(maxsize=1)
def _brief_verifiers() -> frozenset[type]:
    """Those whose work is bounded by their own limits; not a subclass of theirs, which may do anything."""
    from guerdon.verifiers.choice import ChoiceVerifier
    from guerdon.verifiers.exact import ExactVerifier
    from guerdon.verifiers.math import MathVerifier

    return frozenset({ChoiceVerifier, ExactVerifier, MathVerifier})


def _live(verifier: Verifier | str) -> Any:
    return _loaded(verifier) if isinstance(verifier, str) else verifier


@lru_cache(maxsize=64)
def _loaded(spec: str) -> Any:
    found = load(spec)
    found = found() if isinstance(found, type) else found
    if not hasattr(found, "judge"):
        raise ConfigError(f"verified({spec!r}): expected a verifier with judge(rollouts), got {type(found).__name__}")
    return found


def verified(verifier: Verifier | str, *, name: str | None = None) -> Verified:
    """A reward from a verifier: its verdicts as they are, and the outcome of the reward it stands in.

    `verifier` is an object with `judge(rollouts) -> list[Verdict]`, or an import string (`pkg.mod:obj`, `file.py:obj`;
    a class is built without arguments) that each process loads for itself.
    """
    default = verifier.rpartition(":")[2] if isinstance(verifier, str) else type(verifier).__name__
    return Verified(verifier, name or default)


def math_equal(*, column: str = "answer", timeout_s: float | None = None, name: str = "math_equal") -> Verified:
    """Mathematical equivalence with the answer in `column`. `timeout_s` bounds one verdict, in wall seconds (default 2).

    See `guerdon.verifiers.math` for what is extracted and compared.
    """
    from guerdon.verifiers.math import MathVerifier

    return Verified(MathVerifier(column=column) if timeout_s is None else MathVerifier(column=column, timeout_s=timeout_s), name)


def choice(*, column: str = "answer", index_from: Literal[0, 1] | None = None, name: str = "choice") -> Verified:
    """Multiple choice, A to J. `index_from` reads numbers in `column` as positions. See `guerdon.verifiers.choice.ChoiceVerifier`."""
    from guerdon.verifiers.choice import ChoiceVerifier

    return Verified(ChoiceVerifier(column=column, index_from=index_from), name)


def exact(*, column: str = "answer", ignore_case: bool = False, name: str = "exact") -> Verified:
    """Exact text. See `guerdon.verifiers.exact.ExactVerifier`."""
    from guerdon.verifiers.exact import ExactVerifier

    return Verified(ExactVerifier(column=column, ignore_case=ignore_case), name)


def json_schema(schema: Mapping[str, Any] | str | None = None, *, column: str = "answer", name: str = "json_schema") -> Verified:
    """JSON that satisfies a schema: one for all rows, or each row's own in `column`. See `guerdon.verifiers.json_schema`."""
    from guerdon.verifiers.json_schema import JsonSchemaVerifier

    return Verified(JsonSchemaVerifier.of(schema, column=column), name)


def instructions(
    *, column: str = "answer", score: Literal["all", "fraction"] = "all", loose: bool = False, name: str = "instructions"
) -> Verified:
    """Instruction following: the 25 IFEval constraint types. See `guerdon.verifiers.instructions.InstructionsVerifier`."""
    from guerdon.verifiers.instructions import InstructionsVerifier

    return Verified(InstructionsVerifier(column=column, score=score, loose=loose), name)


def code_tests(
    *,
    column: str = "tests",
    checker: str | Checker = "tokens",
    score: Literal["all", "fraction"] = "all",
    stop_on_first_failure: bool | None = None,
    language: str = "python",
    timeout_s: float | None = None,
    sandbox: SandboxSpec | str | None = None,
    name: str = "code_tests",
) -> Verified:
    """Programs that pass tests, run in a jail and graded outside of it. See `guerdon.verifiers.code.CodeVerifier`.

    `column` holds the tests in one of the field's shapes (`guerdon.verifiers.code.shapes`); `tests` falls back to `answer`.
    `sandbox` is a spec such as `Zygote(min_isolation="namespaces")`, or an import string of one; by default `Zygote()`.
    """
    from guerdon.verifiers.code import CodeVerifier

    own = {} if sandbox is None else {"sandbox": sandbox}
    verifier = CodeVerifier(column, checker, score, stop_on_first_failure, language, timeout_s, **own)
    return Verified(verifier, name)
