"""Bounded equivalence of mathematical answers: `compile_answer` once, `compare` many times.

Pure functions without timers, threads, signals, eval or sympy; everything is capped (`limits`), and what cannot be decided is said.
"""

from __future__ import annotations

from guerdon.verifiers.math.engine.engine import Compiled, Decision, Rules, compare, compile_answer

__all__ = ["Compiled", "Decision", "Rules", "compare", "compile_answer"]
