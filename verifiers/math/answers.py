"""References, made ready once for their many candidates, or the reason why they can judge nothing."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from guerdon.rollouts import JSON_OBJECT
from guerdon.verifiers.math import engine
from guerdon.verifiers.math.extraction import reference_text

__all__ = ["CompiledAnswer", "compile_answer", "compiled_text"]


@dataclass(frozen=True, slots=True)
class CompiledAnswer:
    """A reference made ready once for its many candidates, or why it cannot be: then `reason` is a code and `detail` says more.

    `kind` is what the engine takes it for: `choice`, `text`, or a kind of expression such as `num` or `tuple`; "unread" where it can
    only compare its text, and the fallback decides the rest; "" when it is unusable.
    """

    text: str
    reason: str = ""
    detail: str = ""
    form: engine.Compiled | None = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """What it is to the engine."""
        if self.form is None:
            return ""
        if self.form.letter is not None:
            return "choice"
        return "unread" if self.form.tree is None else self.form.tree.kind

    def difference(self, text: str) -> str:
        """That a candidate is not this answer, for people."""
        return f"{text!r:.60} is not {self.text!r:.60}"


def compile_answer(answer: Any) -> CompiledAnswer:
    """Make a reference ready: text (one that holds `\\boxed` contributes its box, any other is taken whole), int, float or Fraction.

    >>> compile_answer("so \\\\boxed{\\\\frac{1}{2}}").text, compile_answer(0.5).text
    ('\\\\frac{1}{2}', '0.5')
    >>> compile_answer(True).reason, compile_answer("\\\\frac{0}{0}").detail, compile_answer(" ").reason
    ('malformed_reference', 'the answer has no value', 'missing_reference')
    """
    if isinstance(answer, str):
        return compiled_text(answer)
    if isinstance(answer, bool) or not isinstance(answer, numbers.Real | Decimal):
        return _broken("", f"expected text or a number, got {type(answer).__name__}")
    try:
        if isinstance(answer, numbers.Rational):
            return compiled_text(f"{int(answer.numerator)}/{int(answer.denominator)}".removesuffix("/1"))
        return compiled_text(str(answer) if isinstance(answer, Decimal) else repr(float(answer)))
    except (ValueError, OverflowError) as error:  # more digits than Python writes out
        return _broken("", f"the number cannot be written out: {error}")


@lru_cache(maxsize=4096)
def compiled_text(answer: str) -> CompiledAnswer:
    """`compile_answer` for text."""
    text = reference_text(answer)
    if text is None or (not text and answer.strip()):
        return _broken(answer, "its last box is empty or never closed")
    if not text:
        return CompiledAnswer("", "missing_reference", "the answer is empty")
    if "\n####" in text:
        return _broken(text, "it is a whole solution; pass only what follows ####")
    if JSON_OBJECT.match(text):
        return _broken(text, "it is a JSON object; pass the answer that it holds")
    if text.lower() in ("nan", "inf", "-inf"):
        return _broken(text, "it is not a number")
    form = engine.compile_answer(text)
    if form.problem:
        return _broken(text, form.problem)
    if form.tree is None and text.count("{") != text.count("}"):
        from guerdon.verifiers.math.fallback import words

        if not words(text):
            return _broken(text, "its braces do not match")
    return CompiledAnswer(text, form=form)


def _broken(text: str, detail: str) -> CompiledAnswer:
    return CompiledAnswer(text, "malformed_reference", detail)
