"""The traps of the data themselves: columns that the reward lacks on the rows it reads, and references that judge nothing.

A few rows from all over the data are read as TRL would pass them, with a completion that says nothing. Only guerdon's own verifiers are
asked, which find no answer in it and compare, run and send nothing. Functions, judges and verifiers of the user's are never called here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from guerdon.backends.trl.findings import Case, Finding, Severity, Trap, trap
from guerdon.backends.trl.rows import Scoring
from guerdon.backends.trl.traps_inputs import EVERY, FIELDS, TAKEN
from guerdon.errors import MissingInput
from guerdon.rewards.adjust import Optional
from guerdon.rewards.evaluate import Batch, evaluate
from guerdon.rewards.logic import AnyOf
from guerdon.rewards.sums import walk
from guerdon.rewards.term import Combinator, Term
from guerdon.rewards.verified import Verified
from guerdon.sandboxes.deadline import until
from guerdon.types import Rollout, Status

__all__ = ["ROW_TRAPS"]

SILENT = "</think>"
"""Reasoning and nothing after it. An empty completion would be a program to `code_tests`, whose prompts may hold most of one."""
DEADLINE_S = 10.0
"""For the references of all rows. Those not read by then are taken for good."""
WARN_SHARE = 0.2
"""As when training: see `guerdon.rewards.health`."""
FEW = 8
"""Of fewer rows a share says nothing, nor do all of a route's."""
DETAIL = 120
USUAL = ("answer", "solution", "ground_truth", "gold", "target", "reference", "label", "tests", "test_cases")
"""Names of columns that hold references, the likeliest first."""


@lru_cache(maxsize=1)
def _factories() -> Mapping[type, str]:
    """guerdon's verifiers and the rewards they stand for; not a subclass of theirs, which may do anything."""
    from guerdon.verifiers.choice import ChoiceVerifier
    from guerdon.verifiers.code import CodeVerifier
    from guerdon.verifiers.exact import ExactVerifier
    from guerdon.verifiers.instructions import InstructionsVerifier
    from guerdon.verifiers.json_schema import JsonSchemaVerifier
    from guerdon.verifiers.math import MathVerifier

    return {
        MathVerifier: "math_equal", ChoiceVerifier: "choice", ExactVerifier: "exact", CodeVerifier: "code_tests",
        JsonSchemaVerifier: "json_schema", InstructionsVerifier: "instructions",
    }  # fmt: skip


def _factory(term: Term) -> str | None:
    """The name of the function that makes the term; None if it is not one of guerdon's verifiers."""
    return _factories().get(type(term.verifier)) if isinstance(term, Verified) else None


# -- columns


@trap(
    "missing-column", "error", "the reward raises MissingInput in the first step, after generation, or has no reference on any row", EVERY
)
def missing_column(case: Case) -> Iterator[str]:
    if case.trainer.get("rollout_func") is not None:  # it may add columns
        return
    found = [*_absent(case, "the data set", case.columns), *_absent(case, "eval_dataset", case.eval_columns)]
    yield from found
    for scoring in case.scorings if not found else ():
        try:
            rollouts = _rollouts(scoring, case.sample)
            scoring.reward.check_inputs([_with_answer(r, row) for r, (_, row) in zip(rollouts, case.sample, strict=False)])
        except MissingInput as error:
            yield f"on {len(case.sample)} rows from all over the data set: {error}"


def _absent(case: Case, where: str, columns: frozenset[str] | None) -> Iterator[str]:
    """By the names of the columns alone."""
    if columns is None:
        return
    carried = columns - {*TAKEN, "prompt", "completion"}
    for read in sorted(case.reads - FIELDS):
        if not carried & set(read.split("|")):
            wanted, there = read.replace("|", " or "), ", ".join(sorted(carried)) or "none"
            yield f"the reward reads column {wanted!r}, and {where} carries {there}: rename yours, or {_named(case, read, carried)}"


def _named(case: Case, read: str, carried: frozenset[str]) -> str:
    """Which term is to be told the name of the column: `set column= of math_equal, as in R.math_equal(column='solution')`."""
    terms = [term for scoring in case.scorings for term in walk(scoring.reward)]
    terms = [term for term in terms if read in (term.own_reads if isinstance(term, Combinator) else () if term.parts else term.reads)]
    names = ", ".join(dict.fromkeys(term.name for term in terms))
    likely = next((name for name in (*USUAL, *sorted(carried)) if name in carried), None)
    factory = next((made for term in terms if (made := _factory(term))), None)
    example = f", as in R.{factory}(column={likely!r})" if factory and likely else ""
    return f"set column= of {names}{example}" if names else "name it with column="


