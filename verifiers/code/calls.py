"""Calls of one function with JSON arguments (LiveCodeBench, APPS, LeetCode): all in one run, values compared outside.

A run that dies at one call takes the rest with it. With "fraction" the rest is then asked again in another run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from guerdon.sandboxes.base import Limits, RunResult
from guerdon.verifiers.code.answers import read_answers, same_json, shown_call, solve_job
from guerdon.verifiers.code.checkers import Checker, Tokens
from guerdon.verifiers.code.results import Candidate, Outcome, Report, Scoring, show
from guerdon.verifiers.code.running import Work
from guerdon.verifiers.code.shapes import Calls
from guerdon.verifiers.code.wire import parse

__all__ = ["PREAMBLE", "judge_calls"]

PREAMBLE = """\
import bisect, collections, copy, datetime, functools, heapq, itertools, json, math, operator, random, re, statistics, string, sys
from bisect import *
from collections import *
from copy import *
from functools import *
from heapq import *
from itertools import *
from math import *
from operator import *
from random import *
from re import *
from statistics import *
from string import *
from typing import *
from builtins import *
"""
"""LeetCode-style solutions use these without importing them; LiveCodeBench and APPS run much the same before every program."""


def judge_calls(tests: Calls, candidates: Sequence[Candidate], checker: Checker, limits: Limits | None, scoring: Scoring) -> Work:
    """A report for each candidate."""
    total = len(tests.calls)
    judges = [_judge(text, tests.wrapped, _closeness(checker)) for text in tests.outputs]
    shown = [(shown_call(call), show(parse(output))) for call, output in zip(tests.calls, tests.outputs, strict=True)]
    found: list[list[Outcome]] = [[] for _ in candidates]
    ran: list[RunResult | None] = [None] * len(candidates)
    todo = list(range(len(candidates)))
    while todo:
        started = [len(found[i]) for i in todo]
        results = yield [
            solve_job(replace(candidates[i], preamble=PREAMBLE), tests.calls[start:], limits, entry=tests.name, methods=True)
            for i, start in zip(todo, started, strict=True)
        ]
        again = []
        for i, start, result in zip(todo, started, results, strict=True):
            ran[i] = result
            answers = read_answers(result, total - start)
            loaded = bool(answers.lines) or answers.end is None
            reached = min(total - start, len(answers.lines) + 1)
            for index in range(reached):
                test = start + index
                found[i].append(replace(answers.outcome(index, judges[test], *shown[test]), test=test))
            if loaded and not scoring.stop and len(found[i]) < total:
                again.append(i)
        todo = again
    return [Report(tuple(outcomes), total, result) for outcomes, result in zip(found, ran, strict=True)]


def _judge(text: str, wrapped: bool, close: Callable[[float, float], bool] | None) -> Callable[[Any], bool]:
    expected = parse(text)
    accepted = [expected, expected[0]] if wrapped else [expected]
    return lambda got: any(same_json(got, node, close) for node in accepted)


def _closeness(checker: Checker) -> Callable[[float, float], bool] | None:
    if not isinstance(checker, Tokens) or checker.numbers != "close":
        return None
    return lambda got, expected: math.isfinite(got) and abs(got - expected) <= max(checker.abs_tol, checker.rel_tol * abs(expected))
