"""Is a mathematical answer right? Extraction by visible rules, a bounded engine of our own, and math-verify in killable workers.

`verify(completion, answer)` extracts and compares, `equivalent(candidate, answer)` compares bare answers, `extract(completion)`
shows what would be taken and why, `compile_answer(answer)` whether a reference is usable, `MathVerifier` judges batches.
Importing this loads the standard library only: math-verify and sympy live in the workers, and mpmath is loaded by the first
comparison that needs its digits.
"""

from __future__ import annotations

from guerdon.verifiers.math.answers import CompiledAnswer, compile_answer
from guerdon.verifiers.math.extraction import Extraction, extract
from guerdon.verifiers.math.rules import MathRules
from guerdon.verifiers.math.verifier import MathVerifier, equivalent, verify

__all__ = ["CompiledAnswer", "Extraction", "MathRules", "MathVerifier", "compile_answer", "equivalent", "extract", "verify"]