# -- rows


def _rollouts(scoring: Scoring, sample: Sequence[tuple[int, Mapping[str, Any]]]) -> list[Rollout]:
    """The rows as a call of TRL would hold them: routes, chats and groups as they are in the data. MissingInput as there."""
    rows = [row for _, row in sample]
    if not rows or not isinstance(rows[0].get("prompt"), str | list | tuple):
        return []
    chat = not isinstance(rows[0]["prompt"], str)
    completions = [[{"role": "assistant", "content": SILENT}] if chat else SILENT] * len(rows)
    arguments = {name: [row.get(name) for row in rows] for name in rows[0] if name not in ("prompts", *TAKEN)}
    ids = [[min(scoring.eos_token_ids, default=0)]] * len(rows)
    return scoring.rollouts(completions, [row["prompt"] for row in rows], ids, arguments)


def _with_answer(rollout: Rollout, row: Mapping[str, Any]) -> Rollout:
    """A rollout does not tell an empty `answer` from none: what is asked here is whether the data have the column."""
    return replace(rollout, columns={**rollout.columns, "answer": None}) if "answer" in row and rollout.answer is None else rollout


# -- references


@trap("bad-references", "error", "rows whose reference cannot be used have no reward: where all are so, the loss is 0", EVERY)
def bad_references(case: Case) -> Iterator[Finding]:
    with until(time.monotonic() + DEADLINE_S):
        found = [finding for scoring in case.scorings for finding in _unusable(scoring, case)]
    yield from found


def _unusable(scoring: Scoring, case: Case) -> Iterator[Finding]:
    try:
        rollouts = _rollouts(scoring, case.sample)
    except MissingInput:  # another finding
        return
    needed = list(_needed(scoring))
    for job in Batch([scoring.reward], rollouts).jobs.values():
        if job.rollouts and _factory(job.leaf):
            places = [case.sample[i][0] for i in sorted(job.rows)]
            enough = len(places) == len(rollouts) or len(places) >= FEW
            yield from _judged(job.leaf, job.rollouts, places, any(job.leaf == leaf for leaf in needed), enough)


def _judged(leaf: Term, rollouts: Sequence[Rollout], places: Sequence[int], needed: bool, enough: bool) -> Iterator[Finding]:
    """`places`: the rows' numbers in the data set. `needed`: a row on which the leaf abstains is lost."""
    try:
        verdicts = evaluate(leaf, rollouts, None).verdicts[leaf.name]
    except MissingInput:  # an empty column is another finding
        return
    bad = [(place, verdict) for place, verdict in zip(places, verdicts, strict=True) if verdict.status is Status.BAD_REFERENCE]
    if not bad or (len(bad) < len(places) and not (needed and len(places) >= FEW and len(bad) > WARN_SHARE * len(places))):
        return
    severity: Severity = "error" if needed and enough and len(bad) == len(places) else "warning"
    place, first = bad[0]
    column = " or ".join(sorted(leaf.reads)).replace("|", " or ")
    option = "" if column == "answer" else f" --columns answer={column}"
    audit = f" (`guerdon audit answers FILE{option}` lists them)" if _factory(leaf) == "math_equal" else ""
    yield Finding(
        "bad-references",
        severity,
        f"{leaf.name} cannot use the reference, column {column!r}, on {len(bad)} of the {len(places)} rows looked at; the first is row "
        f"{place}: {' '.join((first.detail or first.reason).split())[:DETAIL]}. Mend such references{audit}, or leave their rows out",
    )


def _needed(scoring: Scoring) -> Iterator[Term]:
    """The leaves whose abstention costs a row: those of a weight, but for what may go without them."""
    for component in scoring.components:
        if any(weight for _, weight in component.shares):
            yield from _decisive(component.term)


def _decisive(term: Term) -> Iterator[Term]:
    if isinstance(term, Verified):
        yield term
    for part in () if isinstance(term, Optional | AnyOf) else term.parts:
        yield from _decisive(part)


ROW_TRAPS: tuple[Trap, ...] = (missing_column, bad_references)
